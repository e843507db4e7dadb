#include "dsl/schedule/Canonical.h"
#include "dsl/schedule/Directive.h"
#include "dsl/schedule/Macros.h"
#include "dsl/schedule/Print.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

namespace kiln {

namespace {

constexpr size_t max_width = 100;

/// What the loops of a stage are: true for those of an RDom.
using Loops = std::map<std::string, bool>;

class Printer {
public:
    Printer(const Schedule &schedule, const PipelineInfo &info) : schedule(schedule), info(info) {
        for (const FuncInfo &f : info.funcs) {
            for (size_t i = 0; i < f.stages.size(); i++) {
                StageRef stage;
                stage.func = f.name;
                stage.update = static_cast<int>(i) - 1;
                for (const DimInfo &d : f.stages[i].dims) {
                    stages[stage.str()][d.name] = d.is_rvar;
                    (d.is_rvar ? rdom_loops : arguments).insert(d.name);
                }
            }
        }
    }

    std::string run() {
        std::string body;
        for (const Statement &s : schedule.statements) {
            body += statement(s);
        }
        std::string out =
            fmt::format("// Schedule {}{}{}: Funcs and RDoms of the generator are in scope under their "
                        "names.\n{{\n",
                        schedule.name, schedule.op.empty() ? "" : " of " + schedule.op,
                        schedule.target ? ", " + schedule.target->str() : "");
        out += declare("Var", vars) + declare("RVar", rvars);
        return out + body + "}\n";
    }

private:
    const Schedule &schedule;
    const PipelineInfo &info;
    std::map<std::string, Loops> stages;
    std::set<std::string> rdom_loops, arguments;
    std::map<std::string, std::string> vars, rvars; ///< C++ name to Halide name, as they are used
    Loops *loops = nullptr;                         ///< of the stage at hand
    std::vector<Diagnostic> diagnostics;

    static std::string declare(const char *type, const std::map<std::string, std::string> &names) {
        std::vector<std::string> parts;
        for (const auto &[cxx, name] : names) {
            parts.push_back(fmt::format("{}({})", cxx, print_string(name)));
        }
        std::string out;
        // A few a line.
        for (size_t i = 0; i < parts.size(); i += 6) {
            out += fmt::format(
                "    {} {};\n", type,
                fmt::join(parts.begin() + static_cast<std::ptrdiff_t>(i),
                          parts.begin() + static_cast<std::ptrdiff_t>(std::min(i + 6, parts.size())), ", "));
        }
        return out;
    }

    /// A C++ identifier for a loop; declared when it is no loop of an RDom, which the generator has declared.
    std::string loop(const std::string &name, const Loops *of) {
        if (name == "outermost") {
            return "Var::outermost()";
        }
        bool is_rvar = false;
        if (auto known = of ? of->find(name) : Loops::const_iterator(); of && known != of->end()) {
            is_rvar = known->second;
        }
        if (is_rvar && rdom_loops.count(name)) {
            return name;
        }
        static const std::set<std::string> keywords = {
            "and",    "asm",  "auto",   "bool",   "break",  "case", "char",  "const",  "do",
            "double", "else", "enum",   "float",  "for",    "goto", "if",    "int",    "long",
            "new",    "not",  "or",     "short",  "this",   "try",  "union", "using",  "void",
            "while",  "xor",  "signed", "static", "switch", "true", "false", "default"};
        std::string cxx = name;
        std::replace(cxx.begin(), cxx.end(), '.', '_');
        std::replace(cxx.begin(), cxx.end(), '$', '_');
        bool is_func = info.find(name) != nullptr;
        bool is_other = (is_rvar ? vars : rvars).count(cxx) != 0;
        if (keywords.count(cxx) || is_func || is_other) {
            cxx += is_rvar ? "_r" : "_v";
        }
        (is_rvar ? rvars : vars)[cxx] = name;
        return cxx;
    }

    static std::string func_key(const StageRef &stage) {
        StageRef plain;
        plain.func = stage.func;
        plain.update = stage.is_wrapper ? -1 : stage.update;
        return plain.str();
    }

    static std::string stage_text(const StageRef &stage) {
        std::string out = stage.func;
        if (stage.is_wrapper) {
            out += stage.wrapper_for.size() > 1
                       ? fmt::format(".in({{{}}})", fmt::join(stage.wrapper_for, ", "))
                       : fmt::format(".in({})", fmt::join(stage.wrapper_for, ""));
        }
        return out + (stage.update > 0    ? fmt::format(".update({})", stage.update)
                      : stage.update == 0 ? ".update()"
                                          : "");
    }

