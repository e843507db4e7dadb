#include "tests/correctness/tile_scheduled.h"

#include "dsl/schedule/Canonical.h"
#include "dsl/schedule/CheckSchedule.h"
#include "dsl/schedule/Parser.h"
#include "dsl/schedule/apply/Describe.h"
#include "dsl/tile/build/Build.h"
#include "dsl/tile/build/ReadPlan.h"
#include "dsl/tile/ir/Text.h"
#include "dsl/tile/passes/Runner.h"
#include "tests/correctness/tile_launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace kiln::tile {

double Values::most(int64_t n, const std::function<double(int64_t)> &f) {
    double m = -std::numeric_limits<double>::infinity();
    for (int64_t i = 0; i < n; i++) {
        m = std::max(m, f(i));
    }
    return m;
}

Formula each(const std::function<double(const Values &, const Index &)> &element) {
    return [element](const Values &v, const Index &at, int64_t n) {
        Index index(at.size() + 1);
        std::copy(at.begin(), at.end(), index.begin() + 1);
        std::vector<double> row;
        for (index[0] = 0; index[0] < n; index[0]++) {
            row.push_back(element(v, index));
        }
        return row;
    };
}

Kernel scheduled_kernel(const ScheduledProgram &p) {
    const Target target = Target::parse("cuda sm_90a");
    const std::string text =
        p.schedule.find("schedule ") != std::string::npos
            ? p.schedule
            : fmt::format("schedule {} {{\n  target cuda sm_90a\n{}}}\n", p.name, p.schedule);
    auto clean = [](const std::vector<Diagnostic> &found) {
        if (has_errors(found)) {
            throw Error(found);
        }
    };
    const ParseResult parsed = parse_schedules(text, p.name + ".sched");
    clean(parsed.diagnostics);
    std::vector<Diagnostic> faults;
    const KnobValues knobs = complete_knobs(parsed.schedules.at(0), p.knobs, faults);
    clean(faults);
    const CanonicalResult canonical = canonicalize(parsed.schedules.at(0), knobs);
    clean(canonical.diagnostics);
    const PipelineInfo info = describe_pipeline(p.outputs, parsed.schedules.at(0).op);
    const ScheduleAnalysis analysis = analyse_schedule(canonical.schedule, info, target, limits_of(target));
    clean(analysis.diagnostics);
    const std::vector<TileGroup> groups = tile_groups(analysis.nest);
    if (groups.size() != 1) {
        throw std::runtime_error(fmt::format("{} tile kernels", groups.size()));
    }
    TilePlan plan = read_plan(groups.at(0));
    fit_target(plan, target);
    Kernel k = build_kernel(plan, p.outputs);
    k.name = p.name;
    return run_passes(std::move(k), limits_of(target));
}

Data data_of(const ScheduledProgram &p, const Extents &size, unsigned seed) {
    Data d;
    d.inputs = Reference({p.name, p.outputs, {}, p.inputs, {}}).data(size, seed);
    const Values values(d.inputs);
    for (const auto &[name, formula] : p.wanted) {
        Array &a = d.wanted[name] = d.inputs.at(name);
        const int64_t n = a.extents.at(0);
        Index at(a.extents.size() - 1);
        for (int64_t i = 0; i < a.size(); i += n) {
            const std::vector<double> row = formula(values, at, n);
            Index index(a.extents.size());
            std::copy(at.begin(), at.end(), index.begin() + 1);
            for (index[0] = 0; index[0] < n; index[0]++) {
                a.set(a.offset(index), row.at(static_cast<size_t>(index[0])));
            }
            for (size_t dim = 0; dim < at.size() && ++at[dim] == a.extents[dim + 1]; dim++) {
                at[dim] = 0;
            }
        }
    }
    return d;
}

std::string interpreted(const ScheduledProgram &p, const Kernel &k) {
    unsigned seed = 1;
    for (const Extents &size : p.sizes) {
        const Data d = data_of(p, size, seed);
        for (const When when : {When::Early, When::Late, When::Random}) {
            Memory memory = d.inputs;
            const Outcome out = interpret(k, memory, {when, when, when, seed++, 2 * k.cluster_blocks()});
            const std::string wrong = out.fault.empty() ? compare(memory, d.wanted, p.ulps) : out.fault;
            if (!wrong.empty()) {
                return wrong + "\n" + print(k);
            }
        }
    }
    return "";
}

std::string emulated(const Emulation &emulation, size_t number, const ScheduledProgram &p,
                     const Extents &size, unsigned seed) {
    const Data d = data_of(p, size, seed);
    Memory m;
    for (const auto &[name, a] : d.inputs) {
        m[name] = spread(a);
    }
    const Memory before = m;
    const std::string fault = emulation.launch(number, m);
    return (fault.empty() ? compare(m, d.wanted, p.ulps) : fault) + written_outside(before, m, d.wanted);
}

} // namespace kiln::tile
