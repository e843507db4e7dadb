#include "dsl/search/measure/Trial.h"

#include <nlohmann/json.hpp>

#include <array>

namespace kiln::search {

namespace {

constexpr std::array<const char *, 11> names = {
    "ok",      "refused",  "not built",    "build too long", "out of memory", "wrong",
    "crashed", "too long", "device fault", "incredible",     "lost"};

} // namespace

const char *status_name(Status status) {
    return names[static_cast<size_t>(status)];
}

Status status_from_name(const std::string &name) {
    for (size_t i = 0; i < names.size(); i++) {
        if (name == names[i]) {
            return static_cast<Status>(i);
        }
    }
    return Status::Lost;
}

nlohmann::json to_json(const Job &job) {
    return {{"number", job.number},
            {"schedule", job.schedule},
            {"knobs", job.knobs},
            {"origin", job.origin},
            {"seed", job.seed},
            {"incumbent", job.incumbent},
            {"incumbent_knobs", job.incumbent_knobs}};
}

Job job_from_json(const nlohmann::json &json) {
    Job job;
    job.number = json.at("number");
    job.schedule = json.at("schedule");
    job.knobs = json.at("knobs").get<std::map<std::string, std::string>>();
    job.origin = json.at("origin");
    job.seed = json.at("seed");
    job.incumbent = json.at("incumbent");
    job.incumbent_knobs = json.at("incumbent_knobs").get<std::map<std::string, std::string>>();
    return job;
}

nlohmann::json to_json(const Times &t) {
    return {{"ms", t.ms},
            {"low", t.low},
            {"high", t.high},
            {"incumbent_ms", t.incumbent_ms},
            {"ratio", t.ratio},
            {"ratio_low", t.ratio_low},
            {"ratio_high", t.ratio_high},
            {"samples", t.samples},
            {"stopped", t.stopped}};
}

Times times_from_json(const nlohmann::json &json) {
    Times t;
    t.ms = json.at("ms");
    t.low = json.at("low");
    t.high = json.at("high");
    t.incumbent_ms = json.at("incumbent_ms");
    t.ratio = json.at("ratio");
    t.ratio_low = json.at("ratio_low");
    t.ratio_high = json.at("ratio_high");
    t.samples = json.at("samples");
    t.stopped = json.at("stopped");
    return t;
}

nlohmann::json to_json(const Outcome &o) {
    nlohmann::json diagnostics = nlohmann::json::array();
    for (const Diagnostic &d : o.diagnostics) {
        diagnostics.push_back(to_json(d));
    }
    return {{"number", o.number},
            {"status", status_name(o.status)},
            {"message", o.message},
            {"diagnostics", diagnostics},
            {"times", to_json(o.times)},
            {"cool", to_json(o.cool)},
            {"error", o.error},
            {"bound", o.bound},
            {"checked", o.checked},
            {"seed", o.seed},
            {"build_s", o.build_s},
            {"check_s", o.check_s},
            {"time_s", o.time_s},
            {"registers", o.registers},
            {"spill_bytes", o.spill_bytes},
            {"shared_bytes", o.shared_bytes},
            {"remarks", o.remarks},
            {"flags", o.flags}};
}

Outcome outcome_from_json(const nlohmann::json &json) {
    Outcome o;
    o.number = json.at("number");
    o.status = status_from_name(json.at("status"));
    o.message = json.at("message");
    for (const nlohmann::json &d : json.at("diagnostics")) {
        o.diagnostics.push_back(diagnostic_from_json(d));
    }
    o.times = times_from_json(json.at("times"));
    o.cool = times_from_json(json.at("cool"));
    o.error = json.at("error").is_null() ? 0 : json.at("error").get<double>();
    o.bound = json.at("bound").is_null() ? 0 : json.at("bound").get<double>();
    o.checked = json.at("checked");
    o.seed = json.at("seed");
    o.build_s = json.at("build_s");
    o.check_s = json.at("check_s");
    o.time_s = json.at("time_s");
    o.registers = json.at("registers");
    o.spill_bytes = json.at("spill_bytes");
    o.shared_bytes = json.at("shared_bytes");
    o.remarks = json.at("remarks").get<std::vector<std::string>>();
    o.flags = json.at("flags").get<std::vector<std::string>>();
    return o;
}

} // namespace kiln::search
