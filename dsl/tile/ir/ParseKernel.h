/** \file
 * Reads what stands before the statements of a kernel's text: views, grid, plan, layouts, rings, tiles. Base of the reader of
 * statements (Parse.cpp).
 */
#pragma once

#include "dsl/tile/ir/ParseExpr.h"

#include <fmt/format.h>

namespace kiln::tile {

class KernelParser : public ExprParser {
public:
    KernelParser(std::vector<Token> tokens, const std::string &file)
        : ExprParser(std::move(tokens), file, k_) {}
    virtual ~KernelParser() = default;

protected:
    Kernel k_;
    std::map<std::string, RegisterLayout> registers_;
    std::map<std::string, SharedLayout> shared_;

    /// Types of tiles and views must be known where an Expr reads them, and the final IR reads some before the text
    /// that defines them.
    void collect_types();
    void header();
    virtual Body body() = 0;
    /// A tile's name; where `:` follows, its declaration.
    std::string declare();

    int numbered(const char *word); ///< `word 3`
    std::vector<std::string> names(const char *what);
    CopyKind copy_kind();
    ReduceOp reduce_op();

    template<typename E>
    E one_of(const std::vector<std::pair<const char *, E>> &choices) {
        std::string all;
        for (const auto &[word, value] : choices) {
            if (accept_word(word)) {
                return value;
            }
            all += fmt::format("{}`{}`", all.empty() ? "" : ", ", word);
        }
        unexpected("one of " + all);
    }

    template<typename L>
    L layout_at(const std::map<std::string, L> &all) {
        const Token t = next();
        const std::string id = name("a layout");
        auto l = all.find(id);
        if (l == all.end()) {
            fail("K1164", fmt::format("no layout `{}` of this kind", id), t.span);
        }
        return l->second;
    }

private:
    std::set<std::string> declared_;

    void plan();
    void two(int &a, int &b);
    void layout();
    std::vector<LayoutPart> parts();
    std::string axis_or_none() { return accept("-") ? "" : name("an axis"); }
    void ring();
};

} // namespace kiln::tile
