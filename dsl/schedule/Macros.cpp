#include "dsl/schedule/Macros.h"

#include "dsl/schedule/Directive.h"
#include "dsl/schedule/Print.h"

#include <fmt/format.h>

#include <map>
#include <tuple>

namespace kiln {

namespace {

constexpr size_t max_calls = 10000;
constexpr size_t max_nodes = 200000;
constexpr int max_depth = 32;

class Expander {
public:
    Expander(const Schedule &schedule, std::vector<Diagnostic> &diagnostics, std::set<std::string> &damaged)
        : schedule(schedule), diagnostics(diagnostics), damaged(damaged) {
        for (size_t i = 0; i < schedule.macros.size(); i++) {
            const Macro &m = schedule.macros[i];
            index.emplace(m.name, i);
            if (find_directive(m.name)) {
                report("K0027", fmt::format("the macro `{}` has the name of a directive", m.name), m.span)
                    .helps.push_back("give the macro another name");
            }
        }
    }

    Schedule run() {
        Schedule out = schedule;
        out.macros.clear();
        out.statements.clear();
        for (const Statement &s : schedule.statements) {
            statement(s, schedule.macros.size(), 0, out.statements);
        }
        return out;
    }

private:
    using Arguments = std::map<std::string, Node>;

    const Schedule &schedule;
    std::vector<Diagnostic> &diagnostics;
    std::set<std::string> &damaged;
    std::map<std::string, size_t> index;
    size_t calls = 0, nodes = 0;
    bool is_too_large = false;
    std::set<std::tuple<std::string, int, int>> reported; ///< K0025: once an argument

    Diagnostic &report(const char *code, std::string message, Span span) {
        Diagnostic d;
        d.code = code;
        d.message = std::move(message);
        d.file = schedule.file;
        d.span = span;
        diagnostics.push_back(std::move(d));
        return diagnostics.back();
    }

    bool has_room(Span span, int depth) {
        if (!is_too_large && (calls > max_calls || nodes > max_nodes || depth > max_depth)) {
            is_too_large = true;
            report("K0026",
                   depth > max_depth ? fmt::format("macros are nested more than {} deep", max_depth)
                                     : fmt::format("macros expand to more than {} calls", max_calls),
                   span);
        }
        return !is_too_large;
    }

    /// The macro that `call` names, among the first `visible` ones; null with a report where it cannot be used here.
    const Macro *find(const DirectiveCall &call, size_t visible, bool as_chain) {
        auto found = index.find(call.name);
        if (found == index.end()) {
            return nullptr;
        }
        const Macro &m = schedule.macros[found->second];
        if (found->second >= visible) {
            report("K0024", fmt::format("the macro `{}` is used before its definition is complete", m.name),
                   call.name_span)
                .helps.push_back("a macro may use only those defined before it");
            return nullptr;
        }
        if (m.is_chain() != as_chain && !m.body.empty()) {
            Diagnostic &d = report("K0022",
                                   m.is_chain() ? fmt::format("the macro `{}` is a directive", m.name)
                                                : fmt::format("the macro `{}` is a statement", m.name),
                                   call.name_span);
            d.helps.push_back(m.is_chain() ? fmt::format("write `f.{}(…);`", m.name)
                                           : fmt::format("write `{}(…);`", m.name));
            return nullptr;
        }
        if (m.params.size() != call.args.size()) {
            report("K0023",
                   fmt::format("the macro `{}` takes {} argument{}, here are {}", m.name, m.params.size(),
                               m.params.size() == 1 ? "" : "s", call.args.size()),
                   call.span)
                .notes.push_back(fmt::format("it is defined on line {}", m.span.line));
            return nullptr;
        }
        for (const Node &arg : call.args) {
            if (!arg.keyword.empty()) {
                report("K0023", fmt::format("the macro `{}` takes its arguments by place", m.name), arg.span);
                return nullptr;
            }
        }
        return &m;
    }

    static Arguments arguments(const Macro &m, const DirectiveCall &call) {
        Arguments out;
        for (size_t i = 0; i < m.params.size(); i++) {
            out.emplace(m.params[i], call.args[i]);
        }
        return out;
    }

    size_t size_of(const Node &node) {
        size_t n = 1;
        for (const Node &arg : node.args) {
            n += size_of(arg);
        }
        return n;
    }

    Node substitute(const Node &node, const Arguments &args, Span span) {
        nodes++;
        if (node.kind == Node::Kind::Name) {
            auto found = args.find(node.text);
            if (found != args.end()) {
                nodes += size_of(found->second);
                Node out = found->second;
                out.keyword = node.keyword;
                return out;
            }
            size_t dot = node.text.find('.');
            auto base = dot == std::string::npos ? args.end() : args.find(node.text.substr(0, dot));
            Node out = node;
            out.span = span;
            if (base != args.end()) {
                out.text = name_of(base->second, base->first, span) + node.text.substr(dot);
            }
            return out;
        }
        Node out = node;
        out.span = span;
        for (Node &arg : out.args) {
            arg = nodes > max_nodes ? arg : substitute(arg, args, span);
        }
        return out;
    }

