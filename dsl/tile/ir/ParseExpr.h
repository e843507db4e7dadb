/** \file
 * Reads the Exprs of tile IR, and is the base of the reader of statements (Parse.cpp).
 */
#pragma once

#include "dsl/tile/ir/Ir.h"
#include "dsl/tile/ir/Tokens.h"

#include <optional>

namespace kiln::tile {

/// A type by the name that type_name gives.
std::optional<Halide::Type> type_named(const std::string &name);

class ExprParser {
public:
    /// Types of tiles and views come from `k`.
    ExprParser(std::vector<Token> tokens, std::string file, const Kernel &k)
        : tokens_(std::move(tokens)), file_(std::move(file)), types_(k) {}

    Expr expr() { return binary(1); }

protected:
    const Token &next() const { return tokens_[at_]; }
    const Token &peek(size_t n = 1) const { return tokens_[std::min(at_ + n, tokens_.size() - 1)]; }
    Token take() { return at_ + 1 < tokens_.size() ? tokens_[at_++] : tokens_[at_]; }
    bool accept(const char *punct) { return next().is(punct) ? (take(), true) : false; }
    bool accept_word(const char *word) { return next().is_word(word) ? (take(), true) : false; }
    void expect(const char *punct);
    void expect_word(const char *word);
    std::string name(const char *what); ///< `what`: "a tile", for the message
    int integer(const char *what);      ///< K1165 where it is beyond 32 bits
    Halide::Type type();
    /// `name[…]` behind the name; with an axis in each dimension that has one.
    Region region();
    [[noreturn]] void fail(const char *code, const std::string &message, const Span &span,
                           std::vector<std::string> helps = {}) const;
    [[noreturn]] void unexpected(const std::string &wanted) const;

    std::vector<Token> tokens_;
    size_t at_ = 0;
    std::string file_;

private:
    const Kernel &types_;
    std::map<std::string, Halide::Type> lets_;

    Expr binary(int level);
    Expr unary();
    Expr primary();
    Expr constant(const Token &t, bool negative);
    Expr named();
    Expr let();
    Expr view_read(const Token &t);
    Expr call(const Token &t, Halide::Internal::Call::CallType kind);
    std::vector<Expr> arguments(const char *close);
    /// `:type` where it stands.
    Halide::Type suffix(Halide::Type usual);
    Halide::Type type_of(const std::string &variable) const;
};

} // namespace kiln::tile
