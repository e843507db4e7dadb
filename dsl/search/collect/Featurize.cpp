// Timings to samples: the features of each schedule on the device that it ran on.
#include "dsl/schedule/Parser.h"
#include "dsl/search/collect/Timings.h"
#include "dsl/search/space/Problem.h"
#include "dsl/support/Diagnostic.h"

namespace kiln::search {

namespace {

/// Places in TimingFile::timings, by device and problem.
using Groups = std::map<std::pair<std::string, std::string>, std::vector<size_t>>;

Problem problem_of_timing(const Timing &t, const Device &device) {
    Workload w;
    w.extents = t.extents;
    w.scalars = t.scalars;
    return problem_of(t.generator, t.params, w, device.target, device);
}

} // namespace

std::vector<Sample> samples_of(const TimingFile &file, std::map<std::string, size_t> &left_out,
                               const std::function<void(size_t)> &progress) {
    Groups groups;
    for (size_t i = 0; i < file.timings.size(); i++) {
        groups[{file.timings[i].device, file.timings[i].problem_key()}].push_back(i);
    }
    std::vector<Sample> samples;
    size_t done = 0;
    for (const auto &[key, places] : groups) {
        const Timing &first = file.timings[places[0]];
        std::unique_ptr<Problem> problem;
        try {
            problem = std::make_unique<Problem>(problem_of_timing(first, file.devices.at(first.device)));
        } catch (const Error &e) {
            left_out[e.diagnostics.front().code + " " + e.diagnostics.front().message] += places.size();
        }
        for (size_t i : places) {
            const Timing &t = file.timings[i];
            if (progress) {
                progress(done);
            }
            done++;
            if (!problem) {
                continue;
            }
            try {
                ParseResult parsed = parse_schedules(t.schedule, "timing");
                if (!parsed.ok() || parsed.schedules.size() != 1) {
                    left_out["a schedule that does not parse"]++;
                    continue;
                }
                Sample s;
                s.features = features(*problem, parsed.schedules[0]);
                s.ms = t.ms;
                s.problem = problem->name();
                s.device = t.device;
                s.operation = t.operation;
                samples.push_back(std::move(s));
            } catch (const Error &e) {
                left_out[e.diagnostics.front().code]++;
            }
        }
    }
    return samples;
}

} // namespace kiln::search
