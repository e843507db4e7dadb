#include "dsl/search/space/Alternatives.h"

#include "dsl/generator/Create.h"
#include "dsl/generator/Params.h"
#include "dsl/search/space/Forms.h"

#include <algorithm>

namespace kiln::search {

bool is_parameter(const Problem &problem, const std::string &name) {
    if (problem.generator.empty() || !problem.forms) {
        return false;
    }
    std::lock_guard<std::mutex> lock(problem.forms->mutex);
    std::optional<std::set<std::string>> &names = problem.forms->parameters;
    if (!names) {
        names.emplace();
        for (const ParamInfo &p :
             generator_params(problem.generator, Halide::Target(problem.target.halide()))) {
            names->insert(p.name);
        }
    }
    return names->count(name) > 0;
}

namespace {

/// The problem with more parameters, made once.
const Problem &form_of(const Problem &problem, const std::map<std::string, std::string> &chosen) {
    if (chosen.empty()) {
        return problem;
    }
    std::string key = problem.target.str() + "\n" + problem.device.key() + "\n" + problem.name();
    for (const auto &[name, value] : chosen) {
        key += "\n" + name + "=" + value;
    }
    std::lock_guard<std::mutex> lock(problem.forms->mutex);
    std::shared_ptr<const Problem> &slot = problem.forms->problems[key];
    if (!slot) {
        Problem facts;
        facts.generator = problem.generator;
        facts.parameters = problem.parameters;
        facts.parameters.insert(chosen.begin(), chosen.end());
        facts.extents = problem.extents;
        facts.scalars = problem.scalars;
        facts.target = problem.target;
        facts.device = problem.device;
        facts.outputs =
            create_generator(facts.generator, facts.parameters, Halide::Target(facts.target.halide()))
                ->build_pipeline()
                .outputs();
        slot = std::make_shared<const Problem>(make_problem(std::move(facts)));
    }
    return *slot;
}

} // namespace

const Problem &problem_of_schedule(const Problem &problem, const Schedule &schedule,
                                   const KnobValues &values) {
    if (schedule.knobs.empty()) {
        return problem;
    }
    std::map<std::string, std::string> chosen;
    std::vector<Diagnostic> elsewhere; // canonicalize reports them
    for (const auto &[knob, value] : complete_knobs(schedule, values, elsewhere)) {
        if (!problem.parameters.count(knob) && is_parameter(problem, knob)) {
            chosen[knob] = value;
        }
    }
    return form_of(problem, chosen);
}

const Problem &first_alternative(const Problem &problem) {
    std::map<std::string, std::string> chosen;
    for (const auto &[name, values] : problem.alternatives) {
        chosen[name] = values.at(0);
    }
    return form_of(problem, chosen);
}

} // namespace kiln::search
