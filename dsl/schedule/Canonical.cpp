#include "dsl/schedule/Canonical.h"

#include "dsl/schedule/Directive.h"
#include "dsl/schedule/Macros.h"
#include "dsl/schedule/Print.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace kiln {

namespace {

/// A call whose arguments fit, before its expansion.
struct Bound {
    const Directive *directive = nullptr;
    DirectiveCall call; ///< as written, arguments folded
    BoundCall arguments;
};

struct BoundStatement {
    Statement source;
    std::vector<Bound> calls;
};

class Canonicalizer {
public:
    Canonicalizer(const Schedule &in, const KnobValues &values) {
        knobs = complete_knobs(in, values, out.diagnostics);
        for (Diagnostic &d : check_requires(in, knobs)) {
            out.diagnostics.push_back(std::move(d));
        }
        out.damaged = in.unread;
        schedule = expand_macros(in, out.diagnostics, out.damaged);
        for (const Macro &m : in.macros) {
            macro_names.push_back(m.name);
        }
    }

    CanonicalResult run() {
        std::vector<BoundStatement> bound;
        for (const Statement &s : schedule.statements) {
            if (std::optional<BoundStatement> b = bind(s)) {
                bound.push_back(std::move(*b));
            }
        }
        out.schedule = schedule;
        out.schedule.knobs.clear();
        out.schedule.requires_.clear();
        out.schedule.statements.clear();
        for (const BoundStatement &b : bound) {
            Statement s = b.source;
            s.calls.clear();
            for (const Bound &call : b.calls) {
                expand(call, s.stage.str(), s.calls);
            }
            if (!s.calls.empty() || b.source.calls.empty()) {
                out.schedule.statements.push_back(std::move(s));
            }
        }
        return std::move(out);
    }

private:
    Schedule schedule;
    KnobValues knobs;
    CanonicalResult out;
    std::vector<std::string> macro_names;
    std::map<std::string, std::set<std::string>> loops; ///< names that each stage introduces
    std::map<std::string, Span> bindings;

    Diagnostic &report(const char *code, std::string message, Span span) {
        Diagnostic d;
        d.code = code;
        d.message = std::move(message);
        d.file = schedule.file;
        d.span = span;
        out.diagnostics.push_back(std::move(d));
        return out.diagnostics.back();
    }

    std::optional<BoundStatement> bind(const Statement &s) {
        BoundStatement b;
        b.source = s;
        bool is_special = false, is_over = false;
        for (const DirectiveCall &call : s.calls) {
            size_t before = out.diagnostics.size();
            bool is_last = &call == &s.calls.back();
            std::optional<Bound> bound = bind(call);
            bool is_known = bound || find_directive(call.name);
            if (is_known && is_over && out.diagnostics.size() == before) {
                report("K0036", "nothing can follow `specialize_fail`", call.name_span)
                    .helps.push_back("put it last in its chain");
            }
            if (bound) {
                check_place(s, *bound, is_special, is_last);
            }
            is_special |= call.name == "specialize";
            is_over |= call.name == "specialize_fail";
            if (bound && out.diagnostics.size() == before) {
                collect(s.stage.str(), *bound);
                b.calls.push_back(std::move(*bound));
            } else {
                out.damaged.insert(s.stage.func);
                // What follows a lost `specialize` must not land on the stage itself.
                if (call.name == "specialize") {
                    break;
                }
            }
        }
        if (!s.binding.empty() && !check_binding(s, b)) {
            out.damaged.insert(s.binding);
            b.source.binding.clear();
            b.calls.erase(std::remove_if(b.calls.begin(), b.calls.end(),
                                         [](const Bound &c) { return c.directive->name == "rfactor"; }),
                          b.calls.end());
        }
        return b;
    }

