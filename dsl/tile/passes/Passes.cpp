#include "dsl/tile/passes/Passes.h"

namespace kiln::tile {

const std::vector<Pass> &passes() {
    auto simple = [](const char *name, void (*pass)(Kernel &)) {
        return Pass{name, [pass](Kernel &k, const DeviceLimits &) { pass(k); }};
    };
    static const std::vector<Pass> all = {
        simple("lift_bits", lift_bits),
        simple("drop_limits", drop_limits),
        simple("fold_conditions", fold_conditions),
        simple("hoist_invariant", hoist_invariant),
        simple("fuse_loops", fuse_loops),
        simple("clean_up", clean_up),
        simple("split_reduce", split_reduce),
        simple("rewrite_running", rewrite_running),
        simple("fold_starts", fold_starts),
        simple("clean_up", clean_up),
        simple("guard_edges", guard_edges),
        simple("scale_exp2", scale_exp2),
        simple("hoist_slices", hoist_slices),
        simple("block_ranges", block_ranges),
        simple("lag_maximum", lag_maximum),
        simple("defer_lanes", defer_lanes),
        simple("plan_cluster", plan_cluster),
        simple("spread_cluster", spread_cluster),
        simple("plan_layouts", plan_layouts),
        {"plan_shared", plan_shared},
        simple("inject_pipeline", inject_pipeline),
        simple("lower_stores", lower_stores),
    };
    return all;
}

} // namespace kiln::tile
