/** \file
 * A scheduled problem as numbers: one row for each loop nest and tile kernel, all targets in one vocabulary
 * (FeatureNames.def has each column's unit and formula). Plain data: no Halide, no schedule.
 */
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

namespace kiln {
struct Schedule;
struct ScheduleAnalysis;
} // namespace kiln

namespace kiln::search {

struct Problem;

enum class Feature {
#define KILN_FEATURE(NAME, UNIT, DOC) NAME,
#include "dsl/search/features/FeatureNames.def"
#undef KILN_FEATURE
};

/// Names of the columns, in order; unit and formula of each.
const std::vector<std::string> &feature_names();
const std::vector<std::string> &feature_units();
const std::vector<std::string> &feature_docs();

struct FeatureRow {
    std::string stage;         ///< `acc.update()`; of a tile kernel its Func
    std::vector<float> values; ///< feature_names().size() of them, in the units named there
    double estimate_ms = 0; ///< Roofline's (Roofline.h), its share of overlap with others taken into account

    FeatureRow();
    float &operator[](Feature f) { return values[static_cast<size_t>(f)]; }
    float operator[](Feature f) const { return values[static_cast<size_t>(f)]; }
};

struct Features {
    std::vector<FeatureRow> rows; ///< producers first
    double total(Feature f) const;
    double largest(Feature f) const;
    /// Null where there is no such row.
    const FeatureRow *find(const std::string &stage) const;
};

/// Of a schedule that is legal for the problem (Space gives no other): loops from the loop nest, tile kernels from tile
/// IR before it is emitted. Throws Error with the checker's or the tile compiler's diagnostics where it is not.
Features features(const Problem &problem, const Schedule &schedule);

/// Milliseconds by the roofline: the rows' sum.
double estimate_ms(const Features &features);

} // namespace kiln::search
