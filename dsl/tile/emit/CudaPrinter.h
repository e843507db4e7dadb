/** \file
 * The printer for CUDA: roles, rings of barriers, TMA, wgmma and mma.sync.
 */
#pragma once

#include "dsl/tile/emit/CudaDialect.h"
#include "dsl/tile/emit/Printer.h"

namespace kiln::tile {

class CudaPrinter : public Printer {
public:
    CudaPrinter(const Kernel &k, CudaDialect &dialect, const EmitOptions &options);
    EmittedKernel run();

protected:
    std::string thread_index() const override { return "threadIdx.x"; }
    std::string block_index() const override { return "blockIdx.x"; }
    std::string block_count() const override { return "gridDim.x"; }
    void barrier() override;

    std::string shuffle_xor(const std::string &value, int mask) override;
    std::string any_lane(const std::string &condition) override;
    void statement(const Stmt &s) override;
    void product(const Mma &m, const std::string &func) override;
    bool worth_unrolling(const For &f) const override;
    void async_copy(const std::string &to, const std::string &from, const std::string &inside, int bytes,
                    int element_bytes) override;

private:
    CudaDialect &cuda_;
    std::vector<KernelParam> maps_;
    std::string before_; ///< of the role: descriptors, ahead of its loops
    std::set<std::string> phases_, held_, descriptors_;
    bool copies_pending_ = false; ///< cp.async into tiles without a ring
    int dynamic_at_ = 0;          ///< byte of the ring of tile numbers, where tiles are handed out

    // ---- frame (EmitCuda.cpp)
    void role(const Role &r);
    void crew_body(const Body &b);
    void dynamic_tiles(const TileLoop &t);
    void last(const Last &l);
    std::string barriers();
    std::string signature(const std::string &name) const;
    static std::string map_name(const TensorMapParam &m);
    int full_arrivals(const Ring &r) const;
    bool is_accumulator(const std::string &tile) const;
    bool copied_by_threads(const std::string &ring, CopyKind kind) const;
    int barrier_id(int n) const { return n; }

    // ---- rings and copies (CudaCopies.cpp)
    std::string full(const Ring &r), empty(const Ring &r);
    std::string phase(const std::string &ring);
    std::string one() const; ///< "if (…) " in front of what one thread of the warpgroup does
    std::string tensor_map(const std::string &view, const std::vector<int> &box, int swizzle,
                           int clipped = -1);
    void advance(const Advance &a);
    void skip(const Skip &s);
    void release(const Release &r);
    void drain(const Drain &d);
    void tma_load(const Load &l);
    void stage_store(const StageStore &s);
    void write_box(const StageStore &s, const std::string &array, int first, const std::string &to,
                   const std::string &name);
    void tma_store(const TmaStore &s);
    void named_barrier(const Barrier &b);

    // ---- reductions over a cluster
    struct Share { ///< who holds what of a reduced tile
        std::string slot, copy;
        int slots = 1, copies = 1, held = 1;
    };
    int meeting_at_ = 0, meeting_bytes_ = 0; ///< of two buffers, which meetings take in turn
    Share share_of(const Tile &t);
    void plan_meetings();
    void combine_blocks(const std::string &array, const Tile &t, ReduceOp op, int blocks) override;

    // ---- products (CudaProducts.cpp)
    std::string descriptor(const Tile &t, const std::string &k_axis, int band);
    void wgmma(const Mma &m);
    void mma_sync(const Mma &m);
    void start(const Mma &m);
};

} // namespace kiln::tile
