#include "dsl/schedule/Knobs.h"

#include "dsl/schedule/Print.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <set>

namespace kiln {

namespace {

constexpr int64_t max_int = std::numeric_limits<int64_t>::max();

Diagnostic fault(const char *code, std::string message, const std::string &file, Span span) {
    Diagnostic d;
    d.code = code;
    d.message = std::move(message);
    d.file = file;
    d.span = span;
    return d;
}

std::optional<int64_t> to_int(const std::string &text) {
    int64_t value = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

std::vector<std::string> domain_of(const Knob &knob) {
    std::vector<std::string> out = knob.names;
    for (int64_t v : knob.values) {
        out.push_back(std::to_string(v));
    }
    return out;
}

/// At most eight of them, so that a message stays readable.
std::string shortened(const std::vector<std::string> &values) {
    if (values.size() <= 8) {
        return fmt::format("{}", fmt::join(values, ", "));
    }
    return fmt::format("{}, … {} ({} values)", fmt::join(values.begin(), values.begin() + 6, ", "),
                       values.back(), values.size());
}

int64_t floor_div(int64_t a, int64_t b) {
    return a / b - (a % b != 0 && (a % b < 0) != (b < 0));
}

/// The result of an integer operator; nothing where it overflows. INT64_MIN counts as overflow, since no literal
/// can spell it.
std::optional<int64_t> apply_operator(const std::string &op, int64_t a, int64_t b) {
    int64_t r = 0;
    if (op == "+") {
        return __builtin_add_overflow(a, b, &r) || r < -max_int ? std::nullopt : std::optional(r);
    }
    if (op == "-") {
        return __builtin_sub_overflow(a, b, &r) || r < -max_int ? std::nullopt : std::optional(r);
    }
    if (op == "*") {
        return __builtin_mul_overflow(a, b, &r) || r < -max_int ? std::nullopt : std::optional(r);
    }
    if (op == "/" || op == "%") {
        if (b == 0) {
            return {};
        }
        return op == "/" ? floor_div(a, b) : a - floor_div(a, b) * b;
    }
    return op == "<"    ? a < b
           : op == "<=" ? a <= b
           : op == ">"  ? a > b
           : op == ">=" ? a >= b
           : op == "==" ? a == b
           : op == "!=" ? a != b
           : op == "&&" ? a && b
                        : a || b;
}

class Folder {
public:
    Folder(const KnobValues &values, const std::string &file, std::vector<Diagnostic> &diagnostics)
        : values(values), file(file), diagnostics(diagnostics) {}

    Node run(const Node &node) {
        Node out = node;
        if (node.kind == Node::Kind::Name) {
            return name(node);
        }
        for (size_t i = 0; i < out.args.size(); i++) {
            // The receiver of a method is a Func or buffer, never a knob.
            if (!(node.is_method && i == 0 && node.args[0].kind == Node::Kind::Name)) {
                out.args[i] = run(node.args[i]);
            }
        }
        if (out.kind == Node::Kind::Unary || out.kind == Node::Kind::Binary ||
            (out.kind == Node::Kind::Call && !out.is_method)) {
            return operation(std::move(out));
        }
        return out;
    }

private:
    const KnobValues &values;
    const std::string &file;
    std::vector<Diagnostic> &diagnostics;

    Node name(const Node &node) {
        auto found = values.find(node.text);
        if (found == values.end()) {
            return node;
        }
        std::optional<int64_t> value = to_int(found->second);
        Node out = value ? Node::integer(*value, node.span) : Node::name(found->second, node.span);
        out.keyword = node.keyword;
        return out;
    }

    static Node integer_like(const Node &node, int64_t value) {
        Node out = Node::integer(value, node.span);
        out.keyword = node.keyword;
        return out;
    }

    Node operation(Node node) {
        for (const Node &arg : node.args) {
            if (arg.kind == Node::Kind::String || arg.kind == Node::Kind::List) {
                diagnostics.push_back(fault("K0609",
                                            fmt::format("`{}` takes numbers, not {}", node.text,
                                                        arg.kind == Node::Kind::List ? "a list" : "a string"),
                                            file, arg.span));
                return node;
            }
        }
        bool is_constant = std::all_of(node.args.begin(), node.args.end(),
                                       [](const Node &a) { return a.kind == Node::Kind::Int; });
        if (node.kind == Node::Kind::Call) {
            return function(std::move(node), is_constant);
        }
        if (!is_constant) {
            return short_circuit(std::move(node));
        }
        int64_t a = node.args[0].int_value;
        if (node.kind == Node::Kind::Unary) {
            return integer_like(node, node.text == "-" ? -a : !a);
        }
        int64_t b = node.args[1].int_value;
        if (std::optional<int64_t> value = apply_operator(node.text, a, b)) {
            return integer_like(node, *value);
        }
        bool is_division = (node.text == "/" || node.text == "%") && b == 0;
        diagnostics.push_back(fault("K0610",
                                    is_division ? fmt::format("`{}` divides by zero", print_node(node))
                                                : fmt::format("`{}` overflows 64 bits", print_node(node)),
                                    file, node.span));
        return integer_like(node, 1);
    }

    /// `0 && x` and `1 || x` are known whatever x is; two equal or different names compare as such.
    static Node short_circuit(Node node) {
        if (node.kind == Node::Kind::Binary) {
            const Node &a = node.args[0], &b = node.args[1];
            bool is_equality = node.text == "==" || node.text == "!=";
            for (const Node *side : {&a, &b}) {
                if (side->kind == Node::Kind::Int && ((node.text == "&&" && side->int_value == 0) ||
                                                      (node.text == "||" && side->int_value != 0))) {
                    return integer_like(node, node.text == "||");
                }
            }
            if (is_equality && a.kind == Node::Kind::Name && b.kind == Node::Kind::Name && a.text == b.text) {
                return integer_like(node, node.text == "==");
            }
        }
        return node;
    }

    Node function(Node node, bool is_constant) {
        size_t n = node.args.size();
        bool is_select = node.text == "select";
        if (node.text != "min" && node.text != "max" && !is_select) {
            Diagnostic d =
                fault("K0609", fmt::format("there is no function `{}`", node.text), file, node.span);
            d.label = "functions: min, max, select";
            diagnostics.push_back(std::move(d));
            return node;
        }
        if (n != (is_select ? 3 : 2)) {
            diagnostics.push_back(fault(
                "K0609", fmt::format("`{}` takes {} arguments, here are {}", node.text, is_select ? 3 : 2, n),
                file, node.span));
            return node;
        }
        if (is_select && node.args[0].kind == Node::Kind::Int) {
            Node out = node.args[0].int_value ? node.args[1] : node.args[2];
            out.keyword = node.keyword;
            return out;
        }
        if (!is_constant) {
            return node;
        }
        int64_t a = node.args[0].int_value, b = node.args[1].int_value;
        return integer_like(node, node.text == "min" ? std::min(a, b) : std::max(a, b));
    }
};

/// The knobs in a condition, each once, in order; other names go to `unknown`.
void names_in(const Node &node, const Schedule &schedule, std::vector<const Knob *> &knobs,
              std::vector<const Node *> &unknown) {
    if (node.kind == Node::Kind::Name) {
        auto same = [&](const Knob &k) { return k.name == node.text; };
        auto knob = std::find_if(schedule.knobs.begin(), schedule.knobs.end(), same);
        bool is_value = std::any_of(schedule.knobs.begin(), schedule.knobs.end(), [&](const Knob &k) {
            return std::find(k.names.begin(), k.names.end(), node.text) != k.names.end();
        });
        if (knob == schedule.knobs.end()) {
            if (!is_value) {
                unknown.push_back(&node);
            }
        } else if (std::find(knobs.begin(), knobs.end(), &*knob) == knobs.end()) {
            knobs.push_back(&*knob);
        }
    } else if (node.is_method) {
        unknown.push_back(&node);
        return;
    }
    for (const Node &arg : node.args) {
        names_in(arg, schedule, knobs, unknown);
    }
}

} // namespace

KnobValues complete_knobs(const Schedule &schedule, const KnobValues &values,
                          std::vector<Diagnostic> &diagnostics) {
    KnobValues out;
    std::vector<std::string> names;
    for (const Knob &knob : schedule.knobs) {
        names.push_back(knob.name);
        std::vector<std::string> domain = domain_of(knob);
        if (domain.empty()) {
            continue; // reported by the parser
        }
        auto given = values.find(knob.name);
        out[knob.name] = given == values.end() ? domain[0] : given->second;
        // `+64` and `064` are not how a value is written: the text must be one of the domain's.
        if (given != values.end() && std::find(domain.begin(), domain.end(), given->second) == domain.end()) {
            Diagnostic d =
                fault("K0606", fmt::format("the knob `{}` cannot be `{}`", knob.name, given->second),
                      schedule.file, knob.span);
            d.label = fmt::format("values: {}", shortened(domain));
            std::string near = nearest(given->second, knob.names);
            if (!near.empty()) {
                d.helps.push_back(fmt::format("did you mean `{}`?", near));
            }
            diagnostics.push_back(std::move(d));
            out[knob.name] = domain[0];
        }
    }
    for (const auto &[name, value] : values) {
        if (std::find(names.begin(), names.end(), name) == names.end()) {
            Diagnostic d =
                fault("K0605", fmt::format("the schedule `{}` has no knob `{}`", schedule.name, name),
                      schedule.file, schedule.name_span);
            d.label = names.empty() ? "it has no knobs" : fmt::format("knobs: {}", fmt::join(names, ", "));
            std::string near = nearest(name, names);
            if (!near.empty()) {
                d.helps.push_back(fmt::format("did you mean `{}`?", near));
            }
            diagnostics.push_back(std::move(d));
        }
    }
    return out;
}

Node fold(const Node &node, const KnobValues &values, const std::string &file,
          std::vector<Diagnostic> &diagnostics) {
    return Folder(values, file, diagnostics).run(node);
}

std::vector<Diagnostic> check_requires(const Schedule &schedule, const KnobValues &values) {
    std::vector<Diagnostic> out;
    for (const Require &r : schedule.requires_) {
        std::vector<const Knob *> knobs;
        std::vector<const Node *> unknown;
        names_in(r.condition, schedule, knobs, unknown);
        for (const Node *node : unknown) {
            Diagnostic d =
                fault("K0608", fmt::format("`{}` is no knob of `{}`", print_node(*node), schedule.name),
                      schedule.file, node->span);
            std::vector<std::string> names;
            for (const Knob &k : schedule.knobs) {
                names.push_back(k.name);
            }
            d.label = names.empty() ? "it has no knobs" : fmt::format("knobs: {}", fmt::join(names, ", "));
            if (std::string near = nearest(node->text, names); !near.empty()) {
                d.helps.push_back(fmt::format("did you mean `{}`?", near));
            }
            out.push_back(std::move(d));
        }
        if (!unknown.empty()) {
            continue;
        }
        size_t before = out.size();
        Node folded = fold(r.condition, values, schedule.file, out);
        if (out.size() > before) {
            continue;
        }
        if (folded.kind == Node::Kind::Binary && (folded.text == "==" || folded.text == "!=")) {
            // Two different names, or a name and a number.
            folded = Node::integer(folded.text == "!=", folded.span);
        }
        if (folded.kind != Node::Kind::Int) {
            out.push_back(fault("K0609", fmt::format("`{}` is not true or false", print_node(r.condition)),
                                schedule.file, r.span));
        } else if (folded.int_value == 0) {
            Diagnostic d =
                fault("K0607", fmt::format("the requirement `{}` does not hold", print_node(r.condition)),
                      schedule.file, r.span);
            std::vector<std::string> parts;
            for (const Knob *k : knobs) {
                auto value = values.find(k->name);
                parts.push_back(fmt::format("{} = {}", k->name, value == values.end() ? "?" : value->second));
            }
            d.label = fmt::format("{}", fmt::join(parts, ", "));
            bool is_comparison = r.condition.kind == Node::Kind::Binary && r.condition.text != "&&" &&
                                 r.condition.text != "||";
            if (is_comparison) {
                std::vector<Diagnostic> ignored;
                d.notes.push_back(fmt::format(
                    "that is {} {} {}", print_node(fold(r.condition.args[0], values, "", ignored)),
                    r.condition.text, print_node(fold(r.condition.args[1], values, "", ignored))));
            }
            out.push_back(std::move(d));
        }
    }
    return out;
}

int64_t family_size(const Schedule &schedule) {
    int64_t out = 1;
    for (const Knob &k : schedule.knobs) {
        auto n = static_cast<int64_t>(k.values.size() + k.names.size());
        if (__builtin_mul_overflow(out, n, &out)) {
            return max_int;
        }
    }
    return out;
}

} // namespace kiln
