#include "dsl/search/plugin/UniqueNames.h"

#include <fmt/format.h>

#include <cctype>
#include <set>

namespace kiln::search {

namespace {

using Halide::Func;
using Halide::Internal::Function;
using Halide::Internal::FunctionPtr;

using Environment = std::map<std::string, Function>;

Environment environment_of(const std::vector<Func> &outputs) {
    Environment all;
    for (const Func &output : outputs) {
        for (auto &[name, function] : Halide::Internal::find_transitive_calls(output.function())) {
            all.emplace(name, function);
        }
    }
    return all;
}

std::vector<Function> functions_of(const std::vector<Func> &outputs) {
    std::vector<Function> out;
    for (const Func &f : outputs) {
        out.push_back(f.function());
    }
    return out;
}

std::string identifier(std::string name) {
    for (char &c : name) {
        if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_') {
            c = '_';
        }
    }
    return name.empty() || std::isdigit(static_cast<unsigned char>(name[0])) ? "f" + name : name;
}

} // namespace

std::map<std::string, std::string> unique_names(const std::vector<Func> &outputs) {
    Environment all = environment_of(outputs);
    std::map<std::string, std::string> names;
    std::set<std::string> taken;
    auto give = [&](const Function &f) {
        if (names.count(f.name())) {
            return;
        }
        std::string base = identifier(schedule_name(f)), name = base;
        for (int n = 2; !taken.insert(name).second; n++) {
            name = fmt::format("{}_{}", base, n);
        }
        names[f.name()] = name;
    };
    // What the user calls by name keeps it: outputs, then inputs.
    for (const Func &output : outputs) {
        give(output.function());
    }
    std::vector<std::string> order = Halide::Internal::topological_order(functions_of(outputs), all);
    for (const std::string &name : order) {
        // An input's Func `x_im` goes by the name of the input.
        const Function &f = all.at(name);
        std::string plain = f.name().substr(0, f.name().find('$'));
        if (schedule_name(f) != plain) {
            give(f);
        }
    }
    for (const std::string &name : order) {
        give(all.at(name));
    }
    return names;
}

std::vector<Func> renamed_copy(const std::vector<Func> &outputs,
                               const std::map<std::string, std::string> &names) {
    Environment all = environment_of(outputs);
    std::map<FunctionPtr, FunctionPtr> copies;
    auto new_name = [&](const Function &f) {
        std::string plain = f.name().substr(0, f.name().find('$'));
        return names.at(f.name()) + (schedule_name(f) != plain ? "_im" : "");
    };
    std::map<std::string, Function> copy_of;
    for (const auto &[name, f] : all) {
        Function copy(new_name(f));
        copies[f.get_contents()] = copy.get_contents();
        copy_of.emplace(name, copy);
    }
    for (const auto &[name, f] : all) {
        f.deep_copy(new_name(f), copy_of.at(name).get_contents(), copies);
    }
    std::vector<Func> out;
    for (auto &[name, copy] : copy_of) {
        copy.substitute_calls(copies);
    }
    for (const Func &f : outputs) {
        out.emplace_back(copy_of.at(f.name()));
    }
    return out;
}

std::vector<Func> plain_copy(const std::vector<Func> &outputs) {
    std::vector<Func> out;
    for (const Function &f :
         Halide::Internal::deep_copy(functions_of(outputs), environment_of(outputs)).first) {
        out.emplace_back(f);
    }
    return out;
}

FuncMap funcs_by_name(const std::vector<Func> &outputs, const std::map<std::string, std::string> &names) {
    FuncMap out;
    for (auto &[name, function] : environment_of(outputs)) {
        out.emplace(names.at(name), Func(function));
    }
    return out;
}

} // namespace kiln::search
