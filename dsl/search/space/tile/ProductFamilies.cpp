// Products on tensor cores and by multiply-adds: who computes and who copies, blocks, rings, clusters, shared sums.
#include "dsl/search/space/tile/Families.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace kiln::search {

namespace {

/// Shared memory that rings may take: what a block has, less what staged outputs and barriers need.
constexpr int64_t beside_rings = 20 << 10;

struct Style {
    const char *name;
    std::string options;    ///< of the kernel
    std::string knobs;      ///< beside bm, bn, bk, depth
    std::string bm, bn, bk; ///< domains; one number: no knob
    std::string depth;      ///< "" for rings that are as deep as fits
    std::string mma = "wgmma", copy = "tma", after_mma;
    bool multicast_rows = false, multicast_columns = false;
    bool padded = false; ///< copies with aligned rows come first
    std::string require;
};

bool is_knob(const std::string &domain) {
    return domain.find(',') != std::string::npos;
}

class Writer {
public:
    Writer(const PlanContext &cx, const std::vector<ProductKernel> &kernels, const Style &style)
        : cx(cx), kernels(kernels), s(style), bm(is_knob(s.bm) ? "bm" : s.bm),
          bn(is_knob(s.bn) ? "bn" : s.bn), bk(is_knob(s.bk) ? "bk" : s.bk) {}

    FamilyText run() {
        out.name = s.name;
        auto knob = [&](const char *name, const std::string &domain) {
            if (is_knob(domain)) {
                out.knobs += fmt::format("{}{} in {{{}}}", out.knobs.empty() ? "" : ", ", name, domain);
            }
        };
        knob("bm", s.bm), knob("bn", s.bn), knob("bk", s.bk), knob("depth", s.depth);
        if (!s.knobs.empty()) {
            out.knobs += (out.knobs.empty() ? "" : ", ") + s.knobs;
        }
        out.require = s.require;
        if (!s.depth.empty()) {
            std::string rings = ring_bytes();
            out.require += fmt::format("{}{} <= {}", out.require.empty() ? "" : ", ", rings,
                                       cx.problem.device.limits.shared_bytes - beside_rings);
        }
        for (const ProductKernel &kernel : kernels) {
            write(kernel);
        }
        return out;
    }

private:
    const PlanContext &cx;
    const std::vector<ProductKernel> &kernels;
    const Style &s;
    std::string bm, bn, bk;
    FamilyText out;
    const Operand *first_copy = nullptr; ///< that comes before the kernel

    static int64_t bytes(const std::string &type) {
        FuncInfo f;
        f.types = {type};
        return f.bytes_per_element();
    }

    /// Of the kernel that needs the most: a tile of each operand a slot; one that several products read counts once.
    std::string ring_bytes() const {
        size_t most = 0;
        std::string text;
        for (const ProductKernel &kernel : kernels) {
            std::set<std::string> rows, columns;
            for (const ProductForm &p : kernel.products) {
                rows.insert(p.rows.buffer), columns.insert(p.columns.buffer);
            }
            if (rows.size() + columns.size() > most) {
                most = rows.size() + columns.size();
                auto times = [](size_t n, const std::string &what) {
                    return n == 1 ? what : fmt::format("{} * {}", n, what);
                };
                text = fmt::format("({} + {}) * {} * {} * {}", times(rows.size(), bm),
                                   times(columns.size(), bn), bytes(kernel.products[0].rows.type), bk,
                                   is_knob(s.depth) ? "depth" : s.depth);
            }
        }
        return text;
    }