    std::string condition(const Node &node) {
        if (node.is_method) {
            const FuncInfo *func = info.find(node.args[0].text);
            int64_t index = node.args[1].int_value;
            if (node.args[1].kind == Node::Kind::Name) {
                size_t at = func ? static_cast<size_t>(
                                       std::find(func->args.begin(), func->args.end(), node.args[1].text) -
                                       func->args.begin())
                                 : 0;
                if (!func || at == func->args.size()) {
                    Diagnostic d;
                    d.code = "K0033";
                    d.message =
                        fmt::format("`{}` has no dimension `{}`", node.args[0].text, node.args[1].text);
                    d.file = schedule.file;
                    d.span = node.span;
                    diagnostics.push_back(std::move(d));
                    throw Error(diagnostics);
                }
                index = static_cast<int64_t>(at);
            }
            return fmt::format("{}.dim({}).{}()", node.args[0].text, index, node.text);
        }
        if (node.kind == Node::Kind::Float) {
            return print_node(node) + "f";
        }
        if (node.args.empty()) {
            return print_node(node);
        }
        Node shell = node;
        for (size_t i = 0; i < node.args.size(); i++) {
            bool is_leaf =
                node.args[i].args.empty() || node.args[i].is_method || node.kind == Node::Kind::Call;
            std::string text = condition(node.args[i]);
            shell.args[i] = Node::name(is_leaf ? text : "(" + text + ")");
        }
        return print_node(shell);
    }

    std::string value(const Param &param, ArgKind kind, const Node &node) {
        switch (kind) {
        case ArgKind::Loop:
        case ArgKind::NewLoop:
        case ArgKind::Dim:
            return loop(node.text, loops);
        case ArgKind::Func:
            return node.text;
        case ArgKind::Condition:
            return condition(node);
        case ArgKind::Tail:
            // Kiln's default; Halide's own fails on outputs smaller than the tile.
            return "TailStrategy::" + (node.text == "Auto" ? "GuardWithIf" : node.text);
        case ArgKind::Stage: {
            std::optional<StageRef> stage = stage_of(node);
            return stage ? stage_text(*stage) : print_node(node);
        }
        default:
            break;
        }
        std::string type = halide_enum(kind);
        return type.empty() ? print_node(node) : type + "::" + node.text;
    }

    std::string argument(const Param &param, const Node &node) {
        std::vector<std::string> parts;
        switch (param.shape) {
        case Param::Shape::One:
            return value(param, param.kind, node);
        case Param::Shape::List:
        case Param::Shape::Rest:
            for (const Node &item : node.args) {
                parts.push_back(value(param, param.kind, item));
            }
            return param.shape == Param::Shape::Rest ? fmt::format("{}", fmt::join(parts, ", "))
                                                     : fmt::format("{{{}}}", fmt::join(parts, ", "));
        case Param::Shape::Pairs:
            for (const Node &pair : node.args) {
                parts.push_back(fmt::format("{{{}, {}}}", value(param, param.kind, pair.args[0]),
                                            value(param, param.second, pair.args[1])));
            }
            return fmt::format("{{{}}}", fmt::join(parts, ", "));
        }
        return "";
    }

    /// The new loops of a call are RVars where the old ones are.
    void track(const Directive &directive, const BoundCall &bound, const Statement &s) {
        FreshName nothing = [](const std::string &loop, const char *suffix) { return loop + suffix; };
        std::vector<DirectiveCall> calls;
        if (directive.expand) {
            calls = directive.expand(bound, nothing);
        } else {
            DirectiveCall call;
            call.name = directive.name;
            call.args = bound.args;
            calls.push_back(std::move(call));
        }
        for (const DirectiveCall &c : calls) {
            if (c.name == "split") {
                bool is_rvar = (*loops)[c.args[0].text];
                (*loops)[c.args[1].text] = is_rvar;
                (*loops)[c.args[2].text] = is_rvar;
            } else if (c.name == "fuse") {
                (*loops)[c.args[2].text] = (*loops)[c.args[0].text];
            } else if (c.name == "rename") {
                (*loops)[c.args[1].text] = (*loops)[c.args[0].text];
            } else if (c.name == "rfactor") {
                // Its updates keep the loops that were not factored out; those are Vars of the new Func.
                Loops inner = *loops, pure = stages[s.stage.func];
                for (const Node &pair : c.args[0].args) {
                    inner.erase(pair.args[0].text);
                    inner[pair.args[1].text] = false;
                    pure[pair.args[1].text] = false;
                }
                stages[s.binding] = pure;
                stages[s.binding + ".update()"] = inner;
            }
        }
    }

