/** \file
 * How much a pipeline has to do: arithmetic of each stage and bytes of each buffer, for given sizes, counted on its
 * definitions. Every value counts once, however a schedule recomputes it: this is what a roofline is drawn from.
 */
#pragma once

#include "dsl/generator/Generator.h"

#include <Halide.h>

#include <map>
#include <string>
#include <vector>

namespace kiln {

/// Floating-point operations of one evaluation of a definition. An expression that occurs twice counts once.
struct OpCounts {
    double add = 0, multiply = 0, divide = 0;
    double compare = 0; ///< min, max, comparisons, select
    double special = 0; ///< exp, log, sqrt, tanh, …
    /// What people mean by FLOP: additions, multiplications and divisions. A fused multiply-add is two.
    double flops() const { return add + multiply + divide; }
};

struct StageWork {
    std::string func;
    int update = -1;   ///< -1: the pure definition
    double points = 0; ///< how often it is evaluated
    OpCounts each;
    /// Its reduction domain has a condition: `points` is an estimate from random points.
    bool estimated = false;
};

/// The part of a Func or buffer that is needed.
struct RegionWork {
    std::string func;
    bool is_input = false, is_output = false;
    std::vector<std::string> types;
    std::vector<int64_t> mins, extents;
    double bytes = 0;
};

struct Work {
    std::vector<StageWork> stages;   ///< producers first; inputs have none
    std::vector<RegionWork> regions; ///< producers first
    /// What a Func reads of another one: bytes of the box.
    std::map<std::pair<std::string, std::string>, double> reads;
    double flops() const;
    /// Inputs that are read and outputs, each once: what must move at least.
    double bytes() const;
    const RegionWork *find(const std::string &func) const;
};

/// Throws Error K0715 where the sizes of `workload` leave a region open, and K0805 where it lacks an output.
Work count_work(const std::vector<Halide::Func> &outputs, const Workload &workload);

} // namespace kiln
