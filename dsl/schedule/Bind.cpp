// Matching a call's arguments to one of its directive's forms.
#include "dsl/schedule/Canonical.h"
#include "dsl/schedule/Directive.h"
#include "dsl/schedule/Print.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

namespace kiln {

namespace {

Diagnostic fault(const char *code, std::string message, Span span) {
    Diagnostic d;
    d.code = code;
    d.message = std::move(message);
    d.span = span;
    return d;
}

std::string what(const Node &node) {
    switch (node.kind) {
    case Node::Kind::Int:
    case Node::Kind::Float:
        return "the number " + print_node(node);
    case Node::Kind::String:
        return "a string";
    case Node::Kind::List:
        return "a list";
    default:
        return "`" + print_node(node) + "`";
    }
}

/// Values of Halide's enumerations that no target of Kiln has.
const char *why_not(const std::string &value) {
    static const std::map<std::string, const char *> reasons = {
        {"LockedCache", "only Hexagon has it, which is no target of Kiln"},
        {"VTCM", "only Hexagon has it, which is no target of Kiln"},
        {"GPUTexture", "Kiln's runtime passes GPU data as buffers, not as images"},
    };
    auto found = reasons.find(value);
    return found == reasons.end() ? nullptr : found->second;
}

bool is_device_api(const std::string &name) {
    static const std::vector<std::string> names = {"None",         "Host",   "Default_GPU", "CUDA",
                                                   "OpenCL",       "Metal",  "Vulkan",      "WebGPU",
                                                   "D3D12Compute", "Hexagon"};
    return std::find(names.begin(), names.end(), name) != names.end();
}

/// Trees that a run-time condition may be made of; see Canonical.h.
std::optional<Diagnostic> check_condition(const Node &node) {
    if (node.kind == Node::Kind::String || node.kind == Node::Kind::List) {
        return fault("K0033", fmt::format("a condition cannot hold {}", what(node)), node.span);
    }
    if (node.is_method) {
        bool is_known = node.text == "extent" || node.text == "min" || node.text == "stride";
        bool is_dim =
            node.args.size() == 2 && (node.args[1].kind == Node::Kind::Name ||
                                      (node.args[1].kind == Node::Kind::Int && node.args[1].int_value >= 0));
        if (!is_known || !is_dim || node.args[0].kind != Node::Kind::Name) {
            Diagnostic d =
                fault("K0033", fmt::format("`{}` is not known in a condition", print_node(node)), node.span);
            d.helps.push_back(
                "write `y.extent(x)`, `y.min(x)` or `y.stride(x)` of a buffer `y` and its dimension "
                "`x` or its index");
            return d;
        }
        return {};
    }
    for (const Node &arg : node.args) {
        if (std::optional<Diagnostic> d = check_condition(arg)) {
            return d;
        }
    }
    return {};
}

std::optional<Diagnostic> check_one(const Param &param, ArgKind kind, const Node &node) {
    auto wrong = [&] {
        return fault("K0033",
                     fmt::format("`{}` must be {}, not {}", param.name, kind_words(kind), what(node)),
                     node.span);
    };
    switch (kind) {
    case ArgKind::Loop:
    case ArgKind::NewLoop:
    case ArgKind::Dim:
    case ArgKind::Func: {
        if (node.kind != Node::Kind::Name) {
            return wrong();
        }
        if (kind != ArgKind::Func && is_device_api(node.text)) {
            Diagnostic d = wrong();
            d.helps.push_back("leave the device out: the schedule's target decides it");
            return d;
        }
        bool is_dotted = node.text.find('.') != std::string::npos;
        // A new loop may take the name of the old one; see check_dots.
        if (is_dotted && (kind == ArgKind::Dim || kind == ArgKind::Func)) {
            Diagnostic d = wrong();
            d.label = "only the loops of an RDom have a `.`";
            return d;
        }
        return {};
    }
    case ArgKind::Stage:
        return stage_of(node) ? std::nullopt : std::optional(wrong());
    case ArgKind::Int:
        if (node.kind != Node::Kind::Int) {
            Diagnostic d = wrong();
            if (node.kind == Node::Kind::Name) {
                d.label = "no knob of this name";
            }
            return d;
        }
        if (node.int_value < param.least || node.int_value > param.most) {
            return fault("K0038",
                         fmt::format("`{}` is {}, it must be {}", param.name, node.int_value,
                                     node.int_value < param.least ? fmt::format("at least {}", param.least)
                                                                  : fmt::format("at most {}", param.most)),
                         node.span);
        }
        return {};
    case ArgKind::Condition:
        return check_condition(node);
    case ArgKind::Text:
        return node.kind == Node::Kind::String ? std::nullopt : std::optional(wrong());
    default:
        break;
    }
    const std::vector<std::string> &values = kind == ArgKind::Word ? param.words : enumerators(kind);
    if (node.kind != Node::Kind::Name) {
        return wrong();
    }
    if (std::find(values.begin(), values.end(), node.text) != values.end()) {
        return {};
    }
    const char *reason = kind == ArgKind::Memory ? why_not(node.text) : nullptr;
    Diagnostic d =
        fault("K0034",
              reason ? fmt::format("`{}` cannot be `{}`: {}", param.name, node.text, reason)
                     : fmt::format("`{}` must be {}, `{}` is none", param.name, kind_words(kind), node.text),
              node.span);
    d.label = fmt::format("values: {}", fmt::join(values, ", "));
    if (std::string near = nearest(node.text, values); !near.empty()) {
        d.helps.push_back(fmt::format("did you mean `{}`?", near));
    }
    return d;
}

std::optional<Diagnostic> check_count(const Param &param, const std::vector<Node> &items, Span span) {
    auto n = static_cast<int64_t>(items.size());
    if (param.kind != ArgKind::Int && (n < param.least || n > param.most)) {
        bool is_few = n < param.least;
        return fault("K0032",
                     fmt::format("`{}` takes at {} {}, here {} {}", param.name, is_few ? "least" : "most",
                                 is_few ? param.least : param.most, n == 1 ? "is" : "are", n),
                     span);
    }
    return {};
}

std::optional<Diagnostic> check(const Param &param, const Node &node) {
    switch (param.shape) {
    case Param::Shape::One:
        return check_one(param, param.kind, node);
    case Param::Shape::List:
    case Param::Shape::Rest: {
        if (node.kind != Node::Kind::List) {
            return fault("K0033", fmt::format("`{}` must be a list, not {}", param.name, what(node)),
                         node.span);
        }
        for (const Node &item : node.args) {
            if (std::optional<Diagnostic> d = check_one(param, param.kind, item)) {
                return d;
            }
        }
        return check_count(param, node.args, node.span);
    }
    case Param::Shape::Pairs: {
        bool is_pairs = node.kind == Node::Kind::List && !node.args.empty() &&
                        std::all_of(node.args.begin(), node.args.end(), [](const Node &pair) {
                            return pair.kind == Node::Kind::List && pair.args.size() == 2;
                        });
        if (!is_pairs) {
            Diagnostic d = fault("K0033", fmt::format("`{}` must be a list of pairs", param.name), node.span);
            d.helps.push_back("write `{{a, b}, {c, d}}`");
            return d;
        }
        for (const Node &pair : node.args) {
            std::optional<Diagnostic> d = check_one(param, param.kind, pair.args[0]);
            d = d ? d : check_one(param, param.second, pair.args[1]);
            if (!d && param.second == ArgKind::NewLoop && pair.args[1].text.find('.') != std::string::npos) {
                d = fault("K0033", fmt::format("`{}` cannot name a new loop", pair.args[1].text),
                          pair.args[1].span);
                d->label = "only the loops of an RDom have a `.`";
            }
            if (d) {
                return d;
            }
        }
        return {};
    }
    }
    return {};
}

/// Only the loops of an RDom have a `.`, so a new loop has one only where it takes over such a name.
std::optional<Diagnostic> check_dots(const Form &form, const std::vector<Node> &args) {
    std::vector<std::string> old;
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < form.size(); i++) {
            ArgKind kind = form[i].kind;
            for (const Node &name :
                 args[i].kind == Node::Kind::List ? args[i].args : std::vector<Node>{args[i]}) {
                if (pass == 0 && kind == ArgKind::Loop) {
                    old.push_back(name.text);
                }
                bool is_dotted = kind == ArgKind::NewLoop && name.text.find('.') != std::string::npos;
                if (pass == 1 && is_dotted && std::find(old.begin(), old.end(), name.text) == old.end()) {
                    Diagnostic d = fault(
                        "K0033",
                        fmt::format("`{}` must be {}, not `{}`", form[i].name, kind_words(kind), name.text),
                        name.span);
                    d.label = "only the loops of an RDom have a `.`";
                    return d;
                }
            }
        }
    }
    return {};
}

