/** \file
 * The instructions that emitted CUDA text uses, on one CPU thread: every CUDA thread is a coroutine that runs until it
 * waits. Written from the PTX ISA and apart from dsl/tile, so that descriptors, swizzles, fragments and barriers of an
 * emitted kernel are tested where there is no GPU. Asynchronous work is done when it is issued; what comes of late work
 * is the interpreter's to find.
 *
 * A generated file includes this once, then holds kernels in namespaces of their own. Not seen: alignment of accesses
 * by plain pointers, races, bank conflicts.
 */
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include <ucontext.h>

typedef unsigned u32;
typedef unsigned long long u64;
typedef unsigned short u16;
typedef long long i64;
#define SHARED
#define DEV static inline
#define __global__
#define __device__
#define __grid_constant__
#define __launch_bounds__(...)
#define __shared__
#define INFINITY_F32 __builtin_inff()
#define NAN_F32 __builtin_nanf("")

struct uint2 {
    u32 x, y;
};
struct uint4 {
    u32 x, y, z, w;
};
static inline uint2 make_uint2(u32 x, u32 y) {
    return {x, y};
}
static inline uint4 make_uint4(u32 x, u32 y, u32 z, u32 w) {
    return {x, y, z, w};
}

/// Shared memory starts at an address that is no multiple of 1024, as it may. The blocks of a cluster have theirs at
/// multiples of block_space.
constexpr u32 shared_start = 256;
constexpr u32 shared_size = 240 * 1024;
constexpr u32 block_space = 256 * 1024;
constexpr u32 most_blocks = 8;
alignas(1024) unsigned char memory_block[most_blocks * block_space];
#define memory                                                                                               \
    (memory_block + emulator::current->rank * block_space + shared_start) // `extern __shared__ … memory[]`

struct Dimensions {
    u32 x = 0, y = 0, z = 0;
};

/// A box of global memory that TMA moves.
struct alignas(64) TensorMap {
    void *base = nullptr;
    int rank = 0, element = 0, swizzle = 0;
    i64 extent[5] = {}, stride[5] = {}; ///< elements; bytes
    int box[5] = {};
};

