#include "dsl/search/space/Problem.h"

#include "dsl/generator/Create.h"
#include "dsl/schedule/apply/Condition.h"
#include "dsl/schedule/apply/Describe.h"
#include "dsl/search/space/Algorithm.h"
#include "dsl/search/space/Forms.h"
#include "dsl/support/Diagnostic.h"
#include "dsl/target/SeenBy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

namespace kiln::search {

namespace {

[[noreturn]] void fail(const char *code, std::string message, std::string help) {
    Diagnostic d;
    d.code = code;
    d.message = std::move(message);
    d.helps.push_back(std::move(help));
    throw Error(std::move(d));
}

std::optional<int64_t> constant(const Halide::Expr &e) {
    if (!e.defined()) {
        return std::nullopt;
    }
    Halide::Expr simple = Halide::Internal::simplify(e);
    auto value = Halide::Internal::as_const_int(simple);
    return value ? std::optional<int64_t>(*value) : std::nullopt;
}

} // namespace

std::string Problem::name() const {
    std::string text = generator.empty() ? fmt::format("{}", fmt::join(info.outputs, "+")) : generator;
    for (const auto &[param, value] : parameters) {
        text += fmt::format(" {}={}", param, value);
    }
    for (const auto &[buffer, size] : extents) {
        text += fmt::format(" {}={}", buffer, fmt::join(size, "x"));
    }
    return text;
}

Problem make_problem(Problem facts) {
    facts.info = describe_pipeline(facts.outputs, facts.generator);
    for (const std::string &output : facts.info.outputs) {
        auto extents = facts.extents.find(output);
        if (extents == facts.extents.end() && facts.extents.count(output + ".0")) {
            facts.extents[output] = facts.extents.at(output + ".0");
            extents = facts.extents.find(output);
        }
        size_t rank = facts.info.find(output)->args.size();
        if (extents == facts.extents.end() || extents->second.size() != rank) {
            fail(
                "K1301", fmt::format("no sizes of the {}-dimensional output `{}`", rank, output),
                fmt::format("name them, innermost first: `{}={}`", output, rank == 1 ? "1000" : "1000x1000"));
        }
    }
    facts.device = seen_by(std::move(facts.device), facts.target);
    read_algorithm(facts);
    facts.forms = std::make_shared<ProblemForms>();
    if (const GeneratorInfo *info = find_generator_info(facts.generator)) {
        facts.alternatives = info->alternatives;
        std::erase_if(facts.alternatives, [&](const auto &a) { return facts.parameters.count(a.first); });
    }
    return facts;
}

Problem problem_of(const std::string &generator, const std::map<std::string, std::string> &parameters,
                   const Workload &workload, const Target &target, const Device &device) {
    Problem p;
    p.generator = generator;
    p.parameters = parameters;
    for (const auto &[name, value] : workload.params) {
        p.parameters[name] = value;
    }
    p.target = target;
    p.device = device;
    p.scalars = workload.scalars;
    auto instance = create_generator(generator, p.parameters, Halide::Target(target.halide()));
    p.outputs = instance->build_pipeline().outputs();
    // A workload may name optional buffers that this build has not.
    std::set<std::string> buffers;
    for (const auto &[name, f] : funcs_of(p.outputs)) {
        buffers.insert(name);
    }
    for (const auto &[name, extents] : workload.extents) {
        if (buffers.count(name) || buffers.count(name.substr(0, name.find('.')))) {
            p.extents[name] = extents;
        }
    }
    return make_problem(std::move(p));
}

Problem problem_of(const std::vector<Halide::Func> &outputs, const Target &target, const Device &device) {
    Problem p;
    p.outputs = outputs;
    p.target = target;
    p.device = device;
    FuncMap funcs = funcs_of(outputs);
    for (const Halide::Func &output : outputs) {
        const Halide::Internal::Function &f = output.function();
        std::vector<int64_t> extents;
        for (int d = 0; d < f.dimensions(); d++) {
            std::optional<int64_t> extent;
            for (const Halide::Internal::Bound &estimate : f.schedule().estimates()) {
                if (estimate.var == f.args()[d]) {
                    extent = constant(estimate.extent);
                }
            }
            if (!extent && !f.output_buffers().empty()) {
                extent = constant(f.output_buffers()[0].extent_constraint_estimate(d));
            }
            if (!extent) {
                fail("K1302",
                     fmt::format("no estimate of the output `{}` along `{}`", schedule_name(f), f.args()[d]),
                     "give it one in the generator: `output.set_estimates({{0, 1000}, …})`");
            }
            extents.push_back(*extent);
        }
        p.extents[schedule_name(f)] = extents;
    }
    PipelineParameters parameters = parameters_of(funcs);
    for (const auto &[name, parameter] : parameters.buffers) {
        std::vector<int64_t> extents;
        for (int d = 0; d < parameter.dimensions(); d++) {
            auto extent = constant(parameter.extent_constraint_estimate(d));
            if (!extent) {
                extent = constant(parameter.extent_constraint(d));
            }
            if (extent) {
                extents.push_back(*extent);
            }
        }
        // Without an estimate of its own, an input's size is what the outputs need of it.
        if (static_cast<int>(extents.size()) == parameter.dimensions()) {
            p.extents[name] = extents;
        }
    }
    for (const auto &[name, parameter] : parameters.scalars) {
        if (auto value = constant(parameter.estimate())) {
            p.scalars[name] = static_cast<double>(*value);
        }
    }
    return make_problem(std::move(p));
}

} // namespace kiln::search
