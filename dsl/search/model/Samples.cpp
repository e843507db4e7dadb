#include "dsl/search/model/Samples.h"
#include "dsl/support/Diagnostic.h"
#include "dsl/support/Files.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <fstream>

namespace kiln::search {

namespace {

using nlohmann::json;
using nlohmann::ordered_json;

[[noreturn]] void fail(const std::filesystem::path &path, int line, std::string message, std::string note) {
    Diagnostic d;
    d.code = "K1352";
    d.message = std::move(message);
    d.file = path.string();
    d.span = {line, 1, 1};
    d.notes = {std::move(note)};
    d.helps = {"samples go with the features of the Kiln that wrote them: `kiln model features TIMINGS "
               "--output SAMPLES`"};
    throw Error(std::move(d));
}

double rounded(double v) {
    return std::stod(fmt::format("{:.6g}", v));
}

void check_header(const std::filesystem::path &path, const std::string &line) {
    json header = json::parse(line, nullptr, false);
    if (!header.is_object() || header.value("kiln_samples", 0) != samples_version ||
        !header.contains("features")) {
        fail(path, 1, "this is no file of samples",
             fmt::format("its first line is {{\"kiln_samples\":{},\"features\":[…]}}", samples_version));
    }
    auto names = header.at("features").get<std::vector<std::string>>();
    if (names == feature_names()) {
        return;
    }
    for (const std::string &name : names) {
        if (std::find(feature_names().begin(), feature_names().end(), name) == feature_names().end()) {
            fail(path, 1, fmt::format("these samples have a feature `{}`, which does not exist here", name),
                 fmt::format("{} features there, {} here", names.size(), feature_names().size()));
        }
    }
    fail(path, 1, "these samples have other features than those here",
         fmt::format("{} features there, {} here", names.size(), feature_names().size()));
}

Sample sample_of(const json &j) {
    Sample s;
    s.problem = j.at("problem").get<std::string>();
    s.device = j.at("device").get<std::string>();
    s.operation = j.at("operation").get<std::string>();
    s.ms = j.at("ms").get<double>();
    for (const json &r : j.at("rows")) {
        FeatureRow row;
        row.stage = r.at("stage").get<std::string>();
        row.estimate_ms = r.at("estimate_ms").get<double>();
        row.values = r.at("values").get<std::vector<float>>();
        s.features.rows.push_back(std::move(row));
    }
    return s;
}

std::string line_of(const Sample &sample) {
    ordered_json j;
    j["problem"] = sample.problem;
    j["device"] = sample.device;
    j["operation"] = sample.operation;
    j["ms"] = rounded(sample.ms);
    j["rows"] = ordered_json::array();
    for (const FeatureRow &row : sample.features.rows) {
        ordered_json values = ordered_json::array();
        for (float v : row.values) {
            values.push_back(rounded(v));
        }
        j["rows"].push_back(ordered_json{
            {"stage", row.stage}, {"estimate_ms", rounded(row.estimate_ms)}, {"values", values}});
    }
    return j.dump();
}

} // namespace

void write_samples(const std::filesystem::path &path, std::span<const Sample> samples) {
    std::string text =
        ordered_json{{"kiln_samples", samples_version}, {"features", feature_names()}}.dump() + "\n";
    for (const Sample &s : samples) {
        text += line_of(s) + "\n";
    }
    write_file_atomic(path, text);
}

std::vector<Sample> read_samples(const std::vector<std::filesystem::path> &paths) {
    std::vector<Sample> all;
    for (const std::filesystem::path &path : paths) {
        std::ifstream in(path);
        if (!in) {
            read_text_file(path, "file of samples"); // says why
        }
        std::string line;
        int number = 0;
        while (std::getline(in, line)) {
            number++;
            if (number == 1) {
                check_header(path, line);
                continue;
            }
            try {
                all.push_back(sample_of(json::parse(line)));
            } catch (const json::exception &e) {
                fail(path, number, "this line is no sample", e.what());
            }
            const Sample &s = all.back();
            if (!(s.ms > 0) || !std::isfinite(s.ms)) {
                fail(path, number, fmt::format("a sample's time must be above 0 ms, this one says {}", s.ms),
                     fmt::format("of `{}`", s.problem));
            }
            for (const FeatureRow &row : s.features.rows) {
                if (row.values.size() != feature_names().size()) {
                    fail(path, number,
                         fmt::format("a row of {} values for {} features", row.values.size(),
                                     feature_names().size()),
                         fmt::format("stage `{}` of `{}`", row.stage, s.problem));
                }
            }
        }
        if (number == 0) {
            check_header(path, "");
        }
    }
    return all;
}

} // namespace kiln::search
