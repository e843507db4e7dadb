#include "apps/kiln/tune/TuneReport.h"

#include "dsl/schedule/Print.h"
#include "dsl/search/search/Tuned.h"
#include "dsl/search/search/Why.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace kiln::cli {

namespace {

using search::SearchProgress;
using search::StoredTrial;

int64_t sum(const std::map<std::string, int64_t> &counts) {
    int64_t all = 0;
    for (const auto &[name, count] : counts) {
        all += count;
    }
    return all;
}

std::string times_text(const search::Times &t) {
    std::string out = fmt::format("{:.4f} ms [{:.4f}, {:.4f}]", t.ms, t.low, t.high);
    if (t.ratio > 0) {
        out += fmt::format(", {:.3f} [{:.3f}, {:.3f}] of the incumbent", t.ratio, t.ratio_low, t.ratio_high);
    }
    return out;
}

std::string speed_text(const TuneSetup &setup, double ms) {
    std::string out;
    if (setup.bound.flops > 0) {
        out += fmt::format(", {:.1f} GFLOP/s", setup.bound.flops / ms / 1e6);
    }
    if (setup.bound.bytes > 0) {
        out += fmt::format(", {:.1f} GB/s", setup.bound.bytes / ms / 1e6);
    }
    if (setup.bound.ms > 0) {
        out += fmt::format(", {:.0f} % of the roofline ({})", 100 * setup.bound.ms / ms,
                           setup.bound.by_memory ? "memory" : "arithmetic");
    }
    return out;
}

std::string counts_text(const std::map<std::string, int64_t> &counts, size_t most) {
    std::vector<std::pair<int64_t, std::string>> sorted;
    for (const auto &[name, count] : counts) {
        sorted.emplace_back(count, name);
    }
    std::sort(sorted.rbegin(), sorted.rend());
    std::string out;
    for (size_t i = 0; i < sorted.size() && i < most; i++) {
        out += fmt::format("  {:>7} {}\n", sorted[i].first, sorted[i].second);
    }
    return out;
}

} // namespace

std::string progress_text(const SearchProgress &p) {
    std::string out;
    if (p.best_ms > 0) {
        out = fmt::format("best {:.4g} ms", p.best_ms);
        std::vector<std::string> beside;
        if (p.baseline_ms > 0) {
            beside.push_back(fmt::format("plain {:.4g}", p.baseline_ms));
        }
        if (p.roofline_ms > 0) {
            beside.push_back(fmt::format("roofline {:.4g}", p.roofline_ms));
        }
        out += beside.empty() ? "" : fmt::format(" ({})", fmt::join(beside, ", "));
        out += ", ";
    }
    out += fmt::format("{} trials", p.done);
    if (p.left >= 0) {
        out += fmt::format(", {} left", p.left);
    }
    for (const auto &[status, count] : p.failed) {
        out += fmt::format(", {} {}", count, status);
    }
    if (int64_t rejected = sum(p.rejected)) {
        out += fmt::format(", {} rejected", rejected);
    }
    if (p.left_s >= 0) {
        out += fmt::format(", {:.0f} s left", p.left_s);
    }
    return out;
}

nlohmann::ordered_json progress_json(const SearchProgress &p) {
    return {{"trials", p.done},
            {"seconds", p.spent_s},
            {"best_ms", p.best_ms},
            {"best_origin", p.best_origin},
            {"baseline_ms", p.baseline_ms},
            {"roofline_ms", p.roofline_ms},
            {"failed", p.failed},
            {"rejected", p.rejected}};
}

std::string trial_text(const StoredTrial &t) {
    std::string out = fmt::format("trial {:<5} {:<14} ", t.id, search::status_name(t.outcome.status));
    if (t.outcome.ok()) {
        out += times_text(t.outcome.times);
        if (t.outcome.cool.ms > 0) {
            out += fmt::format(", cool {:.4f} ms", t.outcome.cool.ms);
        }
        if (t.predicted_ms > 0) {
            out += fmt::format(", predicted {:.4g} ms", t.predicted_ms);
        }
    } else {
        out += t.outcome.message;
    }
    out += fmt::format("  ({}; kiln db rerun {})", t.job.origin, t.id);
    for (const std::string &flag : t.outcome.flags) {
        out += fmt::format("; doubt: {}", flag);
    }
    if (t.outcome.spill_bytes > 0) {
        out += fmt::format("; spills {} bytes", t.outcome.spill_bytes);
    }
    for (const std::string &remark : t.outcome.remarks) {
        out += fmt::format("; {}", remark);
    }
    return out;
}

nlohmann::ordered_json trial_json(const StoredTrial &t) {
    nlohmann::json outcome = to_json(t.outcome);
    nlohmann::ordered_json json = {{"trial", t.id},
                                   {"number", t.job.number},
                                   {"status", search::status_name(t.outcome.status)},
                                   {"message", t.outcome.message},
                                   {"origin", t.job.origin},
                                   {"score_ms", t.score_ms},
                                   {"cool_score_ms", t.cool_score_ms},
                                   {"predicted_ms", t.predicted_ms},
                                   {"predicted_sigma", t.predicted_sigma},
                                   {"at_s", t.at_s},
                                   {"date", t.date},
                                   {"seed", t.outcome.seed},
                                   {"rerun", fmt::format("kiln db rerun {}", t.id)},
                                   {"schedule", t.job.schedule},
                                   {"knobs", t.job.knobs}};
    for (const char *name : {"times", "cool", "error", "bound", "checked", "build_s", "check_s", "time_s",
                             "registers", "spill_bytes", "shared_bytes", "remarks", "flags"}) {
        json[name] = outcome.at(name);
    }
    return json;
}

