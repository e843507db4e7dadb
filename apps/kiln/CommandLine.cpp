#include "apps/kiln/CommandLine.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace kiln::cli {

namespace {

constexpr const char *footer =
    "`kiln COMMAND --help` describes a command, `kiln help environment` exit codes, "
    "variables and files.";

std::string path_of(const CLI::App &app) {
    const CLI::App *parent = app.get_parent();
    return parent ? path_of(*parent) + " " + app.get_name() : app.get_name();
}

/// "schedule check"; "" for `kiln` itself.
std::string command_of(const CLI::App &app) {
    return app.get_parent() ? path_of(app).substr(std::string("kiln ").size()) : "";
}

/// The deepest command that was named.
const CLI::App &active(const CLI::App &app) {
    auto below = app.get_subcommands();
    return below.empty() ? app : active(*below.back());
}

std::vector<std::string> subcommand_names(const CLI::App &app) {
    std::vector<std::string> names;
    for (const CLI::App *sub :
         app.get_subcommands([](const CLI::App *s) { return !s->get_group().empty(); })) {
        names.push_back(sub->get_name());
    }
    return names;
}

std::vector<std::string> option_names(const CLI::App &app) {
    std::vector<std::string> names;
    for (const CLI::Option *option :
         app.get_options([](const CLI::Option *o) { return o->nonpositional(); })) {
        names.push_back(option_name(*option));
    }
    return names;
}

Diagnostic fault(const char *code, std::string message, std::string help = "") {
    Diagnostic d;
    d.code = code;
    d.message = std::move(message);
    if (!help.empty()) {
        d.helps.push_back(std::move(help));
    }
    return d;
}

std::string did_you_mean(const std::string &name, const std::vector<std::string> &candidates) {
    std::string near = nearest(name, candidates);
    return near.empty() ? "" : fmt::format("did you mean `{}`?", near);
}

Diagnostic unexpected_argument(const CLI::App &app, const std::string &argument) {
    std::string path = path_of(app);
    std::string see = fmt::format("`{} --help` lists what it takes", path);
    if (argument.size() > 1 && argument[0] == '-') {
        std::string name = argument.substr(0, argument.find('='));
        std::string near = did_you_mean(name, option_names(app));
        return fault("K0921", fmt::format("`{}` has no option `{}`", path, name), near.empty() ? see : near);
    }
    std::vector<std::string> names = subcommand_names(app);
    if (!names.empty()) {
        Diagnostic d = fault("K0920", fmt::format("`{}` has no command `{}`", path, argument),
                             did_you_mean(argument, names));
        d.notes.push_back(fmt::format("its commands: {}", fmt::join(names, ", ")));
        return d;
    }
    return fault("K0924", fmt::format("`{}` has no use for `{}`", path, argument), see);
}

std::vector<Diagnostic> missing(const CLI::App &app) {
    std::string path = path_of(app);
    if (std::vector<std::string> names = subcommand_names(app); !names.empty()) {
        return {fault("K0922", fmt::format("`{}` needs a command", path),
                      fmt::format("one of: {}", fmt::join(names, ", ")))};
    }
    std::vector<Diagnostic> all;
    for (const CLI::Option *option : app.get_options()) {
        if (option->get_required() && option->count() == 0) {
            std::string name = option_name(*option);
            if (option->nonpositional()) {
                name += " " + option->get_type_name();
            }
            all.push_back(fault("K0922", fmt::format("`{}` needs {}", path, "`" + name + "`"),
                                fmt::format("{}: {}", option_name(*option), option->get_description())));
        }
    }
    return all;
}

/// A value that an option does not take. CLI11 tells which option only in its text.
Diagnostic wrong_value(const CLI::App &app, const CLI::ParseError &error) {
    std::string text = error.what();
    for (const CLI::Option *option : app.get_options()) {
        std::string name = option_name(*option);
        if (text.find(name) == std::string::npos) {
            continue;
        }
        if (option->results().empty() || error.get_name() == "ArgumentMismatch") {
            return fault("K0923",
                         fmt::format("option `{}` needs a value: {}", name, option->get_type_name()));
        }
        std::string value = option->results().back();
        Diagnostic d = fault("K0923", fmt::format("option `{}` does not take `{}`", name, value));
        d.notes.push_back(fmt::format("it takes {}", option->get_type_name()));
        return d;
    }
    return fault("K0923", text);
}

std::vector<Diagnostic> to_diagnostics(CLI::App &root, const CLI::ParseError &error) {
    const CLI::App &app = active(root);
    // Whatever CLI11 stumbled on first, an unknown word explains it best.
    std::vector<std::string> rest = root.remaining(true);
    std::erase(rest, "--");
    if (!rest.empty() && error.get_name() != "ConversionError" && error.get_name() != "ValidationError") {
        return {unexpected_argument(app, rest.front())};
    }
    if (error.get_name() == "RequiredError") {
        std::vector<Diagnostic> all = missing(app);
        if (!all.empty()) {
            return all;
        }
    }
    return {wrong_value(app, error)};
}

bool asks_for_json(int argc, const char *const *argv) {
    return std::find(argv, argv + argc, std::string("--json")) != argv + argc;
}

} // namespace

