// Rings of barriers, TMA in both directions, and the way from registers to a staging buffer.
#include "dsl/tile/emit/CudaPrinter.h"
#include "dsl/tile/emit/ElementC.h"

#include <fmt/format.h>

#include <algorithm>

namespace kiln::tile {

using namespace Halide::Internal;

namespace {

constexpr int tma_alignment = 16; ///< bytes, of addresses and strides (cuTensorMapEncodeTiled)
constexpr int tma_box = 256;      ///< elements along a dimension, at most
/// Named barriers of one warpgroup, from here on; 1 … are those of stores, 8 … say whose turn it is.
constexpr int warpgroup_barriers = 11;

std::string plus(const std::string &a, int b) {
    return b == 0 ? a : a == "0" ? std::to_string(b) : fmt::format("{} + {}", a, b);
}

} // namespace

std::string CudaPrinter::one() const {
    return crew_.single                                      ? ""
           : crew_.warpgroups == 1 && crew_.threads() == 128 ? "if (thread == 0) "
                                                             : "if (thread % 128 == 0) ";
}

std::string CudaPrinter::phase(const std::string &ring) {
    phases_.insert(ring);
    return id("phase_", ring);
}

std::string CudaPrinter::full(const Ring &r) {
    const std::string s = slot(r.name);
    return fmt::format("{}{}", id("full_", r.name), s == "0" ? "" : " + 8 * " + s);
}

std::string CudaPrinter::empty(const Ring &r) {
    const std::string s = slot(r.name);
    return fmt::format("{}{}", id("empty_", r.name), s == "0" ? "" : " + 8 * " + s);
}

void CudaPrinter::advance(const Advance &a) {
    const Ring &r = *k_.ring(a.ring);
    const bool fills = crew_.first >= k_.plan.consumers || crew_.single;
    if (fills && copied_by_threads(a.ring, CopyKind::CpAsync)) {
        line(fmt::format("{}({});", dialect_.use("copy_arrive"), full(r)));
        if (!options_.vectors) { // for what was copied by ordinary stores
            line(fmt::format("{}({});", dialect_.use("mbar_arrive"), full(r)));
        }
    }
    if (fills && copied_by_threads(a.ring, CopyKind::Plain)) {
        line(dialect_.use("proxy_fence") + "();");
        line(fmt::format("{}({});", dialect_.use("mbar_arrive"), full(r)));
    }
    const std::string p = phase(a.ring), s = slot(a.ring);
    line(s == "0" ? fmt::format("{} ^= 1;", p)
                  : fmt::format("if (++{0} == {1}) {{ {0} = 0; {2} ^= 1; }}", s, r.depth, p));
}

void CudaPrinter::skip(const Skip &s) {
    const Ring &r = *k_.ring(s.ring);
    const std::string p = phase(s.ring), at = slot(s.ring), n = fresh("skipped");
    if (r.depth == 1) {
        line(fmt::format("{} ^= {} & 1;", p, scalar(s.count)));
        return;
    }
    line(fmt::format("const u32 {} = {} + {};", n, at, scalar(s.count)));
    line(fmt::format("{} = {} % {}; {} ^= {} / {} & 1;", at, n, r.depth, p, n, r.depth));
    held_.insert(s.ring);
    line(fmt::format("{} = {};", id("held_", s.ring), at));
}

void CudaPrinter::release(const Release &r) {
    const Ring &ring = *k_.ring(r.ring);
    if (r.sync && !crew_.single) {
        line(fmt::format("{}({} + wg, 128);", dialect_.use("bar_sync"), warpgroup_barriers));
    }
    std::string barrier = id("empty_", r.ring);
    const std::string h = id("held_", r.ring);
    if (ring.depth > 1) {
        held_.insert(r.ring);
        barrier += " + 8 * " + h;
    }
    if (r.blocks.defined()) {
        // As many threads as there are blocks, each tells one.
        const std::string tells = id("tells_", r.ring);
        if (descriptors_.insert("tells " + tells).second) {
            before_ += fmt::format("const bool {} = thread % 128 < {} && ({} >> thread % 128 & 1);\n", tells,
                                   k_.cluster_blocks(), scalar(r.blocks));
        }
        line(
            fmt::format("if ({}) {}({}, thread % 128);", tells, dialect_.use("mbar_arrive_remote"), barrier));
    } else {
        line(fmt::format("{}{}({});", one(), dialect_.use("mbar_arrive"), barrier));
    }
    if (ring.depth > 1) {
        line(fmt::format("if (++{0} == {1}) {0} = 0;", h, ring.depth));
    }
}

/// Each slot once more, as if it were to be filled.
void CudaPrinter::drain(const Drain &d) {
    const Ring &r = *k_.ring(d.ring);
    open(fmt::format("for (int i = 0; i < {}; i++)", r.depth));
    line(fmt::format("{}({}, {} ^ 1);", dialect_.use("mbar_wait"), empty(r), phase(d.ring)));
    advance(Advance{d.ring});
    close();
}

std::string CudaPrinter::tensor_map(const std::string &view, const std::vector<int> &box, int swizzle,
                                    int clipped) {
    KernelParam p;
    p.kind = KernelParam::Kind::TensorMap;
    p.map = {view, box, swizzle, clipped};
    dialect_.use("TensorMap");
    need(view, tma_alignment, box.size() > 1 ? tma_alignment : 0);
    size_t i = 0;
    while (i < maps_.size() && !(maps_[i].map == p.map)) {
        i++;
    }
    if (i == maps_.size()) {
        maps_.push_back(p);
    }
    return id("map_", map_name(p.map));
}

void CudaPrinter::tma_load(const Load &l) {
    const Tile &t = k_.tile(l.dst);
    const SharedLayout &s = t.shared;
    const Ring *ring = k_.ring(t.ring);
    if (!ring || l.from.dims.empty() || l.from.dims[0].axis != s.inner) {
        no_form(fmt::format("the copy of `{}`", l.from.view),
                "TMA fills slots of rings, along the view's dimension 0");
    }
    if (s.pitch != s.slab * s.element_bytes) {
        no_form(fmt::format("the copy of `{}`", l.from.view), "TMA leaves no room between rows");
    }
    const int part = s.outer_extent / l.parts;
    int rows = part;
    while (rows > tma_box || part % rows != 0) {
        rows--;
    }
    std::vector<int> box;
    int clipped = -1;
    for (const ViewDim &d : l.from.dims) {
        if (l.rows.defined() && d.axis == s.outer) {
            clipped = static_cast<int>(box.size());
        }
        box.push_back(d.axis.empty() ? 1 : d.axis == s.inner ? s.slab : rows);
    }
    const std::string map = tensor_map(l.from.view, box, s.swizzle, clipped);
    const bool multicast = l.blocks.defined();
    const std::string load = cuda_.tma_load(static_cast<int>(box.size()), multicast);
    for (int c = 0; c < s.inner_extent; c += s.slab) {
        for (int r = 0; r < part; r += rows) {
            std::string at;
            for (const ViewDim &d : l.from.dims) {
                Expr shift = d.axis.empty() ? 0 : d.axis == s.inner ? c : r;
                if (multicast && d.axis == s.outer) {
                    shift += l.part * part;
                }
                at += ", " + scalar(simplify(d.base + shift));
            }
            std::string to = plus(shared_base(t), (c / s.slab * s.outer_extent + r) * s.pitch);
            if (multicast) {
                to += " + " + scalar(simplify(l.part * (part * s.pitch)));
                at += ", " + scalar(l.blocks);
            }
            line(fmt::format("{}{}(shared + {}, {}, {}{});", one(), load, to, map, full(*ring), at));
        }
    }
}

void CudaPrinter::stage_store(const StageStore &s) {
    const Tile &t = k_.tile(s.src);
    const SharedLayout &l = s.layout;
    if (t.axes.size() != 2) {
        no_form(fmt::format("the store of `{}`", s.src), "only tiles with two axes are staged");
    }
    const std::string row = k_.row_axis, col = t.axes[0] == row ? t.axes[1] : t.axes[0];
    const bool across = l.inner == row; // rows are contiguous in the view
    const int cols = k_.axes.at(col), width = across ? l.outer_extent : l.inner_extent;
    const RegisterLayout fragment = wgmma_fragment(row, k_.axes.at(row), col, cols, k_.warpgroups());
    if (!(t.registers == fragment)) {
        no_form(fmt::format("the store of `{}`", s.src),
                "staging takes the accumulator's layout, not " + t.registers.str());
    }
    const std::string to = scalar(s.buffer), name = s.src + "_box";
    std::string a;
    int first = 0; // register of the box's first two columns
    if (s.value.defined()) {
        Digits box(t.registers);
        box.restrict(col, 8, s.column / 8, width / 8);
        box.restrict(row, 64, s.row_block, 1);
        a = fresh("box");
        open("");
        line(fmt::format("u32 {}[{}];", a, width / (packed(t) ? 4 : 2)));
        compute(a, t, box, s.value);
    } else {
        a = array(s.src);
        first = s.row_block * cols / 2 + s.column / 2;
    }
    write_box(s, a, first, to, name);
    if (s.value.defined()) {
        close();
    }
}

/// Registers `first` … of the array to the staging buffer.
void CudaPrinter::write_box(const StageStore &s, const std::string &a, int first, const std::string &to,
                            const std::string &name) {
    const Tile &t = k_.tile(s.src);
    const SharedLayout &l = s.layout;
    const bool across = l.inner == k_.row_axis;
    const int width = across ? l.outer_extent : l.inner_extent;
    auto offset = [&](const std::string &expr, const std::string &stem) {
        for (const auto &[e, n] : offsets_) {
            if (e == expr) {
                return n;
            }
        }
        offsets_.push_back({expr, stem});
        return stem;
    };
    if (!packed(t)) {
        // Two neighbours of a row at a time.
        const std::string r = offset("thread / 32 % 4 * 16 + thread / 4 % 8", "stage_row"),
                          c = offset("thread % 4 * 2", "stage_column"), type = dialect_.type(t.type);
        for (int x = 0; x < width; x += 8) {
            for (int half = 0; half < 2; half++) {
                for (int e = 0; e < 2; e++) {
                    const std::string at_col = fmt::format("{} + {}", c, x + e),
                                      at_row = fmt::format("{} + {}", r, half * 8);
                    line(fmt::format("*({} *)(smem + {} + {}) = {}[{}];", type, to,
                                     shared_at(name, l, across ? at_row : at_col, across ? at_col : at_row),
                                     a, first + x / 2 + half * 2 + e));
                }
            }
        }
        return;
    }
    auto words = [&](const std::string &at, int n) {
        std::string w;
        for (int i = 0; i < n; i++) {
            w += fmt::format(", {}[{}{}]", a, at, i ? fmt::format(" + {}", i) : "");
        }
        return w;
    };
    // Matrices of 8 x 8: 16 columns take four, rows 0 … 7 and 8 … 15 of each half.
    const std::string suffix = across ? "t" : "";
    const std::string r = across ? offset("thread / 32 % 4 * 16 + thread / 8 % 2 * 8", "matrix_row")
                                 : offset("thread / 32 % 4 * 16 + thread % 16", "matrix_row");
    const std::string c = across ? offset("thread / 16 % 2 * 8 + thread % 8", "matrix_column")
                                 : offset("thread / 16 % 2 * 8", "matrix_column");
    const int pairs = width / 16;
    if (pairs > 0) {
        const std::string j = fresh("j"), at_col = fmt::format("{} * 16 + {}", j, c);
        line("#pragma unroll");
        line(fmt::format("for (int {0} = 0; {0} < {1}; {0}++) {2}(shared + {3} + {4}{5});", j, pairs,
                         dialect_.use("stmatrix_4" + suffix), to,
                         shared_at(name, l, across ? r : at_col, across ? at_col : r),
                         words(fmt::format("{} + {} * 4", first / 2, j), 4)));
    }
    if (width % 16 != 0) {
        const std::string at_col =
            across ? fmt::format("{} + thread % 8", pairs * 16) : std::to_string(pairs * 16);
        line(fmt::format("{}(shared + {} + {}{});", dialect_.use("stmatrix_2" + suffix), to,
                         shared_at(name, l, across ? r : at_col, across ? at_col : r),
                         words(std::to_string(first / 2 + pairs * 4), 2)));
    }
}

void CudaPrinter::tma_store(const TmaStore &s) {
    std::vector<int> box;
    std::string at;
    for (const ViewDim &d : s.to.dims) {
        box.push_back(d.axis.empty()             ? 1
                      : d.axis == s.layout.inner ? s.layout.inner_extent
                                                 : s.layout.outer_extent);
        at += ", " + scalar(d.base);
    }
    line(fmt::format("{}{}({}, shared + {}{});", one(), cuda_.tma_store(static_cast<int>(box.size())),
                     tensor_map(s.to.view, box, s.layout.swizzle), scalar(s.buffer), at));
}

void CudaPrinter::named_barrier(const Barrier &b) {
    if (copies_pending_) {
        line(dialect_.use("copy_wait") + "();");
        copies_pending_ = false;
    }
    if (!b.arrive_only && is_const_zero(b.id) && (b.threads == 0 || b.threads == k_.threads)) {
        line("__syncthreads();");
        return;
    }
    line(fmt::format("{}({}, {});", dialect_.use(b.arrive_only ? "bar_arrive" : "bar_sync"), scalar(b.id),
                     b.threads));
}

void CudaPrinter::async_copy(const std::string &to, const std::string &from, const std::string &inside,
                             int bytes, int element_bytes) {
    copies_pending_ = true;
    const std::string n = fresh("n");
    line(fmt::format("const int {} = min(max({}, 0) * {}, {});", n, inside, element_bytes, bytes));
    // Where nothing is inside, the address may lie anywhere: the instruction then reads no byte.
    line(fmt::format("{}({}, {}, {});", dialect_.use(fmt::format("copy_{}", bytes)), "shared" + to.substr(4),
                     from, n));
}

} // namespace kiln::tile