Diagnostic not_delivered(const StoredTrial &trial, const std::vector<Diagnostic> &faults) {
    Diagnostic d;
    d.code = "K1317";
    d.severity = Severity::Warning;
    d.message = fmt::format("the schedule of trial {} does not pass a full check and is not used", trial.id);
    for (const Diagnostic &cause : faults) {
        d.notes.push_back(fmt::format("{} {}", cause.code, cause.message));
    }
    d.helps = {"please report it: it was right at the sizes that it was tuned for"};
    return d;
}

Diagnostic plain_delivered(const std::string &work, const search::SearchResult &result) {
    Diagnostic d;
    d.code = "K1318";
    d.severity = Severity::Warning;
    d.message = fmt::format("the library for `{}` has the default schedule, which was not measured", work);
    d.notes = {result.best.empty() ? fmt::format("{} trials in {:.1f} s, none of them right",
                                                 result.progress.done, result.progress.spent_s)
                                   : "none of the best schedules passes a full check"};
    d.helps = {"more time may find a better one: `--budget SECONDS --resume`"};
    return d;
}

void add_result(Report &report, const TuneSetup &setup, const search::SearchResult &result,
                search::Regime regime) {
    const SearchProgress &p = result.progress;
    nlohmann::ordered_json &data = report.data;
    data["work"] = setup.problem.name();
    data["target"] = setup.problem.target.str();
    data["device"] = setup.problem.device.name;
    data["database_entry"] = result.entry.key;
    data["ended"] = result.ended;
    data["progress"] = progress_json(p);
    data["model_error"] = result.model_error;
    data["flops"] = setup.bound.flops;
    data["bytes"] = setup.bound.bytes;
    data["best"] = nlohmann::ordered_json::array();
    for (const StoredTrial &t : result.best) {
        data["best"].push_back(trial_json(t));
    }
    std::string &text = report.text;
    text += fmt::format("{} on {} ({})\n", setup.problem.name(), setup.problem.target.str(),
                        setup.problem.device.name);
    text += fmt::format("{} trials in {:.1f} s, ended by {}; database entry {}\n", p.done, p.spent_s,
                        result.ended, result.entry.key.substr(0, 16));
    for (const auto &[status, count] : p.failed) {
        text += fmt::format("  {:>7} {}\n", count, status);
    }
    if (!p.rejected.empty()) {
        text += fmt::format("{} candidates rejected before any compile:\n{}", sum(p.rejected),
                            counts_text(p.rejected, 5));
    }
    if (result.best.empty()) {
        text += "nothing right was measured\n";
        return;
    }
    const StoredTrial &best = result.best.front();
    double ms = best.score(regime) > 0 ? best.score(regime) : best.score_ms;
    text += fmt::format("\nbest: {:.4f} ms{} ({}, trial {})\n", ms, speed_text(setup, ms), best.job.origin,
                        best.id);
    if (best.cool_score_ms > 0) {
        text += fmt::format("  calls one after the other {:.4f} ms, with idle time between {:.4f} ms\n",
                            best.score_ms, best.cool_score_ms);
    }
    if (result.plain.id && result.plain.score_ms > 0) {
        text += fmt::format("  {:.2f} times as fast as the default schedule ({:.4f} ms)\n",
                            p.baseline_ms / ms, p.baseline_ms);
        data["speedup_over_default"] = p.baseline_ms / ms;
    }
    if (result.model_error > 0) {
        text += fmt::format("  the model was off by a factor of {:.2f} in the median\n",
                            std::exp(result.model_error));
    }
    Schedule schedule = search::schedule_of(best);
    data["schedule"] = print_text(schedule);
    try {
        data["halide"] = print_halide(schedule, setup.problem.info);
    } catch (const Error &) {
        data["halide"] = ""; // a tile kernel's directives are none of Halide's
    }
    data["kiln_cpp"] = print_kiln(schedule);
    text += "\n" + data["schedule"].get<std::string>();
    text += fmt::format("\nas C++:\n{}", data["halide"].get<std::string>().empty()
                                             ? data["kiln_cpp"].get<std::string>()
                                             : data["halide"].get<std::string>());
    try {
        search::Features features = search::features(setup.problem, schedule);
        data["terms"] = search::terms_json(features);
        text += "\nwhy, by the terms of the roofline (estimates):\n" + search::explain_terms(features);
        if (result.plain.id) {
            std::string gain = search::explain_gain(
                search::features(setup.problem, search::schedule_of(result.plain)), features);
            if (!gain.empty()) {
                text += "against the default schedule:\n" + gain;
            }
        }
    } catch (const Error &) {
        data["terms"] = nullptr; // a hand schedule beyond what features know
    }
}

} // namespace kiln::cli
