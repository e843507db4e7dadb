#include "dsl/lower/RootCopies.h"

#include "dsl/schedule/Canonical.h"

#include <algorithm>

namespace kiln {

namespace {

using Halide::Func;

const StageRef *mention(const Schedule &schedule, const std::string &wrapper) {
    for (const Statement &s : schedule.statements) {
        if (s.stage.is_wrapper && s.stage.str() == wrapper) {
            return &s.stage;
        }
    }
    return nullptr;
}

/// A Func that copies what `ref` wraps, which its readers read from now on. Returns its name.
std::string define(const StageRef &ref, const PipelineSource &source) {
    const FuncMap funcs = funcs_of(source.outputs);
    Func wrapped = funcs.at(ref.func);
    std::string name = ref.func + "_in";
    for (const std::string &reader : ref.wrapper_for) {
        name += "_" + reader;
    }
    while (funcs.count(name)) {
        name += "_";
    }
    Func copy(name);
    copy(wrapped.args()) = wrapped(wrapped.args());
    for (auto [reader, f] : funcs) {
        const bool reads =
            ref.wrapper_for.empty() || std::count(ref.wrapper_for.begin(), ref.wrapper_for.end(), reader) > 0;
        if (reads) {
            f.function().substitute_calls(wrapped.function(), copy.function());
        }
    }
    return name;
}

/// Names the Func that a wrapper became wherever a directive names the wrapper, as compute_with does.
void rename(Node &node, const std::map<std::string, std::string> &defined) {
    const auto ref = node.kind == Node::Kind::Call ? stage_of(node) : std::nullopt;
    if (auto it = ref && ref->is_wrapper ? defined.find(ref->str()) : defined.end(); it != defined.end()) {
        node = Node::name(it->second, node.span);
        return;
    }
    for (Node &arg : node.args) {
        rename(arg, defined);
    }
}

} // namespace

bool define_root_copies(Schedule &canonical, const std::vector<TileGroup> &groups,
                        const PipelineSource &source) {
    std::map<std::string, std::string> defined; // wrapper -> Func
    for (const TileGroup &group : groups) {
        for (const FuncNest *before : group.before) {
            if (!before->is_wrapper || defined.count(before->name)) {
                continue;
            }
            if (const StageRef *ref = mention(canonical, before->name)) {
                defined[before->name] = define(*ref, source);
            }
        }
    }
    for (Statement &s : canonical.statements) {
        auto it = s.stage.is_wrapper ? defined.find(s.stage.str()) : defined.end();
        if (it != defined.end()) {
            s.stage.func = it->second;
            s.stage.is_wrapper = false;
            s.stage.wrapper_for.clear();
        }
        for (DirectiveCall &call : s.calls) {
            for (Node &arg : call.args) {
                rename(arg, defined);
            }
        }
    }
    return !defined.empty();
}

} // namespace kiln
