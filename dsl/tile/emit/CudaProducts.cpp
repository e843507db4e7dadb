// Products on tensor cores: wgmma from descriptors or registers, mma.sync from ldmatrix.
#include "dsl/tile/emit/CudaPrinter.h"

#include <fmt/format.h>

#include <algorithm>

namespace kiln::tile {

using namespace Halide::Internal;

namespace {

constexpr int wgmma_rows = 64, wgmma_columns = 256, step_bytes = 32;

std::string other_axis(const Tile &t, const std::string &axis) {
    for (const std::string &a : t.axes) {
        if (a != axis) {
            return a;
        }
    }
    return "";
}

/// The first mode that PTX ISA's table of matrix descriptors gives for a swizzle's span.
int mode_of(int swizzle) {
    return swizzle == 128 ? 1 : swizzle == 64 ? 2 : swizzle == 32 ? 3 : 0;
}

} // namespace

void CudaPrinter::product(const Mma &m, const std::string &func) {
    if (k_.product_kind(func) == MmaKind::MmaSync) {
        mma_sync(m);
    } else {
        wgmma(m);
    }
}

/// A loop whose products keep the tensor cores busy for longer than it takes to come round again gains nothing, and four
/// copies of it double the time to compile. A product of 64 x n with 32 bytes of the reduction takes n / 2 cycles.
bool CudaPrinter::worth_unrolling(const For &f) const {
    constexpr int long_enough = 256; // cycles
    int cycles = 0;
    bool copies = false;
    for (const Stmt &s : f.body) {
        copies |= s.as<Load>() != nullptr;
        if (const Mma *m = s.as<Mma>()) {
            const Tile &a = k_.tile(m->a), &b = k_.tile(m->b);
            const int rows = k_.axes.at(other_axis(a, m->axis)) / k_.warpgroups() / wgmma_rows;
            cycles += rows * k_.axes.at(m->axis) * a.type.bytes() / step_bytes *
                      k_.axes.at(other_axis(b, m->axis)) / 2;
        }
    }
    return !copies && cycles < long_enough;
}

std::string CudaPrinter::descriptor(const Tile &t, const std::string &k_axis, int band) {
    const std::string name = id("desc_", t.name);
    if (!descriptors_.insert(t.name).second) {
        return name;
    }
    const SharedLayout &l = t.shared;
    const bool k_major = l.inner == k_axis;
    const int slab = l.outer_extent * l.pitch; // bytes between slabs
    int leading = 16,
        stride = 8 * l.pitch; // K-major: groups of 8 rows; the leading offset counts without swizzle only
    if (l.swizzle == 0) {
        if (l.pitch != 16) {
            no_form(fmt::format("operand `{}`", t.name), "wgmma reads a swizzled tile, or rows of 16 bytes");
        }
        leading = k_major ? slab : 8 * l.pitch;
        stride = k_major ? 8 * l.pitch : slab;
    } else if (!k_major) {
        leading = slab;
    }
    const int shift = band == 0 ? 0 : k_major ? l.address(0, band) : l.address(band, 0);
    const std::string at =
        fmt::format("shared + {}{}", t.offset, shift ? fmt::format(" + wg * {}", shift) : "");
    before_ += fmt::format("const u64 {} = {}({}, {}, {}, {});\n", name, dialect_.use("descriptor"), at,
                           leading, stride, mode_of(l.swizzle));
    return name;
}

void CudaPrinter::start(const Mma &m) {
    const Tile &d = k_.tile(m.dst);
    if (m.start.empty()) {
        map(m.dst, make_zero(d.type));
        return;
    }
    move(m.dst, m.start);
    if (m.zero_when.defined()) {
        open(fmt::format("if ({})", scalar(m.zero_when)));
        map(m.dst, make_zero(d.type));
        close();
    }
}

void CudaPrinter::wgmma(const Mma &m) {
    const Tile &d = k_.tile(m.dst), &a = k_.tile(m.a), &b = k_.tile(m.b);
    const std::string row = other_axis(a, m.axis), col = other_axis(b, m.axis);
    const int rows = k_.axes.at(row), cols = k_.axes.at(col), depth = step_bytes / a.type.bytes();
    const int steps = k_.axes.at(m.axis) / depth, band = rows / k_.warpgroups(), blocks = band / wgmma_rows;
    const std::string what = fmt::format("the product `{}`", m.dst);
    if (!(d.registers == wgmma_fragment(row, rows, col, cols, k_.warpgroups())) || d.type.bits() != 32) {
        no_form(what, fmt::format("wgmma leaves its sum in another layout than {}", d.registers.str()));
    }
    if (b.space != Space::Shared || k_.axes.at(m.axis) % depth != 0 || a.type != b.type) {
        no_form(what,
                "wgmma takes its second operand from shared memory, 32 bytes of the reduction at a time");
    }
    int n = cols;
    while (n > wgmma_columns || cols % n != 0 || n % 8 != 0) {
        if (--n == 0) {
            no_form(what, fmt::format("wgmma takes no {} columns", cols));
        }
    }
    WgmmaShape shape;
    shape.n = n;
    shape.type = a.type;
    shape.a_in_registers = a.space == Space::Register;
    shape.a_transposed = !shape.a_in_registers && a.shared.inner != m.axis;
    shape.b_transposed = b.shared.inner != m.axis;
    if ((shape.a_transposed || shape.b_transposed || shape.a_in_registers) && a.type.bits() != 16) {
        no_form(what, "wgmma reads operands of this type from shared memory along the reduction only");
    }
    if (shape.a_in_registers &&
        !(a.registers == wgmma_fragment(row, rows, m.axis, k_.axes.at(m.axis), k_.warpgroups()))) {
        no_form(what,
                fmt::format("wgmma takes its first operand in another layout than {}", a.registers.str()));
    }
    if (!m.start.empty()) {
        move(m.dst, m.start);
    }
    const std::string f = cuda_.wgmma(shape), acc = array(m.dst);
    auto operand = [&](const Tile &t, int shift) {
        const std::string s = slot(t.ring);
        std::string text = descriptor(t, m.axis, shift);
        return s == "0" ? text : fmt::format("{} + {} * {}", text, s, t.shared.bytes() / 16);
    };
    open("");
    std::string da, db = fresh("b");
    if (!shape.a_in_registers) {
        da = fresh("a");
        line(fmt::format("const u64 {} = {};", da, operand(a, band * (k_.warpgroups() > 1))));
    }
    line(fmt::format("const u64 {} = {};", db, operand(b, 0)));
    std::string first = m.start.empty() ? "0" : "1";
    if (m.zero_when.defined() && !m.start.empty()) {
        first = fresh("add");
        line(fmt::format("const int {} = !{};", first, scalar(m.zero_when)));
    }
    auto shifted = [](const std::string &base, int bytes) {
        return bytes == 0 ? base : fmt::format("{} + {}", base, bytes / 16);
    };
    for (int k = 0; k < steps; k++) {
        for (int r = 0; r < blocks; r++) {
            std::string x;
            if (shape.a_in_registers) {
                const int w = r * k_.axes.at(m.axis) / 4 + k * 4;
                x = fmt::format("{0}[{1}], {0}[{2}], {0}[{3}], {0}[{4}]", array(m.a), w, w + 1, w + 2, w + 3);
            } else {
                x = shifted(da, shape.a_transposed ? a.shared.address(r * wgmma_rows, k * depth)
                                                   : a.shared.address(k * depth, r * wgmma_rows));
            }
            for (int c = 0; c < cols; c += n) {
                const int at =
                    shape.b_transposed ? b.shared.address(c, k * depth) : b.shared.address(k * depth, c);
                line(fmt::format("{}({}, {}, {}, {});", f, shifted(acc, (r * cols / 2 + c / 2) * 16), x,
                                 shifted(db, at), k == 0 ? first : "1"));
            }
        }
    }
    close();
}

void CudaPrinter::mma_sync(const Mma &m) {
    const Tile &d = k_.tile(m.dst), &a = k_.tile(m.a), &b = k_.tile(m.b);
    const std::string row = other_axis(a, m.axis), col = other_axis(b, m.axis);
    const std::string what = fmt::format("the product `{}`", m.dst);
    const auto &threads = d.registers.threads;
    const auto &registers = d.registers.registers;
    const bool fragment = threads.size() >= 2 && registers.size() >= 2 &&
                          threads[0] == LayoutPart{col, 4, 2} && threads[1] == LayoutPart{row, 8, 1} &&
                          registers[0] == LayoutPart{col, 2, 1} && registers[1] == LayoutPart{row, 2, 8};
    if (!fragment || !is_half(a.type) || a.type != b.type || b.space != Space::Shared ||
        a.space != Space::Shared || k_.axes.at(m.axis) % 32 != 0) {
        no_form(what, "mma.sync takes two 16-bit operands from shared memory, 32 of the reduction at a time, "
                      "and leaves its "
                      "sum in fragments of 16 x 8");
    }
    start(m);
    const std::string f = cuda_.mma_sync(a.type), acc = array(m.dst);
    // Where the warp's own part begins: the digits beyond the fragment's.
    RegisterLayout warps = d.registers;
    warps.threads[0].axis = warps.threads[1].axis = "";
    auto part = [&](const std::string &axis, const Digits &own) {
        std::string s = thread_offset(axis, warps);
        for (size_t i = 2; i < registers.size(); i++) {
            if (registers[i].axis == axis && !own.names[i].empty()) {
                s += (s.empty() ? "" : " + ") + fmt::format("{} * {}", own.names[i], registers[i].stride);
            }
        }
        return s.empty() ? std::string("0") : s;
    };
    Digits all(d.registers), down = all, across = all;
    std::vector<int> number(registers.size());
    int blocks = 1;
    for (size_t i = 0; i < registers.size(); i++) {
        const bool fixed = i < 2;
        if (fixed) {
            all.names[i] = "";
        }
        if (fixed || registers[i].axis != row) {
            down.names[i] = "";
        } else {
            number[i] = blocks;
            blocks *= registers[i].extent;
        }
        if (fixed || registers[i].axis != col) {
            across.names[i] = "";
        }
    }
    const std::string k = fresh("k"), wa = fresh("a"), wb = fresh("b");
    auto load = [&](const Tile &t, const std::string &to, const std::string &along_k,
                    const std::string &along_k_t, const std::string &other, const std::string &other_t) {
        const bool k_major = t.shared.inner == m.axis;
        const std::string at = k_major ? shared_at(t.name, t.shared, along_k, other)
                                       : shared_at(t.name, t.shared, other_t, along_k_t);
        line(fmt::format("{}({}, shared + {} + {});", dialect_.use(k_major ? "ldmatrix_4" : "ldmatrix_4t"),
                         to, shared_base(t), at));
    };
    line("#pragma unroll");
    open(fmt::format("for (int {0} = 0; {0} < {1}; {0} += 32)", k, k_.axes.at(m.axis)));
    line(fmt::format("u32 {}[{}][2][4];", wa, blocks));
    open_digits(down, 2);
    const std::string r = part(row, down);
    for (int half = 0; half < 2; half++) {
        load(a, fmt::format("{}[{}][{}]", wa, down.sum(number), half),
             fmt::format("{} + {} + lane / 16 * 8", k, half * 16),
             fmt::format("{} + {} + lane / 16 * 8 + lane % 8", k, half * 16),
             fmt::format("{} + lane % 16", r), fmt::format("{} + lane / 8 % 2 * 8", r));
    }
    close_digits(down, 2);
    open_digits(across, 2);
    const std::string c = part(col, across);
    line(fmt::format("u32 {}[4];", wb));
    load(b, wb, fmt::format("{} + lane / 8 * 8", k), fmt::format("{} + lane", k),
         fmt::format("{} + lane % 8", c), c);
    open_digits(down, 2);
    std::vector<int> own = all.own();
    own[0] = own[1] = 0;
    for (int half = 0; half < 2; half++) {
        line(fmt::format("{}({} + {}, {}[{}][{}], {}[{}], {}[{}]);", f, acc, all.sum(own), wa,
                         down.sum(number), half, wb, half * 2, wb, half * 2 + 1));
    }
    close_digits(down, 2);
    close_digits(across, 2);
    close();
}

} // namespace kiln::tile
