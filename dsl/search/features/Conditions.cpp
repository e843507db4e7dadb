#include "dsl/search/features/Conditions.h"

#include "dsl/schedule/Parser.h"

#include <algorithm>
#include <optional>

namespace kiln::search {

namespace {

std::optional<int64_t> buffer_value(const Problem &problem, const std::string &what, const Node &node) {
    auto extents = problem.extents.find(node.args[0].text);
    if (extents == problem.extents.end() || node.args.size() < 2) {
        return std::nullopt;
    }
    size_t d = 0;
    const Node &dim = node.args[1];
    if (dim.kind == Node::Kind::Int) {
        d = static_cast<size_t>(dim.int_value);
    } else if (dim.text.starts_with("_")) {
        d = static_cast<size_t>(std::atoi(dim.text.c_str() + 1));
    } else if (const FuncInfo *f = problem.info.find(node.args[0].text)) {
        d = static_cast<size_t>(std::find(f->args.begin(), f->args.end(), dim.text) - f->args.begin());
    }
    if (d >= extents->second.size()) {
        return std::nullopt;
    }
    if (what == "extent") {
        return extents->second[d];
    }
    if (what == "min") {
        return 0;
    }
    int64_t stride = 1;
    for (size_t i = 0; i < d; i++) {
        stride *= extents->second[i];
    }
    return stride;
}

/// The value at these sizes; nothing where it depends on more.
std::optional<int64_t> value(const Problem &problem, const Node &node) {
    switch (node.kind) {
    case Node::Kind::Int:
        return node.int_value;
    case Node::Kind::Name: {
        auto scalar = problem.scalars.find(node.text);
        return scalar == problem.scalars.end() ? std::nullopt
                                               : std::optional<int64_t>(static_cast<int64_t>(scalar->second));
    }
    case Node::Kind::Unary: {
        auto a = value(problem, node.args[0]);
        return !a ? a : node.text == "!" ? std::optional<int64_t>(!*a) : std::optional<int64_t>(-*a);
    }
    case Node::Kind::Call: {
        if (node.is_method) {
            return buffer_value(problem, node.text, node);
        }
        auto a = node.args.size() > 0 ? value(problem, node.args[0]) : std::nullopt;
        auto b = node.args.size() > 1 ? value(problem, node.args[1]) : std::nullopt;
        return a && b ? std::optional<int64_t>(node.text == "min" ? std::min(*a, *b) : std::max(*a, *b))
                      : std::nullopt;
    }
    case Node::Kind::Binary: {
        auto a = value(problem, node.args[0]), b = value(problem, node.args[1]);
        if (!a || !b) {
            return std::nullopt;
        }
        const std::string &op = node.text;
        if ((op == "/" || op == "%") && *b == 0) {
            return std::nullopt;
        }
        return op == "+"    ? *a + *b
               : op == "-"  ? *a - *b
               : op == "*"  ? *a * *b
               : op == "/"  ? *a / *b
               : op == "%"  ? *a % *b
               : op == "==" ? *a == *b
               : op == "!=" ? *a != *b
               : op == "<"  ? *a < *b
               : op == "<=" ? *a <= *b
               : op == ">"  ? *a > *b
               : op == ">=" ? *a >= *b
               : op == "&&" ? *a && *b
                            : *a || *b;
    }
    default:
        return std::nullopt;
    }
}

} // namespace

const StageNest *stage_in_effect(const Problem &problem, const StageNest &stage) {
    for (const StageNest &special : stage.specializations) {
        if (special.conditions.empty()) {
            continue;
        }
        std::vector<Diagnostic> ignored;
        std::optional<Node> node = parse_expression(special.conditions.back(), ignored);
        if (node && value(problem, *node).value_or(0) != 0) {
            return stage_in_effect(problem, special);
        }
    }
    return &stage;
}

} // namespace kiln::search