    void write(const ProductKernel &kernel) {
        const FuncInfo &y = cx.info(kernel.output);
        const ProductForm &first = kernel.products.front();
        const FuncInfo &acc = cx.info(first.func);
        auto arg_of = [&](const std::string &name) {
            auto at = std::find(acc.args.begin(), acc.args.end(), name) - acc.args.begin();
            return y.args[static_cast<size_t>(at)];
        };
        const std::string n = arg_of(first.column), m = arg_of(first.row);
        const std::string no = n + "o", mo = m + "o", ni = n + "i", mi = m + "i";
        std::vector<std::string> blocks = {no, mo};
        for (const std::string &arg : y.args) {
            if (arg != n && arg != m) {
                blocks.push_back(arg);
            }
        }
        std::string options = s.options;
        if (size_t at = options.find("ROWS"); at != std::string::npos) {
            options.replace(at, 4, n);
        }
        std::string tile =
            y.args.size() == 2 && y.args[0] == n
                ? fmt::format(".tile({}, {}, {}, {}, {}, {}, {}, {})", n, m, no, mo, ni, mi, bn, bm)
                : fmt::format(".split({}, {}, {}, {}).split({}, {}, {}, {}).reorder({}, {}, {})", n, no, ni,
                              bn, m, mo, mi, bm, ni, mi, fmt::join(blocks, ", "));
        out.add(fmt::format("{}{}{}.gpu_blocks({}).tile_kernel(){}", kernel.output,
                            y.is_output ? "" : ".compute_root()", tile, fmt::join(blocks, ", "), options));
        for (const ProductForm &p : kernel.products) {
            const std::string ko = p.rvar + "o", ki = p.rvar + "i";
            out.add(fmt::format("{}.compute_at({}, {}).store_in(Register)", p.func, kernel.output, no));
            out.add(fmt::format("{}.update().split({}, {}, {}, {}).mma({}){}", p.func, p.rvar, ko, ki, bk,
                                s.mma, s.after_mma));
        }
        for (const ProductForm &p : kernel.products) {
            staged(p, p.rows, s.multicast_rows);
        }
        for (const ProductForm &p : kernel.products) {
            staged(p, p.columns, s.multicast_columns);
        }
    }

    void staged(const ProductForm &p, const Operand &operand, bool multicast) {
        if (s.padded) {
            copied_first(operand);
            return;
        }
        const std::string depth =
            s.depth.empty() ? "" : fmt::format(".stages({})", is_knob(s.depth) ? "depth" : s.depth);
        out.add(fmt::format("{}.in({}).compute_at({}, {}o).store_in(GPUShared).copy({}){}{}", operand.buffer,
                            operand.reader, p.func, p.rvar, s.copy, depth, multicast ? ".multicast()" : ""));
    }

    void copied_first(const Operand &operand) {
        const FuncInfo &f = cx.info(operand.buffer);
        const std::string x = f.is_input ? "_0" : f.args[0], name = operand.buffer;
        std::vector<std::string> others;
        for (size_t d = 1; d < f.args.size(); d++) {
            others.push_back(f.is_input ? fmt::format("_{}", d) : f.args[d]);
        }
        // Few blocks leave most of the device idle: smaller pieces for small products, and one launch for both copies.
        const bool small = s.knobs.empty();
        const bool joins = small && first_copy && cx.info(first_copy->buffer).args.size() == f.args.size();
        const int piece = small ? 512 : 1024;
        const std::string loops = joins ? first_copy->buffer : name, t = loops + "t";
        out.add(fmt::format(
            "{0}.in({1}).compute_root().split({2}, {3}, {4}, {8}, GuardWithIf).split({4}, {5}, {6}, {9})"
            ".reorder({6}, {5}, {3}, {7}).unroll({5}).gpu_blocks({3}, {7}).gpu_threads({6})",
            name, operand.reader, x, loops + "b", loops + "i", loops + "u", t, fmt::join(others, ", "), piece,
            piece / 4));
        if (joins) {
            out.add(fmt::format("{}.in({}).compute_with({}.in({}), {})", name, operand.reader,
                                first_copy->buffer, first_copy->reader, t));
        }
        first_copy = first_copy ? first_copy : &operand;
    }
};

} // namespace

