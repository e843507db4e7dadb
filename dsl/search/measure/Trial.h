/** \file
 * One candidate's way through building, checking and timing, and how it ended. Plain data that travels between
 * processes as JSON.
 */
#pragma once

#include "dsl/support/Diagnostic.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace kiln::search {

/// How a trial ended. Each costs one trial and no more.
enum class Status {
    Ok,       ///< right, and timed
    Refused,  ///< the checker, Halide or the tile compiler does not take the schedule
    NotBuilt, ///< the compiler crashed or failed
    BuildTooLong,
    OutOfMemory, ///< while it was built or run
    Wrong,       ///< its results differ, or it wrote where it must not
    Crashed,     ///< the process that ran it died
    TooLong,     ///< it did not end in time
    DeviceFault, ///< the kernel returned an error, or the device did
    Incredible,  ///< faster than the device's ceilings allow: not believed
    Lost,        ///< whoever measured it is gone
};

/// `ok`, `refused`, `not built`, `build too long`, `out of memory`, `wrong`, `crashed`, `too long`, `device fault`,
/// `incredible`, `lost`.
const char *status_name(Status status);
/// Lost where there is no such name.
Status status_from_name(const std::string &name);

/// What is to be measured: a schedule, for the problem that the measurer was set up with.
struct Job {
    int64_t number = 0;   ///< of the trial in its run, from 1
    std::string schedule; ///< text of one schedule, in full
    std::map<std::string, std::string> knobs;
    std::string origin; ///< as Candidate::origin
    uint64_t seed = 0;  ///< of its inputs
    /// The schedule that runs in turn with it, right and built before; "" for none.
    std::string incumbent;
    std::map<std::string, std::string> incumbent_knobs;
};

/// Times of one load regime.
struct Times {
    double ms = 0, low = 0, high = 0; ///< median of one call, warm caches, with its 95 % interval
    double incumbent_ms = 0;          ///< in the same run
    /// incumbent's time over this one's, pair by pair, with its 95 % interval; 0 without an incumbent.
    double ratio = 0, ratio_low = 0, ratio_high = 0;
    int samples = 0;
    bool stopped = false; ///< so much slower than the incumbent that a few samples were enough
};

struct Outcome {
    int64_t number = 0;
    Status status = Status::Lost;
    std::string message; ///< one line: why it is not Ok; "" where it is
    std::vector<Diagnostic> diagnostics;
    Times times;                 ///< calls one after the other: on a GPU under its power limit
    Times cool;                  ///< on a GPU, where asked for: with idle time between short bursts
    double error = 0, bound = 0; ///< the element nearest to its bound, and that bound
    int64_t checked = 0;         ///< elements held against the reference, before and after timing
    uint64_t seed = 0;           ///< of the inputs: the job's, or an earlier one's where a reference is dear
    double build_s = 0, check_s = 0, time_s = 0;
    int registers = 0, spill_bytes = 0, shared_bytes = 0; ///< of its tile kernels, the most
    std::vector<std::string> remarks; ///< of the GPU's compiler: serialised products, ignored registers
    std::vector<std::string> flags;   ///< what to doubt: "clock drift", "noisy"
    bool ok() const { return status == Status::Ok; }
};

nlohmann::json to_json(const Job &job);
Job job_from_json(const nlohmann::json &json);
nlohmann::json to_json(const Times &times);
Times times_from_json(const nlohmann::json &json);
nlohmann::json to_json(const Outcome &outcome);
Outcome outcome_from_json(const nlohmann::json &json);

} // namespace kiln::search
