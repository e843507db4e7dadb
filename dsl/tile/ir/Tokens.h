/** \file
 * Tokens of the text of tile IR.
 */
#pragma once

#include "dsl/support/Diagnostic.h"

#include <string>
#include <vector>

namespace kiln::tile {

struct Token {
    enum class Kind { Name, Axis, Int, Float, String, Punct, Note, End } kind = Kind::End;
    std::string text; ///< of a name without backquotes, of an axis without %, of a string without quotes
    double number = 0;
    bool is_quoted = false; ///< a name between backquotes
    Span span;

    bool is(const char *punct) const { return kind == Kind::Punct && text == punct; }
    bool is_word(const char *word) const { return kind == Kind::Name && !is_quoted && text == word; }
    std::string words() const; ///< for messages: "`{`", "the end of the text"
};

/// Ends with an End token. Throws Error K1160.
std::vector<Token> tokens_of(const std::string &text, const std::string &file);

} // namespace kiln::tile
