/** \file
 * What a list of times says: medians, intervals, whether the clock drifted while it was taken.
 */
#pragma once

#include <cstdint>
#include <vector>

namespace kiln {

struct Interval {
    double value = 0, low = 0, high = 0;
};

/// The middle of the values (mean of the two middle ones); 0 of none.
double median(std::vector<double> values);

/// The value below which a fraction `q` lies, by linear interpolation.
double quantile(std::vector<double> values, double q);

/// The median and its 95 % interval by order statistics (binomial), which assumes no distribution.
Interval median_interval(const std::vector<double> &values);

/// The median of baseline[i] / candidate[i] over the pairs that ran in turn, with its 95 % interval by a bootstrap
/// of `resamples` over blocks of neighbouring pairs (times close to each other share a clock and a cache).
Interval paired_ratio(const std::vector<double> &candidate, const std::vector<double> &baseline,
                      uint64_t seed = 1, int resamples = 2000);

/// |median of the last third / median of the first third - 1|: above about 0.05 the clock, or the load, drifted.
double drift(const std::vector<double> &values);

/// Interquartile range over the median: above about 0.1 the times are noisy.
double spread(const std::vector<double> &values);

/// exp(mean(log)): the mean of ratios.
double geometric_mean(const std::vector<double> &values);

} // namespace kiln
