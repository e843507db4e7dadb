#include "dsl/schedule/Lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace kiln {

namespace {

bool is_name_start(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_digit(char c) {
    return c >= '0' && c <= '9';
}
bool is_name_part(char c) {
    return is_name_start(c) || is_digit(c) || c == '$';
}

/// The bytes of the UTF-8 character at `i`, or 0 where there is none. Overlong forms, surrogates and values above
/// U+10FFFF are none.
size_t utf8_length(const std::string &text, size_t i) {
    auto byte = [&](size_t k) { return k < text.size() ? static_cast<unsigned char>(text[k]) : 0u; };
    unsigned first = byte(i);
    size_t n = first < 0x80   ? 1
               : first < 0xc2 ? 0
               : first < 0xe0 ? 2
               : first < 0xf0 ? 3
               : first < 0xf5 ? 4
                              : 0;
    for (size_t k = 1; k < n; k++) {
        if ((byte(i + k) & 0xc0) != 0x80) {
            return 0;
        }
    }
    unsigned second = byte(i + 1);
    bool out_of_range = (first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ||
                        (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f);
    return out_of_range ? 0 : n;
}

class Lexer {
public:
    Lexer(std::string &text, const std::string &file, std::vector<Diagnostic> &diagnostics)
        : text(text), file(file), diagnostics(diagnostics) {}

    std::vector<Token> run() {
        clean();
        i = text.rfind("\xef\xbb\xbf", 0) == 0 ? 3 : 0;
        line = 1;
        line_start = 0;
        while (i < text.size()) {
            next();
        }
        begin_token(Token::Kind::End);
        pending.span = here(1);
        tokens.push_back(std::move(pending));
        return std::move(tokens);
    }

private:
    std::string &text;
    const std::string &file;
    std::vector<Diagnostic> &diagnostics;
    std::vector<Token> tokens;
    static constexpr size_t max_reports = 100; ///< the parser stops there too
    Diagnostic overflow;
    bool is_faulty = false; ///< since the last token
    Token pending;          ///< gathers the comments before the next token
    size_t i = 0, line_start = 0;
    int line = 1;

    Span here(size_t length) const {
        return {line, static_cast<int>(i - line_start) + 1, static_cast<int>(length)};
    }

    Diagnostic &report(const char *code, std::string message, Span span) {
        Diagnostic d;
        d.code = code;
        d.message = std::move(message);
        d.file = file;
        d.span = span;
        // Inside a token that has begun, or before the next one.
        (pending.kind == Token::Kind::End ? is_faulty : pending.is_faulty) = true;
        if (diagnostics.size() >= max_reports) {
            overflow = std::move(d);
            return overflow;
        }
        diagnostics.push_back(std::move(d));
        return diagnostics.back();
    }

    /// Reports bytes that no text should have, one report a line, and puts `?` in their place.
    void clean() {
        int reported_line = 0;
        for (i = 0; i < text.size();) {
            unsigned char c = static_cast<unsigned char>(text[i]);
            size_t length = utf8_length(text, i);
            bool is_control = (c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7f ||
                              (c == '\r' && (i + 1 == text.size() || text[i + 1] != '\n'));
            if (length == 0 || is_control) {
                if (reported_line != line) {
                    reported_line = line;
                    if (is_control) {
                        report("K0001", fmt::format("unexpected control character 0x{:02x}", c), here(1));
                    } else {
                        report("K0005", fmt::format("the byte 0x{:02x} is not valid UTF-8 here", c), here(1))
                            .helps.push_back("save the file as UTF-8");
                    }
                }
                text[i] = '?';
                length = 1;
            } else if (c == '\n') {
                line++;
                line_start = i + 1;
            }
            i += length;
        }
    }

    void begin_token(Token::Kind kind) {
        pending.kind = kind;
        pending.is_faulty = is_faulty;
        is_faulty = false;
        pending.starts_line = tokens.empty() || tokens.back().span.line != line;
    }
    void end_token(size_t length) {
        pending.span = here(length);
        tokens.push_back(std::move(pending));
        pending = Token();
        i += length;
    }

    void comment(size_t slashes) {
        size_t end = std::min(text.find('\n', i), text.size());
        std::string body = text.substr(i + slashes, end - i - slashes);
        while (!body.empty() && (body.back() == '\r' || body.back() == ' ' || body.back() == '\t')) {
            body.pop_back();
        }
        if (!body.empty() && body[0] == ' ') {
            body.erase(0, 1);
        }
        pending.comments.push_back({std::move(body), line});
        i = end;
    }

    void block_comment() {
        report("K0006", "a comment starts with `//`", here(2))
            .helps.push_back("put `//` before each of its lines");
        size_t end = text.find("*/", i + 2);
        end = end == std::string::npos ? text.size() : end + 2;
        for (; i < end; i++) {
            if (text[i] == '\n') {
                line++;
                line_start = i + 1;
            }
        }
    }

    void number() {
        size_t end = i;
        bool is_hex = text[i] == '0' && i + 1 < text.size() && (text[i + 1] == 'x' || text[i + 1] == 'X');
        bool is_real = false;
        if (is_hex) {
            end += 2;
        }
        while (end < text.size() && is_digit(text[end])) {
            end++;
        }
        if (!is_hex && end + 1 < text.size() && text[end] == '.' && is_digit(text[end + 1])) {
            is_real = true;
            end++;
            while (end < text.size() && is_digit(text[end])) {
                end++;
            }
        }
        while (end < text.size() && is_name_part(text[end])) {
            bool is_exponent = is_real && (text[end] == 'e' || text[end] == 'E');
            end++;
            if (is_exponent && end < text.size() && (text[end] == '+' || text[end] == '-')) {
                end++;
            }
        }
        std::string word = text.substr(i, end - i);
        begin_token(is_real ? Token::Kind::Float : Token::Kind::Int);
        pending.text = word;
        const char *first = word.data() + (is_hex ? 2 : 0), *last = word.data() + word.size();
        std::from_chars_result result{};
        if (is_real) {
            result = std::from_chars(first, last, pending.float_value);
        } else {
            result = std::from_chars(first, last, pending.int_value, is_hex ? 16 : 10);
        }
        if (result.ec == std::errc::result_out_of_range && result.ptr == last) {
            report("K0003", fmt::format("the number {} is out of range", word), here(word.size()))
                .notes.push_back(is_real ? "reals are 64-bit IEEE numbers"
                                         : "the largest integer is 9223372036854775807");
        } else if (result.ec != std::errc() || result.ptr != last) {
            report("K0004", fmt::format("`{}` is not a number", word), here(word.size()))
                .helps.push_back(
                    "an integer is `64` or `0x40`, a real `0.5` or `1.5e-3`, a name starts with a letter");
        }
        end_token(word.size());
    }

    void string() {
        begin_token(Token::Kind::String);
        size_t end = i + 1;
        bool is_closed = false;
        while (end < text.size() && text[end] != '\n') {
            char c = text[end++];
            if (c == '"') {
                is_closed = true;
                break;
            }
            if (c != '\\') {
                pending.text += c;
                continue;
            }
            char escape = end < text.size() ? text[end] : '\n';
            if (escape == '"' || escape == '\\') {
                pending.text += escape;
            } else if (escape == 'n' || escape == 't') {
                pending.text += escape == 'n' ? '\n' : '\t';
            } else {
                Span span = {line, static_cast<int>(end - 1 - line_start) + 1, escape == '\n' ? 1 : 2};
                report("K0007", "unknown escape in a string", span)
                    .helps.push_back("a string knows `\\\"`, `\\\\`, `\\n` and `\\t`");
            }
            if (escape != '\n') {
                end += std::max<size_t>(1, utf8_length(text, end));
            }
        }
        size_t length = end - i;
        if (!is_closed) {
            length -= length > 1 && text[end - 1] == '\r';
            report("K0002", "the string has no closing `\"` on its line", here(length))
                .helps.push_back("write `\\n` for a line break inside a string");
        }
        end_token(length);
    }

    void punctuation() {
        static const char *const all[] = {"..", "==", "!=", "<=", ">=", "&&", "||", "::", "{", "}", "(", ")",
                                          ",",  ";",  ".",  "=",  "<",  ">",  "+",  "-",  "*", "/", "%", "!"};
        for (const char *punct : all) {
            std::string_view view(punct);
            if (text.compare(i, view.size(), view) == 0) {
                begin_token(Token::Kind::Punct);
                pending.text = punct;
                end_token(view.size());
                return;
            }
        }
        size_t length = std::max<size_t>(1, utf8_length(text, i));
        is_faulty = true;
        // A `?` may stand for a byte that was reported already.
        bool is_reported =
            text[i] == '?' && std::any_of(diagnostics.begin(), diagnostics.end(), [&](const auto &d) {
                return d.span.line == line && (d.code == "K0001" || d.code == "K0005");
            });
        if (!is_reported) {
            Diagnostic &d = report("K0001", fmt::format("unexpected character `{}`", text.substr(i, length)),
                                   here(length));
            if (text[i] == '\'') {
                d.helps.push_back("a string stands in double quotes");
            } else if (length > 1) {
                d.helps.push_back(
                    "names are made of ASCII letters, digits and `_`; other characters may stand in "
                    "strings and comments");
            }
        }
        i += length;
    }

    void next() {
        char c = text[i];
        if (c == '\n') {
            i++;
            line++;
            line_start = i;
        } else if (c == ' ' || c == '\t' || c == '\r') {
            i++;
        } else if (text.compare(i, 2, "//") == 0) {
            comment(2);
        } else if (c == '#') {
            report("K0006", "a comment starts with `//`", here(1))
                .helps.push_back("write `//` in place of `#`");
            comment(1);
        } else if (text.compare(i, 2, "/*") == 0) {
            block_comment();
        } else if (is_name_start(c)) {
            size_t end = i;
            while (end < text.size() && is_name_part(text[end])) {
                end++;
            }
            begin_token(Token::Kind::Name);
            pending.text = text.substr(i, end - i);
            end_token(end - i);
        } else if (is_digit(c)) {
            number();
        } else if (c == '"') {
            string();
        } else {
            punctuation();
        }
    }
};

} // namespace

std::string Token::words() const {
    switch (kind) {
    case Kind::Name:
    case Kind::Punct:
        return fmt::format("`{}`", text);
    case Kind::Int:
    case Kind::Float:
        return fmt::format("the number {}", text);
    case Kind::String:
        return "a string";
    case Kind::End:
        return "the end of the file";
    }
    return "";
}

std::vector<Token> lex(std::string &text, const std::string &file, std::vector<Diagnostic> &diagnostics) {
    return Lexer(text, file, diagnostics).run();
}

} // namespace kiln
