/** \file
 * A schedule as a value: the syntax tree that the parser builds and the printers, checker, applier and
 * searcher read. It knows nothing of Halide. The grammar is docs/schedule.ebnf.
 */
#pragma once

#include "dsl/support/Diagnostic.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace kiln {

/// Comment lines, without their slashes, kept by the printer. They never count in comparisons.
struct Comments {
    std::vector<std::string> above;
    std::string beside; ///< on the same line, after the item
};

/// An expression of the schedule language: an argument, a knob's bound, a `require`, a specialize condition.
struct Node {
    enum class Kind {
        Int,    ///< int_value
        Float,  ///< float_value
        String, ///< text, without its quotes and escapes
        Name,   ///< text: a loop (`xo`, `k.x`), Func, knob or enumerator, told apart by where it stands
        Unary,  ///< text: "-" or "!"; args[0]
        Binary, ///< text: the operator, also ".." in a knob's domain; args[0], args[1]
        Call,   ///< text: the function; args. `y.extent(x)` has the receiver in args[0] and is_method set.
                ///< In a knob's domain `1..9 step 2` is Call "range" of three
        List,   ///< `{a, b}`: args
    };
    Kind kind = Kind::Int;
    std::string text;
    int64_t int_value = 0;
    double float_value = 0;
    bool is_method = false;
    std::string keyword; ///< `stages = 4`: "stages"; empty for a positional argument
    std::vector<Node> args;
    Span span;

    static Node integer(int64_t value, Span span = {});
    static Node name(std::string text, Span span = {});
    static Node list(std::vector<Node> args, Span span = {});

    /// Equal in meaning: spans do not count.
    bool operator==(const Node &other) const;
};

/// Which definition a statement schedules.
struct StageRef {
    std::string func; ///< the Func's name, or a binding made by an earlier statement
    Span func_span;
    /// `x.in(acc)`, `x.in({a, b})`, `x.in()`: the wrapper of `func` for these consumers.
    bool is_wrapper = false;
    std::vector<std::string> wrapper_for; ///< empty: the global wrapper `x.in()`
    int update = -1;                      ///< -1: the pure definition; n: update(n)
    /// Only in the body of a macro: the statement starts with `.` and schedules what the macro is called on.
    bool is_receiver = false;
    Span span;

    /// As written: `acc.update(1)`, `x.in({a, b})`, "" for a receiver.
    std::string str() const;
    bool operator==(const StageRef &other) const;
};

/// One call in a statement's chain: `.split(x, xo, xi, 8, GuardWithIf)`.
struct DirectiveCall {
    std::string name;
    Span name_span;
    std::vector<Node> args;
    Span span; ///< from the name to the closing bracket
    /// In canonical form: what the user wrote for it, `vectorize(x, 8)`, where that differs; else "".
    std::string expanded_from;
    std::vector<std::string> comments; ///< comment lines inside the chain, above this call
    bool operator==(const DirectiveCall &other) const;
};

/// `acc.update().split(…).vectorize(…);` or `part = acc.update().rfactor(ko, u);`
/// A macro called as a statement, `stage_input(a, acc);`, has an empty stage.func and one call.
struct Statement {
    std::string binding; ///< the name given to the Func that rfactor returns, or ""
    Span binding_span;
    StageRef stage;
    std::vector<DirectiveCall> calls;
    Span span;
    Comments comments;
    bool operator==(const Statement &other) const;
};

/// `knob bm in {64, 128, 256}`: the values it may take, written out in order. Names are allowed
/// (`knob tail in {GuardWithIf, RoundUp}`): then `names` holds them and `values` is empty.
struct Knob {
    std::string name;
    Span span;
    std::vector<int64_t> values;
    std::vector<std::string> names;
    Node domain; ///< as written, for the printer: a List
    Comments comments;
    bool operator==(const Knob &other) const;
};

struct Require {
    Node condition;
    Span span;
    Comments comments;
    bool operator==(const Require &other) const;
};

/// `cuda sm_90a` (exact) or `cuda sm >= 80` (portable), `cpu avx2`, `cpu`, `opencl`.
struct TargetPattern {
    std::string backend; ///< "cpu", "cuda" or "opencl"
    std::vector<std::string> features;
    std::optional<int> at_least; ///< the N of `sm >= N`
    Span span;
    std::string str() const;
    bool operator==(const TargetPattern &other) const;
};

/// `macro name(a, b) { … }`: a composite directive (every statement of its body starts with `.`) or a
/// composite statement (none does). Parameters are replaced by the arguments as text; see Macros.h.
struct Macro {
    std::string name;
    std::vector<std::string> params;
    std::vector<Statement> body;
    Span span;
    Comments comments;
    std::vector<std::string> footer; ///< comment lines before the closing brace
    bool is_chain() const { return !body.empty() && body.front().stage.is_receiver; }
    bool operator==(const Macro &other) const;
};

struct Schedule {
    std::string name;
    std::string op; ///< the generator it was written for
    std::optional<TargetPattern> target;
    std::vector<Knob> knobs;
    std::vector<Require> requires_;
    std::vector<Macro> macros; ///< its own and those of the file that it uses, in order of definition
    std::vector<Statement> statements;
    std::vector<std::string> header_comments; ///< comment lines before `schedule`: the facts
    std::vector<std::string> footer;          ///< comment lines before the closing brace
    std::vector<std::string> file_footer;     ///< comment lines after the last schedule of a file
    Comments op_comments, target_comments;
    std::set<std::string>
        unread; ///< Funcs of statements that could not be read: faults about them may be echoes
    std::string file;
    std::shared_ptr<const std::string> source; ///< the text that the spans point into
    Span name_span, op_span;

    /// Equal in meaning: spans, comments, file and source do not count.
    bool operator==(const Schedule &other) const;
};

} // namespace kiln
