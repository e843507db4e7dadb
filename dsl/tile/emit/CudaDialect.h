/** \file
 * CUDA C++ without includes. A kernel's text holds the wrappers that it uses and no other: one instruction each (PTX ISA
 * 8.x names them), or a helper of a few lines.
 */
#pragma once

#include "dsl/tile/emit/Dialect.h"

#include <set>

namespace kiln::tile {

/// One wgmma (PTX ISA, "wgmma.mma_async"): D[64 x n] += A[64 x k]·B[k x n] with k of 32 bytes.
struct WgmmaShape {
    int n = 0;
    Halide::Type type; ///< of A and B: bf16, f16, f32 (as tf32), i8, u8
    bool a_in_registers = false;
    bool a_transposed = false; ///< M is the contiguous dimension of A in shared memory; 16-bit types
    bool b_transposed = false; ///< N is that of B
};

class CudaDialect : public Dialect {
public:
    const std::string &use(const std::string &helper) override;
    std::string math(const std::string &name, const std::vector<std::string> &args) override;
    std::string widen(Halide::Type half, const std::string &bits) override;
    std::string narrow(Halide::Type half, const std::string &value) override;
    std::string pack(Halide::Type half, const std::string &low, const std::string &high) override;
    std::string reinterpret(Halide::Type to, Halide::Type from, const std::string &value) override;
    std::string divide(const std::string &a, const std::string &b) override;
    std::string fma(const std::string &a, const std::string &b, const std::string &c) override;
    std::string maximum(const std::string &a, const std::string &b) override;
    std::string minimum(const std::string &a, const std::string &b) override;
    std::string vector_load(int bits, int count) override;
    std::string vector_store(int bits, int count) override;
    std::string infinity() const override { return "INFINITY_F32"; }
    std::string nan() const override { return "NAN_F32"; }
    std::string shared_pointer(const std::string &type) const override { return "(" + type + " *)"; }
    std::string global_pointer(const std::string &type) const override { return "(" + type + " *)"; }

    /// Wrappers made for one shape; each returns the name to call.
    virtual std::string wgmma(const WgmmaShape &shape);
    virtual std::string mma_sync(Halide::Type type); ///< m16n8k16, bf16 or f16 to f32
    virtual std::string tma_load(int rank, bool multicast);
    virtual std::string tma_store(int rank);

    /// Typedefs and everything used so far.
    virtual std::string prelude() const;
    /// Of every wrapper with a fixed text: tests compile them all.
    static std::vector<std::string> names();

protected:
    std::string text_;
    void add(const std::string &name, const std::string &text);

private:
    std::set<std::string> used_;
};

} // namespace kiln::tile
