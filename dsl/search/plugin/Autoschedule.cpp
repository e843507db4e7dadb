#include "dsl/search/plugin/Autoschedule.h"

#include "dsl/schedule/Canonical.h"
#include "dsl/schedule/apply/Apply.h"
#include "dsl/search/plugin/BestPredicted.h"
#include "dsl/search/plugin/GuardTails.h"
#include "dsl/search/plugin/Parameters.h"
#include "dsl/search/plugin/ScheduleSource.h"
#include "dsl/search/plugin/UniqueNames.h"
#include "dsl/support/Diagnostic.h"

#include <fmt/format.h>

#include <iostream>

namespace kiln::search {

namespace {

using Halide::Func;

[[noreturn]] void fail(const char *code, std::string message, std::string note, std::string help) {
    Diagnostic d;
    d.code = code;
    d.message = std::move(message);
    d.notes = {std::move(note)};
    d.helps = {std::move(help)};
    throw Error(std::move(d));
}

Target target_of(const Halide::Target &t) {
    Target target;
    if (t.has_feature(Halide::Target::CUDA)) {
        target.backend = Backend::Cuda;
        int capability = t.get_cuda_capability_lower_bound();
        if (std::vector<std::string> known = target_features(Backend::Cuda); capability > 0) {
            std::string name = fmt::format("sm_{}", capability);
            target.feature = std::find(known.begin(), known.end(), name) == known.end() ? "" : name;
        }
        return target;
    }
    if (t.has_feature(Halide::Target::OpenCL)) {
        target.backend = Backend::OpenCL;
        return target;
    }
    if (t.has_gpu_feature() || t.has_feature(Halide::Target::HVX)) {
        fail("K1356", fmt::format("`autoscheduler=Kiln` does not know the target `{}`", t.to_string()),
             "it schedules for CPUs, CUDA and OpenCL", "leave the other device's feature out of the target");
    }
    using H = Halide::Target;
    target.feature =
        t.has_feature(H::AVX512_SapphireRapids) ? "amx"
        : t.has_feature(H::AVX512_Zen4)         ? "avx512_bf16"
        : t.has_feature(H::AVX512) || t.has_feature(H::AVX512_Skylake) || t.has_feature(H::AVX512_Cannonlake)
            ? "avx512"
        : t.has_feature(H::AVX2)  ? "avx2"
        : t.has_feature(H::SSE41) ? "sse41"
                                  : "";
    return target;
}

/// A Func that somebody has scheduled keeps what they chose only by chance: better to say so.
void refuse_scheduled(const FuncMap &funcs, const std::vector<Func> &outputs) {
    for (const auto &[name, func] : funcs) {
        Halide::Internal::Function f = func.function();
        f.lock_loop_levels(); // Halide shows no place before
        bool is_output = false;
        for (const Func &output : outputs) {
            is_output |= output.name() == func.name();
        }
        bool touched = !is_output && f.has_pure_definition() && !f.schedule().compute_level().is_inlined();
        auto look = [&](const Halide::Internal::StageSchedule &s) {
            touched |= !s.splits().empty();
            for (const Halide::Internal::Dim &d : s.dims()) {
                touched |= d.for_type != Halide::Internal::ForType::Serial;
            }
        };
        if (f.has_pure_definition()) {
            look(f.definition().schedule());
        }
        for (const Halide::Internal::Definition &u : f.updates()) {
            look(u.schedule());
        }
        if (touched) {
            fail("K1357", fmt::format("`{}` has a schedule before the autoscheduler runs", name),
                 "an autoscheduler chooses the whole schedule",
                 "schedule by hand only where `!using_autoscheduler()`");
        }
    }
}

/// Whether Halide lowers the schedule on a copy; if not, what it says.
bool lowers(const std::vector<Func> &outputs, const std::map<std::string, std::string> &names,
            const Schedule &canonical, const Target &target, const Halide::Target &halide_target,
            std::string &why) {
    std::vector<Func> copy = plain_copy(outputs);
    FuncMap funcs = funcs_by_name(copy, names);
    try {
        apply_schedule(canonical, funcs, target);
        Halide::Pipeline pipeline(copy);
        pipeline.compile_to_module(pipeline.infer_arguments(), "trial", halide_target);
        return true;
    } catch (const Halide::Error &e) {
        why = e.what();
    } catch (const Error &e) {
        why = e.what();
    }
    return false;
}

void run(const Halide::Pipeline &pipeline, const Halide::Target &halide_target,
         const Halide::AutoschedulerParams &params, Halide::AutoSchedulerResults &results) {
    PluginParameters given = plugin_parameters(params);
    Target target = target_of(halide_target);
    Model model = given.weights_path.empty() ? Model::shipped() : Model::load(given.weights_path);
    std::vector<Func> outputs = pipeline.outputs();
    std::map<std::string, std::string> names = unique_names(outputs);
    FuncMap funcs = funcs_by_name(outputs, names);
    refuse_scheduled(funcs, outputs);

    Problem problem =
        problem_of(renamed_copy(outputs, names), target, nominal_device(target, given.parallelism));
    std::unique_ptr<Space> space = pipeline_space(problem);
    PredictOptions options;
    options.seconds = given.time_budget;
    options.candidates = given.candidates;
    options.beam = given.beam_size;
    options.seed = given.seed;
    Candidate chosen = best_predicted(problem, *space, model, options).candidate;
    auto for_any_size = [&](const Candidate &c) {
        return guard_tails(canonical(c.schedule, c.knobs), problem.info);
    };
    Schedule schedule = for_any_size(chosen);
    std::string why;
    if (!lowers(outputs, names, schedule, target, halide_target, why)) {
        std::cerr << fmt::format(
            "Kiln: Halide does not lower the schedule that was chosen; the plain one is used. {}\n", why);
        schedule = for_any_size(space->plain());
    }
    // The text is made first: it describes the pipeline as it is without the schedule.
    std::string source = schedule_source(schedule, {}, problem.info, pipeline, names);
    apply_schedule(schedule, funcs, target);
    results.target = halide_target;
    results.autoscheduler_params = params;
    results.schedule_source = std::move(source);
}

} // namespace

void autoschedule(const Halide::Pipeline &pipeline, const Halide::Target &target,
                  const Halide::AutoschedulerParams &params, Halide::AutoSchedulerResults *results) {
    Halide::AutoSchedulerResults unused;
    try {
        run(pipeline, target, params, results ? *results : unused);
    } catch (const Error &e) {
        throw Halide::CompileError(render_all(e.diagnostics, ""));
    }
}

} // namespace kiln::search
