#include "dsl/schedule/Print.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace kiln {

namespace {

constexpr size_t max_width = 110;

/// How tightly an operator binds; a primary binds tightest.
int precedence(const Node &node) {
    if (node.kind == Node::Kind::Unary) {
        return 7;
    }
    if (node.kind != Node::Kind::Binary) {
        return 8;
    }
    static const std::vector<std::pair<int, std::vector<std::string>>> table = {
        {1, {"||"}},     {2, {"&&"}},         {3, {"==", "!="}}, {4, {"<", "<=", ">", ">="}},
        {5, {"+", "-"}}, {6, {"*", "/", "%"}}};
    for (const auto &[level, ops] : table) {
        if (std::find(ops.begin(), ops.end(), node.text) != ops.end()) {
            return level;
        }
    }
    return 0;
}

/// A real always has a point with a digit after it, so that it reads back as one.
std::string real(double value) {
    std::string out = fmt::format("{}", value);
    if (out.find('.') == std::string::npos) {
        size_t exponent = out.find('e');
        out.insert(exponent == std::string::npos ? out.size() : exponent, ".0");
    }
    return out;
}

std::string print_list(const std::vector<Node> &nodes, size_t first = 0) {
    std::vector<std::string> parts;
    for (size_t i = first; i < nodes.size(); i++) {
        std::string keyword = nodes[i].keyword.empty() ? "" : nodes[i].keyword + " = ";
        parts.push_back(keyword + print_node(nodes[i]));
    }
    return fmt::format("{}", fmt::join(parts, ", "));
}

std::string bracketed(const Node &node, bool need) {
    return need ? "(" + print_node(node) + ")" : print_node(node);
}

void print_comments(std::string &out, const std::vector<std::string> &lines, const char *indent) {
    for (const std::string &line : lines) {
        out += fmt::format("{}//{}{}\n", indent, line.empty() ? "" : " ", line);
    }
}

std::string beside(const Comments &comments) {
    return comments.beside.empty() ? "" : "  // " + comments.beside;
}

void print_statement_lines(std::string &out, const Statement &s, const std::string &indent) {
    print_comments(out, s.comments.above, indent.c_str());
    bool has_comments = false;
    for (size_t i = 0; i < s.calls.size(); i++) {
        if (i == 0) {
            print_comments(out, s.calls[i].comments, indent.c_str());
        } else {
            has_comments |= !s.calls[i].comments.empty();
        }
    }
    std::string line = print_statement(s);
    if (!has_comments && indent.size() + line.size() <= max_width) {
        out += indent + line + beside(s.comments) + "\n";
        return;
    }
    // One call a line where it does not fit on one.
    out += indent + (s.binding.empty() ? "" : s.binding + " = ") + s.stage.str();
    std::string inner = indent + "  ";
    bool is_first = true;
    for (const DirectiveCall &c : s.calls) {
        // The first call stands beside its stage: a line break before it would move its comments at the next print.
        if (!is_first) {
            out += "\n";
            print_comments(out, c.comments, inner.c_str());
            out += inner;
        }
        bool is_bare = s.stage.func.empty() && !s.stage.is_receiver;
        out += (is_bare ? "" : ".") + print_call(c);
        is_first = false;
    }
    out += ";" + beside(s.comments) + "\n";
}

} // namespace

std::string print_string(const std::string &text) {
    std::string out = "\"";
    for (char c : text) {
        if (c == '"' || c == '\\') {
            out += '\\';
        }
        out += c == '\n' ? "\\n" : c == '\t' ? "\\t" : std::string(1, c);
    }
    return out + "\"";
}

