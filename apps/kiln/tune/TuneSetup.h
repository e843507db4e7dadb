/** \file
 * From the options of `kiln tune` (and of whatever asks for a tuned schedule) to a problem, a device and a space.
 */
#pragma once

#include "apps/kiln/Generators.h"
#include "dsl/search/measure/Measurer.h"
#include "dsl/search/search/Bound.h"
#include "dsl/search/search/Search.h"

#include <memory>
#include <string>
#include <vector>

namespace kiln::cli {

/// Which sizes, on which device.
struct TuneQuestion {
    std::string generator;
    std::vector<std::filesystem::path> load;
    Params params;
    Target target;
    int device = -1;                 ///< among those of the backend; -1: the first that runs the target
    std::string work;                ///< a workload's name; "": the first for timing
    std::vector<std::string> shapes; ///< `x=512x256`, instead of a workload
    int threads = 0;
};

struct TuneSetup {
    search::Problem problem;
    search::MeasureSetup measure;
    search::Bound bound;
    bool calibrated_now = false; ///< the device had no entry, and has one now
};

/// A target in a user's words: `host` is the CPU of this machine with all that it has.
Target tuning_target(const std::string &text);

/// The workload that a question means. Throws K0805 for a name that is none, K1330 for a shape that says nothing or
/// names no buffer.
Workload workload_of(const TuneQuestion &question);

/// The device of a question. `--target cuda` alone means whatever the device is: its own target takes its place. Throws
/// K0903 where there is none, K1331 where none has that number.
Device device_of(TuneQuestion &question);

/// Builds the pipeline in this process (once in a child before, so that a generator that crashes is a diagnostic);
/// calibrates the device where `may_calibrate` and it has no ceilings yet. Generators must be loaded.
TuneSetup set_up(TuneQuestion question, bool may_calibrate);

/// `kiln tune gemm --target cpu-avx2 …` that measures for this question.
std::string tune_command_line(const TuneQuestion &question);

/// The space of `--schedule FILE`: the members of the family there that is for the generator and target; "" gives the
/// pipeline's whole space. `name` gets Run::space. Throws K1332 where the file has none with knobs for them.
std::unique_ptr<search::Space> space_of(const TuneSetup &setup, const std::string &file, std::string &name,
                                        std::map<std::string, std::string> &sources);

/// Schedules for the generator and target out of files, or folders as `schedules/`: where to start from. Of a family the
/// first legal member.
std::vector<search::Candidate> starts_of(const TuneSetup &setup, const std::vector<std::string> &paths);

} // namespace kiln::cli