    std::string name_of(const Node &arg, const std::string &param, Span span) {
        if (arg.kind == Node::Kind::Name) {
            return arg.text;
        }
        if (!reported.emplace(param, arg.span.line, arg.span.column).second) {
            return param;
        }
        report("K0025", fmt::format("`{}` must be a name here, not `{}`", param, print_node(arg)),
               arg.span.line ? arg.span : span);
        return param;
    }

    std::string substitute_name(const std::string &name, const Arguments &args, Span span) {
        auto found = args.find(name);
        return found == args.end() ? name : name_of(found->second, name, span);
    }

    DirectiveCall substitute(const DirectiveCall &call, const Arguments &args, const DirectiveCall &use) {
        DirectiveCall out = call;
        out.name_span = use.name_span;
        out.span = use.span;
        out.expanded_from = use.expanded_from.empty() ? print_call(use) : use.expanded_from;
        for (Node &arg : out.args) {
            arg = substitute(arg, args, use.span);
        }
        return out;
    }

    /// Appends the calls of a chain with the macros among them expanded. False: something had to be left out.
    bool chain(const std::vector<DirectiveCall> &in, size_t visible, int depth,
               std::vector<DirectiveCall> &out) {
        bool is_whole = true;
        for (const DirectiveCall &call : in) {
            calls++;
            if (!has_room(call.span, depth)) {
                return false;
            }
            if (index.find(call.name) == index.end() || find_directive(call.name)) {
                out.push_back(call);
                continue;
            }
            const Macro *m = find(call, visible, true);
            if (!m) {
                is_whole = false;
                continue;
            }
            Arguments args = arguments(*m, call);
            std::vector<DirectiveCall> body;
            for (const Statement &s : m->body) {
                for (const DirectiveCall &c : s.calls) {
                    body.push_back(substitute(c, args, call));
                }
            }
            is_whole &= chain(body, index.at(m->name), depth + 1, out);
        }
        return is_whole;
    }

    void statement(const Statement &in, size_t visible, int depth, std::vector<Statement> &out) {
        bool is_macro_call = in.stage.func.empty() && !in.stage.is_receiver;
        if (!is_macro_call) {
            Statement s = in;
            s.calls.clear();
            if (!chain(in.calls, visible, depth, s.calls)) {
                damaged.insert(in.stage.func);
            }
            out.push_back(std::move(s));
            return;
        }
        const DirectiveCall &call = in.calls[0];
        calls++;
        if (!has_room(call.span, depth)) {
            return;
        }
        if (index.find(call.name) == index.end()) {
            unknown(call);
            return;
        }
        const Macro *m = find(call, visible, false);
        if (!m) {
            return;
        }
        Arguments args = arguments(*m, call);
        bool is_first = true;
        for (const Statement &s : m->body) {
            Statement made = s;
            made.span = call.span;
            made.comments = is_first ? in.comments : Comments();
            is_first = false;
            made.binding = substitute_name(s.binding, args, call.span);
            made.binding_span = call.span;
            made.stage.func = substitute_name(s.stage.func, args, call.span);
            auto arg = args.find(s.stage.func);
            made.stage.func_span = arg == args.end() ? call.span : arg->second.span;
            made.stage.span = call.span;
            for (std::string &consumer : made.stage.wrapper_for) {
                consumer = substitute_name(consumer, args, call.span);
            }
            for (DirectiveCall &c : made.calls) {
                c = substitute(c, args, call);
            }
            statement(made, index.at(m->name), depth + 1, out);
        }
    }

    void unknown(const DirectiveCall &call) {
        Diagnostic &d = report("K0030", fmt::format("no macro `{}`", call.name), call.name_span);
        if (find_directive(call.name)) {
            d.helps.push_back(fmt::format("`{}` is a directive: write `f.{}(…);` with the Func before it",
                                          call.name, call.name));
            return;
        }
        std::vector<std::string> names;
        for (const Macro &m : schedule.macros) {
            names.push_back(m.name);
        }
        if (std::string near = nearest(call.name, names); !near.empty()) {
            d.helps.push_back(fmt::format("did you mean `{}`?", near));
        }
    }
};

} // namespace

Schedule expand_macros(const Schedule &schedule, std::vector<Diagnostic> &diagnostics,
                       std::set<std::string> &damaged) {
    return Expander(schedule, diagnostics, damaged).run();
}

} // namespace kiln
