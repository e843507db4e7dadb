/** \file
 * Rivals made by Halide's own searchers: the same algorithm, scheduled by a stock plugin, compiled by Halide.
 */
#pragma once

#include "dsl/check/Problem.h"
#include "dsl/lower/BuildLibrary.h"

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace kiln {

/// `adams2019`, `mullapudi2016`, `li2018`, `anderson2021` (GPU).
const std::vector<std::string> &halide_searchers();

/// A plain Halide library with a runtime of its own, opened in this process.
class AutoscheduledLibrary {
public:
    /// Schedules for the workload's sizes and compiles to `folder`, in a child of at most `timeout_s`. Throws K0822 where
    /// the searcher fails, hangs or finds nothing.
    AutoscheduledLibrary(const std::string &searcher, const BuildRequest &build,
                         const std::map<std::string, std::string> &params, const Workload &workload,
                         const std::filesystem::path &folder, int threads, double timeout_s);
    ~AutoscheduledLibrary();
    AutoscheduledLibrary(const AutoscheduledLibrary &) = delete;
    AutoscheduledLibrary &operator=(const AutoscheduledLibrary &) = delete;

    /// Halide's own return code.
    int call(std::vector<void *> &arguments) const { return argv_(arguments.data()); }
    void set_threads(int n) const;
    int device_sync(halide_buffer_t *buffer) const;

private:
    void *handle_ = nullptr;
    int (*argv_)(void **) = nullptr;
};

} // namespace kiln