namespace emulator {

struct Thread {
    ucontext_t context;
    std::vector<char> stack;
    Dimensions index, block;
    u32 rank = 0;         ///< of its block in the cluster
    u64 cluster_turn = 0; ///< when it came to the cluster's barrier
    bool done = false;
};
struct Warp {
    u32 value[2][32][8] = {};
    int arrived = 0;
    u64 turn = 0;
};
struct Barrier {
    int count = 0, pending = 0;
    i64 bytes = 0;
    u32 phase = 0;
};
struct Named {
    int arrived = 0;
    u64 turn = 0;
    bool any[2] = {};
};

inline std::vector<std::unique_ptr<Thread>> threads;
inline std::vector<Warp> warps;
inline std::map<u32, Barrier> barriers;
inline Named named[16 * most_blocks], whole_cluster;
inline u32 block_threads = 0, cluster_blocks = 1;
inline Thread *current = nullptr;
inline ucontext_t scheduler;
inline Dimensions grid;
inline u64 progress = 0;
inline std::string fault;

inline void yield() {
    swapcontext(&current->context, &scheduler);
}
/// The block stops at the first fault.
[[noreturn]] inline void fail(const std::string &what) {
    if (fault.empty()) {
        fault = "block " + std::to_string(current->block.x) + ", thread " + std::to_string(current->index.x) +
                ": " + what;
    }
    for (;;) {
        yield();
    }
}
template<typename F>
void wait_until(const F &ready) {
    while (!ready()) {
        yield();
    }
}

inline unsigned char *shared_pointer(u32 address, u32 bytes) {
    const u32 own = address % block_space;
    if (own < shared_start || own + bytes > shared_start + shared_size ||
        address / block_space >= cluster_blocks) {
        fail("shared address " + std::to_string(address) + " is outside");
    }
    return memory_block + address;
}
/// The same address in another block of the cluster.
inline u32 in_block(u32 address, u32 rank) {
    if (rank >= cluster_blocks) {
        fail("block " + std::to_string(rank) + " of a cluster of " + std::to_string(cluster_blocks));
    }
    return address % block_space + rank * block_space;
}
inline u32 swizzled(u32 address, int span) {
    const u32 chunks = static_cast<u32>(span) / 16;
    return chunks > 1 ? address ^ (address >> 7 & (chunks - 1)) << 4 : address;
}

/// Puts `count` words where all 32 threads of the warp see them; returns the table.
inline u32 (*exchange(const u32 *words, int count))[8] {
    Warp &w = warps[current->rank * (block_threads / 32) + current->index.x / 32];
    const u64 turn = w.turn;
    u32(*table)[8] = w.value[turn & 1];
    std::copy(words, words + count, table[current->index.x % 32]);
    if (++w.arrived == 32) {
        w.arrived = 0;
        w.turn++;
        progress++;
    } else {
        wait_until([&] { return w.turn != turn; });
    }
    return table;
}

inline void complete(Barrier &b) {
    progress++;
    if (b.pending < 0) {
        fail("more arrivals than a barrier expects");
    }
    if (b.pending == 0 && b.bytes == 0) {
        b.phase ^= 1;
        b.pending = b.count;
    }
}
inline Barrier &barrier(u32 address) {
    auto b = barriers.find(address);
    if (b == barriers.end()) {
        fail("no barrier at " + std::to_string(address));
    }
    return b->second;
}

/// Calls f(byte in the box, pointer or null outside) for each element of the box at `at`.
template<typename F>
void each_of_box(const TensorMap &m, const int *at, const F &f) {
    int i[5] = {};
    u32 n = 1;
    for (int d = 0; d < m.rank; d++) {
        n *= static_cast<u32>(m.box[d]);
    }
    for (u32 e = 0; e < n; e++) {
        char *p = static_cast<char *>(m.base);
        bool inside = true;
        for (int d = 0; d < m.rank; d++) {
            inside &= at[d] + i[d] >= 0 && at[d] + i[d] < m.extent[d];
            p += (at[d] + i[d]) * m.stride[d];
        }
        f(e * static_cast<u32>(m.element), inside ? p : nullptr);
        for (int d = 0; d < m.rank && ++i[d] == m.box[d]; d++) {
            i[d] = 0;
        }
    }
}

inline void tma_load(u32 to, const TensorMap &m, u32 address, const int *at, int rank) {
    if (rank != m.rank || to % 128 != 0) {
        fail("a TMA load of another rank, or to an address that is no multiple of 128");
    }
    u32 bytes = 0;
    each_of_box(m, at, [&](u32 byte, const char *p) {
        unsigned char *d = shared_pointer(swizzled(to + byte, m.swizzle), static_cast<u32>(m.element));
        p ? void(std::memcpy(d, p, static_cast<size_t>(m.element)))
          : void(std::memset(d, 0, static_cast<size_t>(m.element)));
        bytes += static_cast<u32>(m.element);
    });
    Barrier &b = barrier(address);
    b.bytes -= bytes;
    complete(b);
}
/// To every block of the cluster whose bit is set.
inline void tma_load_to(u32 to, const TensorMap &m, u32 address, u32 bits, const int *at, int rank) {
    for (u32 b = 0; b < 16; b++) {
        if (bits >> b & 1) {
            tma_load(in_block(to, b), m, in_block(address, b), at, rank);
        }
    }
}
inline void tma_store(const TensorMap &m, u32 from, const int *at, int rank) {
    if (rank != m.rank || from % 128 != 0) {
        fail("a TMA store of another rank, or from an address that is no multiple of 128");
    }
    each_of_box(m, at, [&](u32 byte, char *p) {
        if (p) {
            std::memcpy(p, shared_pointer(swizzled(from + byte, m.swizzle), static_cast<u32>(m.element)),
                        static_cast<size_t>(m.element));
        }
    });
}

// ---- numbers

inline float bits_to_float(u32 b) {
    float f;
    std::memcpy(&f, &b, 4);
    return f;
}
inline u32 float_to_bits(float f) {
    u32 b;
    std::memcpy(&b, &f, 4);
    return b;
}
enum class Type { Bf16, F16, Tf32, S8, U8 };
inline int bytes_of(Type t) {
    return t == Type::Tf32 ? 4 : t == Type::S8 || t == Type::U8 ? 1 : 2;
}
inline float value_of(Type t, const void *p) {
    u16 h;
    u32 w;
    _Float16 f;
    switch (t) {
    case Type::Bf16:
        std::memcpy(&h, p, 2);
        return bits_to_float(u32(h) << 16);
    case Type::F16:
        std::memcpy(&f, p, 2);
        return static_cast<float>(f);
    case Type::Tf32: // the low bits are not read
        std::memcpy(&w, p, 4);
        return bits_to_float(w & ~0x1fffu);
    case Type::S8:
        return *static_cast<const signed char *>(p);
    default:
        return *static_cast<const unsigned char *>(p);
    }
}

/// Element (mn, k) of the operand that a descriptor describes (PTX ISA, "Shared memory matrix layout").
inline float operand(Type t, u64 descriptor, bool k_major, int mn, int k) {
    const u32 start = u32(descriptor & 0x3fff) << 4, leading = u32(descriptor >> 16 & 0x3fff) << 4,
              stride = u32(descriptor >> 32 & 0x3fff) << 4, mode = u32(descriptor >> 62);
    const u32 bytes = static_cast<u32>(bytes_of(t)), span = mode == 1   ? 128
                                                            : mode == 2 ? 64
                                                            : mode == 3 ? 32
                                                                        : 16;
    const u32 along = static_cast<u32>(k_major ? k : mn) * bytes, across = static_cast<u32>(k_major ? mn : k);
    // A descriptor holds 18 bits of an address: those inside its block.
    u32 at = in_block(start, current->rank) + across % 8 * span + along % span;
    if (k_major) {
        at += across / 8 * stride + along / span * leading;
    } else {
        at += mode == 0 ? across / 8 * leading + along / span * stride
                        : across / 8 * stride + along / span * leading;
    }
    return value_of(t, shared_pointer(swizzled(at, static_cast<int>(span == 16 ? 0 : span)), bytes));
}

/// `a` null: operand A is the table of four registers of each thread of the warp.
template<typename D>
void wgmma(Type t, int n, D *d, const u64 *a, u32 (*table)[8], bool a_k_major, u64 b, bool b_k_major,
           bool add) {
    const int depth = 32 / bytes_of(t), thread = static_cast<int>(current->index.x % 128), lane = thread % 32;
    for (int half = 0; half < 2; half++) {
        const int row = thread / 32 * 16 + lane / 4 + half * 8;
        float x[32];
        for (int k = 0; k < depth; k++) {
            if (a) {
                x[k] = operand(t, *a, a_k_major, row, k);
            } else {
                const u32 word = table[lane / 4 * 4 + k % 8 / 2][k / 8 * 2 + half];
                const u16 bits = static_cast<u16>(word >> k % 2 * 16);
                x[k] = value_of(t, &bits);
            }
        }
        for (int j = 0; j < n / 8; j++) {
            for (int e = 0; e < 2; e++) {
                D &sum = d[j * 4 + half * 2 + e];
                D s = add ? sum : D(0);
                for (int k = 0; k < depth; k++) {
                    s += static_cast<D>(x[k] * operand(t, b, b_k_major, j * 8 + lane % 4 * 2 + e, k));
                }
                sum = s;
            }
        }
    }
}

inline void mma_sync(Type t, float *d, const u32 *a, u32 b0, u32 b1) {
    const u32 mine[6] = {a[0], a[1], a[2], a[3], b0, b1};
    u32(*table)[8] = exchange(mine, 6);
    const int lane = static_cast<int>(current->index.x % 32);
    auto at = [&](int from, int word, int half) {
        const u16 bits = static_cast<u16>(table[from][word] >> half * 16);
        return value_of(t, &bits);
    };
    for (int half = 0; half < 2; half++) {
        for (int e = 0; e < 2; e++) {
            for (int k = 0; k < 16; k++) {
                const int column = lane % 4 * 2 + e;
                d[half * 2 + e] += at(lane / 4 * 4 + k % 8 / 2, k / 8 * 2 + half, k % 2) *
                                   at(column * 4 + k % 8 / 2, 4 + k / 8, k % 2);
            }
        }
    }
}

template<Type t>
void mma_sync_as(float *d, const u32 *a, u32 b0, u32 b1) {
    mma_sync(t, d, a, b0, b1);
}

inline void store_matrices(u32 address, const u32 *words, int count, bool transposed) {
    u32(*table)[8] = exchange(words, count);
    const int lane = static_cast<int>(current->index.x % 32), matrix = lane / 8, row = lane % 8;
    if (matrix >= count) {
        return;
    }
    if (address % 16 != 0) {
        fail("stmatrix to an address that is no multiple of 16");
    }
    for (int c = 0; c < 8; c++) {
        const int r = transposed ? c : row, column = transposed ? row : c;
        const u16 v = static_cast<u16>(table[r * 4 + column / 2][matrix] >> column % 2 * 16);
        std::memcpy(shared_pointer(address + static_cast<u32>(c) * 2, 2), &v, 2);
    }
}
inline void load_matrices(u32 *words, u32 address, bool transposed) {
    u32(*table)[8] = exchange(&address, 1);
    const int lane = static_cast<int>(current->index.x % 32);
    for (int m = 0; m < 4; m++) {
        words[m] = 0;
        for (int half = 0; half < 2; half++) {
            const int r = transposed ? lane % 4 * 2 + half : lane / 4,
                      c = transposed ? lane / 4 : lane % 4 * 2 + half;
            u16 v;
            std::memcpy(&v, shared_pointer(table[m * 8 + r][0] + static_cast<u32>(c) * 2, 2), 2);
            words[m] |= u32(v) << half * 16;
        }
    }
}

// ---- a launch

inline std::function<void()> entry;
inline void run_thread() {
    entry();
    current->done = true;
    progress++;
    for (;;) {
        yield();
    }
}

/// "" or what went wrong. `cluster` blocks at a time.
inline std::string launch(u32 blocks, u32 count, const std::function<void()> &kernel, u32 cluster = 1) {
    entry = kernel;
    fault.clear();
    grid = {blocks, 1, 1};
    block_threads = count;
    cluster_blocks = cluster;
    if (cluster > most_blocks || blocks % cluster != 0) {
        return std::to_string(blocks) + " blocks in clusters of " + std::to_string(cluster);
    }
    for (u32 b = 0; b < blocks && fault.empty(); b += cluster) {
        std::memset(memory_block, 0xaa, cluster * block_space);
        threads.clear();
        warps.assign(count / 32 * cluster, {});
        barriers.clear();
        std::fill(std::begin(named), std::end(named), Named{});
        whole_cluster = {};
        for (u32 t = 0; t < count * cluster; t++) {
            threads.push_back(std::make_unique<Thread>());
            Thread &x = *threads.back();
            x.index = {t % count, 0, 0};
            x.rank = t / count;
            x.block = {b + x.rank, 0, 0};
            x.stack.resize(128 * 1024);
            getcontext(&x.context);
            x.context.uc_stack.ss_sp = x.stack.data();
            x.context.uc_stack.ss_size = x.stack.size();
            x.context.uc_link = nullptr;
            makecontext(&x.context, run_thread, 0);
        }
        for (bool running = true; running && fault.empty();) {
            running = false;
            const u64 before = progress;
            for (auto &t : threads) {
                if (!t->done && fault.empty()) {
                    running = true;
                    current = t.get();
                    swapcontext(&scheduler, &t->context);
                }
            }
            if (running && progress == before && fault.empty()) {
                fault = "block " + std::to_string(b) + ": all threads wait";
            }
        }
        for (auto &[address, x] : barriers) {
            if (fault.empty() && x.bytes != 0) {
                fault = "bytes are still expected at the end";
            }
        }
    }
    return fault;
}

/// An argument of any kind from its address.
struct Argument {
    void *p;
    template<typename T>
    operator T *() const {
        return static_cast<T *>(p);
    }
    operator int() const { return *static_cast<int *>(p); }
    operator u64() const { return *static_cast<u64 *>(p); }
    operator const TensorMap &() const { return *static_cast<TensorMap *>(p); }
};

} // namespace emulator

