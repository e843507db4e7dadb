/** \file
 * ops::attention as one of the schedules of schedules/attention places it: the plan that goes to the passes.
 */
#pragma once

#include "dsl/ops/Attention.h"
#include "dsl/ops/Numeric.h"
#include "dsl/schedule/Canonical.h"
#include "dsl/schedule/CheckSchedule.h"
#include "dsl/schedule/Knobs.h"
#include "dsl/schedule/Parser.h"
#include "dsl/schedule/apply/Describe.h"
#include "dsl/support/Files.h"
#include "dsl/tile/build/Build.h"
#include "dsl/tile/build/ReadPlan.h"
#include "dsl/tile/passes/Runner.h"
#include "tests/correctness/tile_reference.h"

#include <gtest/gtest.h>

namespace kiln::tile {

inline const kiln::Target sm_90a = kiln::Target::parse("cuda sm_90a");

struct TileForm {
    std::string schedule = "cuda_sm_90a_d128";
    KnobValues knobs = {};
    bool lse = false;
    std::function<void(ops::AttentionOptions &)> set = {};
    Halide::Type type = Halide::BFloat(16);
    std::string more = {};                            ///< statements behind those of the schedule
    std::vector<Halide::ImageParam> more_inputs = {}; ///< that `set` reads
    bool sum_alone = false; ///< the second output is the sum of exponentials, relative to the maximum
};

struct AttentionShape {
    int queries, keys, d, dv, heads = 1, kv_heads = 1, batch = 1;
};

inline Extents attention_extents(const AttentionShape &s, bool lse) {
    Extents e{{"q", {s.d, s.queries, s.heads, s.batch}},
              {"k", {s.d, s.keys, s.kv_heads, s.batch}},
              {"v", {s.dv, s.keys, s.kv_heads, s.batch}},
              {"y", {s.dv, s.queries, s.heads, s.batch}}};
    if (lse) {
        e["log_sum_exp_out"] = {s.queries, s.heads, s.batch};
    }
    return e;
}

/// As generators/attention.cpp has it: what the knobs `block`, `block_i` and `guard` say is the algorithm's.
inline Program scheduled_attention(const TileForm &form) {
    using namespace Halide;
    const std::string file = std::string(KILN_SOURCE_DIR "/schedules/attention/") + form.schedule + ".sched";
    std::string text = read_text_file(file, "schedule");
    text.insert(text.rfind('}'), form.more);
    const ParseResult parsed = parse_schedules(text, file);
    EXPECT_TRUE(parsed.ok()) << render_all(parsed.diagnostics, text);
    std::vector<Diagnostic> faults;
    const KnobValues knobs = complete_knobs(parsed.schedules.at(0), form.knobs, faults);

    ImageParam q(form.type, 4, "q"), k(form.type, 4, "k"), v(form.type, 4, "v");
    ops::AttentionOptions options;
    options.block = std::stoi(knobs.at("block"));
    options.block_i = std::stoi(knobs.at("block_i"));
    options.guard_values = false;
    options.weights = form.type;
    options.with_lse = form.lse;
    if (form.set) {
        form.set(options);
    }
    const ops::AttentionShape shape{q.dim(0).extent(), q.dim(1).extent(), k.dim(1).extent(),
                                    q.dim(2).extent(), k.dim(2).extent()};
    ops::Attention a = ops::attention(q, k, v, shape, options);
    Var c("c"), i("i"), head("head"), batch("batch");
    Func y("y"), lse("log_sum_exp_out");
    y(c, i, head, batch) = ops::to_type(form.type, a.out(c, i, head, batch));
    std::vector<Func> outputs = {y};
    if (form.lse) {
        lse(i, head, batch) =
            form.sum_alone ? Expr(a.acc(0, i, head, batch)[1]) : Expr(a.lse(i, head, batch));
        outputs.push_back(lse);
    }

    const CanonicalResult canonical = canonicalize(parsed.schedules.at(0), knobs);
    EXPECT_TRUE(canonical.diagnostics.empty()) << render_all(canonical.diagnostics, text);
    const PipelineInfo info = describe_pipeline(outputs, "attention");
    const ScheduleAnalysis analysis = analyse_schedule(canonical.schedule, info, sm_90a, limits_of(sm_90a));
    EXPECT_FALSE(has_errors(analysis.diagnostics)) << render_all(analysis.diagnostics, text);
    const std::vector<TileGroup> groups = tile_groups(analysis.nest);
    EXPECT_EQ(groups.size(), 1u);
    std::vector<ImageParam> inputs = {q, k, v};
    inputs.insert(inputs.end(), form.more_inputs.begin(), form.more_inputs.end());
    return {"attention", outputs, read_plan(groups.at(0)), inputs, {}};
}

inline std::string remarks(const Kernel &k) {
    std::string all;
    for (const std::string &r : k.remarks) {
        all += r + "\n";
    }
    return all;
}

} // namespace kiln::tile
