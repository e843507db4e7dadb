#include "dsl/search/space/directives/Proposals.h"

namespace kiln::search {

void propose_tile_kernels(Proposals &p) {
    if (p.problem.target.backend == Backend::Cpu) {
        return;
    }
    auto integer = [](int64_t v) { return Node::integer(v); };
    for (const FuncNest &f : p.nest.funcs) {
        if (f.is_input || f.is_extern || !p.wants(f)) {
            continue;
        }
        if (f.tile.count("tile_kernel")) {
            for (int64_t group : {1, 2, 4, 8, 16, 32}) {
                p.add("tile kernel", f, "persistent", {integer(group)});
            }
            for (int64_t consumers : {1, 2, 3, 4}) {
                for (int64_t producers : {0, 1}) {
                    p.add("tile kernel", f, "warpgroups",
                          {integer(consumers), integer(producers), Node::name("Auto")});
                    for (const std::string &rows : f.args) {
                        p.add("tile kernel", f, "warpgroups",
                              {integer(consumers), integer(producers), Node::name(rows)});
                    }
                }
            }
            for (const char *name : {"ping_pong", "launch_ahead", "dynamic"}) {
                p.add("tile kernel", f, name, {});
            }
            for (int64_t x : {1, 2, 4}) {
                for (int64_t y : {1, 2, 4}) {
                    p.add("tile kernel", f, "cluster", {integer(x), integer(y)});
                }
            }
            for (const std::string &dim : f.args) {
                for (int64_t n : {2, 4, 8}) {
                    p.add("tile kernel", f, "spread", {Node::name(dim), integer(n)});
                }
            }
            for (const char *kind : {"staged", "direct"}) {
                p.add("tile kernel", f, "epilogue", {Node::name(kind)});
            }
            for (int64_t n : {64, 96, 128, 168, 232, 240}) {
                for (int64_t m : {24, 32, 40, 64}) {
                    p.add("tile kernel", f, "registers", {integer(n), integer(m)});
                }
            }
        } else if (!f.is_wrapper) {
            p.add("tile kernel", f, "tile_kernel", {});
            for (const FuncNest &with : p.nest.funcs) {
                if (with.tile.count("tile_kernel") && with.name != f.name) {
                    p.add("tile kernel", f, "tile_kernel", {Node::name(with.name)});
                }
            }
        }
        if (f.is_wrapper) {
            for (const char *kind : {"tma", "cp_async", "plain"}) {
                p.add("tile copy", f, "copy", {Node::name(kind)});
            }
            for (int64_t bytes : {0, 32, 64, 128}) {
                p.add("tile copy", f, "swizzle", {integer(bytes)});
            }
            for (int64_t n = 1; n <= 8; n++) {
                p.add("tile copy", f, "stages", {integer(n)});
            }
            p.add("tile copy", f, "multicast", {});
        }
        for (const StageNest &stage : f.stages) {
            Proposals::At at{Proposals::ref_of(f, stage.update), "", &f, &stage};
            if (stage.update >= 0) {
                // TF32 rounds what it multiplies: that is for people to allow, not for a search to find.
                for (const char *kind : {"wgmma", "mma_sync", "fma"}) {
                    p.add("tile product", at, "mma", {Node::name(kind), Node::name("exact")});
                }
                for (int64_t n : {0, 1}) {
                    p.add("tile product", at, "pipeline_stage", {integer(n)});
                }
                for (int64_t n : {2, 4, 8, 16}) {
                    p.add("tile product", at, "split_reduce", {integer(n)});
                }
            }
            for (const Loop &l : stage.loops) {
                for (int64_t size : step_sizes()) {
                    p.add("tile product", at, "whole", {Node::name(l.name), integer(size)});
                }
            }
        }
    }
}

} // namespace kiln::search