std::string print_node(const Node &node) {
    switch (node.kind) {
    case Node::Kind::Int:
        return std::to_string(node.int_value);
    case Node::Kind::Float:
        return real(node.float_value);
    case Node::Kind::String:
        return print_string(node.text);
    case Node::Kind::Name:
        return node.text;
    case Node::Kind::Unary:
        return node.text + bracketed(node.args[0], precedence(node.args[0]) < 7);
    case Node::Kind::Binary: {
        int own = precedence(node), right = precedence(node.args[1]), left = precedence(node.args[0]);
        // Comparisons do not chain, so an operand that is one keeps its brackets.
        return fmt::format("{} {} {}", bracketed(node.args[0], left < own || (left == own && own == 4)),
                           node.text, bracketed(node.args[1], right <= own));
    }
    case Node::Kind::Call:
        if (node.is_method) {
            bool is_number = node.args[0].kind == Node::Kind::Int || node.args[0].kind == Node::Kind::Float;
            return fmt::format("{}.{}({})",
                               bracketed(node.args[0], precedence(node.args[0]) < 8 || is_number), node.text,
                               print_list(node.args, 1));
        }
        return fmt::format("{}({})", node.text, print_list(node.args));
    case Node::Kind::List:
        return fmt::format("{{{}}}", print_list(node.args));
    }
    return "";
}

std::string print_call(const DirectiveCall &call) {
    return fmt::format("{}({})", call.name, print_list(call.args));
}

std::string print_statement(const Statement &s) {
    std::string out = s.binding.empty() ? "" : s.binding + " = ";
    out += s.stage.str();
    bool is_macro_call = s.stage.func.empty() && !s.stage.is_receiver;
    for (const DirectiveCall &c : s.calls) {
        out += (is_macro_call ? "" : ".") + print_call(c);
    }
    return out + ";";
}

std::string print_macro(const Macro &m, const std::string &indent) {
    std::string out, inner = indent + "  ";
    print_comments(out, m.comments.above, indent.c_str());
    out += fmt::format("{}macro {}({}) {{\n", indent, m.name, fmt::join(m.params, ", "));
    for (const Statement &s : m.body) {
        print_statement_lines(out, s, inner);
    }
    print_comments(out, m.footer, inner.c_str());
    return out + indent + "}\n";
}

std::string print_domain(const Node &domain) {
    std::vector<std::string> parts;
    for (const Node &value : domain.args) {
        if (value.kind == Node::Kind::Call && value.text == "range" && value.args.size() == 3) {
            int64_t step = value.args[2].int_value;
            parts.push_back(fmt::format("{}..{}{}", value.args[0].int_value, value.args[1].int_value,
                                        step == 1 ? "" : fmt::format(" step {}", step)));
        } else {
            parts.push_back(print_node(value));
        }
    }
    return fmt::format("{{{}}}", fmt::join(parts, ", "));
}

std::string print_text(const Schedule &s) {
    std::string out;
    print_comments(out, s.header_comments, "");
    out += fmt::format("schedule {} {{\n", s.name);
    size_t head = out.size();
    if (!s.op.empty()) {
        print_comments(out, s.op_comments.above, "  ");
        out += fmt::format("  op {}{}\n", s.op, beside(s.op_comments));
    }
    if (s.target) {
        print_comments(out, s.target_comments.above, "  ");
        out += fmt::format("  target {}{}\n", s.target->str(), beside(s.target_comments));
    }
    for (const Knob &k : s.knobs) {
        print_comments(out, k.comments.above, "  ");
        out += fmt::format("  knob {} in {}{}\n", k.name, print_domain(k.domain), beside(k.comments));
    }
    for (const Require &r : s.requires_) {
        print_comments(out, r.comments.above, "  ");
        out += fmt::format("  require {}{}\n", print_node(r.condition), beside(r.comments));
    }
    for (const Macro &m : s.macros) {
        out += print_macro(m, "  ");
    }
    if (out.size() > head && !s.statements.empty()) {
        out += "\n";
    }
    for (const Statement &statement : s.statements) {
        // A comment opens a group.
        if (!statement.comments.above.empty() && &statement != &s.statements.front()) {
            out += "\n";
        }
        print_statement_lines(out, statement, "  ");
    }
    print_comments(out, s.footer, "  ");
    out += "}\n";
    print_comments(out, s.file_footer, "");
    return out;
}

std::string print_text(const std::vector<Schedule> &schedules) {
    std::string out;
    for (const Schedule &s : schedules) {
        out += (out.empty() ? "" : "\n") + print_text(s);
    }
    return out;
}

} // namespace kiln
