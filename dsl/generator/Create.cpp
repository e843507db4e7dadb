#include "dsl/generator/Create.h"

#include "dsl/generator/Load.h"
#include "dsl/generator/Params.h"
#include "dsl/support/Diagnostic.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace kiln {

namespace {

Diagnostic fault(const char *code, std::string message) {
    Diagnostic d;
    d.code = code;
    d.message = std::move(message);
    return d;
}

void help_with(Diagnostic &d, const std::string &name, const std::vector<std::string> &candidates,
               const char *kind) {
    if (!candidates.empty()) {
        d.notes.push_back(fmt::format("{}: {}", kind, fmt::join(candidates, ", ")));
    }
    if (std::string near = nearest(name, candidates); !near.empty()) {
        d.helps.push_back(fmt::format("did you mean `{}`?", near));
    }
}

} // namespace

std::unique_ptr<Halide::Internal::AbstractGenerator>
create_generator(const std::string &name, const std::map<std::string, std::string> &params,
                 const Halide::Target &target) {
    std::vector<std::string> names = generator_names();
    if (std::find(names.begin(), names.end(), name) == names.end()) {
        Diagnostic d = fault("K1015", fmt::format("no generator `{}`", name));
        help_with(d, name, names, "generators");
        if (d.helps.empty()) {
            d.helps.push_back("`kiln --load FILE` opens a shared object with more");
        }
        throw Error(std::move(d));
    }
    auto generator = Halide::Internal::GeneratorRegistry::create(name, Halide::GeneratorContext(target));
    // Parameters can be read only once configure() has run, and set only before: another instance tells them.
    std::vector<ParamInfo> known;
    if (!params.empty()) {
        auto other = Halide::Internal::GeneratorRegistry::create(name, Halide::GeneratorContext(target));
        other->arginfos();
        known = generator_params(*other);
    }
    std::vector<std::string> param_names;
    for (const ParamInfo &param : known) {
        param_names.push_back(param.name);
    }
    std::vector<Diagnostic> faults;
    for (const auto &[param, value] : params) {
        auto it =
            std::find_if(known.begin(), known.end(), [&](const ParamInfo &p) { return p.name == param; });
        if (!known.empty() && it == known.end()) {
            Diagnostic d =
                fault("K1016", fmt::format("the generator `{}` has no parameter `{}`", name, param));
            help_with(d, param, param_names, "parameters");
            faults.push_back(std::move(d));
            continue;
        }
        if (it != known.end() && !it->choices.empty() &&
            std::find(it->choices.begin(), it->choices.end(), value) == it->choices.end()) {
            Diagnostic d =
                fault("K1017", fmt::format("parameter `{}` of `{}` does not take `{}`", param, name, value));
            help_with(d, value, it->choices, "values");
            faults.push_back(std::move(d));
            continue;
        }
        try {
            generator->set_generatorparam_value(param, value);
        } catch (const Halide::Error &error) {
            Diagnostic d =
                fault("K1017", fmt::format("parameter `{}` of `{}` does not take `{}`", param, name, value));
            if (it != known.end()) {
                d.notes.push_back(fmt::format("it is of type {}", it->type));
                d.helps = {it->type == "type"
                               ? "write a type: `float32`, `bfloat16`, `float16`, `int8`, `uint16`"
                               : "write a number that this type holds"};
            } else {
                d.notes.push_back(error.what());
            }
            faults.push_back(std::move(d));
        }
    }
    if (!faults.empty()) {
        throw Error(std::move(faults));
    }
    return generator;
}

} // namespace kiln