    std::optional<Bound> bind(const DirectiveCall &call) {
        Bound b;
        b.directive = find_directive(call.name);
        if (!b.directive) {
            std::vector<std::string> names = macro_names;
            for (const Directive &d : all_directives()) {
                if (d.refused.empty()) {
                    names.push_back(d.name);
                }
            }
            Diagnostic &d = report("K0030", fmt::format("no directive `{}`", call.name), call.name_span);
            std::string near = nearest(call.name, names);
            d.helps.push_back(near.empty() ? "`kiln schedule doc` lists all directives"
                                           : fmt::format("did you mean `{}`?", near));
            return {};
        }
        if (!b.directive->refused.empty()) {
            report("K0031", fmt::format("`{}` cannot be used: {}", call.name, b.directive->refused),
                   call.name_span)
                .helps.push_back(b.directive->instead);
            return {};
        }
        size_t before = out.diagnostics.size();
        b.call = call;
        for (Node &arg : b.call.args) {
            arg = fold(arg, knobs, schedule.file, out.diagnostics);
        }
        if (out.diagnostics.size() > before) {
            return {};
        }
        std::optional<BoundCall> arguments =
            bind_arguments(*b.directive, b.call, schedule.file, out.diagnostics);
        if (!arguments) {
            return {};
        }
        b.arguments = std::move(*arguments);
        std::string conflict = b.directive->conflict ? b.directive->conflict(b.arguments) : "";
        if (!conflict.empty()) {
            report("K0039", conflict, call.span);
            return {};
        }
        return b;
    }

    void check_place(const Statement &s, const Bound &b, bool is_special, bool is_last) {
        const std::string &name = b.directive->name;
        if (b.directive->level == Directive::Level::Func && (s.stage.update >= 0 || is_special)) {
            Diagnostic &d =
                report("K0035",
                       is_special ? fmt::format("`{}` is for a whole Func, not for a specialization", name)
                                  : fmt::format("`{}` is for a whole Func, not for one update", name),
                       b.call.name_span);
            StageRef func = s.stage;
            func.update = -1;
            d.helps.push_back(fmt::format("write `{}.{}`", func.str(), print_call(b.call)));
        }
        if (name != "rfactor") {
            return;
        }
        if (s.stage.update < 0) {
            report("K0035", "`rfactor` is for an update, not for the pure definition", b.call.name_span)
                .helps.push_back(fmt::format("write `{}.update().{}`", s.stage.str(), print_call(b.call)));
        } else if (is_special) {
            report("K0035", "`rfactor` is for an update, not for a specialization", b.call.name_span)
                .helps.push_back("put `rfactor` into a statement before it");
        } else if (!is_last) {
            report("K0036", "nothing can follow `rfactor` in its chain", b.call.name_span)
                .helps.push_back("schedule the new Func by its name in a statement of its own");
        } else if (s.binding.empty()) {
            report("K0036", "the Func that `rfactor` makes needs a name", b.call.name_span)
                .helps.push_back(fmt::format("write `part = {}`", print_statement(s)));
        }
    }

    bool check_binding(const Statement &s, const BoundStatement &b) {
        bool has_rfactor = !s.calls.empty() && s.calls.back().name == "rfactor";
        if (!has_rfactor) {
            bool is_reported = std::any_of(s.calls.begin(), s.calls.end(),
                                           [](const DirectiveCall &c) { return c.name == "rfactor"; });
            if (!is_reported) {
                report("K0036", fmt::format("`{} =` names a Func, but only `rfactor` makes one", s.binding),
                       s.binding_span)
                    .helps.push_back("leave the name out");
            }
            return false;
        }
        auto [first, is_new] = bindings.emplace(s.binding, s.binding_span);
        if (!is_new) {
            report("K0036", fmt::format("the name `{}` is given twice", s.binding), s.binding_span)
                .notes.push_back(fmt::format("first on line {}", first->second.line));
            return false;
        }
        return !b.calls.empty() && b.calls.back().directive->name == "rfactor";
    }

