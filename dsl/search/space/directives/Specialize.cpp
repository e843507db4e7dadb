#include "dsl/search/space/directives/Proposals.h"

#include "dsl/schedule/Print.h"

#include <fmt/format.h>

namespace kiln::search {

namespace {

/// Conditions of one part: how long a buffer is, what divides its extents and strides.
std::vector<std::string> atoms(const Problem &problem) {
    std::vector<std::string> out;
    for (const FuncInfo &f : problem.info.funcs) {
        if (!f.is_output && !f.is_input) {
            continue;
        }
        for (size_t d = 0; d < f.args.size(); d++) {
            std::string dim = f.is_input ? fmt::format("_{}", d) : f.args[d];
            for (int64_t size : step_sizes()) {
                if (size > 1) {
                    out.push_back(fmt::format("{}.extent({}) >= {}", f.name, dim, size));
                    out.push_back(fmt::format("{}.extent({}) <= {}", f.name, dim, size));
                    out.push_back(fmt::format("{}.extent({}) % {} == 0", f.name, dim, size));
                }
                if (size > 1 && d > 0 && size <= 64) {
                    std::string index = f.is_input ? std::to_string(d) : dim;
                    out.push_back(fmt::format("{}.stride({}) % {} == 0", f.name, index, size));
                }
            }
        }
    }
    return out;
}

} // namespace

void propose_specializations(Proposals &p) {
    std::vector<std::string> conditions = atoms(p.problem);
    for (const Proposals::At &at : p.stages()) {
        for (const std::string &atom : conditions) {
            // A new specialization, or one more part of the condition of one that is there.
            std::string text = at.condition.empty() ? atom : at.condition + " && " + atom;
            if (std::optional<Node> node = parse_condition(text)) {
                p.add("specialize", Proposals::At{at.stage, "", at.func, at.loops}, "specialize", {*node});
            }
        }
    }
}

} // namespace kiln::search