    std::string level(const Directive &directive, const BoundCall &bound) {
        std::optional<StageRef> stage = stage_of(bound.args[0]);
        auto of = stages.find(func_key(*stage));
        const Loops *consumer = of == stages.end() ? nullptr : &of->second;
        const std::string &name = bound.args[1].text;
        if (stage->update < 0 && consumer && !consumer->count(name)) {
            // No stage was named and the loop is one of an update.
            for (const auto &[key, candidate] : stages) {
                if (key.rfind(stage->func + ".update(", 0) == 0 && candidate.count(name)) {
                    consumer = &candidate;
                }
            }
        }
        std::string at = loop(name, consumer);
        StageRef func = *stage;
        func.update = -1;
        return stage->update < 0 ? fmt::format("{}({}, {})", directive.name, stage_text(func), at)
                                 : fmt::format("{}(LoopLevel({}, {}, {}))", directive.name, stage_text(func),
                                               at, stage->update);
    }

    std::string call(const DirectiveCall &c, const Statement &s) {
        const Directive &directive = *find_directive(c.name);
        if (directive.family == "Tile kernels") {
            Diagnostic d;
            d.code = "K0040";
            d.message = fmt::format("`{}` has no form in plain Halide calls", c.name);
            d.file = schedule.file;
            d.span = c.name_span;
            d.helps = {"print the schedule as text or as Kiln's C++"};
            throw Error(std::move(d));
        }
        std::optional<BoundCall> bound = bind_arguments(directive, c, schedule.file, diagnostics);
        if (!bound) {
            throw Error(diagnostics);
        }
        if (c.name == "compute_at" || c.name == "store_at" || c.name == "hoist_storage") {
            return level(directive, *bound);
        }
        track(directive, *bound, s);
        const Form &form = directive.forms[bound->form];
        // Arguments left at their defaults are left out, but for tails, whose default is Kiln's own.
        size_t n = form.size();
        while (n > 0 && form[n - 1].fallback && form[n - 1].kind != ArgKind::Tail &&
               *form[n - 1].fallback == bound->args[n - 1]) {
            n--;
        }
        std::vector<std::string> parts;
        for (size_t i = 0; i < n; i++) {
            parts.push_back(argument(form[i], bound->args[i]));
        }
        return fmt::format("{}({})", c.name, fmt::join(parts, ", "));
    }

    std::string statement(const Statement &s) {
        std::string out;
        for (const std::string &line : s.comments.above) {
            bool continues = !line.empty() && line.back() == '\\';
            out += fmt::format("    //{}{}{}\n", line.empty() ? "" : " ", line, continues ? "." : "");
        }
        loops = &stages[func_key(s.stage)];
        std::string stage = stage_text(s.stage);
        if (s.stage.update < 0 && !s.calls.empty() && s.calls[0].name == "unscheduled") {
            stage = "Stage(" + stage + ")"; // the one call that Halide has on a Stage only
        }
        std::string head = (s.binding.empty() ? "" : "Func " + s.binding + " = ") + stage;
        std::vector<std::string> calls;
        size_t width = 4 + head.size();
        for (const DirectiveCall &c : s.calls) {
            calls.push_back(call(c, s));
            width += calls.back().size() + 1;
        }
        out += "    " + head;
        bool is_first = true;
        for (const std::string &c : calls) {
            out += (width > max_width && !is_first ? "\n        ." : ".") + c;
            is_first = false;
        }
        return out + ";\n";
    }
};

} // namespace

std::string print_halide(const Schedule &schedule, const PipelineInfo &info, const KnobValues &values) {
    // Faults first: what comes after may then rely on arguments that fit.
    canonical(schedule, values);
    std::vector<Diagnostic> diagnostics;
    std::set<std::string> damaged;
    KnobValues knobs = complete_knobs(schedule, values, diagnostics);
    Schedule plain = expand_macros(schedule, diagnostics, damaged);
    for (Statement &s : plain.statements) {
        for (DirectiveCall &c : s.calls) {
            for (Node &arg : c.args) {
                arg = fold(arg, knobs, schedule.file, diagnostics);
            }
        }
    }
    return Printer(plain, info).run();
}

} // namespace kiln
