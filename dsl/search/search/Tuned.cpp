#include "dsl/search/search/Tuned.h"

#include "dsl/schedule/Canonical.h"
#include "dsl/schedule/Parser.h"
#include "dsl/schedule/Print.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kiln::search {

namespace {

Diagnostic warning(const char *code, std::string message, std::vector<std::string> notes, std::string help) {
    Diagnostic d;
    d.code = code;
    d.severity = Severity::Warning;
    d.message = std::move(message);
    d.notes = std::move(notes);
    d.helps = {std::move(help)};
    return d;
}

/// By output and dimension: the extent that splits which shift inwards need at least.
using LeastExtents = std::map<std::pair<std::string, int>, int64_t>;

/// What a loop of an output is made of: a dimension, and how many of its elements one step covers. Loops inside a tile
/// have a constant extent and need nothing.
struct Origin {
    int dimension = 0;
    int64_t step = 1;
};

void least_extents(const Problem &problem, const Statement &statement, LeastExtents &least,
                   std::map<std::string, Origin> &loops) {
    const std::string &func = statement.stage.func;
    for (const DirectiveCall &call : statement.calls) {
        auto need = [&](const Origin &origin, int64_t extent) {
            int64_t &have = least[{func, origin.dimension}];
            have = std::max(have, extent);
        };
        if (call.name == "split") {
            auto old = loops.find(call.args.at(0).text);
            if (old == loops.end()) {
                continue;
            }
            Origin origin = old->second;
            int64_t covered = origin.step * call.args.at(3).int_value;
            const std::string &tail = call.args.at(4).text;
            if (tail.find("ShiftInwards") == 0 || tail == "RoundUp" || tail == "RoundUpAndBlend") {
                need(origin, covered);
            }
            loops.erase(old);
            loops[call.args.at(1).text] = {origin.dimension, covered};
        } else if (call.name == "rename" && loops.count(call.args.at(0).text)) {
            loops[call.args.at(1).text] = loops.at(call.args.at(0).text);
        } else if (call.name == "fuse") {
            // What follows is of both dimensions: as long as what it was made for is long enough.
            for (int i = 0; i < 2; i++) {
                auto old = loops.find(call.args.at(i).text);
                if (old != loops.end()) {
                    int d = old->second.dimension;
                    need(old->second, problem.extents.at(func).at(static_cast<size_t>(d)));
                    loops.erase(old);
                }
            }
        }
    }
}

} // namespace

std::vector<VariantRequest> variants_of(const Problem &problem, const std::string &schedule) {
    VariantRequest tuned;
    tuned.target = problem.target;
    tuned.schedule_file = "tuned";
    tuned.schedule_text = schedule;
    ParseResult parsed = parse_schedules(schedule, "tuned");
    LeastExtents least;
    std::map<std::string, std::map<std::string, Origin>> loops; // by output
    for (const Statement &s : canonical(parsed.schedules.at(0)).statements) {
        const FuncInfo *f = problem.info.find(s.stage.func);
        if (!f || !f->is_output || s.stage.is_wrapper) {
            continue;
        }
        // A specialization schedules its loops anew; an update has its own.
        std::map<std::string, Origin> own;
        for (size_t d = 0; d < f->args.size(); d++) {
            own[f->args[d]] = {static_cast<int>(d), 1};
        }
        bool special = std::any_of(s.calls.begin(), s.calls.end(),
                                   [](const DirectiveCall &c) { return c.name == "specialize"; });
        std::string stage = s.stage.str();
        if (!special && loops.count(stage)) {
            own = loops[stage];
        }
        least_extents(problem, s, least, own);
        if (!special) {
            loops[stage] = own;
        }
    }
    for (const auto &[where, extent] : least) {
        if (extent > 1) {
            const FuncInfo *f = problem.info.find(where.first);
            VariantCondition c;
            c.what = VariantCondition::What::ExtentAtLeast;
            c.argument = f->types.size() > 1 ? where.first + ".0" : where.first;
            c.dimension = where.second;
            c.value = extent;
            tuned.conditions.push_back(std::move(c));
        }
    }
    std::vector<VariantRequest> all = {tuned};
    if (!tuned.conditions.empty()) {
        VariantRequest rest;
        rest.target = problem.target;
        all.push_back(rest);
    }
    return all;
}

Schedule schedule_of(const StoredTrial &trial) {
    std::string name = fmt::format("trial {}", trial.id);
    ParseResult parsed = parse_schedules(trial.job.schedule, name);
    if (!parsed.ok()) {
        throw Error(parsed.diagnostics);
    }
    Schedule out = canonical(parsed.schedules.at(0), trial.job.knobs);
    // Knobs that choose the algorithm have one value in a trial's schedule, and stay: a build reads them.
    for (const Knob &knob : parsed.schedules.at(0).knobs) {
        if (knob.values.size() + knob.names.size() == 1) {
            out.knobs.push_back(knob);
        }
    }
    // Read back, it has places and a source of its own.
    return parse_schedules(print_text(out), name).schedules.at(0);
}

TunedSchedule tuned_schedule(const Problem &problem, const std::string &tune,
                             const std::filesystem::path &path, int threads, double seconds) {
    TunedSchedule out;
    Facts facts = facts_of(problem, threads);
    std::optional<Entry> entry;
    if (std::filesystem::exists(path)) {
        Database database(path);
        entry = database.find(facts);
        std::vector<StoredTrial> best;
        if (entry) {
            best = database.best(entry->id, 1, Regime::Sustained, facts.loose_key());
            if (best.empty()) {
                best = database.best(entry->id, 1);
                if (!best.empty()) {
                    out.warnings.push_back(
                        warning("K1335",
                                fmt::format("the tuned schedule of `{}` was measured under other conditions",
                                            entry->work),
                                differences(entry->facts.loose, facts.loose),
                                fmt::format("`{}` measures the best four again", tune)));
                }
            }
        }
        if (!best.empty()) {
            const StoredTrial &t = best.front();
            out.text = print_text(schedule_of(t));
            out.measured = true;
            out.ms = t.score_ms;
            out.source =
                fmt::format("the best of {} trials for {}, {:.4g} ms, measured {} (trial {} of `{}`)",
                            entry->trials, entry->work, t.score_ms, t.date, t.id, path.string());
            return out;
        }
    }
    std::unique_ptr<Space> space = pipeline_space(problem);
    SearchOptions options;
    Prediction predicted;
    Model model = Model::shipped();
    Candidate best = predict_best(problem, *space, model, options, seconds, &predicted);
    StoredTrial as_trial;
    as_trial.job.schedule = best.text();
    as_trial.job.knobs = best.schedule.knobs.empty() ? KnobValues{} : best.knobs;
    out.text = print_text(schedule_of(as_trial));
    out.ms = predicted.ms;
    out.source = fmt::format("predicted by the cost model for {}: {:.4g} ms, not measured", problem.name(),
                             predicted.ms);
    out.warnings.push_back(
        warning("K1336",
                fmt::format("no schedule of `{}` was measured on this device: the cost model chose one",
                            problem.name()),
                {fmt::format("weights {}", model.fingerprint().substr(0, 16))},
                fmt::format("`{}` measures, and finds a better one", tune)));
    return out;
}

} // namespace kiln::search
