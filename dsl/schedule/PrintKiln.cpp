#include "dsl/schedule/Canonical.h"
#include "dsl/schedule/Directive.h"
#include "dsl/schedule/Print.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace kiln {

namespace {

std::string print_stage(const StageRef &stage) {
    std::string out = fmt::format("s({})", print_string(stage.func));
    if (stage.is_wrapper) {
        std::vector<std::string> consumers;
        for (const std::string &c : stage.wrapper_for) {
            consumers.push_back(print_string(c));
        }
        out += fmt::format(".in({})", fmt::join(consumers, ", "));
    }
    if (stage.update >= 0) {
        out += stage.update == 0 ? ".update()" : fmt::format(".update({})", stage.update);
    }
    return out;
}

std::string print_args(const std::vector<Node> &args);

std::string print_arg(const Node &arg) {
    std::string out;
    switch (arg.kind) {
    case Node::Kind::Int:
    case Node::Kind::Float: {
        Node plain = arg;
        plain.keyword.clear();
        out = print_node(plain);
        break;
    }
    case Node::Kind::Name:
        out = arg.text == "true" || arg.text == "false" ? arg.text : print_string(arg.text);
        break;
    case Node::Kind::String:
        out = fmt::format("kiln::text({})", print_string(arg.text));
        break;
    case Node::Kind::List:
        out = fmt::format("kiln::list({})", print_args(arg.args));
        break;
    default: {
        // A stage that the builder would write in just this way.
        std::optional<StageRef> stage = stage_of(arg);
        bool is_plain = stage && stage->str() == print_node(arg);
        out = is_plain ? print_stage(*stage) : fmt::format("kiln::expr({})", print_string(print_node(arg)));
        break;
    }
    }
    return arg.keyword.empty() ? out : fmt::format("kiln::kw({}, {})", print_string(arg.keyword), out);
}

std::string print_args(const std::vector<Node> &args) {
    std::vector<std::string> parts;
    for (const Node &arg : args) {
        parts.push_back(print_arg(arg));
    }
    return fmt::format("{}", fmt::join(parts, ", "));
}

/// As a method where the builder has it, else by name.
std::string print_method(const DirectiveCall &call) {
    const Directive *directive = find_directive(call.name);
    if (directive && directive->refused.empty()) {
        return fmt::format(".{}({})", call.name, print_args(call.args));
    }
    return fmt::format(".call({}{}{})", print_string(call.name), call.args.empty() ? "" : ", ",
                       print_args(call.args));
}

void print_comments(std::string &out, const std::vector<std::string> &lines) {
    for (const std::string &line : lines) {
        // A backslash at its end would continue the comment on the next line.
        std::string end = !line.empty() && line.back() == '\\' ? "." : "";
        out += fmt::format("//{}{}{}\n", line.empty() ? "" : " ", line, end);
    }
}

std::string raw(const std::string &text) {
    std::string mark = "kiln";
    while (text.find(")" + mark + "\"") != std::string::npos) {
        mark += "_";
    }
    return fmt::format("R\"{}({}){}\"", mark, text, mark);
}

} // namespace

std::string print_kiln(const Schedule &s) {
    std::string out;
    print_comments(out, s.header_comments);
    out += fmt::format("kiln::ScheduleBuilder s({});\n", print_string(s.name));
    if (!s.op.empty()) {
        print_comments(out, s.op_comments.above);
        out += fmt::format("s.op({});\n", print_string(s.op));
    }
    if (s.target) {
        print_comments(out, s.target_comments.above);
        out += fmt::format("s.target({});\n", print_string(s.target->str()));
    }
    for (const Knob &k : s.knobs) {
        print_comments(out, k.comments.above);
        out += fmt::format("s.knob({});\n", print_string(k.name + " in " + print_domain(k.domain)));
    }
    for (const Require &r : s.requires_) {
        print_comments(out, r.comments.above);
        out += fmt::format("s.require({});\n", print_string(print_node(r.condition)));
    }
    for (const Macro &m : s.macros) {
        std::string definition = print_macro(m);
        definition.erase(0, definition.find("macro ") == 0 ? 6 : definition.find("\nmacro ") + 7);
        definition.pop_back();
        print_comments(out, m.comments.above);
        out += fmt::format("s.macro({});\n", raw(definition));
    }
    for (const Statement &statement : s.statements) {
        print_comments(out, statement.comments.above);
        bool is_macro_call = statement.stage.func.empty();
        out += is_macro_call ? "s" : print_stage(statement.stage);
        for (const DirectiveCall &call : statement.calls) {
            out += is_macro_call ? fmt::format(".call({}{}{})", print_string(call.name),
                                               call.args.empty() ? "" : ", ", print_args(call.args))
                                 : print_method(call);
        }
        out += statement.calls.empty() ? ".declare()" : "";
        out += statement.binding.empty() ? ";\n" : fmt::format(".as({});\n", print_string(statement.binding));
    }
    print_comments(out, s.footer);
    return out;
}

} // namespace kiln
