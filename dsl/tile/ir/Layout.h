/** \file
 * Where the elements of a tile lie: in which register of which thread, or at which byte of shared memory. One general
 * form serves every instruction: a coordinate is a sum of digits of the thread index and of the register index.
 */
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kiln::tile {

/// One digit of a thread or register index: values 0 … extent - 1, each moving `stride` along `axis`. An empty axis:
/// the digit moves nothing (threads that hold copies).
struct LayoutPart {
    std::string axis;
    int extent = 1;
    int stride = 1;
    bool operator==(const LayoutPart &) const = default;
};

/// A tile in registers. Digits are listed from the fastest: thread index t has the digits t % e0, t / e0 % e1, ….
/// Threads are counted over all warpgroups that compute (the consumers of a kernel), registers over 32-bit or wider
/// elements as if none were packed: two neighbours of a 16-bit tile along the first register digit share a register.
struct RegisterLayout {
    std::vector<LayoutPart> threads, registers;

    int thread_count() const;
    int register_count() const; ///< elements a thread holds
    /// The coordinate along `axis` of register `r` of thread `t`; 0 for an axis that is not in the layout.
    int coordinate(const std::string &axis, int t, int r) const;
    bool has(const std::string &axis) const;
    /// What is left when `axis` is reduced away: its register digits go, its thread digits hold copies.
    RegisterLayout without(const std::string &axis) const;
    bool operator==(const RegisterLayout &) const = default;
    std::string str() const; ///< `threads(col*2:4, row:8) registers(col:2, row*8:2)`
};

/// Accumulator of wgmma m64nNk16 (PTX ISA, "wgmma .f32 D fragment"): `rows` elements of `row` over `warpgroups`
/// groups of 128 threads, each with rows / warpgroups / 64 instructions above each other. Packed to 16 bits the same
/// layout over (row, k) is the register operand A.
RegisterLayout wgmma_fragment(const std::string &row, int rows, const std::string &col, int cols,
                              int warpgroups);

/// Accumulator of products by multiply-add: in each warpgroup 16 threads across and 8 down, each with every 16th column and
/// every 8th row of its part. A warp holds 4 rows by 8 columns, so that it reads the fewest different rows of its operands (12;
/// 2 by 16 would read 18), and any 8 neighbours of it read rows whose 16-byte chunks lie in different banks.
RegisterLayout fma_fragment(const std::string &row, int rows, const std::string &col, int cols,
                            int warpgroups);

/// Rows over warps, the columns of a row over the lanes of a warp, `vector` neighbours in each. With fewer rows than
/// warps several warps share a row. For kernels without a product.
RegisterLayout row_major_threads(const std::string &row, int rows, const std::string &col, int cols,
                                 int warps, int vector);

/// A tile in shared memory: columns in slabs of `slab` elements; a slab is `outer` rows of `pitch` bytes; 16-byte chunk c
/// of row r lies at c ^ (r & mask) as the TMA's swizzle has it (CUDA programming guide, "Swizzle modes").
struct SharedLayout {
    std::string inner, outer; ///< axes; inner is the one that is contiguous in the view
    int inner_extent = 0, outer_extent = 0;
    int element_bytes = 2;
    int slab = 64;     ///< elements along inner
    int pitch = 128;   ///< bytes between rows of a slab
    int swizzle = 128; ///< span in bytes: 0, 32, 64 or 128

    int bytes() const;
    /// Byte of the element from the start of the tile.
    int address(int inner_at, int outer_at) const;
    bool operator==(const SharedLayout &) const = default;
    std::string str() const;
};

} // namespace kiln::tile