std::vector<FamilyText> product_families(const PlanContext &cx, const std::vector<ProductKernel> &kernels) {
    const std::string type = kernels.front().products.front().rows.type;
    bool same = true, ranks = true, repeated = false;
    std::set<std::string> copied;
    for (const ProductKernel &k : kernels) {
        ranks = ranks && cx.info(k.output).args.size() <= 3;
        for (const ProductForm &p : k.products) {
            same = same && p.rows.type == type && p.columns.type == type;
            for (const Operand *o : {&p.rows, &p.columns}) {
                repeated = !copied.insert(o->buffer).second || repeated;
                ranks = ranks && cx.info(o->buffer).args.size() >= 2 && cx.info(o->buffer).args.size() <= 3;
            }
        }
    }
    if (!same || !ranks) {
        return {};
    }
    const bool is_16_bit = type == "bfloat16" || type == "float16", hopper = cx.is_tile;
    if (!is_16_bit && type != "float32") {
        return {};
    }
    const std::string in_turns = ".persistent(group).warpgroups(consumers = 2).ping_pong()",
                      together = ".persistent(group).warpgroups(consumers = 2)",
                      alone = ".warpgroups(consumers = 1)", groups = "group in {8, 16, 4}",
                      ahead = ".launch_ahead()";
    const std::string wide_bn = "256, 128, 192, 224, 160, 96, 64, 48, 32", bks = "64, 128";
    std::vector<Style> styles;
    auto add = [&](Style s) { styles.push_back(std::move(s)); };
    if (!hopper) {
        add({"together", ".warpgroups(consumers = 2)", "", "128, 64", "128, 64", is_16_bit ? "32, 64" : "32",
             "3, 4, 2", is_16_bit ? "mma_sync" : "fma", "cp_async", "", false, false, false, ""});
    } else if (is_16_bit) {
        add({"turns", in_turns + ahead, groups, "128, 192, 64", "128, 192, 160, 176, 112, 96, 80, 144, 64",
             "64", "6, 5, 4, 3, 8", "wgmma", "tma", "", false, false, false, ""});
        add({"wide", together + ahead, groups, "128, 256, 192", wide_bn, "64", "4, 3, 5, 6, 8, 2", "wgmma",
             "tma", "", false, false, false, ""});
        add({"narrow", alone + ahead, "", "64", "128, 64, 32, 96, 48, 112, 224, 256", bks,
             "8, 6, 4, 10, 5, 12", "wgmma", "tma", "", false, false, false, ""});
        add({"across", ".warpgroups(consumers = 1, rows = ROWS)" + ahead, "", "16, 8, 32, 64, 24", "64, 128",
             bks, "8, 6, 5, 4, 3", "wgmma", "tma", "", false, false, false, ""});
        add({"split", alone + ahead, "parts in {2, 4, 3, 6, 8}", "64", "64, 128, 96, 32", bks, "6, 8, 4",
             "wgmma", "tma", ".split_reduce(parts)", false, false, false, ""});
        add({"split_wide", ".warpgroups(consumers = 2)" + ahead, "parts in {2, 4, 3, 6, 8}", "128",
             "128, 64, 192", "64", "6, 8, 5, 4", "wgmma", "tma", ".split_reduce(parts)", false, false, false,
             ""});
        add({"cluster_small", ".warpgroups(consumers = 1).cluster(1, 2)" + ahead, "", "64", "128, 64, 96",
             "64", "8, 6, 4, 10, 12", "wgmma", "tma", "", false, true, false, ""});
        add({"cluster", ".cluster(cx, cy)" + ahead, "cx in {2, 4, 1}, cy in {4, 2, 1}", "128, 64",
             "72, 64, 128, 96, 192", "64", "7, 5, 6, 8, 4", "wgmma", "tma", "", true, true, false,
             "cx * cy <= 8, cx > 1, cy > 1"});
        add({"cluster_rows", ".persistent(group).cluster(1, 2).warpgroups(consumers = 2)" + ahead, groups,
             "128, 192", "256, 128, 192, 96, 64", "64", "4, 3, 5, 6, 8", "wgmma", "tma", "", false, true,
             false, ""});
        if (!repeated) {
            add({"padded_small", ".epilogue(direct)" + ahead, "", "64, 128", "64, 32, 96", "64", "", "wgmma",
                 "tma", "", false, false, true, ""});
            add({"padded", together + ".epilogue(direct)" + ahead, "group in {8, 4}", "128, 64",
                 "256, 128, 64", "64", "", "wgmma", "tma", "", false, false, true, ""});
        }
    } else {
        // TF32 has 10 bits of mantissa: that is for people to allow, and no form of this algorithm.
        add({"threads", ".warpgroups(consumers = 2)", "", "128, 256, 64", "128, 64", "32, 64, 16", "4, 3, 2",
             "fma", "tma", "", false, false, false, ""});
    }
    std::vector<FamilyText> out;
    for (const Style &style : styles) {
        out.push_back(Writer(cx, kernels, style).run());
    }
    return out;
}

} // namespace kiln::search
