#include "dsl/schedule/ParserItems.h"

#include "dsl/target/Target.h"

#include <fmt/format.h>

#include <algorithm>

namespace kiln {

namespace {

constexpr size_t max_knob_values = 65536;

} // namespace

bool ItemParser::is_item(const char *word) const {
    return peek().is_name(word) && !peek(1).is(".") && !peek(1).is("=");
}

std::vector<std::string> ItemParser::comments_above() {
    // Those before the next token belong to what starts with it.
    Token &next = tokens[pos];
    comments.insert(comments.end(), next.comments.begin(), next.comments.end());
    next.comments.clear();
    std::vector<std::string> out;
    for (Token::Comment &comment : comments) {
        out.push_back(std::move(comment.text));
    }
    comments.clear();
    return out;
}

std::string ItemParser::comment_beside() {
    Token &next = tokens[pos];
    if (next.comments.empty() || next.comments.front().line != previous().span.line) {
        return "";
    }
    std::string out = std::move(next.comments.front().text);
    next.comments.erase(next.comments.begin());
    return out;
}

void ItemParser::recover(size_t start) {
    int braces = open_braces;
    reset();
    while (!at_end()) {
        if (take_if(";")) {
            return;
        }
        if (peek().is("}") && braces-- <= 0) {
            return;
        }
        if (peek().is("{")) {
            braces++;
        }
        bool is_name = peek().kind == Token::Kind::Name && peek().starts_line && pos > start;
        bool is_chain = peek(1).is(".") && peek(2).kind == Token::Kind::Name && peek(3).is("(");
        bool is_word = is_item("schedule") || is_item("macro") || is_item("knob") || is_item("require") ||
                       is_item("target") || is_item("op");
        if (is_name && (is_chain || (is_word && peek(1).kind == Token::Kind::Name))) {
            return;
        }
        take();
    }
}

void ItemParser::op_item(Schedule &out) {
    size_t start = pos;
    Comments notes{comments_above(), ""};
    Token word = take();
    std::optional<Token> name = expect_name("the name of a generator after `op`");
    if (!name) {
        recover(start);
        return;
    }
    if (!out.op.empty()) {
        report("K0015", "`op` is given twice", to_here(word.span))
            .notes.push_back(fmt::format("first `{}` on line {}", out.op, out.op_span.line));
    } else {
        out.op = name->text;
        out.op_span = name->span;
    }
    take_if(";");
    notes.beside = comment_beside();
    out.op_comments = std::move(notes);
}

/// Whether Target knows it; its reports are passed on with their place.
bool ItemParser::is_target(const std::string &text, Span span) {
    try {
        Target::parse(text);
        return true;
    } catch (const Error &error) {
        for (Diagnostic d : error.diagnostics) {
            d.file = file;
            d.span = span;
            diagnostics.push_back(std::move(d));
        }
        return false;
    }
}

bool ItemParser::target_feature(TargetPattern &pattern) {
    if (pattern.backend == "cuda" && peek().is_name("sm") && peek(1).is(">=")) {
        take();
        take();
        if (peek().kind != Token::Kind::Int || peek().int_value < 0 || peek().int_value > 9999) {
            expected("a compute capability such as 80");
            return false;
        }
        if (pattern.at_least) {
            report("K0015", "`sm >=` is given twice", peek().span);
        }
        pattern.at_least = static_cast<int>(take().int_value);
        return true;
    }
    if (peek().kind != Token::Kind::Name) {
        expected("a feature of the target or the end of the line");
        return false;
    }
    Token feature = take();
    if (is_target(pattern.backend + " " + feature.text, feature.span)) {
        pattern.features.push_back(feature.text);
    }
    return true;
}

void ItemParser::target_item(Schedule &out) {
    size_t start = pos;
    Comments notes{comments_above(), ""};
    Token word = take();
    std::optional<Token> backend = expect_name("a backend after `target`: `cpu`, `cuda` or `opencl`");
    if (!backend) {
        recover(start);
        return;
    }
    TargetPattern pattern;
    pattern.backend = backend->text;
    bool is_known = is_target(backend->text, backend->span);
    while (!at_end() && peek().span.line == backend->span.line && !peek().is(";") && !peek().is("}")) {
        if (!is_known) {
            take();
        } else if (!target_feature(pattern)) {
            recover(start);
            return;
        }
    }
    pattern.span = to_here(backend->span);
    if (pattern.at_least && !pattern.features.empty()) {
        report("K0015", "a target is either exact or portable, not both", pattern.span)
            .helps.push_back(
                fmt::format("write `cuda {}` or `cuda sm >= {}`", pattern.features[0], *pattern.at_least));
    }
    if (out.target) {
        report("K0015", "`target` is given twice", to_here(word.span))
            .notes.push_back(fmt::format("first `{}` on line {}", out.target->str(), out.target->span.line));
    } else if (is_known) {
        out.target = std::move(pattern);
    }
    take_if(";");
    notes.beside = comment_beside();
    out.target_comments = std::move(notes);
}

void ItemParser::knob_items(Schedule &out) {
    size_t start = pos;
    std::vector<std::string> above = comments_above();
    take();
    do {
        std::optional<Knob> k = knob();
        if (!k) {
            recover(start);
            return;
        }
        k->comments.above = std::move(above);
        std::vector<std::string> within = comments_above();
        k->comments.above.insert(k->comments.above.end(), within.begin(), within.end());
        above.clear();
        auto same = std::find_if(out.knobs.begin(), out.knobs.end(),
                                 [&](const Knob &o) { return o.name == k->name; });
        if (same != out.knobs.end()) {
            report("K0601", fmt::format("the knob `{}` is declared twice", k->name), k->span)
                .notes.push_back(fmt::format("first on line {}", same->span.line));
        } else {
            out.knobs.push_back(std::move(*k));
        }
    } while (take_if(","));
    take_if(";");
    if (!out.knobs.empty()) {
        out.knobs.back().comments.beside = comment_beside();
    }
}

std::optional<Knob> ItemParser::knob() {
    Knob out;
    std::optional<Token> name = expect_name("the knob's name");
    if (!name) {
        return {};
    }
    out.name = name->text;
    out.span = name->span;
    if (!peek().is_name("in")) {
        expected("`in` after the knob's name");
        return {};
    }
    take();
    std::optional<Token> open = expect("{", " before the knob's values");
    if (!open) {
        return {};
    }
    open_braces++;
    out.domain.kind = Node::Kind::List;
    values_seen.clear();
    if (peek().is("}")) {
        report("K0602", fmt::format("the knob `{}` has no values", out.name), to_here(open->span))
            .helps.push_back("write `{64, 128}` or `{64..256 step 16}`");
    } else {
        do {
            if (!knob_value(out)) {
                return {};
            }
        } while (take_if(","));
    }
    if (!expect("}", " after the knob's values")) {
        return {};
    }
    open_braces--;
    out.domain.span = to_here(open->span);
    if (!out.values.empty() && !out.names.empty()) {
        report("K0602", fmt::format("the knob `{}` mixes integers and names", out.name), out.domain.span)
            .helps.push_back("use two knobs");
        out.names.clear();
    }
    return out;
}

std::optional<Node> ItemParser::constant() {
    Span start = peek().span;
    bool is_negative = take_if("-");
    if (peek().kind != Token::Kind::Int) {
        expected("an integer or a name");
        return {};
    }
    int64_t value = take().int_value;
    return Node::integer(is_negative ? -value : value, to_here(start));
}

bool ItemParser::knob_value(Knob &out) {
    auto add = [&](int64_t value, Span span) {
        if (!values_seen.insert(value).second) {
            report("K0604", fmt::format("the knob `{}` has the value {} twice", out.name, value), span);
        } else {
            out.values.push_back(value);
        }
    };
    if (peek().kind == Token::Kind::Name) {
        Token name = take();
        if (std::find(out.names.begin(), out.names.end(), name.text) != out.names.end()) {
            report("K0604", fmt::format("the knob `{}` has the value `{}` twice", out.name, name.text),
                   name.span);
        } else {
            out.names.push_back(name.text);
        }
        out.domain.args.push_back(Node::name(name.text, name.span));
        return true;
    }
    std::optional<Node> first = constant();
    if (!first) {
        return false;
    }
    if (!take_if("..")) {
        if (out.values.size() >= max_knob_values) {
            report("K0603", fmt::format("the knob `{}` has more than {} values", out.name, max_knob_values),
                   first->span);
            return false;
        }
        add(first->int_value, first->span);
        out.domain.args.push_back(std::move(*first));
        return true;
    }
    std::optional<Node> last = constant();
    if (!last) {
        return false;
    }
    Node step = Node::integer(1, last->span);
    if (peek().is_name("step")) {
        take();
        std::optional<Node> given = constant();
        if (!given) {
            return false;
        }
        step = std::move(*given);
    }
    Span whole = to_here(first->span);
    auto difference = static_cast<uint64_t>(last->int_value) - static_cast<uint64_t>(first->int_value);
    if (step.int_value < 1) {
        report("K0602", fmt::format("the step {} is not positive", step.int_value), step.span);
    } else if (last->int_value < first->int_value) {
        report("K0602", fmt::format("the range {}..{} is empty", first->int_value, last->int_value), whole)
            .helps.push_back(fmt::format("write {}..{}", last->int_value, first->int_value));
    } else if (difference / static_cast<uint64_t>(step.int_value) >= max_knob_values - out.values.size()) {
        report("K0603", fmt::format("the knob `{}` has more than {} values", out.name, max_knob_values),
               whole)
            .helps.push_back("take a larger `step`");
    } else {
        for (uint64_t d = 0; d <= difference; d += static_cast<uint64_t>(step.int_value)) {
            add(static_cast<int64_t>(static_cast<uint64_t>(first->int_value) + d), whole);
        }
    }
    Node range;
    range.kind = Node::Kind::Call;
    range.text = "range";
    range.span = whole;
    range.args = {std::move(*first), std::move(*last), std::move(step)};
    out.domain.args.push_back(std::move(range));
    return true;
}

void ItemParser::require_items(Schedule &out) {
    size_t start = pos;
    std::vector<std::string> above = comments_above();
    take();
    do {
        std::optional<Node> condition = expression();
        if (!condition) {
            recover(start);
            return;
        }
        Require r;
        r.span = condition->span;
        r.condition = std::move(*condition);
        r.comments.above = std::move(above);
        above.clear();
        out.requires_.push_back(std::move(r));
    } while (take_if(","));
    take_if(";");
    out.requires_.back().comments.beside = comment_beside();
}

} // namespace kiln
