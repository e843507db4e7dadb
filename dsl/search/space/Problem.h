/** \file
 * What is to be scheduled: an algorithm, the sizes it is scheduled for, and the device. Everything that a candidate's
 * cost depends on, read out of Halide once.
 */
#pragma once

#include "dsl/generator/Generator.h"
#include "dsl/schedule/PipelineInfo.h"
#include "dsl/target/Device.h"

#include <Halide.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace kiln::search {

struct Algorithm;    // Algorithm.h
struct ProblemForms; // Forms.h

struct Problem {
    std::vector<Halide::Func> outputs; ///< without a schedule, and left so
    /// The generator that made them, for builds in child processes; "" for a plain pipeline.
    std::string generator;
    std::map<std::string, std::string> parameters;
    /// Of every input and output buffer by its name in schedules, innermost first; a Tuple's under its Func's name.
    std::map<std::string, std::vector<int64_t>> extents;
    std::map<std::string, double> scalars; ///< values of scalar inputs that sizes depend on
    Target target;
    Device device;

    // Derived by make_problem.
    PipelineInfo info;  ///< what holds for all sizes: what a schedule is checked against
    PipelineInfo sized; ///< the same with the extents of these sizes: what its cost is judged by
    std::shared_ptr<const Algorithm> algorithm; ///< arithmetic and accesses of each definition
    /// Parameters of the generator that choose between forms of one algorithm, with the values that a search may try; those
    /// that `parameters` has are left out.
    std::map<std::string, std::vector<std::string>> alternatives;
    std::shared_ptr<ProblemForms> forms;

    /// `gemm x=1024x1024 …`: names the operation and its sizes, not the device.
    std::string name() const;
};

/// Fills in what is derived. Throws Error: K1301 where the sizes of an output are missing or of another rank, K0113
/// where two Funcs share a name.
Problem make_problem(Problem facts);

/// Of a generator that is loaded, at a workload's sizes (Workload::params join `parameters`). Throws as
/// create_generator and make_problem.
Problem problem_of(const std::string &generator, const std::map<std::string, std::string> &parameters,
                   const Workload &workload, const Target &target, const Device &device);

/// Of any pipeline, with the estimates that its Funcs and Parameters carry (`set_estimate`). Throws K1302 where an output
/// or an input has none.
Problem problem_of(const std::vector<Halide::Func> &outputs, const Target &target, const Device &device);

/// A device of the target, where none is at hand: its limits, and ceilings of a common model of its kind (named in
/// `name`), so that costs can be compared. A CPU with `cores`.
Device nominal_device(const Target &target, int cores = 0);

} // namespace kiln::search
