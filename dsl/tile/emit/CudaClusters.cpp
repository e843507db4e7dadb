// Reductions over the blocks of a cluster: each block puts what it has into the shared memory of all of them, they meet once,
// and every thread adds up what it needs from its own block's memory.
#include "dsl/tile/emit/CudaPrinter.h"

#include <fmt/format.h>

namespace kiln::tile {

CudaPrinter::Share CudaPrinter::share_of(const Tile &t) {
    Share s;
    int below = 1;
    auto digit = [&](std::string &to, int &count, const LayoutPart &p) {
        const std::string d = thread_digit(below, p.extent);
        to += (to.empty() ? "" : " + ") + (count == 1 ? d : fmt::format("{} * {}", d, count));
        count *= p.extent;
    };
    for (const LayoutPart &p : t.registers.threads) {
        if (p.extent > 1) {
            p.axis.empty() ? digit(s.copy, s.copies, p) : digit(s.slot, s.slots, p);
        }
        below *= p.extent;
    }
    s.slot = s.slot.empty() ? "0" : s.slot;
    s.copy = s.copy.empty() ? "0" : s.copy;
    s.held = words(t);
    return s;
}

/// Two buffers: a block may come to the next meeting while another still reads what it got in this one.
void CudaPrinter::plan_meetings() {
    walk(k_.body, [&](const Stmt &s) {
        if (const Reduce *r = s.as<Reduce>(); r && r->blocks > 1) {
            const Tile &t = k_.tile(r->dst);
            const Share share = share_of(t);
            meeting_bytes_ = std::max(meeting_bytes_, r->blocks * share.held * share.slots * t.type.bytes());
        }
    });
    meeting_bytes_ = (meeting_bytes_ + 15) / 16 * 16;
    meeting_at_ = planned_end() + extra_;
    extra_ += 2 * meeting_bytes_;
}

void CudaPrinter::combine_blocks(const std::string &array, const Tile &t, ReduceOp op, int blocks) {
    if (t.type.bits() != 32) {
        no_form(fmt::format("the reduction of `{}` over a cluster", t.func),
                fmt::format("it has {} bits, and blocks exchange 32", t.type.bits()));
    }
    const Share s = share_of(t);
    const std::string type = dialect_.type(t.type), at = fresh("meeting");
    open("");
    line(fmt::format("const u32 {} = {} + (met & 1) * {};", at, meeting_at_, meeting_bytes_));
    line(fmt::format("const int slot = {}, copy = {};", s.slot, s.copy));
    line(fmt::format("if (met == 0) {}();", dialect_.use("cluster_wait")));
    // The threads that hold copies tell one block each.
    open(s.copies >= blocks
             ? fmt::format("if (copy < {})", blocks)
             : fmt::format("for (int block = copy; block < {}; block += {})", blocks, s.copies));
    line("#pragma unroll");
    line(fmt::format(
        "for (int i = 0; i < {0}; i++) {1}(shared + {2} + 4 * ((rank * {0} + i) * {3} + slot), {4}, {5});",
        s.held, dialect_.use("store_in_block"), at, s.slots,
        dialect_.reinterpret(Halide::UInt(32), t.type, array + "[i]"),
        s.copies >= blocks ? "copy" : "block"));
    close();
    line(dialect_.use("cluster_sync") + "();");
    line(fmt::format("const {0} *all = (const {0} *)(smem + {1});", type, at));
    line("#pragma unroll");
    open(fmt::format("for (int i = 0; i < {}; i++)", s.held));
    line(fmt::format("{}[i] = all[i * {} + slot];", array, s.slots));
    line("#pragma unroll");
    line(fmt::format("for (int block = 1; block < {}; block++) {}[i] = {};", blocks, array,
                     combine(op, t.type, array + "[i]",
                             fmt::format("all[(block * {} + i) * {} + slot]", s.held, s.slots))));
    close();
    line("met++;");
    close();
}

} // namespace kiln::tile
