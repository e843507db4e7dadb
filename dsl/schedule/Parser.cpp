#include "dsl/schedule/Parser.h"

#include "dsl/schedule/ParserItems.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

namespace kiln {

namespace {

constexpr size_t max_bytes = size_t(4) << 20;

/// The macros of the file that a schedule uses, itself or through others, put before its own.
void adopt_macros(Schedule &schedule, const std::vector<Macro> &file_macros) {
    std::set<std::string> used;
    auto use = [&](const std::vector<Statement> &statements) {
        for (const Statement &s : statements) {
            for (const DirectiveCall &c : s.calls) {
                used.insert(c.name);
            }
        }
    };
    use(schedule.statements);
    for (const Macro &m : schedule.macros) {
        use(m.body);
    }
    std::vector<Macro> adopted;
    for (auto m = file_macros.rbegin(); m != file_macros.rend(); ++m) {
        if (used.count(m->name)) {
            use(m->body);
            adopted.insert(adopted.begin(), *m);
        }
    }
    schedule.macros.insert(schedule.macros.begin(), adopted.begin(), adopted.end());
}

class Parser : public ItemParser {
public:
    using ItemParser::ItemParser;

    std::vector<Schedule> file_of_schedules();

private:
    std::vector<Macro> file_macros;
    std::map<std::string, int> file_macro_lines, macro_lines;

    std::optional<Schedule> schedule();
    void item(Schedule &out);
    std::optional<Macro> macro(std::map<std::string, int> &lines);
    std::optional<Statement> statement(bool in_macro);
    bool stage(Statement &out);
    bool wrapper(StageRef &stage);
    bool update(StageRef &stage);
    bool chain(Statement &out);

