/** \file
 * How one C-like language spells what the others spell otherwise: the printers of tile kernels share everything else.
 *
 * Values in C: integers and booleans as themselves, f32 and f64 too; a 16-bit float is its bits in a u16, so that moving
 * one keeps them all. u16, u32, u64 and i64 are typedefs that each dialect makes.
 */
#pragma once

#include <Halide.h>

#include <string>
#include <vector>

namespace kiln::tile {

/// Whether Halide's type is bfloat16 or float16.
bool is_half(Halide::Type t);

class Dialect {
public:
    virtual ~Dialect() = default;
    /// The C type of a value.
    virtual std::string type(Halide::Type t) const;
    /// Makes the helper of that name part of the text, and returns the name.
    virtual const std::string &use(const std::string &helper) = 0;
    /// Call of Halide's extern math function `name` ("exp_f32"); "" where there is none.
    virtual std::string math(const std::string &name, const std::vector<std::string> &args) = 0;
    virtual std::string widen(Halide::Type half, const std::string &bits) = 0; ///< to f32
    virtual std::string narrow(Halide::Type half,
                               const std::string &value) = 0; ///< from f32, to nearest even
    /// Two f32 as the halves of a u32.
    virtual std::string pack(Halide::Type half, const std::string &low, const std::string &high) = 0;
    /// The same bits as another type of that size.
    virtual std::string reinterpret(Halide::Type to, Halide::Type from, const std::string &value) = 0;
    virtual std::string divide(const std::string &a, const std::string &b) = 0; ///< f32
    /// a·b + c, rounded once. f32 and f64.
    virtual std::string fma(const std::string &a, const std::string &b, const std::string &c) = 0;
    /// f32, NaN where either is NaN.
    virtual std::string maximum(const std::string &a, const std::string &b) = 0;
    virtual std::string minimum(const std::string &a, const std::string &b) = 0;
    /// Function (u32 *words, pointer, int inside): `count` neighbours of `bits` bits in one access; those past `inside`
    /// read as 0 and are not written. `bits` times `count` is 32, 64 or 128.
    virtual std::string vector_load(int bits, int count) = 0;
    virtual std::string vector_store(int bits, int count) = 0;
    virtual std::string infinity() const = 0;
    virtual std::string nan() const = 0;
    /// Casts to pointers: "(const u32 *)" and what the language adds for the address space.
    virtual std::string shared_pointer(const std::string &type) const = 0;
    virtual std::string global_pointer(const std::string &type) const = 0;
};

} // namespace kiln::tile
