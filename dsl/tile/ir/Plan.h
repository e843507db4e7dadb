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
    Span span; ///< the directive
};

struct MmaPlan {
    MmaKind kind = MmaKind::Wgmma;
    int stage = 0; ///< pipeline_stage: 1 runs under the next iteration's stage 0
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
    std::string rows;                        ///< Var whose axis is dealt to the warpgroups
    int consumers = 2, producers = 1;        ///< warpgroups
    int consumer_registers = 0, producer_registers = 0; ///< setmaxnreg; 0: by the number of warpgroups
    int persistent =
        0; ///< 0: one block a tile; otherwise as many blocks as run at once, in groups of so many rows
    bool dynamic = false;   ///< tiles are handed out by a counter
    bool ping_pong = false; ///< warpgroups take whole tiles in turn
    bool launch_ahead = false;
    int cluster_x = 1, cluster_y = 1;
    std::map<std::string, Span> spans; ///< directive -> where it stands
};

} // namespace kiln::tile
