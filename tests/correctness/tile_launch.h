/** \file
 * What tests need to launch an emitted kernel without a runtime: arrays as TMA wants them, and the values of parameters.
 */
#pragma once

#include "dsl/tile/emit/Emit.h"
#include "tests/correctness/tile_reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace kiln::tile {

/// The same elements with rows at multiples of 16 bytes, as TMA wants them; what lies between is poisoned.
inline Array spread(const Array &a) {
    std::vector<int64_t> strides;
    int64_t next = 1;
    for (int64_t e : a.extents) {
        strides.push_back(next);
        const int64_t unit = std::max(1, 16 / a.type.bytes());
        next = (next * e + unit) / unit * unit;
    }
    Array b(a.type, a.extents, strides);
    b.bytes.assign(static_cast<size_t>(next * a.type.bytes()), 0xff);
    std::vector<int64_t> index(a.extents.size());
    for (int64_t i = 0; i < a.size(); i++) {
        std::memcpy(b.bytes.data() + b.offset(index) * a.type.bytes(),
                    a.bytes.data() + a.offset(index) * a.type.bytes(), static_cast<size_t>(a.type.bytes()));
        for (size_t d = 0; d < index.size() && ++index[d] == a.extents[d]; d++) {
            index[d] = 0;
        }
    }
    return b;
}

inline int64_t evaluate(Expr e, const Memory &m) {
    for (const auto &[name, a] : m) {
        for (size_t d = 0; d < a.extents.size(); d++) {
            e = replace_variable(e, fmt::format("{}.extent.{}", name, d), static_cast<int>(a.extents[d]));
            e = replace_variable(e, fmt::format("{}.stride.{}", name, d), static_cast<int>(a.strides[d]));
            e = replace_variable(e, fmt::format("{}.min.{}", name, d), 0);
        }
    }
    return Halide::Internal::as_const_int(Halide::Internal::simplify(e)).value();
}

/// The factor that a kernel multiplies by in place of dividing by `v`.
inline unsigned long long reciprocal_of(int64_t v) {
    return ~uint64_t(0) / static_cast<uint64_t>(std::max<int64_t>(1, v)) + 1;
}

/// "" or the name of an array of which more than the elements of outputs changed.
inline std::string written_outside(const Memory &before, const Memory &after, const Memory &outputs) {
    for (const auto &[name, a] : after) {
        Array expected = before.at(name);
        if (outputs.count(name)) {
            expected.each([&, &values = a](int64_t at) { expected.set(at, values.get(at)); });
        }
        if (expected.bytes != a.bytes) {
            return name;
        }
    }
    return "";
}

} // namespace kiln::tile
