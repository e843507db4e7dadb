#include "dsl/tile/ir/Layout.h"

#include <fmt/format.h>

#include <algorithm>

namespace kiln::tile {

namespace {

int product(const std::vector<LayoutPart> &parts) {
    int n = 1;
    for (const LayoutPart &p : parts) {
        n *= p.extent;
    }
    return n;
}

int along(const std::vector<LayoutPart> &parts, const std::string &axis, int index) {
    int at = 0;
    for (const LayoutPart &p : parts) {
        at += p.axis == axis ? index % p.extent * p.stride : 0;
        index /= p.extent;
    }
    return at;
}

std::string text(const char *what, const std::vector<LayoutPart> &parts) {
    std::string out;
    for (const LayoutPart &p : parts) {
        out += fmt::format("{}{}", out.empty() ? "" : ", ", p.axis.empty() ? "-" : p.axis);
        out += p.axis.empty() || p.stride == 1 ? "" : fmt::format("*{}", p.stride);
        out += fmt::format(":{}", p.extent);
    }
    return fmt::format("{}({})", what, out);
}

/// The digit unless it has one value only.
void add(std::vector<LayoutPart> &parts, const std::string &axis, int extent, int stride) {
    if (extent > 1) {
        parts.push_back({axis, extent, stride});
    }
}

} // namespace

int RegisterLayout::thread_count() const {
    return product(threads);
}

int RegisterLayout::register_count() const {
    return product(registers);
}

int RegisterLayout::coordinate(const std::string &axis, int t, int r) const {
    return along(threads, axis, t) + along(registers, axis, r);
}

bool RegisterLayout::has(const std::string &axis) const {
    auto is = [&](const LayoutPart &p) { return p.axis == axis; };
    return std::any_of(threads.begin(), threads.end(), is) ||
           std::any_of(registers.begin(), registers.end(), is);
}

RegisterLayout RegisterLayout::without(const std::string &axis) const {
    RegisterLayout left = *this;
    for (LayoutPart &p : left.threads) {
        if (p.axis == axis) {
            p = {"", p.extent, 0};
        }
    }
    std::erase_if(left.registers, [&](const LayoutPart &p) { return p.axis == axis; });
    return left;
}

std::string RegisterLayout::str() const {
    return text("threads", threads) + " " + text("registers", registers);
}

RegisterLayout wgmma_fragment(const std::string &row, int rows, const std::string &col, int cols,
                              int warpgroups) {
    RegisterLayout l;
    const int band = rows / warpgroups;
    l.threads = {{col, 4, 2}, {row, 8, 1}, {row, 4, 16}};
    add(l.threads, row, warpgroups, band);
    l.registers = {{col, 2, 1}, {row, 2, 8}};
    add(l.registers, col, cols / 8, 8);
    add(l.registers, row, band / 64, 64);
    return l;
}

RegisterLayout fma_fragment(const std::string &row, int rows, const std::string &col, int cols,
                            int warpgroups) {
    RegisterLayout l;
    const int band = rows / warpgroups;
    l.threads = {{row, 2, 1}, {col, 8, 1}, {row, 2, 2}, {col, 2, 8}, {row, 2, 4}};
    add(l.threads, row, warpgroups, band);
    add(l.registers, col, cols / 16, 16);
    add(l.registers, row, band / 8, 8);
    return l;
}

RegisterLayout row_major_threads(const std::string &row, int rows, const std::string &col, int cols,
                                 int warps, int vector) {
    RegisterLayout l;
    const int across = std::max(1, warps / rows); // warps that share a row
    const int down = warps / across;
    const int lanes = 32 * across;
    l.threads = {{col, lanes, vector}};
    add(l.threads, row, down, rows / down);
    add(l.registers, col, vector, 1);
    add(l.registers, col, cols / (lanes * vector), lanes * vector);
    add(l.registers, row, rows / down, 1);
    return l;
}

int SharedLayout::bytes() const {
    return (inner_extent + slab - 1) / slab * outer_extent * pitch;
}

int SharedLayout::address(int inner_at, int outer_at) const {
    const int byte = inner_at % slab * element_bytes;
    // Swizzle<span>: the 16-byte chunk's number is exclusive-ored with bits 7 and up of the address.
    const int row = inner_at / slab * outer_extent + outer_at;
    const int at = row * pitch + byte;
    const int chunks = swizzle / 16;
    return chunks > 1 ? at ^ (at >> 7 & (chunks - 1)) << 4 : at;
}

std::string SharedLayout::str() const {
    return fmt::format("{}:{} {}:{} slab {} pitch {} swizzle {}", inner, inner_extent, outer, outer_extent,
                       slab, pitch, swizzle);
}

} // namespace kiln::tile
