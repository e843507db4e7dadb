/** \file
 * One draw of inputs, what the algorithm gives for them, and whether a kernel gave the same.
 */
#pragma once

#include "dsl/check/Compare.h"
#include "dsl/check/Problem.h"
#include "dsl/search/measure/Measurer.h"

#include <optional>
#include <string>
#include <vector>

namespace kiln::search {

/// What comparing found.
struct Verdict {
    std::optional<Diagnostic> fault;
    double error = 0, bound = 0; ///< of the element nearest to its bound
    int64_t checked = 0;         ///< against the reference, and against the incumbent
};

/// Buffers for candidate and incumbent, in memory that children share, and the reference for what is in them. They are
/// made once and filled for each trial: whatever a kernel did to its inputs is gone.
///
/// There are two sets of inputs: small whole numbers, whose results are exact, for the first call; random numbers for the
/// calls that are timed. A kernel that keeps what it computed first, and not what it is asked, is found out.
class Draw {
public:
    /// Generators must be loaded. Throws as kiln::Algorithm and kiln::Problem do.
    explicit Draw(const MeasureSetup &setup);

    /// Fills inputs and poisons outputs; the references are computed at outputs at the edges and at random ones. Where
    /// that takes longer than `reference_s`, a draw serves four trials. Returns the seed of the draw.
    uint64_t fill(uint64_t seed);

    kiln::Problem &first() { return *first_.problem; }
    kiln::Problem &ours() { return *timed_.problem; }
    kiln::Problem &theirs() { return *theirs_; }

    /// Whether what is in `first` is right: no damage around outputs and in inputs (K0807, K0808), no element as poisoned,
    /// the reference's values (K0806).
    Verdict judge_first();
    /// The same of `ours`; with `has_incumbent` also nothing far from what is in `theirs`, which was found right: an
    /// element that differs is held against the reference.
    Verdict judge_timed(bool has_incumbent);

private:
    struct Expected {
        int argument = 0, output = 0, value_index = 0;
        std::vector<std::vector<int>> points;
        std::vector<Value> values;
    };
    struct Side {
        explicit Side(const MeasureSetup &setup);
        kiln::Algorithm algorithm;
        std::unique_ptr<kiln::Problem> problem;
        std::vector<Expected> expected;
        std::string inputs; ///< in words
    };

    const MeasureSetup &setup_;
    Side first_, timed_;
    std::unique_ptr<kiln::Problem> theirs_;
    uint64_t seed_ = 0;
    int uses_left_ = 0;

    void compute_reference(Side &side, kiln::Problem &inputs);
    Diagnostic wrong(Side &side, int argument, const Comparison &comparison);
    void judge_points(Side &side, const Expected &expected, Verdict &verdict, double &widest);
    void judge_whole(Side &side, const Expected &expected, kiln::Problem *against, double widest,
                     Verdict &verdict);
    Verdict judge(Side &side, kiln::Problem *against);
};

} // namespace kiln::search
