/** \file
 * Taking times: two pieces of work in turn, with warm and with cold caches. What the times say: Statistics.h.
 */
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace kiln {

/// Something to time. `queue` starts one execution, `wait` returns when all that was started is done (for
/// synchronous work it does nothing).
struct Work {
    std::function<void()> queue;
    std::function<void()> wait = [] {};
};

struct MeasureOptions {
    double seconds = 1.0; ///< for all samples of both, warm; as long again for cold ones
    int min_rounds = 9, max_rounds = 400;
    double min_sample_s = 200e-6; ///< a warm sample repeats its work until it lasts this long
    std::function<void()> flush;  ///< empties the caches; without it there are no cold samples
    uint64_t seed = 1;            ///< of the order within each pair
};

/// Seconds of one execution. warm[i] and baseline_warm[i] ran next to each other, in random order.
struct Measurement {
    double first = 0; ///< the very first execution of the candidate
    std::vector<double> warm, cold, baseline_warm, baseline_cold;
    int repeats = 1, baseline_repeats = 1; ///< executions in a warm sample
};

/// `baseline` may have no `queue`. Host clock, read after `wait`: queueing alone is never what is timed.
Measurement measure(const Work &candidate, const Work &baseline, const MeasureOptions &options);

/// Overwrites `bytes` of memory that is kept for that, with all the caches in its way.
class HostFlush {
public:
    explicit HostFlush(size_t bytes) : memory_(bytes, 1) {}
    void operator()();

private:
    std::vector<unsigned char> memory_;
};

} // namespace kiln
