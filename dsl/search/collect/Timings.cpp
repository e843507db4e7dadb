#include "dsl/search/collect/Timings.h"

#include "dsl/support/Diagnostic.h"
#include "dsl/support/Files.h"
#include "dsl/target/DeviceJson.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <fstream>

namespace kiln::search {

namespace {

using nlohmann::json;
using nlohmann::ordered_json;

[[noreturn]] void fail(const std::filesystem::path &path, int line, std::string message, std::string note) {
    Diagnostic d;
    d.code = "K1360";
    d.message = std::move(message);
    d.file = path.string();
    d.span = {line, 1, 1};
    d.notes = {std::move(note)};
    d.helps = {"collect anew: `kiln model collect --output DATA`"};
    throw Error(std::move(d));
}

void check_first_line(const std::filesystem::path &path, const std::string &line) {
    json first = json::parse(line, nullptr, false);
    if (!first.is_object() || first.value("kiln_timings", 0) != timings_version) {
        fail(path, 1, "this is no file of timings",
             fmt::format("its first line is {{\"kiln_timings\":{}}}", timings_version));
    }
}

std::string line_of(const Timing &t) {
    ordered_json j;
    j["device"] = t.device;
    j["generator"] = t.generator;
    j["params"] = t.params;
    j["extents"] = t.extents;
    j["scalars"] = t.scalars;
    j["operation"] = t.operation;
    j["origin"] = t.origin;
    j["ms"] = std::stod(fmt::format("{:.6g}", t.ms));
    j["schedule"] = t.schedule;
    return j.dump();
}

Timing timing_of(const json &j) {
    Timing t;
    t.device = j.at("device").get<std::string>();
    t.generator = j.at("generator").get<std::string>();
    t.params = j.at("params").get<std::map<std::string, std::string>>();
    t.extents = j.at("extents").get<std::map<std::string, std::vector<int64_t>>>();
    t.scalars = j.at("scalars").get<std::map<std::string, double>>();
    t.operation = j.at("operation").get<std::string>();
    t.origin = j.at("origin").get<std::string>();
    t.ms = j.at("ms").get<double>();
    t.schedule = j.at("schedule").get<std::string>();
    return t;
}

void read_file(const std::filesystem::path &path, TimingFile &file) {
    std::ifstream in(path);
    if (!in) {
        read_text_file(path, "file of timings"); // says why
    }
    std::string line;
    int number = 0;
    while (std::getline(in, line)) {
        bool cut_short = in.eof();
        number++;
        if (number == 1) {
            check_first_line(path, line);
            continue;
        }
        try {
            json j = json::parse(line);
            if (j.contains("label")) {
                file.devices[j.at("label").get<std::string>()] = device_from_json(j.at("description"));
                continue;
            }
            Timing t = timing_of(j);
            if (!(t.ms > 0) || !file.devices.count(t.device)) {
                fail(path, number, "this line is no timing",
                     fmt::format("{} ms on `{}`, of which no line before tells", t.ms, t.device));
            }
            file.timings.push_back(std::move(t));
        } catch (const json::exception &e) {
            if (cut_short) {
                break;
            }
            fail(path, number, "this line is no timing", e.what());
        }
    }
    if (number == 0) {
        check_first_line(path, "");
    }
}

/// What was being written when the program ended.
void drop_last_line_if_cut(const std::filesystem::path &path) {
    std::string text;
    if (std::ifstream in(path, std::ios::binary); in) {
        text.assign(std::istreambuf_iterator<char>(in), {});
    }
    if (!text.empty() && text.back() != '\n') {
        size_t end = text.rfind('\n');
        std::filesystem::resize_file(path, end == std::string::npos ? 0 : end + 1);
    }
}

} // namespace

std::string Timing::problem_key() const {
    return json{generator, params, extents, scalars}.dump();
}

void append_timings(const std::filesystem::path &path, const std::string &label, const Device &device,
                    const std::vector<Timing> &timings) {
    TimingFile before;
    if (std::filesystem::exists(path) && std::filesystem::file_size(path) > 0) {
        read_file(path, before);
    }
    bool fresh = before.devices.empty();
    drop_last_line_if_cut(path);
    std::ofstream out(path, std::ios::app);
    if (fresh) {
        out << ordered_json{{"kiln_timings", timings_version}}.dump() << "\n";
    }
    if (!before.devices.count(label)) {
        ordered_json j;
        j["label"] = label;
        j["description"] = to_json(device);
        out << j.dump() << "\n";
    }
    for (const Timing &t : timings) {
        out << line_of(t) << "\n";
    }
    if (!out.flush()) {
        Diagnostic d;
        d.code = "K0935";
        d.message = fmt::format("cannot write `{}`", path.string());
        throw Error(std::move(d));
    }
}

TimingFile read_timings(const std::vector<std::filesystem::path> &paths) {
    TimingFile file;
    for (const std::filesystem::path &path : paths) {
        read_file(path, file);
    }
    return file;
}

} // namespace kiln::search
