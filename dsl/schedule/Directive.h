/** \file
 * The registry of directives: for each its name, arguments, where it applies, its meaning in canonical form
 * and its documentation. Parser messages, canonical form, printers, the C++ form, menus and the reference
 * page all come from it. A family of directives is one file under directives/; adding one is adding an entry
 * there.
 */
#pragma once

#include "dsl/schedule/Schedule.h"

#include <functional>

namespace kiln {

/// What an argument must be. The enumerations are Halide's and keep its names.
enum class ArgKind {
    Loop,      ///< a loop of the stage
    NewLoop,   ///< a name for a loop that this call makes
    Dim,       ///< a Var of the Func
    Func,      ///< a Func or input by name
    Stage,     ///< a Func, `f.update(n)` or `f.in(…)`
    Int,       ///< an integer expression over knobs
    Bool,      ///< true or false
    Tail,      ///< TailStrategy
    Memory,    ///< MemoryType
    Align,     ///< LoopAlignStrategy
    Prefetch,  ///< PrefetchBoundStrategy
    Partition, ///< Partition
    Condition, ///< a run-time condition
    Text,      ///< "…"
    Word,      ///< one of Param::words
};

/// The words for people ("a loop") and, for enumerations, Halide's type ("TailStrategy") and the values.
const char *kind_words(ArgKind kind);
const char *halide_enum(ArgKind kind);
const std::vector<std::string> &enumerators(ArgKind kind);

struct Param {
    enum class Shape {
        One,
        List,  ///< `{a, b}`
        Rest,  ///< any number from here on, or one list of them
        Pairs, ///< `{{a, x}, {b, y}}`: `kind` and `second`
    };
    std::string name;
    ArgKind kind = ArgKind::Loop;
    Shape shape = Shape::One;
    std::optional<Node> fallback; ///< the value when left out; such parameters come last
    int64_t least = 1;            ///< of an Int; also how many a Rest needs at least
    int64_t most = INT32_MAX;     ///< of an Int; also how many a Rest takes at most
    ArgKind second = ArgKind::Loop;
    std::vector<std::string> words;
};

/// One overload.
using Form = std::vector<Param>;

/// Arguments of a call after matching: one Node a parameter, defaults filled in, a Rest as one List.
struct BoundCall {
    size_t form = 0;
    std::vector<Node> args;
};

/// Gives names to the loops that an expansion makes; see Canonical.h.
using FreshName = std::function<std::string(const std::string &loop, const char *suffix)>;

struct Directive {
    enum class Level { Stage, Func };

    std::string name;
    std::string family; ///< "Loops": the heading of the reference page
    Level level = Level::Stage;
    std::vector<Form> forms;
    std::string doc;                 ///< one sentence
    std::string legal;               ///< when it is legal, in words
    std::string before, after;       ///< loop nests, or ""
    std::vector<std::string> errors; ///< what is refused and why
    /// The primitives it stands for; for the primitive form of an overloaded name that call itself. Empty: always a
    /// primitive, whose canonical arguments are the bound ones (a Rest spread out).
    std::function<std::vector<DirectiveCall>(const BoundCall &, const FreshName &)> expand;
    /// What is wrong with arguments that each are right (K0039), or "".
    std::function<std::string(const BoundCall &)> conflict;
    /// A call of Halide's that Kiln does not take: why, and what to do instead. Then all but the name is
    /// empty.
    std::string refused, instead;

    /// `split(old, outer, inner, factor, tail = Auto)`
    std::string signature(size_t form) const;
};

/// All directives in the order of the reference page, the refused ones last.
const std::vector<Directive> &all_directives();

/// Null where there is none. Refused ones are found too.
const Directive *find_directive(const std::string &name);

/// Matches the arguments (knobs already folded) to a form. On failure returns nothing and appends the reason:
/// K0032 (number of arguments), K0033 (kind of an argument), K0034 (no such value), K0037 (keywords),
/// K0038 (integer out of range).
std::optional<BoundCall> bind_arguments(const Directive &directive, const DirectiveCall &call,
                                        const std::string &file, std::vector<Diagnostic> &diagnostics);

/// The families, one a file. A new family adds its line here and in Registry.cpp.
std::vector<Directive> loop_directives();
std::vector<Directive> gpu_directives();
std::vector<Directive> placement_directives();
std::vector<Directive> storage_directives();
std::vector<Directive> reduction_directives();
std::vector<Directive> tile_directives();
std::vector<Directive> refused_directives();

} // namespace kiln
