#include "generators/epilogue.h"

#include "dsl/ops/Activations.h"
#include "dsl/support/Diagnostic.h"

#include <fmt/format.h>

#include <algorithm>

namespace kiln::generators {

namespace {

std::string without_underscores(std::string s) {
    s.erase(std::remove(s.begin(), s.end(), '_'), s.end());
    return s;
}

std::vector<std::string> known_steps() {
    std::vector<std::string> steps = {"bias", "residual"};
    for (const std::string &name : ops::activation_names()) {
        steps.push_back(without_underscores(name));
    }
    return steps;
}

} // namespace

std::vector<std::string> epilogue_steps(const std::string &epilogue) {
    std::vector<std::string> steps;
    if (epilogue == "none") {
        return steps;
    }
    const std::vector<std::string> known = known_steps();
    for (size_t begin = 0; begin <= epilogue.size();) {
        size_t end = std::min(epilogue.find('_', begin), epilogue.size());
        std::string step = epilogue.substr(begin, end - begin);
        begin = end + 1;
        Diagnostic d;
        d.code = "K1031";
        if (std::find(known.begin(), known.end(), step) == known.end()) {
            d.message = fmt::format("no epilogue step `{}` in `{}`", step, epilogue);
            d.notes = {fmt::format("steps are {}; join them by `_`", fmt::join(known, ", "))};
            if (std::string near = nearest(step, known); !near.empty()) {
                d.helps = {fmt::format("did you mean `{}`?", near)};
            }
            throw Error(d);
        }
        bool operand = step == "bias" || step == "residual";
        if (operand && std::find(steps.begin(), steps.end(), step) != steps.end()) {
            d.message = fmt::format("epilogue step `{}` stands twice in `{}`", step, epilogue);
            d.helps = {"add the two operands before the call"};
            throw Error(d);
        }
        steps.push_back(step);
    }
    return steps;
}

std::string activation_of_step(const std::string &step) {
    for (const std::string &name : ops::activation_names()) {
        if (without_underscores(name) == step) {
            return name;
        }
    }
    return step;
}

} // namespace kiln::generators