struct Attempt {
    std::optional<BoundCall> bound;
    Diagnostic why;
    int progress = -1; ///< how many arguments fitted; -1: their number does not fit
};

/// Positional arguments in order, then keywords by name, then defaults.
Attempt attempt(const Directive &directive, size_t form_index, const DirectiveCall &call) {
    const Form &form = directive.forms[form_index];
    Attempt out;
    std::vector<std::optional<Node>> slots(form.size());
    size_t next = 0;
    for (const Node &arg : call.args) {
        if (!arg.keyword.empty()) {
            auto param =
                std::find_if(form.begin(), form.end(), [&](const Param &p) { return p.name == arg.keyword; });
            std::vector<std::string> names;
            for (const Param &p : form) {
                names.push_back(p.name);
            }
            if (param == form.end()) {
                out.why = fault(
                    "K0037", fmt::format("`{}` has no argument `{}`", directive.name, arg.keyword), arg.span);
                out.why.label =
                    names.empty() ? "it has none" : fmt::format("arguments: {}", fmt::join(names, ", "));
                out.progress = 0;
                return out;
            }
            std::optional<Node> &slot = slots[static_cast<size_t>(param - form.begin())];
            if (slot) {
                out.why =
                    fault("K0037", fmt::format("the argument `{}` is given twice", arg.keyword), arg.span);
                out.progress = 0;
                return out;
            }
            slot = arg;
            slot->keyword.clear();
            next = form.size() + 1; // after a keyword no positional argument has a place
            continue;
        }
        if (next > form.size()) {
            out.why = fault("K0037", "a positional argument cannot follow a named one", arg.span);
            out.progress = 0;
            return out;
        }
        if (next == form.size()) {
            out.progress = -1;
            return out;
        }
        const Param &param = form[next];
        if (param.shape != Param::Shape::Rest) {
            slots[next++] = arg;
        } else if (!slots[next] && arg.kind == Node::Kind::List) {
            slots[next++] = arg;
        } else {
            if (!slots[next]) {
                slots[next] = Node::list({}, call.span);
            }
            slots[next]->args.push_back(arg);
        }
    }
    BoundCall bound;
    bound.form = form_index;
    for (size_t i = 0; i < form.size(); i++) {
        if (!slots[i] && form[i].fallback) {
            slots[i] = form[i].fallback;
            slots[i]->span = call.span;
        }
        if (!slots[i] && form[i].shape == Param::Shape::Rest && form[i].least == 0) {
            slots[i] = Node::list({}, call.span);
        }
        if (!slots[i]) {
            out.progress = -1;
            return out;
        }
    }
    for (size_t i = 0; i < form.size(); i++) {
        // A form with lists where the call has none, or the other way round, is not the one that was meant.
        bool takes_list = form[i].shape == Param::Shape::List || form[i].shape == Param::Shape::Pairs;
        bool is_list = slots[i]->kind == Node::Kind::List;
        if (directive.forms.size() > 1 && form[i].shape != Param::Shape::Rest && takes_list != is_list) {
            out.progress = -1;
            return out;
        }
    }
    for (size_t i = 0; i < form.size(); i++) {
        if (std::optional<Diagnostic> d = check(form[i], *slots[i])) {
            out.why = std::move(*d);
            out.progress = static_cast<int>(i);
            return out;
        }
        bound.args.push_back(std::move(*slots[i]));
    }
    if (std::optional<Diagnostic> d = check_dots(form, bound.args)) {
        out.why = std::move(*d);
        out.progress = static_cast<int>(form.size());
        return out;
    }
    out.bound = std::move(bound);
    return out;
}

} // namespace