    /// Remembers the names that a call gives to loops, so that no name made up later is one of them.
    void collect(const std::string &stage, const Bound &b) {
        const Form &form = b.directive->forms[b.arguments.form];
        for (size_t i = 0; i < form.size(); i++) {
            const Node &arg = b.arguments.args[i];
            if (form[i].kind == ArgKind::NewLoop) {
                loops[stage].insert(arg.text);
                for (const Node &item : arg.args) {
                    loops[stage].insert(item.text);
                }
            }
        }
    }

    std::string fresh(const std::string &stage, const std::string &loop, const char *suffix) {
        std::string base = loop;
        std::replace(base.begin(), base.end(), '.', '_');
        base += suffix;
        std::string name = base;
        for (int i = 1; !loops[stage].insert(name).second; i++) {
            name = base + std::to_string(i);
        }
        return name;
    }

    static void place(Node &node, Span span) {
        if (node.span.line == 0) {
            node.span = span;
        }
        for (Node &arg : node.args) {
            place(arg, span);
        }
    }

    void expand(const Bound &b, const std::string &stage, std::vector<DirectiveCall> &calls) {
        std::vector<DirectiveCall> made;
        if (b.directive->expand) {
            made = b.directive->expand(b.arguments, [&](const std::string &loop, const char *suffix) {
                return fresh(stage, loop, suffix);
            });
        } else {
            DirectiveCall call;
            call.name = b.call.name;
            const Form &form = b.directive->forms[b.arguments.form];
            for (size_t i = 0; i < form.size(); i++) {
                const Node &arg = b.arguments.args[i];
                if (form[i].shape == Param::Shape::Rest) {
                    call.args.insert(call.args.end(), arg.args.begin(), arg.args.end());
                } else {
                    call.args.push_back(arg);
                }
            }
            made.push_back(std::move(call));
        }
        bool is_shorthand = made.size() != 1 || made[0].name != b.call.name;
        for (DirectiveCall &call : made) {
            call.name_span = b.call.name_span;
            call.span = b.call.span;
            call.comments = &call == &made[0] ? b.call.comments : std::vector<std::string>();
            call.expanded_from = !b.call.expanded_from.empty() ? b.call.expanded_from
                                 : is_shorthand                ? print_call(b.call)
                                                               : "";
            for (Node &arg : call.args) {
                place(arg, b.call.span);
            }
            calls.push_back(std::move(call));
        }
    }
};

} // namespace

CanonicalResult canonicalize(const Schedule &schedule, const KnobValues &values) {
    return Canonicalizer(schedule, values).run();
}

Schedule canonical(const Schedule &schedule, const KnobValues &values) {
    CanonicalResult result = canonicalize(schedule, values);
    if (has_errors(result.diagnostics)) {
        throw Error(std::move(result.diagnostics));
    }
    return std::move(result.schedule);
}

std::optional<StageRef> stage_of(const Node &node) {
    StageRef out;
    out.span = node.span;
    const Node *rest = &node;
    if (rest->kind == Node::Kind::Call && rest->is_method && rest->text == "update") {
        out.update = 0;
        if (rest->args.size() == 2 && rest->args[1].kind == Node::Kind::Int && rest->args[1].int_value >= 0 &&
            rest->args[1].int_value <= 9999) {
            out.update = static_cast<int>(rest->args[1].int_value);
        } else if (rest->args.size() != 1) {
            return {};
        }
        rest = &rest->args[0];
    }
    if (rest->kind == Node::Kind::Call && rest->is_method && rest->text == "in" && rest->args.size() <= 2) {
        out.is_wrapper = true;
        if (rest->args.size() == 2) {
            const Node &consumers = rest->args[1];
            for (const Node &c :
                 consumers.kind == Node::Kind::List ? consumers.args : std::vector<Node>{consumers}) {
                if (c.kind != Node::Kind::Name) {
                    return {};
                }
                out.wrapper_for.push_back(c.text);
            }
        }
        rest = &rest->args[0];
    }
    if (rest->kind != Node::Kind::Name || rest->text.find('.') != std::string::npos) {
        return {};
    }
    out.func = rest->text;
    out.func_span = rest->span;
    return out;
}

} // namespace kiln
