#include "dsl/lower/ScheduleVariant.h"

#include "dsl/lower/RootCopies.h"
#include "dsl/schedule/Canonical.h"
#include "dsl/schedule/CheckSchedule.h"
#include "dsl/schedule/DefaultSchedule.h"
#include "dsl/schedule/Knobs.h"
#include "dsl/schedule/Parser.h"
#include "dsl/schedule/Print.h"
#include "dsl/schedule/TargetPattern.h"
#include "dsl/schedule/apply/Apply.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace kiln {

namespace {

/// The schedule that the request means, out of all that its text holds.
const Schedule &choose(const CompileJob &job, const std::vector<Schedule> &schedules) {
    std::vector<std::string> reasons, names;
    for (const Schedule &s : schedules) {
        names.push_back(s.name);
        if (!job.variant.schedule_name.empty() && s.name != job.variant.schedule_name) {
            continue;
        }
        std::string reason;
        if (!s.op.empty() && s.op != job.generator) {
            reasons.push_back(fmt::format("`{}` is for the generator `{}`", s.name, s.op));
        } else if (s.target && !matches(*s.target, job.variant.target, &reason)) {
            reasons.push_back(fmt::format("`{}` is for another target: {}", s.name, reason));
        } else {
            return s;
        }
    }
    Diagnostic d;
    d.code = "K0711";
    d.file = job.variant.schedule_file;
    if (reasons.empty() && !names.empty()) {
        d.message = fmt::format("no schedule `{}`", job.variant.schedule_name);
        std::string near = nearest(job.variant.schedule_name, names);
        d.notes = {fmt::format("there are `{}`", fmt::join(names, "`, `"))};
        if (!near.empty()) {
            d.helps = {fmt::format("did you mean `{}`?", near)};
        }
    } else {
        d.message = fmt::format("no schedule for `{}` on `{}`", job.generator, job.variant.target.str());
        d.notes = reasons;
        d.helps = {"name another file or target, or take the default schedule"};
    }
    throw Error(std::move(d));
}

} // namespace

CompileJob with_algorithm_knobs(CompileJob job, const std::vector<std::string> &params) {
    ParseResult parsed = parse_schedules(job.variant.schedule_text, job.variant.schedule_file);
    if (job.variant.schedule_text.empty() || !parsed.ok()) {
        return job; // schedule_variant reports it
    }
    const Schedule &schedule = choose(job, parsed.schedules);
    std::vector<Diagnostic> reported_later;
    for (const auto &[knob, value] : complete_knobs(schedule, job.variant.knobs, reported_later)) {
        if (std::find(params.begin(), params.end(), knob) != params.end()) {
            auto [given, fresh] = job.params.emplace(knob, value);
            job.variant.knobs[knob] = given->second;
        }
    }
    return job;
}

ScheduledVariant schedule_variant(const CompileJob &job, const PipelineSource &source,
                                  LegalizedPipeline &pipeline, LegalizeAgain again) {
    ScheduledVariant out;
    const Target &target = job.variant.target;
    PipelineInfo info = describe_pipeline(pipeline.outputs, job.generator);
    Schedule chosen;
    if (job.variant.schedule_text.empty()) {
        chosen = default_schedule(info, target);
    } else {
        ParseResult parsed = parse_schedules(job.variant.schedule_text, job.variant.schedule_file);
        out.diagnostics = parsed.diagnostics;
        if (!parsed.ok()) {
            return out;
        }
        chosen = choose(job, parsed.schedules);
    }
    CanonicalResult canonical = canonicalize(chosen, job.variant.knobs);
    ScheduleAnalysis analysis =
        analyse_schedule(canonical.schedule, info, target, limits_of(target), canonical.damaged);
    out.diagnostics.insert(out.diagnostics.end(), canonical.diagnostics.begin(), canonical.diagnostics.end());
    out.diagnostics.insert(out.diagnostics.end(), analysis.diagnostics.begin(), analysis.diagnostics.end());
    out.name = canonical.schedule.name;
    if (has_errors(out.diagnostics)) {
        return out;
    }
    out.text = print_text(canonical.schedule);
    Schedule loops = canonical.schedule;
    std::map<std::string, StageReplacement> stages;
    std::vector<TileGroup> groups = tile_groups(analysis.nest);
    if (define_root_copies(loops, groups, source)) {
        pipeline = again({});
        info = describe_pipeline(pipeline.outputs, job.generator);
        analysis = analyse_schedule(loops, info, target, limits_of(target));
        if (has_errors(analysis.diagnostics)) {
            out.diagnostics = analysis.diagnostics;
            return out;
        }
        groups = tile_groups(analysis.nest);
    }
    if (!groups.empty()) {
        for (size_t i = 0; i < groups.size(); i++) {
            out.tiles.push_back(
                make_tile_stage(groups[i], source, target, fmt::format("{}_tile{}", job.symbol, i)));
        }
        stages = stage_replacements(out.tiles, source);
        pipeline = again(stages);
        place_stages(out.tiles, pipeline);
        loops = without_stages(loops, groups, pipeline);
    }
    FuncMap funcs = pipeline.funcs;
    apply_schedule(loops, funcs, target);
    out.find_faults = [=, tiles = out.tiles] {
        auto rebuild = [=] {
            LegalizedPipeline fresh = again(stages);
            place_stages(tiles, fresh);
            return fresh.outputs;
        };
        return halide_faults(rebuild, loops, target);
    };
    return out;
}

} // namespace kiln
