/** \file
 * Holds results against the reference, point by point, and asks whether the comparison could fail at all.
 */
#pragma once

#include "dsl/check/Evaluator.h"
#include "dsl/support/Diagnostic.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace kiln {

/// The points of a box: its corners and edges first, then runs along dimension 0 in random order, all of them or
/// as many as `max_points` allows.
std::vector<std::vector<int>> sample_points(const std::vector<int64_t> &extents, int64_t max_points,
                                            uint64_t seed);

/// One result against one reference value.
struct Judgement {
    bool is_right = true, is_open = false; ///< open: the formula allows any value here
    double error = 0, bound = 0;
};
Judgement judge(const Value &got, const Value &expected, const Halide::Type &type);

struct Comparison {
    int64_t checked = 0, wrong = 0, open = 0;
    double error = 0, bound = 0; ///< where error / bound is largest
    std::vector<int> first_wrong;
    Value got, expected; ///< there
};

/// Compares at `points` until `seconds` have passed (at least the first 64 points).
Comparison compare_points(Evaluator &evaluator, int output, int value_index,
                          const std::vector<std::vector<int>> &points,
                          const std::function<Value(const std::vector<int> &)> &got, double seconds);

/// Answers that need no computing: `zeros`, `constant` (the mean of the reference), `identity` (an input of the
/// same rank copied). Returns the name of one that would pass at `points`, or "".
std::string trivial_answer(Evaluator &evaluator, int output, int value_index,
                           const std::vector<std::vector<int>> &points,
                           const std::vector<std::function<Value(const std::vector<int> &)>> &inputs);

/// Whether references for two draws of the inputs differ anywhere by more than their bounds.
bool differ(const std::vector<Value> &a, const std::vector<Value> &b, const Halide::Type &type);

/// K0806 in full, for a comparison that failed.
Diagnostic wrong_result(const std::string &argument, const Comparison &comparison, const Halide::Type &type,
                        bool is_untouched, const std::string &probe, uint64_t seed);

} // namespace kiln
