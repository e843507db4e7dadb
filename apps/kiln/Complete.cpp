// Candidates for the shells, out of the same tree that parses the command line.
#include "apps/kiln/CommandLine.h"
#include "apps/kiln/Generators.h"

#include <fmt/format.h>

namespace kiln::cli {

namespace {

/// Candidates for a value, by the option's type_name.
std::vector<std::string> values_of(const CLI::Option &option) {
    std::string type = option.get_type_name();
    if (type == "FILE") {
        return {":files"};
    }
    if (type == "DIR") {
        return {":folders"};
    }
    if (type == "GENERATOR") {
        return generator_names_quietly();
    }
    if (type == "TARGET") {
        return target_spellings();
    }
    std::vector<std::string> out;
    if (type.find('|') != std::string::npos) {
        for (size_t start = 0; start <= type.size();) {
            size_t end = std::min(type.find('|', start), type.size());
            out.push_back(type.substr(start, end - start));
            start = end + 1;
        }
    }
    return out;
}

bool takes_value(const CLI::Option &option) {
    return option.get_type_size() != 0 && option.get_expected_max() > 0;
}

const CLI::Option *find_option(const CLI::App &app, const std::string &word) {
    for (const CLI::Option *option :
         app.get_options([](const CLI::Option *o) { return o->nonpositional(); })) {
        if (option->check_name(word)) {
            return option;
        }
    }
    return nullptr;
}

} // namespace

std::vector<std::string> complete(const CommandLine &line, const std::vector<std::string> &words) {
    const CLI::App *app = &line.app();
    const CLI::Option *awaiting = nullptr; // its value comes next
    size_t positionals = 0;
    for (size_t i = 0; i + 1 < words.size(); i++) {
        if (awaiting) {
            awaiting = nullptr;
        } else if (!words[i].empty() && words[i][0] == '-') {
            const CLI::Option *option = find_option(*app, words[i]);
            awaiting = option && takes_value(*option) ? option : nullptr;
        } else {
            auto below =
                app->get_subcommands([&](const CLI::App *sub) { return sub->get_name() == words[i]; });
            if (!below.empty()) {
                app = below.front();
                positionals = 0;
            } else {
                positionals++;
            }
        }
    }
    std::string typed = words.empty() ? "" : words.back();
    std::vector<std::string> candidates;
    if (awaiting) {
        candidates = values_of(*awaiting);
    } else if (!typed.empty() && typed[0] == '-') {
        for (const CLI::Option *option :
             app->get_options([](const CLI::Option *o) { return o->nonpositional(); })) {
            candidates.push_back(option_name(*option) + "\t" + option->get_description());
        }
    } else {
        for (const CLI::App *sub :
             app->get_subcommands([](const CLI::App *s) { return !s->get_group().empty(); })) {
            candidates.push_back(sub->get_name() + "\t" + sub->get_description());
        }
        auto positional = app->get_options([](const CLI::Option *o) { return o->get_positional(); });
        if (positionals < positional.size()) {
            candidates = values_of(*positional[positionals]);
        }
    }
    std::erase_if(candidates, [&](const std::string &candidate) {
        return candidate[0] != ':' && candidate.compare(0, typed.size(), typed) != 0;
    });
    return candidates;
}

} // namespace kiln::cli