#define threadIdx (emulator::current->index)
#define blockIdx (emulator::current->block)
#define gridDim (emulator::grid)

// ---- what the text calls

DEV u32 shared_address(const void *p) {
    return static_cast<u32>(static_cast<const unsigned char *>(p) - memory_block);
}
DEV void mbar_init(u32 b, u32 n) {
    emulator::barriers[b] = {static_cast<int>(n), static_cast<int>(n), 0, 0};
}
DEV void mbar_init_fence() {}
DEV void mbar_expect(u32 b, u32 bytes) {
    emulator::Barrier &x = emulator::barrier(b);
    x.bytes += bytes;
    x.pending--;
    emulator::complete(x);
}
DEV void mbar_arrive(u32 b) {
    emulator::Barrier &x = emulator::barrier(b);
    x.pending--;
    emulator::complete(x);
}
DEV void mbar_arrive_remote(u32 b, u32 rank) {
    mbar_arrive(emulator::in_block(b, rank));
}
DEV void mbar_wait(u32 b, u32 parity) {
    emulator::Barrier &x = emulator::barrier(b);
    emulator::wait_until([&] { return x.phase != parity; });
}
DEV void prefetch_map(const TensorMap &) {}
DEV void store_commit() {}
template<int N>
DEV void store_wait() {}
DEV void proxy_fence() {}
DEV void copy_bytes(u32 to, const void *from, int bytes, int all) {
    if (to % static_cast<u32>(all) != 0 ||
        reinterpret_cast<uintptr_t>(from) % static_cast<uintptr_t>(all) != 0) {
        emulator::fail("an unaligned asynchronous copy");
    }
    std::memset(emulator::shared_pointer(to, static_cast<u32>(all)), 0, static_cast<size_t>(all));
    if (bytes > 0) {
        std::memcpy(emulator::shared_pointer(to, static_cast<u32>(all)), from, static_cast<size_t>(bytes));
    }
}
DEV void copy_16(u32 to, const void *from, int bytes) {
    copy_bytes(to, from, bytes, 16);
}
DEV void copy_8(u32 to, const void *from, int bytes) {
    copy_bytes(to, from, bytes, 8);
}
DEV void copy_4(u32 to, const void *from, int bytes) {
    copy_bytes(to, from, bytes, 4);
}
DEV void copy_arrive(u32 b) {
    mbar_arrive(b);
}
DEV void copy_wait() {}
DEV void wgmma_fence() {}
DEV void wgmma_commit() {}
template<int N>
DEV void wgmma_wait() {}
DEV u64 descriptor(u32 address, u32 leading, u32 stride, u32 mode) {
    if (mode != 0 && address / 16 * 16 != address) {
        emulator::fail("a descriptor of an unaligned address");
    }
    return u64((address & 0x3ffff) >> 4) | u64(leading >> 4) << 16 | u64(stride >> 4) << 32 | u64(mode) << 62;
}
DEV void ldmatrix_4(u32 (&w)[4], u32 a) {
    emulator::load_matrices(w, a, false);
}
DEV void ldmatrix_4t(u32 (&w)[4], u32 a) {
    emulator::load_matrices(w, a, true);
}
DEV void stmatrix_4(u32 a, u32 x, u32 y, u32 z, u32 w) {
    const u32 words[4] = {x, y, z, w};
    emulator::store_matrices(a, words, 4, false);
}
DEV void stmatrix_2(u32 a, u32 x, u32 y) {
    const u32 words[2] = {x, y};
    emulator::store_matrices(a, words, 2, false);
}
DEV void stmatrix_4t(u32 a, u32 x, u32 y, u32 z, u32 w) {
    const u32 words[4] = {x, y, z, w};
    emulator::store_matrices(a, words, 4, true);
}
DEV void stmatrix_2t(u32 a, u32 x, u32 y) {
    const u32 words[2] = {x, y};
    emulator::store_matrices(a, words, 2, true);
}
template<int N>
DEV void registers_up() {}
template<int N>
DEV void registers_down() {}
DEV void bar_arrive(int id, int threads) {
    emulator::Named &n = emulator::named[emulator::current->rank * 16 + static_cast<u32>(id)];
    if (++n.arrived == threads) {
        n.arrived = 0;
        n.turn++;
    }
    emulator::progress++;
}
DEV void bar_sync(int id, int threads) {
    emulator::Named &n = emulator::named[emulator::current->rank * 16 + static_cast<u32>(id)];
    const u64 turn = n.turn;
    bar_arrive(id, threads);
    emulator::wait_until([&] { return n.turn != turn; });
}
DEV void __syncthreads() {
    bar_sync(0, static_cast<int>(emulator::block_threads));
}
DEV u32 cluster_rank() {
    return emulator::current->rank;
}
DEV void cluster_arrive() {
    emulator::Named &n = emulator::whole_cluster;
    emulator::current->cluster_turn = n.turn;
    if (++n.arrived == static_cast<int>(emulator::threads.size())) {
        n.arrived = 0;
        n.turn++;
    }
    emulator::progress++;
}
DEV void cluster_wait() {
    const u64 turn = emulator::current->cluster_turn;
    emulator::wait_until([&] { return emulator::whole_cluster.turn != turn; });
}
DEV void cluster_sync() {
    cluster_arrive();
    cluster_wait();
}
DEV void store_in_block(u32 at, u32 x, u32 block) {
    std::memcpy(emulator::shared_pointer(emulator::in_block(at, block), 4), &x, 4);
}
DEV void cluster_start() {
    cluster_sync();
}
DEV void __syncwarp() {
    const u32 none = 0;
    emulator::exchange(&none, 1);
}
DEV void __threadfence() {}
DEV void launch_next() {}
DEV void wait_for_previous() {}
DEV int __shfl_sync(u32, int value, int lane) {
    const u32 mine = static_cast<u32>(value);
    return static_cast<int>(emulator::exchange(&mine, 1)[lane][0]);
}
template<typename T>
DEV T shuffle_xor(T x, int mask) {
    u32 mine[2] = {};
    std::memcpy(mine, &x, sizeof x);
    std::memcpy(&x, emulator::exchange(mine, 2)[emulator::current->index.x % 32 ^ static_cast<u32>(mask)],
                sizeof x);
    return x;
}
DEV int any_lane(int x) {
    const u32 mine = static_cast<u32>(x);
    u32(*all)[8] = emulator::exchange(&mine, 1);
    int any = 0;
    for (int lane = 0; lane < 32; lane++) {
        any |= all[lane][0] != 0;
    }
    return any;
}
DEV int atomicAdd(int *p, int by) {
    const int old = *p;
    *p += by;
    emulator::progress++;
    return old;
}

