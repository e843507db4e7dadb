/** \file
 * OpenCL C 1.2. Nothing of it needs an extension: 16-bit floats are bits, and pairs of a warp meet in local memory.
 */
#pragma once

#include "dsl/tile/emit/Dialect.h"

#include <set>

namespace kiln::tile {

class OpenClDialect : public Dialect {
public:
    std::string type(Halide::Type t) const override;
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
    std::string infinity() const override { return "INFINITY"; }
    std::string nan() const override { return "NAN"; }
    std::string shared_pointer(const std::string &type) const override { return "(__local " + type + " *)"; }
    std::string global_pointer(const std::string &type) const override { return "(__global " + type + " *)"; }

    std::string prelude() const;

private:
    std::set<std::string> used_;
    std::string text_;
    void add(const std::string &name, const std::string &text);
};

} // namespace kiln::tile
