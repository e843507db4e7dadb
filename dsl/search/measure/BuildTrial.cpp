#include "dsl/search/measure/BuildTrial.h"

#include "dsl/lower/LoadLibrary.h"
#include "dsl/lower/Sha256.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <fstream>

namespace kiln::search {

namespace {

namespace fs = std::filesystem;

Status status_of(const std::vector<Diagnostic> &diagnostics) {
    for (const Diagnostic &d : diagnostics) {
        if (d.severity != Severity::Error) {
            continue;
        }
        if (d.code == "K0702") {
            return Status::BuildTooLong;
        }
        if (d.code == "K0703") {
            return Status::OutOfMemory;
        }
        if (d.code == "K0701" || (d.code >= "K0704" && d.code <= "K0706")) {
            return Status::NotBuilt;
        }
        return Status::Refused;
    }
    return Status::NotBuilt;
}

std::string first_error(const std::vector<Diagnostic> &diagnostics) {
    for (const Diagnostic &d : diagnostics) {
        if (d.severity == Severity::Error) {
            return fmt::format("{} {}", d.code, d.message);
        }
    }
    return "the build failed without a word";
}

/// What NAME.json says of its tile kernels.
void read_tiles(const fs::path &file, Outcome &outcome) {
    std::ifstream in(file);
    nlohmann::json json = nlohmann::json::parse(in, nullptr, false);
    if (json.is_discarded() || !json.contains("variants")) {
        return;
    }
    for (const nlohmann::json &variant : json["variants"]) {
        for (const nlohmann::json &tile : variant.value("tile_kernels", nlohmann::json::array())) {
            outcome.registers = std::max(outcome.registers, tile.value("registers", 0));
            outcome.spill_bytes = std::max(outcome.spill_bytes, tile.value("spill_bytes", 0));
            outcome.shared_bytes = std::max(outcome.shared_bytes, tile.value("shared_bytes", 0));
            for (const std::string &remark : tile.value("remarks", std::vector<std::string>())) {
                outcome.remarks.push_back(remark);
            }
        }
    }
}

} // namespace

BuildRequest build_request(const MeasureSetup &setup, const std::string &schedule,
                           const std::map<std::string, std::string> &knobs) {
    BuildRequest request;
    request.generator = setup.generator;
    request.load = setup.load;
    request.params = setup.params;
    request.timeout_s = setup.limits.build_s;
    request.memory_limit_bytes = setup.limits.build_bytes;
    VariantRequest variant;
    variant.target = setup.target;
    variant.schedule_text = schedule;
    variant.knobs = knobs;
    request.variants = {variant};
    return request;
}

BuiltTrial build_trial(const MeasureSetup &setup, const std::string &schedule,
                       const std::map<std::string, std::string> &knobs, const fs::path &folder) {
    auto start = std::chrono::steady_clock::now();
    BuiltTrial built;
    std::string key = schedule;
    for (const auto &[name, value] : knobs) {
        key += fmt::format("\n{}={}", name, value);
    }
    fs::path own = folder / sha256(key).substr(0, 24);
    fs::path object = own / (setup.generator + ".so");
    if (!fs::exists(object)) {
        BuildRequest request = build_request(setup, schedule, knobs);
        request.output_dir = own;
        BuildResult result = build_library(request);
        built.outcome.diagnostics = result.diagnostics;
        if (result.ok) {
            try {
                fs::path partial = own / "partial.so";
                link_shared(result.archive, partial);
                fs::rename(partial, object);
                fs::remove(result.archive);
            } catch (const Error &e) {
                built.outcome.diagnostics = e.diagnostics;
                result.ok = false;
            } catch (const fs::filesystem_error &e) {
                built.outcome.message = e.what();
                result.ok = false;
            }
        }
        if (!result.ok) {
            built.outcome.status = status_of(built.outcome.diagnostics);
            if (built.outcome.message.empty()) {
                built.outcome.message = first_error(built.outcome.diagnostics);
            }
            std::error_code ignored;
            fs::remove_all(own, ignored);
        }
    }
    if (fs::exists(object)) {
        built.object = object;
        read_tiles(own / (setup.generator + ".json"), built.outcome);
    }
    built.outcome.build_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return built;
}

} // namespace kiln::search
