/** \file
 * What the parser's parts share: the token stream, reports, and expressions. Only for the parser.
 */
#pragma once

#include "dsl/schedule/Lexer.h"
#include "dsl/schedule/Schedule.h"

#include <optional>

namespace kiln {

/// A token stream with expressions on top. A function that returns nothing has reported why.
class ParserBase {
public:
    ParserBase(std::vector<Token> tokens, std::string file, std::vector<Diagnostic> &diagnostics);

    static constexpr int max_nesting = 64;     ///< of brackets, in the text
    static constexpr int max_operators = 250;  ///< in one expression, so that trees stay shallow
    static constexpr size_t max_reports = 100; ///< then the parser stops

    std::optional<Node> expression();
    /// After `(`, up to and with `)`.
    std::optional<std::vector<Node>> arguments();

    const Token &peek(size_t ahead = 0) const;
    const Token &previous() const;
    bool at_end() const { return peek().kind == Token::Kind::End; }
    Token take();
    bool take_if(const char *punct);
    /// The token, or K0010 "expected …, found …".
    std::optional<Token> expect(const char *punct, const char *context);
    std::optional<Token> expect_name(const char *what);
    void expected(const std::string &what);

    Diagnostic &report(const char *code, std::string message, Span span);
    /// From the first token of `from` to the end of the last token taken, on its first line.
    Span to_here(Span from) const;

protected:
    std::vector<Token> tokens;
    size_t pos = 0;
    std::string file;
    std::vector<Diagnostic> &diagnostics;
    std::vector<Token::Comment> comments; ///< of the tokens taken since they were last collected
    int open_braces = 0;                  ///< of lists, for recovery

    /// Forgets brackets that a fault left open.
    void reset();
    /// Whether a token since `start` could not be read; then what was made of it is not worth a look.
    bool has_fault_since(size_t start) const;

private:
    int depth = 0, operators = 0;

    std::optional<Node> binary(size_t level);
    std::optional<Node> unary();
    std::optional<Node> postfix();
    std::optional<Node> primary();
    std::optional<Node> name_or_call();
    std::optional<Node> expression_list();
    bool count_operator(Span span);
    bool enter(Span span);
};

} // namespace kiln
