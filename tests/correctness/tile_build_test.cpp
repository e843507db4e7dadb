// build: from Funcs and a plan to tile IR.
#include "dsl/tile/build/Build.h"
#include "dsl/tile/ir/Text.h"
#include "dsl/tile/passes/Passes.h"
#include "tests/correctness/tile_programs.h"

#include <gtest/gtest.h>

#include <iostream>

namespace kiln::tile {
namespace {

TEST(TileBuild, dump) {
    for (const Program &p : tile_programs()) {
        std::cout << "==== " << p.name << "\n";
        try {
            Kernel k = build_kernel(p.plan, p.outputs);
            hoist_invariant(k);
            fuse_loops(k);
            clean_up(k);
            fold_starts(k);
            clean_up(k);
            guard_edges(k);
            std::cout << print(k) << "\n";
        } catch (const Error &e) {
            std::cout << e.what() << "\n";
        }
    }
}

} // namespace
} // namespace kiln::tile
