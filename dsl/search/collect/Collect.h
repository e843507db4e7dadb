/** \file
 * A data set for the cost model: candidates of many problems, spread over slow and fast ones, with their times.
 */
#pragma once

#include "dsl/search/collect/TimeCandidates.h"
#include "dsl/search/collect/Timings.h"
#include "dsl/target/Device.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace kiln::search {

/// What to sample from.
struct CollectWork {
    std::string generator;
    std::map<std::string, std::string> params;
    Workload workload;
    std::string operation; ///< Sample::operation
};

struct CollectOptions {
    Target target;
    Device device;
    int threads = 1, jobs = 2;
    size_t of_problem = 32; ///< candidates of each problem
    double budget_s = 0;    ///< of wall clock; 0: no limit. The problem at hand is finished
    uint64_t seed = 1;
    std::filesystem::path output; ///< grows; problems that it has already on this device are passed over
    /// Called with problems done, problems in all, and what is at hand. Also with a note where a problem gave nothing.
    std::function<void(size_t, size_t, const std::string &)> progress;
};

struct CollectReport {
    size_t problems = 0, samples = 0;
    size_t left = 0;                      ///< problems that the budget left for the next time
    std::map<std::string, size_t> failed; ///< candidates that gave no time, by reason
    std::vector<std::string> notes;       ///< problems that gave nothing, and why
};

/// The plain schedule and seeds, candidates from anywhere, and then neighbours of the fastest so far, a third each: a model
/// must tell good from bad, and good from better. Generators must be loaded.
CollectReport collect(const std::vector<CollectWork> &work, const CollectOptions &options);

/// The device's name as samples carry it: a CPU's with the target and the number of threads.
std::string device_label(const Device &device, int threads);

/// Pipelines drawn by seed (bench/pipelines/random_pipeline.cpp) and all workloads of the loaded generators that fit: at
/// sizes of their own and scaled ones.
std::vector<CollectWork> default_work(int random_pipelines, uint64_t seed);

} // namespace kiln::search
