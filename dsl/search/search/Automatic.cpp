#include "dsl/search/search/Automatic.h"

#include "dsl/generator/Load.h"
#include "dsl/search/search/Tuned.h"

#include <algorithm>
#include <iostream>

namespace kiln::search {

std::vector<VariantRequest> automatic_schedule(const BuildRequest &request, const Target &target) {
    const GeneratorInfo *info = find_generator_info(request.generator);
    Workload workload;
    for (const Workload &w : info ? info->workloads : std::vector<Workload>()) {
        bool fits = std::all_of(w.params.begin(), w.params.end(), [&](const auto &p) {
            auto given = request.params.find(p.first);
            return given == request.params.end() || given->second == p.second;
        });
        if (fits && (workload.extents.empty() || (w.bench && !workload.bench))) {
            workload = w;
        }
    }
    Device device;
    try {
        device = device_for(target);
    } catch (const Error &) {
        device = nominal_device(target);
    }
    Problem problem = problem_of(request.generator, request.params, workload, target, device);
    TunedSchedule tuned = tuned_schedule(
        problem, "kiln tune " + request.generator + " --target " + target.str(), Database::standard_path());
    for (const Diagnostic &d : tuned.warnings) {
        std::cerr << render(d, "") << "\n";
    }
    return variants_of(problem, tuned.text);
}

} // namespace kiln::search