std::optional<BoundCall> bind_arguments(const Directive &directive, const DirectiveCall &call,
                                        const std::string &file, std::vector<Diagnostic> &diagnostics) {
    Attempt best;
    size_t best_form = 0;
    for (size_t i = 0; i < directive.forms.size(); i++) {
        Attempt tried = attempt(directive, i, call);
        if (tried.bound) {
            return tried.bound;
        }
        if (tried.progress > best.progress) {
            best = std::move(tried);
            best_form = i;
        }
    }
    if (best.progress < 0) {
        size_t n = call.args.size();
        best.why =
            fault("K0032",
                  n == 0   ? fmt::format("`{}` needs arguments", directive.name)
                  : n == 1 ? fmt::format("no form of `{}` takes this one argument", directive.name)
                           : fmt::format("no form of `{}` takes these {} arguments", directive.name, n),
                  call.span);
        for (size_t i = 0; i < directive.forms.size(); i++) {
            best.why.notes.push_back(
                fmt::format("{}`{}`", i == 0 ? "it is written " : "or ", directive.signature(i)));
        }
    } else if (best.why.code == "K0033") {
        best.why.notes.push_back(fmt::format("it is written `{}`", directive.signature(best_form)));
    }
    best.why.file = file;
    diagnostics.push_back(std::move(best.why));
    return {};
}

} // namespace kiln
