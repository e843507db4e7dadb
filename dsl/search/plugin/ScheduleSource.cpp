#include "dsl/search/plugin/ScheduleSource.h"

#include "dsl/schedule/Print.h"
#include "dsl/schedule/apply/Describe.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>
#include <sstream>
#include <vector>

namespace kiln::search {

namespace {

/// Where a loop of an RDom is found: `pipeline.get_func(3).update(0)`, and its place there.
struct RVarPlace {
    std::string variable; ///< Halide's name of it
    std::string source;   ///< C++ that gives it
};

std::string indent(const std::string &text) {
    std::istringstream in(text);
    std::string out, line;
    while (std::getline(in, line)) {
        out += line.empty() ? "\n" : "    " + line + "\n";
    }
    return out;
}

/// Names that the schedule mentions anywhere.
void collect_names(const Node &node, std::set<std::string> &names) {
    if (node.kind == Node::Kind::Name) {
        names.insert(node.text);
    }
    for (const Node &arg : node.args) {
        collect_names(arg, names);
    }
}

std::set<std::string> names_in(const Schedule &schedule) {
    std::set<std::string> names;
    for (const Statement &s : schedule.statements) {
        names.insert(s.stage.func);
        names.insert(s.stage.wrapper_for.begin(), s.stage.wrapper_for.end());
        for (const DirectiveCall &c : s.calls) {
            for (const Node &arg : c.args) {
                collect_names(arg, names);
            }
        }
    }
    return names;
}

std::string declare_rvars(const std::map<std::string, RVarPlace> &places) {
    std::map<std::string, std::vector<std::string>> structs; ///< of an RDom with several dimensions
    std::string out;
    for (const auto &[loop, place] : places) {
        size_t dot = loop.find('.');
        if (dot == std::string::npos) {
            out += fmt::format("    RVar {}({});\n", loop, place.source);
        } else {
            structs[loop.substr(0, dot)].push_back(loop.substr(dot + 1));
        }
    }
    for (const auto &[domain, dims] : structs) {
        std::vector<std::string> values;
        for (const std::string &d : dims) {
            values.push_back(fmt::format("RVar({})", places.at(domain + "." + d).source));
        }
        out += fmt::format("    const struct {{ RVar {}; }} {} = {{{}}};\n", fmt::join(dims, ", "), domain,
                           fmt::join(values, ", "));
    }
    return out;
}

} // namespace

std::string schedule_source(const Schedule &schedule, const KnobValues &knobs, const PipelineInfo &info,
                            Halide::Pipeline pipeline, const std::map<std::string, std::string> &names) {
    std::set<std::string> mentioned = names_in(schedule);
    std::map<std::string, RVarPlace> rvars;
    std::string funcs;
    bool ambiguous = false;
    for (size_t i = 0; i < names.size(); i++) {
        Halide::Func f = pipeline.get_func(i);
        std::string name = names.at(f.name());
        if (mentioned.count(name)) {
            funcs += fmt::format("    Func {} = pipeline.get_func({});\n", name, i);
        }
        for (int u = 0; u < f.num_update_definitions(); u++) {
            const std::vector<Halide::Internal::ReductionVariable> domain =
                f.update(u).get_schedule().rvars();
            for (size_t r = 0; r < domain.size(); r++) {
                std::string loop = schedule_name_of_rvar(domain[r].var, domain);
                if (!mentioned.count(loop)) {
                    continue;
                }
                std::string source =
                    fmt::format("pipeline.get_func({}).update({}).get_schedule().rvars()[{}].var", i, u, r);
                auto [it, is_new] = rvars.emplace(loop, RVarPlace{domain[r].var, source});
                ambiguous |= !is_new && it->second.variable != domain[r].var;
            }
        }
    }
    if (ambiguous) {
        std::string out = "// Two RDoms share a name in this pipeline; the schedule in Kiln's language:\n";
        std::istringstream text(print_text(schedule));
        for (std::string line; std::getline(text, line);) {
            out += "// " + line + "\n";
        }
        return out;
    }
    std::string declarations = funcs + declare_rvars(rvars);
    std::string used = mentioned.empty() ? "" : "    using Halide::Stage; using Halide::LoopLevel;\n";
    return "{\n" + used + declarations + indent(print_halide(schedule, info, knobs)) + "}\n";
}

} // namespace kiln::search
