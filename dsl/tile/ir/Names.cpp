#include "dsl/tile/ir/Names.h"

#include <algorithm>
#include <cctype>
#include <set>

namespace kiln::tile {

namespace {

/// Words that begin an Expr and so cannot stand for a name.
const std::set<std::string> words = {"false", "inf", "let", "nan", "true"};

} // namespace

bool is_plain_name(const std::string &name) {
    size_t i = !name.empty() && name[0] == '%' ? 1 : 0;
    auto letter = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; };
    auto later = [&](char c) { return letter(c) || std::isdigit(static_cast<unsigned char>(c)) || c == '$'; };
    if (i == name.size() || !letter(name[i])) {
        return false;
    }
    for (; i < name.size(); i++) {
        if (!later(name[i]) && !(name[i] == '.' && i + 1 < name.size() && later(name[i + 1]))) {
            return false;
        }
    }
    return true;
}

std::string name_text(const std::string &name) {
    return is_plain_name(name) && !words.count(name) ? name : "`" + name + "`";
}

std::string quoted(const std::string &text) {
    std::string s = "\"";
    for (char c : text) {
        if (c == '"' || c == '\\') {
            s += '\\';
        }
        s += c == '\n' ? std::string("\\n") : std::string(1, c);
    }
    return s + "\"";
}

} // namespace kiln::tile
