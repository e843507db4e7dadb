#include "apps/kiln/watch/Engine.h"

#include "apps/kiln/Report.h"
#include "apps/kiln/ScheduleDiff.h"
#include "dsl/support/Files.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace kiln::cli {

WatchEngine::WatchEngine(std::filesystem::path file, TrialRunner &runner, History &history)
    : file_(std::move(file)), runner_(runner), history_(history) {}

std::optional<WatchEvent> WatchEngine::look() {
    std::string text;
    try {
        text = read_text_file(file_, "schedule");
    } catch (const Error &error) {
        pending_.reset();
        if (gone_ && *gone_ == error.what()) {
            return std::nullopt;
        }
        gone_ = error.what();
        WatchEvent event;
        event.kind = WatchEvent::Kind::Gone;
        event.diagnostics = error.diagnostics;
        return event;
    }
    if (pending_ != text) {
        pending_ = text;
        return std::nullopt;
    }
    bool was_gone = std::exchange(gone_, std::nullopt).has_value();
    if (tried_ == text) {
        if (!was_gone) {
            return std::nullopt;
        }
        WatchEvent event;
        event.kind = WatchEvent::Kind::Back;
        return event;
    }
    return try_text(text);
}

WatchEvent WatchEngine::try_text(const std::string &text) {
    WatchEvent event;
    if (!history_.entries().empty()) {
        event.compared_with = history_.entries().back().number;
        try {
            event.changes = diff_texts(history_.text_of(event.compared_with), text);
        } catch (const Error &) {
            event.compared_with = 0; // its text was removed from the cache
        }
        for (const HistoryEntry &entry : history_.entries()) {
            try {
                if (history_.text_of(entry.number) == text) {
                    event.same_text_as = entry.number;
                }
            } catch (const Error &) {
                continue;
            }
        }
    }
    std::vector<TrialRow> previous, best;
    if (const HistoryEntry *entry = history_.last_good()) {
        event.previous = entry->number;
        previous = entry->rows;
        event.best = history_.best()->number;
        best = history_.best()->rows;
    }
    event.result = runner_.run(file_.string(), text);
    event.entry = history_.add(text, event.result);
    tried_ = text;
    if (event.result.ok()) {
        event.versus_previous = speed_up(previous, event.result.rows);
        event.versus_best = speed_up(best, event.result.rows);
    }
    return event;
}

namespace {

std::string milliseconds(double ms) {
    return ms >= 100 ? fmt::format("{:.1f} ms", ms)
           : ms >= 1 ? fmt::format("{:.3f} ms", ms)
                     : fmt::format("{:.2f} us", ms * 1000);
}

/// "1.12 times as fast", "0.90 times as fast (slower)", "as fast" where the interval holds 1.
std::string gain_words(double gain, double low, double high) {
    if (low > 1) {
        return fmt::format("gain: {:.3f} times as fast [{:.3f}, {:.3f}]", gain, low, high);
    }
    if (high < 1) {
        return fmt::format("loss: {:.3f} times as fast [{:.3f}, {:.3f}]", gain, low, high);
    }
    return fmt::format("no difference: {:.3f} times as fast [{:.3f}, {:.3f}]", gain, low, high);
}

std::string render_row(const TrialRow &row) {
    std::string line = fmt::format("  {:<28} {:>12} [{}, {}]", row.work, milliseconds(row.ms),
                                   milliseconds(row.ms_low), milliseconds(row.ms_high));
    if (row.gain > 0) {
        line += "  " + gain_words(row.gain, row.gain_low, row.gain_high);
    }
    if (row.roofline > 0) {
        line += fmt::format("  {:.0f} % of the roofline", 100 * row.roofline);
    }
    for (const std::string &flag : row.flags) {
        line += fmt::format("  ({})", flag);
    }
    return line + "\n";
}

} // namespace

std::string render(const WatchEvent &event, const std::string &file) {
    switch (event.kind) {
    case WatchEvent::Kind::Gone:
        return render_with_sources(event.diagnostics, {}) + fmt::format("waiting for `{}`\n", file);
    case WatchEvent::Kind::Back:
        return fmt::format("`{}` is back, unchanged\n", file);
    case WatchEvent::Kind::Trial:
        break;
    }
    std::string out = fmt::format("#{} {}", event.entry.number, event.entry.time.substr(11));
    if (event.same_text_as > 0) {
        out += fmt::format(", the text of #{}", event.same_text_as);
    }
    out += "\n";
    if (event.compared_with > 0) {
        out += fmt::format("  against #{}: {}\n", event.compared_with,
                           event.changes.empty() ? "only layout or comments changed"
                                                 : fmt::format("{} lines differ", event.changes.size()));
    }
    for (const std::string &change : event.changes) {
        out += "  " + change + "\n";
    }
    const TrialResult &result = event.result;
    if (!result.ok()) {
        return out + render_with_sources(result.diagnostics, result.sources) +
               fmt::format("#{} did not pass: {}{}\n", event.entry.number, result.failed_at,
                           event.previous > 0 ? fmt::format("; #{} is the last that did", event.previous)
                                              : "");
    }
    out += render_with_sources(result.diagnostics, result.sources);
    out += fmt::format("  built in {:.2f} s, right (checked in {:.2f} s)\n", result.build_s, result.verify_s);
    for (const TrialRow &row : result.rows) {
        out += render_row(row);
    }
    if (event.versus_previous > 0) {
        out += fmt::format("  {:.3f} times as fast as #{}", event.versus_previous, event.previous);
        out += event.versus_best > 1
                   ? ": the best so far\n"
                   : fmt::format("; {:.3f} times the best, #{}\n", event.versus_best, event.best);
    }
    return out;
}

nlohmann::ordered_json to_json(const WatchEvent &event, const std::string &file) {
    nlohmann::ordered_json json;
    json["event"] = event.kind == WatchEvent::Kind::Gone   ? "gone"
                    : event.kind == WatchEvent::Kind::Back ? "back"
                                                           : "trial";
    json["file"] = file;
    json["diagnostics"] = nlohmann::ordered_json::array();
    for (const auto *list : {&event.diagnostics, &event.result.diagnostics}) {
        for (const Diagnostic &d : *list) {
            json["diagnostics"].emplace_back(kiln::to_json(d));
        }
    }
    if (event.kind == WatchEvent::Kind::Trial) {
        json["entry"] = to_json(event.entry);
        json["ok"] = event.result.ok();
        json["changes"] = event.changes;
        json["compared_with"] = event.compared_with;
        json["same_text_as"] = event.same_text_as;
        json["versus_previous"] = event.versus_previous;
        json["previous"] = event.previous;
        json["versus_best"] = event.versus_best;
        json["best"] = event.best;
        json["build_s"] = event.result.build_s;
    }
    return json;
}

std::string render(const History &history) {
    if (history.entries().empty()) {
        return "nothing was tried yet with this generator, target and parameters: each has a history of its "
               "own\n";
    }
    const HistoryEntry *best = history.best();
    std::string out;
    for (const HistoryEntry &entry : history.entries()) {
        out += fmt::format("#{:<4} {}  ", entry.number, entry.time);
        if (!entry.ok()) {
            out += fmt::format("did not pass: {} ({})\n", entry.failed_at, entry.fault);
            continue;
        }
        std::string rows;
        for (const TrialRow &row : entry.rows) {
            rows += fmt::format("{}{} {}", rows.empty() ? "" : ", ", row.work, milliseconds(row.ms));
        }
        out += rows + (&entry == best ? "  (best)" : "") + "\n";
    }
    return out;
}

} // namespace kiln::cli
