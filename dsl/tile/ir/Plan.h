/** \file
 * What a schedule says about one tile kernel, read off its statements once (build/ReadPlan.h): plain data, so that
 * tests can write it by hand. Names are the schedule's: Funcs, Vars, RVars (`k`) and loops.
 */
#pragma once

#include "dsl/support/Diagnostic.h"

#include <map>
#include <set>
#include <string>
#include <vector>

namespace kiln::tile {

enum class MmaKind { Wgmma, MmaSync, Fma };
enum class CopyKind { Tma, CpAsync, Plain };

struct CopyPlan {
    CopyKind kind = CopyKind::Tma;
    int swizzle = 128; ///< bytes
    int stages = 0;    ///< slots of its ring; 0: as many as fit, at most 8
    /// Read once into the registers of the threads that compute with it, past shared memory; the above says nothing.
    bool registers = false;
    bool multicast = false; ///< what all blocks of a cluster read the same comes once for all of them
    Span span;              ///< the directive
};

struct MmaPlan {
    MmaKind kind = MmaKind::Wgmma;
    int stage = 0;     ///< pipeline_stage: 1 runs under the next iteration's stage 0
    bool tf32 = false; ///< float32 operands are cut to TF32: 8 bits of exponent, 10 of mantissa
    Span span;
};

/// The loop around a Func's update, dealt to blocks.
struct SplitPlan {
    int parts = 1;
    Span span;
};

/// A running maximum that may stay behind.
struct LagPlan {
    int bits = 0; ///< by up to 2^bits
    Span span;
};

/// One Var of an output.
struct BlockDim {
    std::string var;
    std::string loop; ///< its block loop; "" where the tile spans the whole dimension
    int size = 1;     ///< elements of one block
};

struct TilePlan {
    std::string kernel;                                      ///< the Func marked tile_kernel
    std::vector<BlockDim> blocks;                            ///< of the outputs' Vars
    std::vector<std::string> grid;                           ///< block loops, the fastest first
    std::map<std::string, std::map<std::string, int>> split; ///< Func -> RVar -> iterations inside one tile
    /// Func -> RVar -> elements of a tile that spans the whole RVar; the call's extent is at most that
    std::map<std::string, std::map<std::string, int>> whole;
    std::set<std::string> tiles;             ///< Funcs kept as tiles; others are inlined
    std::set<std::string> outside;           ///< Funcs computed before the kernel: views, like inputs
    std::map<std::string, CopyPlan> copies;  ///< staged in shared memory: `x.in(acc)` is under "x"
    std::map<std::string, MmaPlan> products; ///< Func whose update is a product
    std::map<std::string, SplitPlan> splits; ///< Func whose update several blocks share
    std::map<std::string, LagPlan> lags;     ///< Func whose update carries a maximum
    std::string rows;                        ///< Var whose axis is dealt to the warpgroups
    int consumers = 2, producers = 1;        ///< warpgroups
    int consumer_registers = 0, producer_registers = 0; ///< setmaxnreg; 0: by the number of warpgroups
    int persistent =
        0; ///< 0: one block a tile; otherwise as many blocks as run at once, in groups of so many rows
    bool dynamic = false;   ///< tiles are handed out by a counter
    bool ping_pong = false; ///< warpgroups take whole tiles in turn
    bool turns = false;     ///< warpgroups issue the products of an iteration in turn
    bool launch_ahead = false;
    int slow_warp = -1;    ///< a warp that sleeps before it waits, stores or gives back; -1: none
    bool direct = false;   ///< outputs leave registers element by element, whatever their strides
    std::string spread;    ///< Var whose axis the `spread_blocks` blocks of a cluster share
    int spread_blocks = 1; ///< 1: each block has a tile of its own
    Span spread_span;
    int cluster_x = 1, cluster_y = 1;
    Span cluster_span;
};

} // namespace kiln::tile