    void skip_block();
};

std::vector<Schedule> Parser::file_of_schedules() {
    std::vector<Schedule> out;
    std::set<std::string> names;
    while (!at_end() && !too_many()) {
        if (is_item("macro")) {
            if (std::optional<Macro> m = macro(file_macro_lines)) {
                file_macros.push_back(std::move(*m));
            } else {
                skip_block();
            }
        } else if (peek().is_name("schedule")) {
            std::optional<Schedule> s = schedule();
            if (s && !names.insert(s->name).second) {
                report("K0016", fmt::format("a second schedule named `{}` in this file", s->name),
                       s->name_span)
                    .helps.push_back("give each schedule of a file its own name");
            }
            if (s) {
                adopt_macros(*s, file_macros);
                out.push_back(std::move(*s));
            }
        } else {
            expected("`schedule` or `macro`");
            take();
            while (!at_end() && !peek().is_name("schedule") && !peek().is_name("macro")) {
                take();
            }
        }
    }
    if (too_many()) {
        report("K0019", "too many faults, the rest of the file was not read", diagnostics.back().span);
    }
    if (!out.empty()) {
        out.back().file_footer = comments_above();
    }
    if (out.empty() && diagnostics.empty()) {
        report("K0014", "the file has no schedule", peek().span)
            .helps.push_back("write `schedule name { op generator … }`");
    }
    return out;
}

/// Past a macro whose head is faulty: after the `}` that closes its body.
void Parser::skip_block() {
    reset();
    while (!at_end() && !peek().is("{") && !peek().is(";") && !peek().is("}")) {
        take();
    }
    int braces = 0;
    while (!at_end()) {
        Token token = take();
        braces += token.is("{") - token.is("}");
        if (braces <= 0) {
            return;
        }
    }
}

std::optional<Schedule> Parser::schedule() {
    Schedule out;
    out.header_comments = comments_above();
    take();
    std::optional<Token> name = expect_name("the schedule's name");
    if (name) {
        out.name = name->text;
        out.name_span = name->span;
    }
    std::optional<Token> open = name ? expect("{", " after the schedule's name") : std::nullopt;
    if (!open) {
        while (!at_end() && !peek().is("{") && !peek().is_name("schedule")) {
            take();
        }
        open = peek().is("{") ? std::optional(take()) : std::nullopt;
        if (!open) {
            return {};
        }
    }
    macro_lines.clear();
    while (!peek().is("}")) {
        bool is_next = peek().is_name("schedule") && peek(1).kind == Token::Kind::Name && peek(2).is("{");
        if (at_end() || is_next) {
            report("K0012", fmt::format("the schedule `{}` has no closing `}}`", out.name), peek().span)
                .notes.push_back(fmt::format("its `{{` is on line {}", open->span.line));
            return out;
        }
        if (too_many()) {
            return out;
        }
        item(out);
    }
    out.footer = comments_above();
    take();
    return out;
}

void Parser::item(Schedule &out) {
    size_t start = pos;
    if (is_item("op")) {
        op_item(out);
    } else if (is_item("target")) {
        target_item(out);
    } else if (is_item("knob")) {
        knob_items(out);
    } else if (is_item("require")) {
        require_items(out);
    } else if (is_item("macro")) {
        if (std::optional<Macro> m = macro(macro_lines)) {
            out.macros.push_back(std::move(*m));
        } else {
            skip_block();
        }
    } else {
        std::string func = peek(peek(1).is("=") ? 2 : 0).text;
        std::optional<Statement> s = statement(false);
        if (s && !has_fault_since(start)) {
            out.statements.push_back(std::move(*s));
            return;
        }
        out.unread.insert(func);
        if (s && !s->binding.empty()) {
            out.unread.insert(s->binding);
        }
        if (!s) {
            recover(start);
        }
    }
}

std::optional<Macro> Parser::macro(std::map<std::string, int> &lines) {
    static const std::set<std::string> words = {"schedule", "op", "target", "knob", "require", "macro"};
    Macro out;
    out.comments.above = comments_above();
    take();
    std::optional<Token> name = expect_name("the macro's name");
    if (!name || !expect("(", " after the macro's name")) {
        return {};
    }
    out.name = name->text;
    out.span = name->span;
    if (words.count(out.name)) {
        report("K0020", fmt::format("a macro cannot be named `{}`", out.name), out.span);
    }
    for (const auto *known : {&file_macro_lines, &lines}) {
        if (auto first = known->find(out.name); first != known->end()) {
            report("K0020", fmt::format("the macro `{}` is defined twice", out.name), out.span)
                .notes.push_back(fmt::format("first on line {}", first->second));
            break;
        }
    }
    lines.emplace(out.name, out.span.line);
    if (!peek().is(")")) {
        do {
            std::optional<Token> param = expect_name("a parameter's name");
            if (!param) {
                return {};
            }
            if (std::find(out.params.begin(), out.params.end(), param->text) != out.params.end()) {
                report("K0020", fmt::format("the macro `{}` has two parameters `{}`", out.name, param->text),
                       param->span);
            }
            out.params.push_back(param->text);
        } while (take_if(","));
    }
    if (!expect(")", " after the macro's parameters") || !expect("{", " before the macro's body")) {
        return {};
    }
    while (!peek().is("}")) {
        size_t start = pos;
        if (at_end()) {
            report("K0012", fmt::format("the macro `{}` has no closing `}}`", out.name), peek().span)
                .notes.push_back(fmt::format("it starts on line {}", out.span.line));
            return out;
        }
        if (too_many()) {
            return {};
        }
        if (std::optional<Statement> s = statement(true)) {
            if (!out.body.empty() && s->stage.is_receiver != out.is_chain()) {
                report("K0021",
                       fmt::format("the macro `{}` mixes statements with and without a Func", out.name),
                       s->span)
                    .notes.push_back("a macro is either a directive, all its statements start with `.`, or a "
                                     "statement, none does");
            } else {
                out.body.push_back(std::move(*s));
            }
        } else {
            recover(start);
        }
    }
    out.footer = comments_above();
    take();
    return out;
}

std::optional<Statement> Parser::statement(bool in_macro) {
    Statement out;
    out.comments.above = comments_above();
    Span start = peek().span;
    if (peek().is(".")) {
        if (!in_macro) {
            report("K0010", "expected a Func before `.`", peek().span)
                .notes.push_back("only in a macro does a statement start with `.`");
            return {};
        }
        out.stage.is_receiver = true;
        out.stage.span = start;
    } else if (peek().kind != Token::Kind::Name) {
        expected("a statement");
        if (peek().is(";")) {
            return {};
        }
        if (!peek().is("}")) {
            take();
        }
        return {};
    } else {
        if (peek(1).is("=")) {
            Token binding = take();
            out.binding = binding.text;
            out.binding_span = binding.span;
            take();
        }
        if (peek().kind == Token::Kind::Name && peek(1).is("(") && out.binding.empty()) {
            DirectiveCall call;
            Token name = take();
            take();
            std::optional<std::vector<Node>> args = arguments();
            if (!args) {
                return {};
            }
            call.name = name.text;
            call.name_span = name.span;
            call.args = std::move(*args);
            call.span = to_here(name.span);
            out.calls.push_back(std::move(call));
            out.stage.span = name.span;
        } else if (!stage(out)) {
            return {};
        }
    }
    if (out.calls.empty() && !chain(out)) {
        return {};
    }
    if (out.calls.empty() && !out.stage.is_wrapper) {
        expected(fmt::format("`.` and a directive after `{}`", out.stage.str()));
        return {};
    }
    out.span = to_here(start);
    if (!take_if(";")) {
        // The next statement can still be read when this one merely lacks its `;`.
        bool is_new_line = peek().starts_line || at_end() || peek().is("}");
        if (!is_new_line) {
            expected("`.` or `;` after the call");
            return {};
        }
        Span end = previous().span;
        report("K0011", "the statement has no `;`", {end.line, end.column + end.length, 1})
            .helps.push_back(fmt::format("write `;` after `{}`", previous().text));
    }
    out.comments.beside = comment_beside();
    // What stood between the calls was kept with them; the rest, inside arguments, stands above the statement.
    std::vector<std::string> rest;
    for (Token::Comment &comment : comments) {
        rest.push_back(std::move(comment.text));
    }
    comments.clear();
    out.comments.above.insert(out.comments.above.end(), rest.begin(), rest.end());
    return out;
}

bool Parser::stage(Statement &out) {
    std::optional<Token> name = expect_name("the name of a Func");
    if (!name) {
        return false;
    }
    StageRef &ref = out.stage;
    ref.func = name->text;
    ref.func_span = name->span;
    auto is_selector = [&](const char *word) {
        return peek().is(".") && peek(1).is_name(word) && peek(2).is("(");
    };
    if (is_selector("in") && !wrapper(ref)) {
        return false;
    }
    if (is_selector("in")) {
        report("K0010", "a wrapper has no wrapper of its own", peek(1).span)
            .helps.push_back(fmt::format("bind more consumers at once: `{}.in({{a, b}})`", ref.func));
        return false;
    }
    if (is_selector("update") && !update(ref)) {
        return false;
    }
    ref.span = to_here(name->span);
    return true;
}

bool Parser::wrapper(StageRef &ref) {
    take();
    take();
    take();
    ref.is_wrapper = true;
    auto consumer = [&] {
        std::optional<Token> name = expect_name("the name of a Func");
        if (name) {
            ref.wrapper_for.push_back(name->text);
        }
        return name.has_value();
    };
    if (take_if("{")) {
        open_braces++;
        do {
            if (!consumer()) {
                return false;
            }
        } while (take_if(","));
        if (!expect("}", " after the wrapper's consumers")) {
            return false;
        }
        open_braces--;
    } else if (!peek().is(")") && !consumer()) {
        return false;
    }
    return expect(")", " after the wrapper's consumers").has_value();
}

bool Parser::update(StageRef &ref) {
    take();
    take();
    take();
    ref.update = 0;
    if (!peek().is(")")) {
        if (peek().kind != Token::Kind::Int || peek().int_value > 9999) {
            expected("the number of an update definition, counted from 0");
            return false;
        }
        ref.update = static_cast<int>(take().int_value);
    }
    return expect(")", " after the update's number").has_value();
}

bool Parser::chain(Statement &out) {
    while (peek().is(".")) {
        DirectiveCall call;
        std::vector<std::string> above = comments_above();
        // Before the first call nothing has been printed yet: there they belong to the statement.
        (out.calls.empty() ? out.comments.above : call.comments)
            .insert((out.calls.empty() ? out.comments.above : call.comments).end(), above.begin(),
                    above.end());
        take();
        std::optional<Token> name = expect_name("the name of a directive after `.`");
        if (!name || !expect("(", " after the directive")) {
            return false;
        }
        std::optional<std::vector<Node>> args = arguments();
        if (!args) {
            return false;
        }
        call.name = name->text;
        call.name_span = name->span;
        call.args = std::move(*args);
        call.span = to_here(name->span);
        out.calls.push_back(std::move(call));
    }
    return true;
}

} // namespace

ParseResult parse_schedules(std::string text, std::string file) {
    ParseResult out;
    if (text.size() > max_bytes) {
        Diagnostic d;
        d.code = "K0019";
        d.message = fmt::format("the file has {} bytes, a schedule file at most {}", text.size(), max_bytes);
        d.file = file;
        out.diagnostics.push_back(std::move(d));
        out.source = std::make_shared<std::string>();
        return out;
    }
    std::vector<Token> tokens = lex(text, file, out.diagnostics);
    out.source = std::make_shared<std::string>(std::move(text));
    Parser parser(std::move(tokens), file, out.diagnostics);
    out.schedules = parser.file_of_schedules();
    for (Schedule &s : out.schedules) {
        s.file = file;
        s.source = out.source;
    }
    return out;
}

std::optional<Node> parse_expression(std::string text, std::vector<Diagnostic> &diagnostics) {
    size_t before = diagnostics.size();
    std::vector<Token> tokens = lex(text, "", diagnostics);
    ParserBase parser(std::move(tokens), "", diagnostics);
    std::optional<Node> node = parser.expression();
    if (node && !parser.at_end()) {
        parser.expected("the end of the expression");
    }
    return diagnostics.size() == before ? node : std::nullopt;
}

} // namespace kiln
