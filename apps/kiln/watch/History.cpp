#include "apps/kiln/watch/History.h"

#include "dsl/support/Files.h"
#include "dsl/target/Device.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <ctime>

namespace kiln::cli {

namespace {

namespace fs = std::filesystem;

/// FNV-1a: names a folder; nothing depends on it being hard to invert.
std::string hash(const std::string &text) {
    uint64_t h = 0xcbf29ce484222325;
    for (unsigned char c : text) {
        h = (h ^ c) * 0x100000001b3;
    }
    return fmt::format("{:016x}", h);
}

HistoryEntry entry_from_json(const nlohmann::json &json) {
    HistoryEntry entry;
    entry.number = json.at("number");
    entry.time = json.at("time");
    entry.failed_at = json.at("failed_at");
    entry.fault = json.at("fault");
    for (const auto &row : json.at("rows")) {
        entry.rows.push_back(trial_row_from_json(row));
    }
    return entry;
}

} // namespace

nlohmann::ordered_json to_json(const TrialRow &row) {
    return {{"work", row.work},         {"ms", row.ms},
            {"ms_low", row.ms_low},     {"ms_high", row.ms_high},
            {"roofline", row.roofline}, {"error", row.error},
            {"bound", row.bound},       {"gain", row.gain},
            {"gain_low", row.gain_low}, {"gain_high", row.gain_high},
            {"flags", row.flags}};
}

TrialRow trial_row_from_json(const nlohmann::json &json) {
    TrialRow row;
    row.work = json.at("work");
    row.ms = json.at("ms");
    row.ms_low = json.at("ms_low");
    row.ms_high = json.at("ms_high");
    row.roofline = json.at("roofline");
    row.error = json.at("error");
    row.bound = json.at("bound");
    row.gain = json.at("gain");
    row.gain_low = json.at("gain_low");
    row.gain_high = json.at("gain_high");
    row.flags = json.value("flags", std::vector<std::string>());
    return row;
}

nlohmann::ordered_json to_json(const HistoryEntry &entry) {
    nlohmann::ordered_json json = {{"number", entry.number},
                                   {"time", entry.time},
                                   {"failed_at", entry.failed_at},
                                   {"fault", entry.fault},
                                   {"rows", nlohmann::ordered_json::array()}};
    for (const TrialRow &row : entry.rows) {
        json["rows"].push_back(to_json(row));
    }
    return json;
}

double speed_up(const std::vector<TrialRow> &a, const std::vector<TrialRow> &b) {
    double sum = 0;
    int count = 0;
    for (const TrialRow &x : a) {
        for (const TrialRow &y : b) {
            if (x.work == y.work && x.ms > 0 && y.ms > 0) {
                sum += std::log(x.ms / y.ms);
                count++;
            }
        }
    }
    return count == 0 ? 0 : std::exp(sum / count);
}

History::History(const fs::path &schedule_file, const std::string &key) {
    std::error_code error;
    fs::path absolute = fs::weakly_canonical(schedule_file, error);
    if (error) {
        absolute = fs::absolute(schedule_file);
    }
    folder_ = cache_dir() / "watch" /
              fmt::format("{}-{}", schedule_file.stem().string(), hash(absolute.string() + "\n" + key));
    for (const auto &item : fs::directory_iterator(folder_, error)) {
        if (item.path().extension() != ".json") {
            continue;
        }
        try {
            // One that does not parse (another version wrote it) is only not shown.
            entries_.push_back(
                entry_from_json(nlohmann::json::parse(read_text_file(item.path(), "history"))));
        } catch (const nlohmann::json::exception &) {
        } catch (const Error &) {
        }
    }
    std::sort(entries_.begin(), entries_.end(),
              [](const HistoryEntry &a, const HistoryEntry &b) { return a.number < b.number; });
}

const HistoryEntry *History::find(int number) const {
    for (const HistoryEntry &entry : entries_) {
        if (entry.number == number) {
            return &entry;
        }
    }
    return nullptr;
}

const HistoryEntry *History::last_good() const {
    for (auto it = entries_.rbegin(); it != entries_.rend(); ++it) {
        if (it->ok()) {
            return &*it;
        }
    }
    return nullptr;
}

const HistoryEntry *History::best() const {
    const HistoryEntry *best = last_good();
    for (const HistoryEntry &entry : entries_) {
        if (entry.ok() && speed_up(best->rows, entry.rows) > 1) {
            best = &entry;
        }
    }
    return best;
}

std::string History::text_of(int number) const {
    return read_text_file(folder_ / fmt::format("{:04}.sched", number), "schedule");
}

HistoryEntry History::add(const std::string &text, const TrialResult &result) {
    HistoryEntry entry;
    entry.number = entries_.empty() ? 1 : entries_.back().number + 1;
    entry.time = fmt::format("{:%Y-%m-%dT%H:%M:%S}", fmt::localtime(std::time(nullptr)));
    entry.failed_at = result.failed_at;
    for (const Diagnostic &d : result.diagnostics) {
        if (d.severity == Severity::Error) {
            entry.fault = fmt::format("{}: {}", d.code, d.message);
            break;
        }
    }
    entry.rows = result.rows;
    std::error_code ignored;
    fs::create_directories(folder_, ignored);
    // The text first: an entry without its text would be worth nothing.
    write_file_atomic(folder_ / fmt::format("{:04}.sched", entry.number), text);
    write_file_atomic(folder_ / fmt::format("{:04}.json", entry.number), to_json(entry).dump(2) + "\n");
    entries_.push_back(entry);
    return entry;
}

} // namespace kiln::cli
