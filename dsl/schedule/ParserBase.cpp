#include "dsl/schedule/ParserBase.h"

#include <fmt/format.h>

#include <algorithm>

namespace kiln {

namespace {

/// From loosest to tightest.
const std::vector<std::vector<const char *>> binary_levels = {
    {"||"}, {"&&"}, {"==", "!="}, {"<=", ">=", "<", ">"}, {"+", "-"}, {"*", "/", "%"}};

constexpr size_t comparison_level = 3;

bool is_comparison(const std::string &op) {
    return op == "<" || op == "<=" || op == ">" || op == ">=";
}

} // namespace

ParserBase::ParserBase(std::vector<Token> tokens, std::string file, std::vector<Diagnostic> &diagnostics)
    : tokens(std::move(tokens)), file(std::move(file)), diagnostics(diagnostics) {}

const Token &ParserBase::peek(size_t ahead) const {
    return tokens[std::min(pos + ahead, tokens.size() - 1)];
}

const Token &ParserBase::previous() const {
    return tokens[pos > 0 ? pos - 1 : 0];
}

Token ParserBase::take() {
    Token &token = tokens[pos];
    comments.insert(comments.end(), token.comments.begin(), token.comments.end());
    token.comments.clear();
    if (pos + 1 < tokens.size()) {
        pos++;
    }
    return token;
}

bool ParserBase::take_if(const char *punct) {
    if (!peek().is(punct)) {
        return false;
    }
    take();
    return true;
}

Diagnostic &ParserBase::report(const char *code, std::string message, Span span) {
    Diagnostic d;
    d.code = code;
    d.message = std::move(message);
    d.file = file;
    d.span = span;
    diagnostics.push_back(std::move(d));
    return diagnostics.back();
}

void ParserBase::expected(const std::string &what) {
    const Token &found = peek();
    if (pos > 0 && found.starts_line && previous().span.line != found.span.line) {
        // What is missing belongs at the end of the line before.
        const Span &end = previous().span;
        report("K0010",
               fmt::format("expected {}, found {}{}", what, found.words(),
                           found.kind == Token::Kind::End ? "" : fmt::format(" on line {}", found.span.line)),
               {end.line, end.column + end.length, 1});
        return;
    }
    report("K0010", fmt::format("expected {}, found {}", what, found.words()), found.span);
}

std::optional<Token> ParserBase::expect(const char *punct, const char *context) {
    if (peek().is(punct)) {
        return take();
    }
    expected(fmt::format("`{}`{}", punct, context));
    return {};
}

std::optional<Token> ParserBase::expect_name(const char *what) {
    if (peek().kind == Token::Kind::Name) {
        return take();
    }
    expected(what);
    return {};
}

Span ParserBase::to_here(Span from) const {
    const Span &last = previous().span;
    if (last.line == from.line) {
        from.length = last.column + last.length - from.column;
    }
    return from;
}

bool ParserBase::count_operator(Span span) {
    if (++operators <= max_operators) {
        return true;
    }
    report("K0013", fmt::format("the expression has more than {} operators", max_operators), span);
    return false;
}

bool ParserBase::enter(Span span) {
    if (++depth <= max_nesting) {
        return true;
    }
    report("K0013", fmt::format("brackets are nested more than {} deep", max_nesting), span);
    return false;
}

void ParserBase::reset() {
    depth = 0;
    operators = 0;
    open_braces = 0;
}

bool ParserBase::has_fault_since(size_t start) const {
    return std::any_of(tokens.begin() + static_cast<std::ptrdiff_t>(start),
                       tokens.begin() + static_cast<std::ptrdiff_t>(pos),
                       [](const Token &token) { return token.is_faulty; });
}

std::optional<Node> ParserBase::expression() {
    if (depth == 0) {
        operators = 0;
    }
    return binary(0);
}

std::optional<Node> ParserBase::binary(size_t level) {
    if (level == binary_levels.size()) {
        return unary();
    }
    std::optional<Node> left = binary(level + 1);
    bool was_bracket = previous().is(")");
    while (left) {
        const char *found = nullptr;
        for (const char *op : binary_levels[level]) {
            found = peek().is(op) ? op : found;
        }
        if (!found) {
            return left;
        }
        Token op = take();
        if (!count_operator(op.span)) {
            return {};
        }
        if (level == comparison_level && left->kind == Node::Kind::Binary && is_comparison(left->text) &&
            !was_bracket) {
            report("K0018", "comparisons do not chain", op.span)
                .helps.push_back("write `a < b && b < c` for `a < b < c`");
        }
        was_bracket = false;
        std::optional<Node> right = binary(level + 1);
        if (!right) {
            return {};
        }
        Node node;
        node.kind = Node::Kind::Binary;
        node.text = found;
        node.span = to_here(left->span);
        node.args = {std::move(*left), std::move(*right)};
        left = std::move(node);
    }
    return left;
}

std::optional<Node> ParserBase::unary() {
    if (!peek().is("-") && !peek().is("!")) {
        return postfix();
    }
    Token op = take();
    if (!count_operator(op.span)) {
        return {};
    }
    std::optional<Node> operand = unary();
    if (!operand) {
        return {};
    }
    bool is_number = operand->kind == Node::Kind::Int || operand->kind == Node::Kind::Float;
    if (op.text == "-" && is_number && operand->int_value >= 0 && operand->float_value >= 0) {
        operand->int_value = -operand->int_value;
        operand->float_value = -operand->float_value;
        operand->span = to_here(op.span);
        return operand;
    }
    Node node;
    node.kind = Node::Kind::Unary;
    node.text = op.text;
    node.args = {std::move(*operand)};
    node.span = to_here(op.span);
    return node;
}

std::optional<Node> ParserBase::postfix() {
    std::optional<Node> node = primary();
    while (node && peek().is(".") && peek(1).kind == Token::Kind::Name && peek(2).is("(")) {
        Token dot = take();
        Token method = take();
        take();
        if (!count_operator(dot.span)) {
            return {};
        }
        std::optional<std::vector<Node>> args = arguments();
        if (!args) {
            return {};
        }
        Node call;
        call.kind = Node::Kind::Call;
        call.text = method.text;
        call.is_method = true;
        call.span = to_here(node->span);
        call.args.push_back(std::move(*node));
        call.args.insert(call.args.end(), std::make_move_iterator(args->begin()),
                         std::make_move_iterator(args->end()));
        node = std::move(call);
    }
    return node;
}

std::optional<Node> ParserBase::primary() {
    const Token &token = peek();
    switch (token.kind) {
    case Token::Kind::Int:
    case Token::Kind::Float:
    case Token::Kind::String: {
        Token literal = take();
        Node node;
        node.kind = literal.kind == Token::Kind::Int     ? Node::Kind::Int
                    : literal.kind == Token::Kind::Float ? Node::Kind::Float
                                                         : Node::Kind::String;
        node.int_value = literal.int_value;
        node.float_value = literal.float_value;
        node.text = literal.kind == Token::Kind::String ? literal.text : "";
        node.span = literal.span;
        return node;
    }
    case Token::Kind::Name:
        return name_or_call();
    default:
        break;
    }
    if (token.is("(")) {
        Token open = take();
        if (!enter(open.span)) {
            return {};
        }
        std::optional<Node> inner = binary(0);
        depth--;
        if (!inner || !expect(")", " to close the bracket")) {
            return {};
        }
        return inner;
    }
    if (token.is("{")) {
        return expression_list();
    }
    expected("an expression");
    return {};
}

std::optional<Node> ParserBase::name_or_call() {
    Token first = take();
    Node node = Node::name(first.text, first.span);
    while (peek().is(".") && peek(1).kind == Token::Kind::Name && !peek(2).is("(")) {
        take();
        node.text += "." + take().text;
        node.span = to_here(first.span);
    }
    if (peek().is("::") && peek(1).kind == Token::Kind::Name) {
        while (peek().is("::") && peek(1).kind == Token::Kind::Name) {
            node.text += take().text;
            node.text += take().text;
        }
        std::string value = previous().text;
        report("K0017", fmt::format("`{}` is C++; a schedule names the value alone", node.text),
               to_here(first.span))
            .helps.push_back(fmt::format("write `{}`", value));
        return Node::name(value, to_here(first.span));
    }
    if (peek().is("(")) {
        take();
        std::optional<std::vector<Node>> args = arguments();
        if (!args) {
            return {};
        }
        node.kind = Node::Kind::Call;
        node.args = std::move(*args);
        node.span = to_here(first.span);
    }
    return node;
}

std::optional<Node> ParserBase::expression_list() {
    Token open = take();
    open_braces++;
    if (!enter(open.span)) {
        return {};
    }
    Node node = Node::list({}, open.span);
    if (!peek().is("}")) {
        do {
            std::optional<Node> item = binary(0);
            if (!item) {
                return {};
            }
            node.args.push_back(std::move(*item));
        } while (take_if(","));
    }
    if (!take_if("}")) {
        expected("`,` or `}` in the list");
        return {};
    }
    depth--;
    open_braces--;
    node.span = to_here(open.span);
    return node;
}

std::optional<std::vector<Node>> ParserBase::arguments() {
    Span open = previous().span;
    if (depth == 0) {
        operators = 0;
    }
    if (!enter(open)) {
        return {};
    }
    std::vector<Node> args;
    if (!peek().is(")")) {
        do {
            std::string keyword;
            if (peek().kind == Token::Kind::Name && peek(1).is("=")) {
                keyword = take().text;
                take();
            }
            std::optional<Node> value = binary(0);
            if (!value) {
                return {};
            }
            value->keyword = keyword;
            args.push_back(std::move(*value));
        } while (take_if(","));
    }
    if (!take_if(")")) {
        expected("`,` or `)` in the arguments");
        return {};
    }
    depth--;
    return args;
}

} // namespace kiln
