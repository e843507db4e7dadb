#include "dsl/schedule/Diff.h"

#include "dsl/schedule/Canonical.h"
#include "dsl/schedule/Print.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace kiln {

namespace {

using Lines = std::vector<std::string>;

constexpr size_t max_table = size_t(1) << 22;

/// The lines of both in order, marked; nothing where they are equal. By longest common subsequence of what is left
/// between the common beginning and end; where that is too long for a table, all of it counts as changed.
Lines diff(const Lines &a, const Lines &b) {
    size_t first = 0, end_a = a.size(), end_b = b.size();
    while (first < end_a && first < end_b && a[first] == b[first]) {
        first++;
    }
    while (end_a > first && end_b > first && a[end_a - 1] == b[end_b - 1]) {
        end_a--, end_b--;
    }
    size_t rows = end_a - first, columns = end_b - first;
    bool has_table = rows == 0 || columns <= max_table / rows;
    std::vector<std::vector<int>> common(has_table ? rows + 1 : 0, std::vector<int>(columns + 1, 0));
    for (size_t i = has_table ? rows : 0; i-- > 0;) {
        for (size_t j = columns; j-- > 0;) {
            common[i][j] = a[first + i] == b[first + j] ? common[i + 1][j + 1] + 1
                                                        : std::max(common[i + 1][j], common[i][j + 1]);
        }
    }
    Lines out;
    for (size_t i = 0, j = 0; i < rows || j < columns;) {
        if (has_table && i < rows && j < columns && a[first + i] == b[first + j]) {
            i++, j++;
        } else if (j == columns || (i < rows && (!has_table || common[i + 1][j] >= common[i][j + 1]))) {
            out.push_back("- " + a[first + i++]);
        } else {
            out.push_back("+ " + b[first + j++]);
        }
    }
    return out;
}

Lines head(const Schedule &s) {
    Lines out;
    if (!s.op.empty()) {
        out.push_back("op " + s.op);
    }
    if (s.target) {
        out.push_back("target " + s.target->str());
    }
    for (const Knob &k : s.knobs) {
        out.push_back(fmt::format("knob {} in {}", k.name, print_domain(k.domain)));
    }
    for (const Require &r : s.requires_) {
        out.push_back("require " + print_node(r.condition));
    }
    return out;
}

/// Calls by stage, in the order in which the stages first appear; a specialization is a stage of its own.
struct Stages {
    Lines order;
    std::map<std::string, Lines> calls;
};

Stages stages_of(const Schedule &s, const KnobValues &values) {
    Stages out;
    for (const Statement &statement : canonicalize(s, values).schedule.statements) {
        std::string stage = statement.stage.str();
        auto note = [&](const std::string &line) {
            if (out.calls.find(stage) == out.calls.end()) {
                out.order.push_back(stage);
            }
            Lines &lines = out.calls[stage];
            if (!line.empty()) {
                lines.push_back(line);
            }
        };
        note("");
        for (const DirectiveCall &call : statement.calls) {
            if (call.name == "specialize") {
                // Its place among the specializations counts: the first that holds is taken.
                std::string text = print_call(call);
                Lines &lines = out.calls[stage];
                if (std::find(lines.begin(), lines.end(), text) == lines.end()) {
                    note(text);
                }
                stage += "." + text;
                note("");
            } else {
                note(print_call(call) + (call.name == "rfactor" ? " as " + statement.binding : ""));
            }
        }
    }
    return out;
}

std::string diff_stages(const Stages &a, const Stages &b) {
    std::string out;
    Lines order = a.order;
    for (const std::string &stage : b.order) {
        if (a.calls.find(stage) == a.calls.end()) {
            order.push_back(stage);
        }
    }
    static const Lines none;
    for (const std::string &stage : order) {
        auto in_a = a.calls.find(stage), in_b = b.calls.find(stage);
        Lines lines =
            diff(in_a == a.calls.end() ? none : in_a->second, in_b == b.calls.end() ? none : in_b->second);
        bool is_wrapper_alone = lines.empty() && (in_a == a.calls.end()) != (in_b == b.calls.end());
        if (is_wrapper_alone) {
            out += fmt::format("{} {}\n", in_a == a.calls.end() ? "+" : "-", stage);
        } else if (!lines.empty()) {
            out += fmt::format("{}:\n", stage);
            for (const std::string &line : lines) {
                out += "  " + line + "\n";
            }
        }
    }
    return out;
}

/// The knob's values but for the first, as text.
Lines other_values(const Knob &knob) {
    Lines all = knob.names;
    for (int64_t v : knob.values) {
        all.push_back(std::to_string(v));
    }
    if (!all.empty()) {
        all.erase(all.begin());
    }
    return all;
}

} // namespace

std::string schedule_diff(const Schedule &a, const Schedule &b, const KnobValues &a_values,
                          const KnobValues &b_values) {
    std::string out;
    for (const std::string &line : diff(head(a), head(b))) {
        out += line + "\n";
    }
    std::string statements = diff_stages(stages_of(a, a_values), stages_of(b, b_values));
    if (!statements.empty() || !out.empty()) {
        return out + statements;
    }
    // Equal heads and equal at these values: a knob may still be used in another place.
    for (const Knob &knob : a.knobs) {
        Lines values = other_values(knob);
        values.resize(std::min<size_t>(values.size(), 4));
        for (const std::string &value : values) {
            KnobValues with_a = a_values, with_b = b_values;
            with_a[knob.name] = value;
            with_b[knob.name] = value;
            statements = diff_stages(stages_of(a, with_a), stages_of(b, with_b));
            if (!statements.empty()) {
                return fmt::format("with {} = {}:\n{}", knob.name, value, statements);
            }
        }
    }
    return "";
}

} // namespace kiln