template<int N>
DEV void settled(float (&)[N]) {}
DEV int comes_last(int *counter, int parts) {
    if (atomicAdd(counter, 1) != parts - 1) {
        return 0;
    }
    *counter = 0;
    return 1;
}
DEV int bar_or(int id, int count, int yes) {
    emulator::Named &n = emulator::named[emulator::current->rank * 16 + static_cast<u32>(id)];
    const u64 turn = n.turn;
    bool &any = n.any[turn % 2]; // the other is of the meeting before, whose threads may still read it
    any = (n.arrived > 0 && any) || yes != 0;
    bar_arrive(id, count);
    emulator::wait_until([&] { return n.turn != turn; });
    return any;
}

DEV u32 __float_as_uint(float x) {
    return emulator::float_to_bits(x);
}
DEV float __uint_as_float(u32 x) {
    return emulator::bits_to_float(x);
}
template<typename T>
DEV T max(T a, T b) {
    return a > b ? a : b;
}
template<typename T>
DEV T min(T a, T b) {
    return a < b ? a : b;
}
template<typename T>
DEV T whole_div_of(T a, T b) {
    if (b == 0) {
        return 0;
    }
    const T q = a / b, r = a - q * b;
    return r < 0 ? (b > 0 ? q - 1 : q + 1) : q;
}
DEV int whole_div(int a, int b) {
    return whole_div_of(a, b);
}
DEV int whole_mod(int a, int b) {
    return b == 0 ? 0 : a - whole_div_of(a, b) * b;
}
DEV u32 divide_by(u32 a, u64 reciprocal) {
    return reciprocal == 0 ? a : static_cast<u32>(static_cast<unsigned __int128>(a) * reciprocal >> 64);
}
DEV u32 half_of(u32 w, int high) {
    return high ? w >> 16 : w & 0xffff;
}
DEV u32 byte_of(u32 w, int i) {
    return w >> i * 8 & 0xff;
}
DEV float bf16_to_f32(u32 bits) {
    return emulator::bits_to_float(bits << 16);
}
DEV u16 f32_to_bf16(float x) {
    const u32 b = emulator::float_to_bits(x);
    return std::isnan(x) ? 0x7fff : static_cast<u16>((b + 0x7fff + (b >> 16 & 1)) >> 16);
}
DEV float f16_to_f32(u32 bits) {
    const u16 h = static_cast<u16>(bits);
    return emulator::value_of(emulator::Type::F16, &h);
}
DEV u16 f32_to_f16(float x) {
    const _Float16 h = static_cast<_Float16>(x);
    u16 bits;
    std::memcpy(&bits, &h, 2);
    return bits;
}
DEV u32 pack_bf16(float low, float high) {
    return f32_to_bf16(low) | u32(f32_to_bf16(high)) << 16;
}
DEV u32 pack_f16(float low, float high) {
    return f32_to_f16(low) | u32(f32_to_f16(high)) << 16;
}
DEV float exp2_approx(float x) {
    return exp2f(x);
}
DEV float divide(float a, float b) {
    return a / b;
}
DEV float reciprocal(float x) {
    return 1 / x;
}
DEV float square_root(float x) {
    return sqrtf(x);
}
DEV float reciprocal_root(float x) {
    return 1 / sqrtf(x);
}
DEV float one_plus_tanh(float x) {
    return static_cast<float>(1 + std::tanh(static_cast<double>(x)));
}
DEV float max_nan(float a, float b) {
    return a != a ? a : b != b ? b : a > b ? a : b;
}
DEV float min_nan(float a, float b) {
    return a != a ? a : b != b ? b : a < b ? a : b;
}
