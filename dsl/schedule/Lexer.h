/** \file
 * Text to tokens. Comments are kept beside the tokens that they precede.
 */
#pragma once

#include "dsl/support/Diagnostic.h"

#include <cstdint>
#include <string>
#include <vector>

namespace kiln {

struct Token {
    enum class Kind { Name, Int, Float, String, Punct, End };
    struct Comment {
        std::string text; ///< without slashes and the blank after them
        int line = 0;
    };
    Kind kind = Kind::End;
    std::string text; ///< of a String without quotes and escapes
    int64_t int_value = 0;
    double float_value = 0;
    Span span;
    bool is_faulty = false;        ///< something before it or in it could not be read, and was reported
    bool starts_line = false;      ///< nothing but white space before it on its line
    std::vector<Comment> comments; ///< between the token before and this one

    bool is(const char *punct) const { return kind == Kind::Punct && text == punct; }
    bool is_name(const char *word) const { return kind == Kind::Name && text == word; }
    /// For messages: "`{`", "the number 8", "the end of the file".
    std::string words() const;
};

/// Always ends with an End token. Bytes that cannot be read (K0001, K0005) are replaced in `text` by `?`, so that
/// whatever is made of it later is printable UTF-8.
std::vector<Token> lex(std::string &text, const std::string &file, std::vector<Diagnostic> &diagnostics);

} // namespace kiln
