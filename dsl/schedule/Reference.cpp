#include "dsl/schedule/Reference.h"

#include "dsl/schedule/Directive.h"
#include "dsl/schedule/Print.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace kiln {

namespace {

const char introduction[] = R"(# Directives

Made from the registry by `kiln schedule doc`; do not edit. The grammar is in schedule.ebnf.

A statement names a stage and what is done to it:

    y.split(x, xo, xi, 8).vectorize(xi);                  // the pure definition of y
    acc.update().atomic().vectorize(k);                   // its first update; update(1) is the second
    w.in(acc).compute_at(acc, ko).store_in(Stack);        // the wrapper of w that acc reads; in(), in({a, b})
    part = acc.update().rfactor(ko, u);                   // the Func that rfactor makes gets a name
    y.specialize(y.extent(x) % 16 == 0).vectorize(x, 16); // what follows schedules the specialization

Arguments stand in their places or are named (`tail = RoundUp`). `name = value` below is a default; `name…` takes
several; `{name…}` is a list. An integer may be any expression over knobs. A tail strategy that is left out, or `Auto`,
means GuardWithIf: Halide's own choice fails on outputs smaller than the tile.

)";

std::string param_words(const Param &p) {
    std::string out = fmt::format("`{}`: ", p.name);
    const char *plural = p.shape == Param::Shape::One     ? ""
                         : p.shape == Param::Shape::Pairs ? "pairs of "
                                                          : "each ";
    out += plural + std::string(kind_words(p.kind));
    if (p.shape == Param::Shape::Pairs) {
        out += fmt::format(" and {}", kind_words(p.second));
    }
    if (p.kind == ArgKind::Int && p.least > INT32_MIN) {
        out += fmt::format(", at least {}", p.least);
    }
    const std::vector<std::string> &values = p.kind == ArgKind::Word ? p.words : enumerators(p.kind);
    const std::vector<std::string> &second = p.shape == Param::Shape::Pairs ? enumerators(p.second) : values;
    if (!second.empty() && p.kind != ArgKind::Bool) {
        out += fmt::format(" ({})", fmt::join(second, ", "));
    }
    return out;
}

/// Every parameter of every form, once by name.
std::vector<std::string> all_params(const Directive &d) {
    std::vector<std::string> names, out;
    for (const Form &form : d.forms) {
        for (const Param &p : form) {
            std::string words = param_words(p);
            if (std::find(out.begin(), out.end(), words) == out.end()) {
                out.push_back(words);
            }
        }
    }
    return out;
}

std::string indented(const std::string &text) {
    std::string out = "    ";
    for (char c : text) {
        out += c;
        if (c == '\n') {
            out += "    ";
        }
    }
    return out + "\n";
}

/// What a shorthand stands for, shown on arguments named as the parameters are.
std::string expansion(const Directive &d) {
    std::string out;
    for (size_t f = 0; d.expand && f < d.forms.size(); f++) {
        BoundCall bound;
        bound.form = f;
        for (const Param &p : d.forms[f]) {
            Node one = Node::name(p.name);
            if (p.shape == Param::Shape::Pairs) {
                one = Node::list({Node::list({Node::name("a"), Node::name("b")})});
            } else if (p.shape != Param::Shape::One) {
                one = Node::list({Node::name(p.name + "0"), Node::name(p.name + "1")});
            } else if (p.fallback) {
                one = *p.fallback;
            }
            bound.args.push_back(one);
        }
        std::string calls;
        for (const DirectiveCall &c :
             d.expand(bound, [](const std::string &x, const char *s) { return x + s; })) {
            calls += "." + print_call(c);
        }
        if (calls != "." + print_call({d.name, {}, bound.args, {}, "", {}})) {
            out += fmt::format("- `{}` is `{}`\n", d.signature(f), calls.substr(1));
        }
    }
    return out;
}

std::string entry(const Directive &d) {
    std::string out = fmt::format("### {}\n\n{}\n\n", d.name, d.doc);
    for (size_t f = 0; f < d.forms.size(); f++) {
        out += fmt::format("    {}\n", d.signature(f));
    }
    out += "\n";
    for (const std::string &p : all_params(d)) {
        out += fmt::format("- {}\n", p);
    }
    out += all_params(d).empty() ? "" : "\n";
    out += fmt::format("On {}. {}\n", d.level == Directive::Level::Func ? "a Func or wrapper" : "a stage",
                       d.legal);
    std::string expanded = expansion(d);
    if (!expanded.empty()) {
        out += fmt::format("\nIn canonical form:\n\n{}", expanded);
    }
    if (!d.before.empty()) {
        out += fmt::format("\nBefore:\n\n{}", indented(d.before));
    }
    if (!d.after.empty()) {
        out += fmt::format("\nAfter:\n\n{}", indented(d.after));
    }
    if (!d.errors.empty()) {
        out += fmt::format("\nErrors: {}.\n", fmt::join(d.errors, "; "));
    }
    return out + "\n";
}

} // namespace

std::string directive_reference() {
    std::string out = introduction, family;
    for (const Directive &d : all_directives()) {
        if (!d.refused.empty()) {
            continue;
        }
        if (d.family != family) {
            family = d.family;
            out += fmt::format("## {}\n\n", family);
        }
        out += entry(d);
    }
    out += "## Not taken\n\nCalls of Halide's that a schedule cannot make.\n\n| call | reason | instead "
           "|\n|---|---|---|\n";
    for (const Directive &d : all_directives()) {
        if (!d.refused.empty()) {
            out += fmt::format("| `{}` | {} | {} |\n", d.name, d.refused, d.instead);
        }
    }
    return out;
}

std::string directive_reference(const std::string &name) {
    const Directive *d = find_directive(name);
    if (!d) {
        return "";
    }
    return d->refused.empty()
               ? entry(*d)
               : fmt::format("### {}\n\nNot taken: {}. Instead: {}.\n", d->name, d->refused, d->instead);
}

} // namespace kiln
