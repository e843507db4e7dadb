// Results files: rows merged by what they measure, written whole or not at all.
#include "dsl/check/BenchKernel.h"
#include "dsl/support/Files.h"
#include "dsl/target/CalibrateCpu.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>

namespace kiln {

namespace {

bool same_row(const nlohmann::json &a, const nlohmann::json &b) {
    for (const char *key : {"work", "shape", "type", "target", "schedule", "baseline", "threads"}) {
        if (a.value(key, nlohmann::json()) != b.value(key, nlohmann::json())) {
            return false;
        }
    }
    return true;
}

} // namespace

nlohmann::json to_json(const BenchRow &r) {
    return {{"work", r.work},
            {"shape", r.shape},
            {"type", r.type},
            {"target", r.target},
            {"schedule", r.schedule},
            {"ms", r.ms},
            {"ms_low", r.ms_low},
            {"ms_high", r.ms_high},
            {"cold_ms", r.cold_ms},
            {"first_ms", r.first_ms},
            {"baseline", r.baseline},
            {"baseline_ms", r.baseline_ms},
            {"baseline_cold_ms", r.baseline_cold_ms},
            {"ratio", r.ratio},
            {"ratio_low", r.ratio_low},
            {"ratio_high", r.ratio_high},
            {"flops", r.flops},
            {"bytes", r.bytes},
            {"intensity", r.bytes > 0 ? r.flops / r.bytes : 0},
            {"roofline", r.roofline},
            {"error", r.error},
            {"bound", r.bound},
            {"samples", r.samples},
            {"threads", r.threads},
            {"flags", r.flags}};
}

std::string shape_text(const Workload &workload) {
    // The longest description of the problem that does not repeat itself: each buffer's extents in turn, those that
    // were named already left out, counting repetitions within one buffer (a square stays a square).
    std::vector<int64_t> shape;
    for (const auto &[name, extents] : workload.extents) {
        std::vector<int64_t> missing;
        for (int64_t e : extents) {
            auto wanted = std::count(extents.begin(), extents.end(), e);
            auto there =
                std::count(shape.begin(), shape.end(), e) + std::count(missing.begin(), missing.end(), e);
            if (there < wanted) {
                missing.push_back(e);
            }
        }
        shape.insert(shape.end(), missing.begin(), missing.end());
    }
    return fmt::format("{}", fmt::join(shape, "x"));
}

void write_results(const std::filesystem::path &path, const Device &device, const std::string &command,
                   const std::vector<BenchRow> &rows) {
    nlohmann::json list = nlohmann::json::array();
    std::ifstream in(path);
    nlohmann::json old = nlohmann::json::parse(in, nullptr, false);
    if (!old.is_discarded() && old.contains("rows") && old.value("device", "") == device.name) {
        list = old.at("rows");
    }
    for (const BenchRow &row : rows) {
        nlohmann::json fresh = to_json(row);
        auto it = std::find_if(list.begin(), list.end(),
                               [&](const nlohmann::json &r) { return same_row(r, fresh); });
        if (it == list.end()) {
            list.push_back(fresh);
        } else {
            *it = fresh;
        }
    }
    nlohmann::json file = {{"device", device.name},
                           {"driver", device.driver},
                           {"versions",
                            {{"kiln", "0.1.0"},
                             {"halide", fmt::format("{}.{}.{}", HALIDE_VERSION_MAJOR, HALIDE_VERSION_MINOR,
                                                    HALIDE_VERSION_PATCH)}}},
                           {"date", utc_now()},
                           {"command", command},
                           {"rows", list}};
    write_file_atomic(path, file.dump(2) + "\n");
}

} // namespace kiln
