/** \file
 * What a collection keeps: schedules as text with their times, and the devices that they ran on. Features are computed
 * from them when they are needed, so that better features do not need new measurements.
 */
#pragma once

#include "dsl/generator/Generator.h"
#include "dsl/search/model/Model.h"
#include "dsl/target/Device.h"

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace kiln::search {

constexpr int timings_version = 1;

/// A schedule of a problem and its time on a device.
struct Timing {
    std::string device; ///< label of a TimingFile::devices
    std::string generator;
    std::map<std::string, std::string> params;
    std::map<std::string, std::vector<int64_t>> extents;
    std::map<std::string, double> scalars;
    std::string operation; ///< Sample::operation
    std::string schedule;  ///< text, in full
    std::string origin;    ///< Candidate::origin
    double ms = 0;
    /// Generator, parameters and extents in one line: timings of one problem have one key.
    std::string problem_key() const;
};

struct TimingFile {
    std::map<std::string, Device> devices; ///< by label
    std::vector<Timing> timings;
};

/// Appends JSON lines: a first line that names the version, the device where the file has no such label yet, the timings.
/// Throws Error K1360 where the file is none of this kind, K0935 where it cannot be written.
void append_timings(const std::filesystem::path &path, const std::string &label, const Device &device,
                    const std::vector<Timing> &timings);

/// All of these files; a last line that was cut short is passed over. Throws Error K1360 where a line is no timing, K0930
/// and others as read_text_file.
TimingFile read_timings(const std::vector<std::filesystem::path> &paths);

/// Features of all timings, problem by problem. Those whose generator is not loaded, or whose schedule is no longer legal,
/// are left out and counted in `left_out` by reason. `progress` gets timings done.
std::vector<Sample> samples_of(const TimingFile &file, std::map<std::string, size_t> &left_out,
                               const std::function<void(size_t)> &progress = {});

} // namespace kiln::search
