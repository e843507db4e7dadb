// Rows in the registers of their threads, of one block or spread over the blocks of a cluster.
#include "dsl/search/space/tile/Families.h"

#include <fmt/format.h>

#include <bit>

namespace kiln::search {

namespace {

/// Elements that one block can hold: 128 threads of 4 warpgroups with 64 values each.
constexpr int64_t most_in_a_block = 32768;

struct Kept {
    std::string name;
    std::vector<std::string> funcs; ///< rows that stay in registers
    bool inputs = false;            ///< what is read more than once is loaded once
};

FamilyText family(const PlanContext &cx, const RowKernel &k, const Kept &kept, bool bounded, bool spread) {
    FamilyText out;
    out.name = kept.name + (bounded ? "_bounded" : "") + (spread ? "_spread" : "");
    const auto whole =
        static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(128, k.columns))));
    const int64_t fitting = (k.columns + 127) / 128 * 128;
    out.knobs = fmt::format("columns in {{{}{}, {}}}", whole,
                            fitting < whole ? fmt::format(", {}", fitting) : "", 2 * whole);
    out.knobs += spread ? ", blocks in {8, 4, 2}, rows in {1, 2}, groups in {2, 4, 1}"
                        : ", rows in {1, 2, 4, 8}, groups in {1, 2, 4}";
    // A row a block needs few registers a thread, and few let many blocks share a multiprocessor.
    out.knobs += bounded ? ", regs in {64, 40, 96, 48, 32, 56, 80, 128, 168}" : "";
    const bool ahead = cx.problem.target.level() >= 90;
    const std::string &y = k.outputs.front();
    const std::vector<std::string> &args = cx.info(y).args;
    // Rows are dealt along the next dimension; further ones are blocks of their own.
    const std::string i = args[1], io = i + "o", ii = i + "i";
    std::string blocks = io;
    for (size_t d = 2; d < args.size(); d++) {
        blocks += ", " + args[d];
    }
    for (const std::string &output : k.outputs) {
        // One kernel: what holds for all of it is said of the first output.
        std::string whole_kernel;
        if (output == y) {
            whole_kernel = fmt::format(".warpgroups(consumers = groups, producers = 0){}{}",
                                       bounded ? ".registers(regs)" : "", ahead ? ".launch_ahead()" : "");
        }
        out.add(fmt::format(
            "{0}.split({1}, {2}, {3}, rows).gpu_blocks({4}).tile_kernel({5}).whole({6}, columns){7}{8}",
            output, i, io, ii, blocks, output == y ? "" : y, k.row_loop,
            spread ? fmt::format(".spread({}, blocks)", k.row_loop) : "", whole_kernel));
    }
    auto inside = [&](const std::string &func) {
        out.add(fmt::format("{}.compute_at({}, {}).store_in(Register)", func, y, io));
    };
    if (kept.inputs) {
        for (const std::string &input : k.inputs) {
            inside(input + ".in()");
        }
    }
    for (const std::string &func : kept.funcs) {
        inside(func);
    }
    for (const RowKernel::Reduction &r : k.reductions) {
        inside(r.func);
        out.add(fmt::format("{}.update().whole({}, columns)", r.func, r.rvar));
    }
    for (const std::string &func : k.scalars) {
        inside(func);
    }
    return out;
}

} // namespace

std::vector<FamilyText> row_families(const PlanContext &cx, const RowKernel &k) {
    if (cx.info(k.outputs.front()).args.size() > 4) {
        return {};
    }
    std::vector<Kept> choices;
    if (!k.inputs.empty()) {
        choices.push_back({"inputs", {}, true});
    }
    for (const std::string &func : k.rows) {
        choices.push_back({"kept_" + func, {func}, false});
        if (k.inputs_read_directly) {
            choices.push_back({"inputs_and_" + func, {func}, true});
        }
    }
    if (k.rows.size() > 1) {
        choices.push_back({"kept", k.rows, false});
    }
    if (choices.empty()) {
        choices.push_back({"rows", {}, false});
    }
    std::vector<FamilyText> out;
    for (const Kept &kept : choices) {
        if (k.columns <= most_in_a_block) {
            out.push_back(family(cx, k, kept, false, false));
            out.push_back(family(cx, k, kept, true, false));
        }
        if (k.columns >= 8192 && cx.problem.device.limits.cluster_blocks > 1) {
            out.push_back(family(cx, k, kept, false, true));
            out.push_back(family(cx, k, kept, true, true));
        }
    }
    return out;
}

} // namespace kiln::search
