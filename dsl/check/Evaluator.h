/** \file
 * What a pipeline's formula gives, point by point: a tree walk over the Func definitions in double. It looks at
 * no schedule and uses none of Halide's lowering, so it is a reference for both. Beside each value it computes
 * how far a right kernel may be from it (Value.h, Tolerance.h).
 *
 * Points are evaluated on demand and remembered per Func, so that single outputs of a large problem cost only
 * what they need. Updates run over their RDom in Halide's order; an update's pure Vars are independent of each
 * other, which is Halide's own rule for them.
 */
#pragma once

#include "dsl/check/Value.h"

#include <Halide.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace kiln {

class Evaluator {
public:
    /// Throws kiln::Error K0801 where a definition cannot be evaluated (extern stages, random numbers).
    explicit Evaluator(const std::vector<Halide::Func> &outputs);
    ~Evaluator();
    Evaluator(Evaluator &&) noexcept;
    Evaluator &operator=(Evaluator &&) noexcept;

    /// Data of an input (or, for its extents alone, an output) by the name that the user gave it. The buffer and
    /// its dimensions are copied, the data is not and must stay unchanged.
    void bind(const std::string &name, const halide_buffer_t *buffer);
    void bind_scalar(const std::string &name, double value);

    /// What the formula needs: names of buffers that it reads, and of scalars.
    const std::vector<std::string> &buffers() const;
    const std::vector<std::string> &scalars() const;

    /// The value of an output (by its place in the constructor's list) and its Tuple element at a point. Throws
    /// K0802 where an input is read outside its bounds, K0803 where it is not bound, K0804 above
    /// `memory_limit` bytes.
    Value at(int output, int value_index, const std::vector<int> &point);
    int output_count() const;
    int output_rank(int output) const;
    const std::vector<Halide::Type> &output_types(int output) const;

    /// Drops what is remembered; bindings stay.
    void forget();
    size_t bytes() const;
    size_t memory_limit = size_t(4) << 30;
    /// Nodes walked so far: the work done, for progress and budgets.
    int64_t steps() const;

private:
    struct State;
    std::unique_ptr<State> state_;
};

} // namespace kiln
