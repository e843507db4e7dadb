#include "dsl/schedule/Builder.h"

#include "dsl/schedule/Parser.h"

#include <algorithm>

namespace kiln {

std::string schedule_name(const std::string &halide_name) {
    std::string out = halide_name;
    size_t dollar = out.rfind('$');
    bool is_count = dollar != std::string::npos && dollar + 1 < out.size() &&
                    std::all_of(out.begin() + static_cast<std::ptrdiff_t>(dollar) + 1, out.end(),
                                [](char c) { return c >= '0' && c <= '9'; });
    if (is_count) {
        out.resize(dollar);
    }
    std::replace(out.begin(), out.end(), '$', '.');
    return out;
}

BuilderArg::BuilderArg(double value) {
    node.kind = Node::Kind::Float;
    node.float_value = value;
}

BuilderArg::BuilderArg(const StageBuilder &stage) {
    const StageRef &ref = stage.stage();
    node = Node::name(ref.func);
    auto method = [&](const char *name) {
        Node call;
        call.kind = Node::Kind::Call;
        call.text = name;
        call.is_method = true;
        call.args.push_back(std::move(node));
        node = std::move(call);
    };
    if (ref.is_wrapper) {
        method("in");
        std::vector<Node> consumers;
        for (const std::string &c : ref.wrapper_for) {
            consumers.push_back(Node::name(c));
        }
        if (consumers.size() == 1) {
            node.args.push_back(consumers[0]);
        } else if (!consumers.empty()) {
            node.args.push_back(Node::list(std::move(consumers)));
        }
    }
    if (ref.update >= 0) {
        method("update");
        if (ref.update > 0) {
            node.args.push_back(Node::integer(ref.update));
        }
    }
}

BuilderArg expr(const std::string &expression) {
    std::vector<Diagnostic> diagnostics;
    std::optional<Node> node = parse_expression(expression, diagnostics);
    if (!node) {
        throw Error(std::move(diagnostics));
    }
    return BuilderArg(std::move(*node));
}

BuilderArg text(const std::string &text) {
    Node node;
    node.kind = Node::Kind::String;
    node.text = text;
    return BuilderArg(std::move(node));
}

BuilderArg kw(const std::string &name, BuilderArg value) {
    value.node.keyword = name;
    return value;
}

StageBuilder StageBuilder::update(int index) const {
    StageRef other = ref;
    other.update = index;
    return {owner, other};
}

StageBuilder StageBuilder::wrapper(std::vector<std::string> consumers) const {
    StageRef other = ref;
    other.is_wrapper = true;
    other.wrapper_for = std::move(consumers);
    return {owner, other};
}

StageBuilder StageBuilder::as(const std::string &name) {
    statement().binding = name;
    return owner->stage(name);
}

StageBuilder &StageBuilder::declare() {
    statement();
    return *this;
}

StageBuilder &StageBuilder::add(const std::string &name, std::vector<Node> args) {
    DirectiveCall call;
    call.name = name;
    call.args = std::move(args);
    statement().calls.push_back(std::move(call));
    return *this;
}

Statement &StageBuilder::statement() {
    std::vector<Statement> &statements = owner->value.statements;
    if (index < 0) {
        index = static_cast<int>(statements.size());
        statements.emplace_back();
        statements.back().stage = ref;
    }
    return statements[static_cast<size_t>(index)];
}

ScheduleBuilder::ScheduleBuilder(const std::string &name) {
    value.name = name;
}

StageBuilder ScheduleBuilder::stage(const std::string &func) {
    StageRef ref;
    ref.func = func;
    return {this, ref};
}

ScheduleBuilder &ScheduleBuilder::op(const std::string &generator) {
    value.op = generator;
    return *this;
}

/// Reads an item as the text form has it and takes over what it says.
ScheduleBuilder &ScheduleBuilder::item(const std::string &text) {
    ParseResult parsed = parse_schedules("schedule " + value.name + " {\n" + text + "\n}", "");
    if (!parsed.ok() || parsed.schedules.size() != 1) {
        throw Error(std::move(parsed.diagnostics));
    }
    Schedule &read = parsed.schedules[0];
    auto take = [](auto &to, auto &from) { to.insert(to.end(), from.begin(), from.end()); };
    take(value.knobs, read.knobs);
    take(value.requires_, read.requires_);
    take(value.macros, read.macros);
    if (read.target) {
        value.target = read.target;
    }
    return *this;
}

ScheduleBuilder &ScheduleBuilder::target(const std::string &pattern) {
    return item("target " + pattern);
}

ScheduleBuilder &ScheduleBuilder::knob(const std::string &knobs) {
    return item("knob " + knobs);
}

ScheduleBuilder &ScheduleBuilder::require(const std::string &conditions) {
    return item("require " + conditions);
}

ScheduleBuilder &ScheduleBuilder::macro(const std::string &definition) {
    return item("macro " + definition);
}

ScheduleBuilder &ScheduleBuilder::add(const std::string &macro, std::vector<Node> args) {
    Statement statement;
    DirectiveCall call;
    call.name = macro;
    call.args = std::move(args);
    statement.calls.push_back(std::move(call));
    value.statements.push_back(std::move(statement));
    return *this;
}

} // namespace kiln
