/** \file
 * Algorithms with a schedule's text and a formula in C++: what a user writes, and what it must come to, computed apart from Kiln.
 */
#pragma once

#include "dsl/schedule/Knobs.h"
#include "dsl/tile/ir/Ir.h"
#include "tests/correctness/tile_emulation.h"
#include "tests/correctness/tile_reference.h"

#include <functional>
#include <string>
#include <vector>

namespace kiln::tile {

using Index = std::vector<int64_t>;

/// Inputs as doubles.
class Values {
public:
    explicit Values(const Memory &m) : m_(m) {}
    double operator()(const char *view, const Index &at) const {
        const Array &a = m_.at(view);
        return a.get(a.offset(at));
    }
    int64_t extent(const char *view, int d) const { return m_.at(view).extents.at(static_cast<size_t>(d)); }
    /// Σ f(i) for 0 ≤ i < n.
    static double sum(int64_t n, const std::function<double(int64_t)> &f) {
        double s = 0;
        for (int64_t i = 0; i < n; i++) {
            s += f(i);
        }
        return s;
    }
    static double most(int64_t n, const std::function<double(int64_t)> &f);

private:
    const Memory &m_;
};

/// Of one output: its elements along dimension 0, where the other dimensions have the indices `at`.
using Formula = std::function<std::vector<double>(const Values &, const Index &at, int64_t n)>;

/// The formula of one element; its index has dimension 0 first.
Formula each(const std::function<double(const Values &, const Index &)> &element);

struct ScheduledProgram {
    std::string name;
    std::vector<Halide::Func> outputs;
    std::vector<Halide::ImageParam> inputs;
    std::string schedule;       ///< statements, or a whole file with `schedule NAME { … }`
    std::vector<Extents> sizes; ///< whole tiles and ragged ones
    std::map<std::string, Formula> wanted;
    double ulps = 0; ///< allowed, in units of the last place of the output's type
    KnobValues knobs = {};
};

/// The kernel that the schedule makes, after all passes. Throws Error where something is refused.
Kernel scheduled_kernel(const ScheduledProgram &p);

/// Inputs of small integers for that size, and the outputs by the formulas.
struct Data {
    Memory inputs, wanted;
};
Data data_of(const ScheduledProgram &p, const Extents &size, unsigned seed = 1);

/// Interprets the kernel on every size in several orders of events; "" or what came out wrong.
std::string interpreted(const ScheduledProgram &p, const Kernel &k);

/// Runs kernel `number`, which is `p`'s, emulated on that size; "" or what came out wrong or was written outside of the outputs.
std::string emulated(const Emulation &emulation, size_t number, const ScheduledProgram &p,
                     const Extents &size, unsigned seed);

} // namespace kiln::tile
