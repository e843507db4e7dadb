// Programs as users write them, by their schedules' text: interpreted, run as emitted code on the CPU, and compiled for the
// device without a spill, against formulas in double.
#include "dsl/support/Diagnostic.h"
#include "dsl/tile/emit/Emit.h"
#include "tests/correctness/tile_user_programs.h"

#include <gtest/gtest.h>

namespace kiln::tile {
namespace {

std::vector<ScheduledProgram> programs() {
    std::vector<ScheduledProgram> all = user_products();
    for (ScheduledProgram &p : user_rows()) {
        all.push_back(std::move(p));
    }
    return all;
}

TEST(TileUserProgram, EachIsRight) {
    std::vector<ScheduledProgram> built;
    std::vector<EmittedKernel> kernels;
    for (ScheduledProgram &p : programs()) {
        try {
            const Kernel k = scheduled_kernel(p);
            EXPECT_EQ(interpreted(p, k), "") << p.name;
            const EmittedKernel e = emit_cuda(k);
            EXPECT_EQ(compile_cubin(e.text, e.name, "sm_90a").spill_bytes, 0) << p.name;
            kernels.push_back(emit_emulated(k));
            built.push_back(std::move(p));
        } catch (const Error &e) {
            ADD_FAILURE() << p.name << ": " << render_all(e.diagnostics, p.schedule);
        }
    }
    Emulation emulation;
    ASSERT_EQ(emulation.compile(std::move(kernels)), "");
    for (size_t i = 0; i < built.size(); i++) {
        for (const Extents &size : built[i].sizes) {
            EXPECT_EQ(emulated(emulation, i, built[i], size, 11), "") << built[i].name;
        }
    }
}

} // namespace
} // namespace kiln::tile
