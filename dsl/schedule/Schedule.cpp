#include "dsl/schedule/Schedule.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kiln {

Node Node::integer(int64_t value, Span span) {
    Node node;
    node.int_value = value;
    node.span = span;
    return node;
}

Node Node::name(std::string text, Span span) {
    Node node;
    node.kind = Kind::Name;
    node.text = std::move(text);
    node.span = span;
    return node;
}

Node Node::list(std::vector<Node> args, Span span) {
    Node node;
    node.kind = Kind::List;
    node.args = std::move(args);
    node.span = span;
    return node;
}

bool Node::operator==(const Node &other) const {
    return kind == other.kind && text == other.text && int_value == other.int_value &&
           float_value == other.float_value && is_method == other.is_method && keyword == other.keyword &&
           args == other.args;
}

std::string StageRef::str() const {
    std::string out = func;
    if (is_wrapper) {
        out += wrapper_for.size() > 1 ? fmt::format(".in({{{}}})", fmt::join(wrapper_for, ", "))
                                      : fmt::format(".in({})", fmt::join(wrapper_for, ""));
    }
    if (update >= 0) {
        out += update == 0 ? ".update()" : fmt::format(".update({})", update);
    }
    return out;
}

bool StageRef::operator==(const StageRef &other) const {
    return func == other.func && is_wrapper == other.is_wrapper && wrapper_for == other.wrapper_for &&
           update == other.update && is_receiver == other.is_receiver;
}

bool DirectiveCall::operator==(const DirectiveCall &other) const {
    return name == other.name && args == other.args;
}

bool Statement::operator==(const Statement &other) const {
    return binding == other.binding && stage == other.stage && calls == other.calls;
}

bool Knob::operator==(const Knob &other) const {
    return name == other.name && values == other.values && names == other.names;
}

bool Require::operator==(const Require &other) const {
    return condition == other.condition;
}

std::string TargetPattern::str() const {
    std::string out = backend;
    for (const std::string &feature : features) {
        out += " " + feature;
    }
    if (at_least) {
        out += fmt::format(" sm >= {}", *at_least);
    }
    return out;
}

bool TargetPattern::operator==(const TargetPattern &other) const {
    return backend == other.backend && features == other.features && at_least == other.at_least;
}

bool Macro::operator==(const Macro &other) const {
    return name == other.name && params == other.params && body == other.body;
}

bool Schedule::operator==(const Schedule &other) const {
    return name == other.name && op == other.op && target == other.target && knobs == other.knobs &&
           requires_ == other.requires_ && macros == other.macros && statements == other.statements;
}

} // namespace kiln
