/** \file
 * What Kiln says to people about their input: a code, a place, a reason and a way out. All parts report
 * through this type, so one renderer serves the command line, tests and JSON.
 */
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {

/// A place in a text: line and column count from 1, in bytes; length in bytes. line 0: no place.
struct Span {
    int line = 0;
    int column = 0;
    int length = 0;
    bool operator==(const Span &) const = default;
};

enum class Severity { Error, Warning };

/// One fault. `message` starts in lower case and has no full stop; the remedy goes into `helps`, never into
/// `message`. `label` stands beside the caret: what exists instead.
struct Diagnostic {
    std::string code; ///< "K0107"; every code has a test with its full text
    Severity severity = Severity::Error;
    std::string message;
    std::string file; ///< as the user named it; may be empty
    Span span;
    std::string label;
    std::vector<std::string> notes;
    std::vector<std::string> helps;
};

/// Renders as `error[K0107]: message`, ` --> file:line:column`, the line with a caret, notes and helps.
/// `source` is the whole text that `span` points into; pass "" where there is none.
std::string render(const Diagnostic &diagnostic, std::string_view source);

/// All of them, errors and warnings in source order, then one line that counts them.
std::string render_all(const std::vector<Diagnostic> &diagnostics, std::string_view source);

nlohmann::json to_json(const Diagnostic &diagnostic);
Diagnostic diagnostic_from_json(const nlohmann::json &json);

bool has_errors(const std::vector<Diagnostic> &diagnostics);

/// The name among `candidates` nearest to `name` by edit distance, or "" where none is near enough to offer.
std::string nearest(std::string_view name, const std::vector<std::string> &candidates);

/// Thrown where a function cannot return diagnostics. what() is their rendered text without source lines.
class Error : public std::runtime_error {
public:
    explicit Error(std::vector<Diagnostic> diagnostics);
    explicit Error(Diagnostic diagnostic);
    std::vector<Diagnostic> diagnostics;
};

} // namespace kiln
