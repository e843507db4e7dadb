#include "dsl/support/Diagnostic.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <numeric>

namespace kiln {

namespace {

std::string_view line_of(std::string_view source, int line) {
    size_t start = 0;
    for (int i = 1; i < line; i++) {
        size_t end = source.find('\n', start);
        if (end == std::string_view::npos) {
            return {};
        }
        start = end + 1;
    }
    std::string_view text = source.substr(start, source.find('\n', start) - start);
    if (!text.empty() && text.back() == '\r') {
        text.remove_suffix(1);
    }
    return text;
}

/// The white space that stands under the first `columns - 1` bytes of `text`: tabs stay tabs and the
/// continuation bytes of UTF-8 take no room, so that the caret lines up.
std::string indent_under(std::string_view text, int columns) {
    std::string out;
    for (int i = 0; i + 1 < columns; i++) {
        unsigned char c = i < static_cast<int>(text.size()) ? static_cast<unsigned char>(text[i]) : ' ';
        if ((c & 0xc0) != 0x80) {
            out += c == '\t' ? '\t' : ' ';
        }
    }
    return out;
}

} // namespace

std::string render(const Diagnostic &d, std::string_view source) {
    std::string out =
        fmt::format("{}[{}]: {}\n", d.severity == Severity::Error ? "error" : "warning", d.code, d.message);
    std::string gutter = "  ";
    if (d.span.line > 0) {
        std::string number = std::to_string(d.span.line);
        gutter = std::string(number.size(), ' ');
        out += fmt::format("{}--> {}:{}:{}\n", gutter, d.file.empty() ? "<schedule>" : d.file, d.span.line,
                           d.span.column);
        std::string_view text = line_of(source, d.span.line);
        if (!text.empty()) {
            int room = std::max(1, static_cast<int>(text.size()) - d.span.column + 1);
            std::string carets(std::clamp(d.span.length, 1, room), '^');
            out +=
                fmt::format("{} |\n{} | {}\n{} | {}{}{}{}\n", gutter, number, text, gutter,
                            indent_under(text, d.span.column), carets, d.label.empty() ? "" : " ", d.label);
        } else if (!d.label.empty()) {
            out += fmt::format("{} = note: {}\n", gutter, d.label);
        }
    } else {
        if (!d.file.empty()) {
            out += fmt::format("{}--> {}\n", gutter, d.file);
        }
        if (!d.label.empty()) {
            out += fmt::format("{} = note: {}\n", gutter, d.label);
        }
    }
    for (const std::string &note : d.notes) {
        out += fmt::format("{} = note: {}\n", gutter, note);
    }
    for (const std::string &help : d.helps) {
        out += fmt::format("{} = help: {}\n", gutter, help);
    }
    return out;
}

std::string render_all(const std::vector<Diagnostic> &diagnostics, std::string_view source) {
    std::vector<const Diagnostic *> order;
    for (const Diagnostic &d : diagnostics) {
        order.push_back(&d);
    }
    std::stable_sort(order.begin(), order.end(), [](const Diagnostic *a, const Diagnostic *b) {
        return std::pair(a->span.line, a->span.column) < std::pair(b->span.line, b->span.column);
    });
    std::string out;
    size_t errors = 0;
    for (const Diagnostic *d : order) {
        out += render(*d, source) + "\n";
        errors += d->severity == Severity::Error;
    }
    size_t warnings = diagnostics.size() - errors;
    if (!diagnostics.empty()) {
        out += fmt::format("{} error{}, {} warning{}\n", errors, errors == 1 ? "" : "s", warnings,
                           warnings == 1 ? "" : "s");
    }
    return out;
}

nlohmann::json to_json(const Diagnostic &d) {
    return {{"code", d.code},          {"severity", d.severity == Severity::Error ? "error" : "warning"},
            {"message", d.message},    {"file", d.file},
            {"line", d.span.line},     {"column", d.span.column},
            {"length", d.span.length}, {"label", d.label},
            {"notes", d.notes},        {"helps", d.helps}};
}

Diagnostic diagnostic_from_json(const nlohmann::json &j) {
    Diagnostic d;
    d.code = j.at("code");
    d.severity = j.at("severity") == "error" ? Severity::Error : Severity::Warning;
    d.message = j.at("message");
    d.file = j.at("file");
    d.span = {j.at("line"), j.at("column"), j.at("length")};
    d.label = j.at("label");
    d.notes = j.at("notes");
    d.helps = j.at("helps");
    return d;
}

bool has_errors(const std::vector<Diagnostic> &diagnostics) {
    return std::any_of(diagnostics.begin(), diagnostics.end(),
                       [](const Diagnostic &d) { return d.severity == Severity::Error; });
}

std::string nearest(std::string_view name, const std::vector<std::string> &candidates) {
    std::string best;
    size_t best_distance = std::max<size_t>(1, name.size() / 3) + 1;
    for (const std::string &candidate : candidates) {
        // Edit distance in which two neighbours that changed places count once: `pritn`.
        std::vector<size_t> before, last(candidate.size() + 1), row(candidate.size() + 1);
        std::iota(last.begin(), last.end(), 0);
        for (size_t i = 1; i <= name.size(); i++) {
            row[0] = i;
            for (size_t j = 1; j <= candidate.size(); j++) {
                size_t substitute = last[j - 1] + (name[i - 1] != candidate[j - 1]);
                row[j] = std::min({substitute, last[j] + 1, row[j - 1] + 1});
                if (i > 1 && j > 1 && name[i - 1] == candidate[j - 2] && name[i - 2] == candidate[j - 1]) {
                    row[j] = std::min(row[j], before[j - 2] + 1);
                }
            }
            before = last;
            last = row;
        }
        if (last.back() < best_distance) {
            best_distance = last.back();
            best = candidate;
        }
    }
    return best;
}

namespace {
std::string summary(const std::vector<Diagnostic> &diagnostics) {
    std::string out;
    for (const Diagnostic &d : diagnostics) {
        out += render(d, "");
    }
    return out;
}
} // namespace

Error::Error(std::vector<Diagnostic> d) : std::runtime_error(summary(d)), diagnostics(std::move(d)) {}

Error::Error(Diagnostic d) : Error(std::vector<Diagnostic>{std::move(d)}) {}

} // namespace kiln