std::string option_name(const CLI::Option &option) {
    if (!option.get_lnames().empty()) {
        return "--" + option.get_lnames().front();
    }
    if (!option.get_snames().empty()) {
        return "-" + option.get_snames().front();
    }
    return option.get_name(true);
}

CLI::Option *add_choice(CLI::App &app, const std::string &name, std::string &value,
                        const std::vector<std::string> &choices, const std::string &summary) {
    return app.add_option(name, value, summary)
        ->check(CLI::Validator(
            [choices](std::string &text) {
                return std::find(choices.begin(), choices.end(), text) == choices.end() ? "no such choice"
                                                                                        : "";
            },
            ""))
        ->type_name(fmt::format("{}", fmt::join(choices, "|")));
}

std::pair<std::string, std::string> split_assignment(const std::string &option, const std::string &text) {
    size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) {
        throw Error(fault("K0923", fmt::format("option `{}` does not take `{}`", option, text),
                          fmt::format("write `{} NAME=VALUE`", option)));
    }
    return {text.substr(0, equals), text.substr(equals + 1)};
}

CommandLine::CommandLine()
    : app_(std::make_unique<CLI::App>("Kiln: kernels from algorithms and schedules", "kiln")) {
    app_->footer(footer);
    app_->require_subcommand(1);
    app_->set_version_flag("--version", "kiln " KILN_VERSION, "The version");
    define_settings(*app_);
    for (auto &command : all_commands()) {
        add(*app_, std::move(command));
    }
}

void CommandLine::define_settings(CLI::App &app) {
    app.add_flag("--json", settings.json, "One JSON document on stdout");
    app.add_flag("-q,--quiet", settings.quiet, "No progress on stderr");
    app.add_option("--load", settings.load, "A shared object with more generators; may be repeated")
        ->type_name("FILE")
        ->allow_extra_args(false);
}

void CommandLine::add(CLI::App &parent, std::unique_ptr<Command> command) {
    CLI::App *app = parent.add_subcommand(command->name(), command->summary());
    if (command->hidden()) {
        app->group("");
    }
    command->define(*app);
    define_settings(*app);
    std::vector<std::unique_ptr<Command>> children = command->children();
    if (!children.empty()) {
        app->require_subcommand(1);
        for (auto &child : children) {
            add(*app, std::move(child));
        }
    } else {
        by_app_.emplace_back(app, command.get());
    }
    commands_.push_back(std::move(command));
}

/// `kiln help` and `kiln help COMMAND` are `kiln --help` and `kiln COMMAND --help`, but for the commands that `help`
/// has itself.
std::vector<std::string> CommandLine::words(int argc, const char *const *argv) const {
    std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
    auto is_name = [](const std::string &word) { return !word.empty() && word[0] != '-'; };
    auto help = std::find_if(words.begin(), words.end(), is_name);
    if (help == words.end() || *help != "help") {
        return words;
    }
    auto topic = std::find_if(help + 1, words.end(), is_name);
    std::vector<std::string> own = subcommand_names(*app_->get_subcommand("help"));
    if (topic != words.end() && std::find(own.begin(), own.end(), *topic) != own.end()) {
        return words;
    }
    words.erase(help);
    words.push_back("--help");
    return words;
}

CommandLine::Parsed CommandLine::parse(int argc, const char *const *argv) {
    Parsed parsed;
    try {
        std::vector<std::string> given = words(argc, argv);
        std::reverse(given.begin(), given.end()); // CLI11 takes them from the end
        app_->parse(std::move(given));
    } catch (const CLI::CallForHelp &) {
        // CLI11 asks for help before it minds a word that is no command: `kiln tnue --help`.
        const CLI::App &asked = active(*app_);
        std::vector<std::string> rest = app_->remaining(true);
        settings.json = settings.json || asks_for_json(argc, argv);
        parsed.path = command_of(asked);
        if (!rest.empty() && rest.front()[0] != '-' && !subcommand_names(asked).empty()) {
            parsed.faults = {unexpected_argument(asked, rest.front())};
            return parsed;
        }
        parsed.text = asked.help(asked.get_parent() ? path_of(*asked.get_parent()) : "");
        return parsed;
    } catch (const CLI::CallForVersion &) {
        settings.json = settings.json || asks_for_json(argc, argv);
        parsed.text = "kiln " KILN_VERSION "\n";
        return parsed;
    } catch (const CLI::ParseError &error) {
        // A fault before --json was reached must still be JSON.
        settings.json = settings.json || asks_for_json(argc, argv);
        parsed.path = command_of(active(*app_));
        parsed.faults = to_diagnostics(*app_, error);
    }
    const CLI::App &chosen = active(*app_);
    for (const auto &[app, command] : by_app_) {
        if (app == &chosen) {
            parsed.command = command;
            parsed.path = command_of(chosen);
        }
    }
    return parsed;
}

} // namespace kiln::cli
