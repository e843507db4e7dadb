#include "apps/kiln/ScheduleCheck.h"

#include "dsl/generator/Create.h"
#include "dsl/generator/Params.h"
#include "dsl/lower/CompileVariant.h"
#include "dsl/lower/Legalize.h"
#include "dsl/lower/ScheduleVariant.h"
#include "dsl/schedule/Canonical.h"
#include "dsl/schedule/CheckSchedule.h"
#include "dsl/schedule/DefaultSchedule.h"
#include "dsl/schedule/Print.h"
#include "dsl/schedule/TargetPattern.h"
#include "dsl/schedule/TileGroup.h"
#include "dsl/schedule/apply/Apply.h"
#include "dsl/schedule/apply/Describe.h"
#include "dsl/support/Files.h"
#include "dsl/support/Progress.h"

#include <Halide.h>
#include <fmt/format.h>

namespace kiln::cli {

namespace {

using Halide::Internal::AbstractGenerator;
using Halide::Internal::ArgInfoDirection;

std::vector<CheckedSchedule::Memory> memory_of(const LoopNest &nest) {
    std::vector<CheckedSchedule::Memory> out;
    for (const FuncNest &func : nest.funcs) {
        bool input = func.is_input && !func.is_wrapper;
        if (input || func.is_inlined() || func.is_output) {
            continue;
        }
        CheckedSchedule::Memory memory;
        memory.func = func.name;
        memory.compute_at = func.compute.str();
        memory.store_at = func.store.kind == NestLevel::Kind::Inlined ? func.compute.str() : func.store.str();
        memory.kind = func.memory;
        for (const auto &extent : func.stored_extents) {
            memory.extents.push_back(extent ? std::to_string(*extent) : "");
        }
        memory.bytes = func.stored_bytes().value_or(0);
        out.push_back(std::move(memory));
    }
    return out;
}

std::map<std::string, std::string> kernels_of(const LoopNest &nest) {
    std::map<std::string, std::string> kernels;
    for (const FuncNest &func : nest.funcs) {
        const FuncNest *at = &func;
        // No schedule nests deeper than it has Funcs; the bound is for one that is faulty.
        for (size_t i = 0;
             at && i <= nest.funcs.size() && at->compute.kind != NestLevel::Kind::Root && !at->is_output;
             i++) {
            if (at->compute.kind == NestLevel::Kind::At) {
                at = nest.find(at->compute.func);
            } else {
                at = at->callers.empty() ? nullptr : nest.find(at->callers.front());
            }
        }
        kernels[func.name] = at ? at->name : "";
    }
    return kernels;
}

/// What a build of the schedule is asked for, with knobs that name parameters of the generator as values of those.
CompileJob job_of(const Schedule &schedule, const CheckRequest &request, const std::string &op,
                  const Target &target) {
    CompileJob job;
    job.generator = op;
    job.params = request.params;
    job.variant = {target,        schedule.file, schedule.source ? *schedule.source : print_text(schedule),
                   schedule.name, request.knobs, {}};
    job.symbol = "checked";
    std::vector<std::string> params;
    for (const auto &[name, fallback] : with_defaults(op, {})) {
        params.push_back(name);
    }
    return with_algorithm_knobs(std::move(job), params);
}

/// Tile kernels are made and compiled as the build does: what a definition or the hardware refuses shows only there.
CompileReply compiled(CompileJob job) {
    TemporaryFolder folder;
    job.object = folder.path() / "checked.o";
    return compile_variant(job);
}

/// One schedule; appends its faults.
CheckedSchedule check_one(const Schedule &schedule, const CheckRequest &request,
                          std::vector<Diagnostic> &diagnostics) {
    CheckedSchedule checked;
    checked.name = schedule.name;
    checked.op = request.generator.empty() ? schedule.op : request.generator;
    Target target = request.target    ? *request.target
                    : schedule.target ? target_of(*schedule.target)
                                      : Target{};
    checked.target = target.str();
    size_t before = diagnostics.size();
    auto append = [&](std::vector<Diagnostic> more) {
        for (Diagnostic &d : more) {
            if (d.file.empty()) {
                d.file = schedule.file;
            }
            diagnostics.push_back(std::move(d));
        }
    };
    const CompileJob job = job_of(schedule, request, checked.op, target);
    CanonicalResult canonical = canonicalize(schedule, job.variant.knobs);
    append(canonical.diagnostics);
    LegalizedPipeline pipeline = fresh_pipeline(checked.op, job.params, target);
    PipelineInfo info = describe_pipeline(pipeline.outputs, checked.op);
    ScheduleAnalysis analysis =
        analyse_schedule(canonical.schedule, info, target, limits_of(target), canonical.damaged);
    append(analysis.diagnostics);
    auto faulty = [&] { return has_errors({diagnostics.begin() + before, diagnostics.end()}); };
    if (!faulty() && !tile_groups(analysis.nest).empty()) {
        CompileReply reply = compiled(job);
        std::erase_if(reply.diagnostics, [](const Diagnostic &d) { return d.severity != Severity::Error; });
        append(std::move(reply.diagnostics));
        checked.tiles = std::move(reply.tiles);
    } else if (!faulty() && request.ask_halide) {
        append(halide_faults([&] { return fresh_pipeline(checked.op, job.params, target).outputs; },
                             canonical.schedule, target));
    }
    checked.ok = !faulty();
    checked.canonical = print_text(canonical.schedule);
    checked.nest = analysis.nest.str();
    checked.memory = memory_of(analysis.nest);
    checked.kernels = kernels_of(analysis.nest);
    return checked;
}

CheckedSchedule checked_from_json(const nlohmann::json &json) {
    CheckedSchedule checked;
    checked.name = json.at("name");
    checked.op = json.at("op");
    checked.target = json.at("target");
    checked.ok = json.at("ok");
    checked.canonical = json.at("canonical");
    checked.nest = json.at("nest");
    for (const auto &one : json.at("memory")) {
        checked.memory.push_back({one.at("func"), one.at("compute_at"), one.at("store_at"), one.at("kind"),
                                  one.at("extents"), one.at("bytes")});
    }
    checked.kernels = json.at("kernels");
    for (const auto &tile : json.at("tiles")) {
        checked.tiles.push_back(compiled_tile_from_json(tile));
    }
    return checked;
}

/// Across the pipe of the child.
nlohmann::json pack(const CheckOutcome &outcome) {
    nlohmann::json json = {{"schedules", nlohmann::json::array()}, {"diagnostics", nlohmann::json::array()}};
    for (const CheckedSchedule &schedule : outcome.schedules) {
        json["schedules"].push_back(nlohmann::json(to_json(schedule)));
    }
    for (const Diagnostic &d : outcome.diagnostics) {
        json["diagnostics"].push_back(kiln::to_json(d));
    }
    return json;
}

CheckOutcome unpack(const nlohmann::json &json) {
    CheckOutcome outcome;
    for (const auto &one : json.at("schedules")) {
        outcome.schedules.push_back(checked_from_json(one));
    }
    for (const auto &one : json.at("diagnostics")) {
        outcome.diagnostics.push_back(diagnostic_from_json(one));
    }
    return outcome;
}

} // namespace

LegalizedPipeline fresh_pipeline(const std::string &name, const Params &params, const Target &target) {
    Halide::Target halide(target.halide());
    std::unique_ptr<AbstractGenerator> generator = create_generator(name, params, halide);
    generator->build_pipeline();
    std::vector<Halide::Func> outputs;
    std::vector<Halide::Parameter> inputs;
    for (const AbstractGenerator::ArgInfo &info : generator->arginfos()) {
        if (info.dir == ArgInfoDirection::Input) {
            std::vector<Halide::Parameter> more = generator->input_parameter(info.name);
            inputs.insert(inputs.end(), more.begin(), more.end());
        } else {
            std::vector<Halide::Func> more = generator->output_func(info.name);
            outputs.insert(outputs.end(), more.begin(), more.end());
        }
    }
    return legalize(outputs, inputs, halide);
}

nlohmann::ordered_json to_json(const CheckedSchedule &schedule) {
    nlohmann::ordered_json json = {
        {"name", schedule.name},           {"op", schedule.op},
        {"target", schedule.target},       {"ok", schedule.ok},
        {"canonical", schedule.canonical}, {"nest", schedule.nest},
        {"kernels", schedule.kernels},     {"memory", nlohmann::ordered_json::array()}};
    for (const CheckedSchedule::Memory &memory : schedule.memory) {
        json["memory"].push_back({{"func", memory.func},
                                  {"compute_at", memory.compute_at},
                                  {"store_at", memory.store_at},
                                  {"kind", memory.kind},
                                  {"extents", memory.extents},
                                  {"bytes", memory.bytes}});
    }
    json["tiles"] = nlohmann::ordered_json::array();
    for (const CompiledTile &tile : schedule.tiles) {
        json["tiles"].push_back(nlohmann::ordered_json(kiln::to_json(tile)));
    }
    return json;
}

CheckOutcome check_schedules(const ScheduleFile &file, const CheckRequest &request) {
    CheckOutcome outcome;
    if (!file.schedules.empty()) {
        Activity activity(fmt::format("checking {}", file.file));
        std::string name = request.generator.empty() ? file.schedules.front().op : request.generator;
        outcome = unpack(run_generator(name, [&] {
            CheckOutcome inner;
            for (const Schedule &schedule : file.schedules) {
                inner.schedules.push_back(check_one(schedule, request, inner.diagnostics));
            }
            return pack(inner);
        }));
    }
    outcome.diagnostics.insert(outcome.diagnostics.begin(), file.diagnostics.begin(), file.diagnostics.end());
    return outcome;
}

CheckOutcome check_default_schedule(const std::string &generator, const Params &params,
                                    const Target &target) {
    return unpack(run_generator(generator, [&] {
        CheckRequest request;
        request.generator = generator;
        request.params = params;
        request.target = target;
        PipelineInfo info = describe_pipeline(fresh_pipeline(generator, params, target).outputs, generator);
        CheckOutcome inner;
        inner.schedules.push_back(check_one(default_schedule(info, target), request, inner.diagnostics));
        return pack(inner);
    }));
}

} // namespace kiln::cli
