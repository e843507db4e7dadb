#include "dsl/tile/ir/Tokens.h"

#include <cctype>
#include <cstdlib>

namespace kiln::tile {

namespace {

bool is_letter(char c) {
    return std::isalpha(static_cast<unsigned char>(c)) || c == '_';
}
bool is_digit(char c) {
    return std::isdigit(static_cast<unsigned char>(c)) != 0;
}

class Scanner {
public:
    Scanner(const std::string &text, const std::string &file) : s_(text), file_(file) {}

    std::vector<Token> run() {
        for (skip_blanks(); at_ < s_.size(); skip_blanks()) {
            start_ = at_;
            one();
        }
        start_ = at_;
        add(Token::Kind::End, "");
        return std::move(out_);
    }

private:
    const std::string &s_, &file_;
    size_t at_ = 0, start_ = 0, line_start_ = 0;
    int line_ = 1;
    bool fresh_line_ = true;
    std::vector<Token> out_;

    char peek(size_t n = 0) const { return at_ + n < s_.size() ? s_[at_ + n] : '\0'; }

    Span span() const {
        return {line_, static_cast<int>(start_ - line_start_) + 1, static_cast<int>(at_ - start_)};
    }

    Token &add(Token::Kind kind, std::string text) {
        Token t;
        t.kind = kind;
        t.text = std::move(text);
        t.span = span();
        out_.push_back(std::move(t));
        return out_.back();
    }

    [[noreturn]] void fail(const std::string &message) {
        Diagnostic d;
        d.code = "K1160";
        d.message = message;
        d.file = file_;
        d.span = span();
        throw Error(std::move(d));
    }

    void skip_blanks() {
        for (; at_ < s_.size(); at_++) {
            if (s_[at_] == '\n') {
                line_++;
                line_start_ = at_ + 1;
                fresh_line_ = true;
            } else if (s_[at_] == '#' && fresh_line_) {
                while (at_ + 1 < s_.size() && s_[at_ + 1] != '\n') {
                    at_++;
                }
            } else if (!std::isspace(static_cast<unsigned char>(s_[at_]))) {
                break;
            }
        }
        fresh_line_ = false;
    }

    /// Letters, digits, `_`, `$` and single dots.
    std::string word() {
        const size_t from = at_;
        auto later = [](char c) { return is_letter(c) || is_digit(c) || c == '$'; };
        while (later(peek()) || (peek() == '.' && later(peek(1)))) {
            at_++;
        }
        return s_.substr(from, at_ - from);
    }

    /// Up to the closing quote, on one line.
    std::string until(char close) {
        std::string text;
        for (at_++; peek() != close; at_++) {
            if (at_ >= s_.size() || peek() == '\n') {
                fail(std::string("a closing `") + (close == '"' ? "\"" : "backquote") +
                     "` is missing on this line");
            }
            if (close == '"' && peek() == '\\') {
                at_++;
                text += peek() == 'n' ? '\n' : peek();
            } else {
                text += peek();
            }
        }
        at_++;
        return text;
    }

    void one() {
        const char c = peek();
        if (is_letter(c)) {
            std::string text = word();
            add(Token::Kind::Name, std::move(text));
        } else if (c == '`') {
            std::string text = until('`');
            // An axis whose name is not plain stands between backquotes with its %.
            const bool axis = !text.empty() && text[0] == '%';
            add(axis ? Token::Kind::Axis : Token::Kind::Name, axis ? text.substr(1) : text).is_quoted = true;
        } else if (c == '%' && is_letter(peek(1))) {
            at_++;
            std::string text = word();
            add(Token::Kind::Axis, std::move(text));
        } else if (c == '"') {
            std::string text = until('"');
            add(Token::Kind::String, std::move(text));
        } else if (is_digit(c)) {
            number();
        } else if (c == '/' && peek(1) == '/') {
            at_ += 2;
            const size_t end = std::min(s_.find('\n', at_), s_.size());
            const size_t from = std::min(s_.find_first_not_of(' ', at_), end);
            at_ = end;
            add(Token::Kind::Note, s_.substr(from, end - from));
        } else {
            for (const char *two : {"..", "==", "!=", "<=", ">=", "&&", "||", "@!", "@@"}) {
                if (c == two[0] && peek(1) == two[1]) {
                    at_ += 2;
                    add(Token::Kind::Punct, two);
                    return;
                }
            }
            at_++;
            if (std::string("{}[](),;:=+-*/%<>!@").find(c) == std::string::npos) {
                fail("this character has no meaning here");
            }
            add(Token::Kind::Punct, std::string(1, c));
        }
    }

    void number() {
        bool real = false;
        while (is_digit(peek())) {
            at_++;
        }
        if (peek() == '.' && is_digit(peek(1))) {
            real = true;
            for (at_++; is_digit(peek());) {
                at_++;
            }
        }
        if (peek() == 'e' &&
            (is_digit(peek(1)) || ((peek(1) == '-' || peek(1) == '+') && is_digit(peek(2))))) {
            real = true;
            for (at_ += 2; is_digit(peek());) {
                at_++;
            }
        }
        const std::string text = s_.substr(start_, at_ - start_);
        add(real ? Token::Kind::Float : Token::Kind::Int, text).number = std::strtod(text.c_str(), nullptr);
    }
};

} // namespace

std::string Token::words() const {
    switch (kind) {
    case Kind::End:
        return "the end of the text";
    case Kind::Int:
    case Kind::Float:
        return "the number " + text;
    case Kind::String:
        return "the string \"" + text + "\"";
    case Kind::Note:
        return "a note";
    case Kind::Axis:
        return "`%" + text + "`";
    default:
        return "`" + text + "`";
    }
}

std::vector<Token> tokens_of(const std::string &text, const std::string &file) {
    return Scanner(text, file).run();
}

} // namespace kiln::tile
