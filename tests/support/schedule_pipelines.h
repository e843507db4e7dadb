/** \file
 * The pipelines that tests/golden/schedule/{every,gemm}.sched are written for, as data.
 */
#pragma once

#include "dsl/schedule/PipelineInfo.h"

namespace kiln::test {

inline FuncInfo func_of(const std::string &name, const std::vector<std::string> &args,
                        const std::vector<std::vector<std::string>> &update_rvars = {}) {
    FuncInfo f;
    f.name = name;
    f.args = args;
    f.types = {"float32"};
    for (size_t i = 0; i <= update_rvars.size(); i++) {
        StageInfo stage;
        if (i > 0) {
            for (const std::string &r : update_rvars[i - 1]) {
                DimInfo d;
                d.name = r;
                d.is_rvar = true;
                stage.dims.push_back(d);
            }
        }
        for (const std::string &a : args) {
            DimInfo d;
            d.name = a;
            stage.dims.push_back(d);
        }
        f.stages.push_back(stage);
    }
    return f;
}

/// src → f, g, h, q, p → acc (two updates, over k and over r) → y
inline PipelineInfo every_info() {
    PipelineInfo info;
    info.generator = "every";
    info.funcs = {func_of("src", {"_0", "_1"}),
                  func_of("f", {"x", "y", "z"}),
                  func_of("g", {"x", "y"}),
                  func_of("h", {"x", "y", "z"}),
                  func_of("p", {"x", "y", "u"}),
                  func_of("q", {"x", "y"}),
                  func_of("acc", {"x", "y"}, {{"k"}, {"r.x", "r.y"}}),
                  func_of("y", {"x", "y"})};
    info.funcs.front().is_input = true;
    info.funcs.back().is_output = true;
    info.outputs = {"y"};
    info.scalars = {"n", "alpha"};
    return info;
}

/// acc(n, m) += x(k, m) · w(n, k), y(n, m) = max(acc(n, m), 0)
inline PipelineInfo gemm_info() {
    PipelineInfo info;
    info.generator = "gemm";
    info.funcs = {func_of("x", {"_0", "_1"}), func_of("w", {"_0", "_1"}), func_of("acc", {"n", "m"}, {{"k"}}),
                  func_of("y", {"n", "m"})};
    info.funcs[0].is_input = info.funcs[1].is_input = true;
    info.funcs.back().is_output = true;
    info.outputs = {"y"};
    return info;
}

} // namespace kiln::test
