#include "dsl/search/space/directives/Proposals.h"

#include "dsl/schedule/Parser.h"

#include <fmt/format.h>

namespace kiln::search {

const std::vector<int64_t> &step_sizes() {
    static const std::vector<int64_t> sizes = {1,    2,    3,    4,    5,     6,     8,    10,  12,  13,
                                               16,   20,   24,   32,   48,    64,    80,   96,  128, 160,
                                               176,  192,  224,  256,  384,   512,   528,  696, 768, 1024,
                                               1032, 2048, 4096, 8192, 16384, 32768, 65536};
    return sizes;
}

std::optional<Node> parse_condition(const std::string &text) {
    std::vector<Diagnostic> ignored;
    return parse_expression(text, ignored);
}

StageRef Proposals::ref_of(const FuncNest &func, int update) {
    StageRef ref;
    ref.func = func.name;
    ref.update = update;
    if (func.is_wrapper) {
        size_t dot = func.name.rfind(".in(");
        if (dot != std::string::npos) {
            ref.func = func.name.substr(0, dot);
            ref.is_wrapper = true;
            std::string inside = func.name.substr(dot + 4);
            inside.pop_back();
            for (size_t at = 0; at < inside.size();) {
                size_t end = std::min(inside.find(',', at), inside.size());
                std::string name = inside.substr(at, end - at);
                std::erase_if(name, [](char c) { return c == '{' || c == '}' || c == ' '; });
                ref.wrapper_for.push_back(name);
                at = end + 1;
            }
        }
    }
    return ref;
}

bool Proposals::wants(const FuncNest &func) const {
    return only.empty() || func.name == only || ref_of(func).func == only;
}

std::vector<Proposals::At> Proposals::stages() const {
    std::vector<At> out;
    for (const FuncNest &f : nest.funcs) {
        if (f.is_input || f.is_extern || !wants(f)) {
            continue;
        }
        for (const StageNest &s : f.stages) {
            out.push_back({ref_of(f, s.update), "", &f, &s});
            for (const StageNest &special : s.specializations) {
                if (special.conditions.size() == 1) {
                    out.push_back({ref_of(f, s.update), special.conditions[0], &f, &special});
                }
            }
        }
    }
    return out;
}

void Proposals::add(const char *move, const At &at, std::string name, std::vector<Node> args) {
    DirectiveStep step;
    step.move = move;
    step.stage = at.stage;
    step.condition = at.condition;
    step.call.name = std::move(name);
    step.call.args = std::move(args);
    steps.push_back(std::move(step));
}

void Proposals::add(const char *move, const FuncNest &func, std::string name, std::vector<Node> args) {
    add(move, At{ref_of(func), "", &func, nullptr}, std::move(name), std::move(args));
}

} // namespace kiln::search
