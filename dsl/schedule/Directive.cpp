#include "dsl/schedule/Directive.h"

#include "dsl/schedule/Print.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <unordered_map>

namespace kiln {

namespace {

struct KindInfo {
    ArgKind kind;
    const char *words;
    const char *halide_enum;
    std::vector<std::string> values;
};

const std::vector<KindInfo> &kinds() {
    static const std::vector<KindInfo> all = {
        {ArgKind::Loop, "a loop", "", {}},
        {ArgKind::NewLoop, "a name for a new loop", "", {}},
        {ArgKind::Dim, "a dimension of the Func", "", {}},
        {ArgKind::Func, "a Func", "", {}},
        {ArgKind::Stage, "a Func or one of its updates", "", {}},
        {ArgKind::Int, "an integer", "", {}},
        {ArgKind::Bool, "`true` or `false`", "", {"true", "false"}},
        {ArgKind::Tail,
         "a tail strategy",
         "TailStrategy",
         {"Auto", "RoundUp", "GuardWithIf", "Predicate", "PredicateLoads", "PredicateStores", "ShiftInwards",
          "ShiftInwardsAndBlend", "RoundUpAndBlend"}},
        {ArgKind::Memory,
         "a memory type",
         "MemoryType",
         {"Auto", "Heap", "Stack", "Register", "GPUShared", "AMXTile"}},
        {ArgKind::Align,
         "an alignment of loops",
         "LoopAlignStrategy",
         {"Auto", "AlignStart", "AlignEnd", "NoAlign"}},
        {ArgKind::Prefetch,
         "a prefetch strategy",
         "PrefetchBoundStrategy",
         {"Clamp", "GuardWithIf", "NonFaulting"}},
        {ArgKind::Partition, "a partition policy", "Partition", {"Auto", "Never", "Always"}},
        {ArgKind::Condition, "a condition", "", {}},
        {ArgKind::Text, "a string", "", {}},
        {ArgKind::Word, "a word", "", {}},
    };
    return all;
}

const KindInfo &info_of(ArgKind kind) {
    return kinds()[static_cast<size_t>(kind)];
}

} // namespace

const char *kind_words(ArgKind kind) {
    return info_of(kind).words;
}

const char *halide_enum(ArgKind kind) {
    return info_of(kind).halide_enum;
}

const std::vector<std::string> &enumerators(ArgKind kind) {
    return info_of(kind).values;
}

std::string Directive::signature(size_t form) const {
    std::vector<std::string> parts;
    for (const Param &p : forms[form]) {
        std::string text = p.name;
        switch (p.shape) {
        case Param::Shape::One:
            break;
        case Param::Shape::List:
            text = fmt::format("{{{}…}}", p.name);
            break;
        case Param::Shape::Rest:
            text = fmt::format("{}…", p.name);
            break;
        case Param::Shape::Pairs:
            text = fmt::format("{{{{{}}}…}}", p.name);
            break;
        }
        parts.push_back(text + (p.fallback ? " = " + print_node(*p.fallback) : ""));
    }
    return fmt::format("{}({})", name, fmt::join(parts, ", "));
}

const std::vector<Directive> &all_directives() {
    static const std::vector<Directive> all = [] {
        std::vector<Directive> out;
        for (auto family : {loop_directives, gpu_directives, placement_directives, storage_directives,
                            reduction_directives, tile_directives, refused_directives}) {
            for (Directive &d : family()) {
                out.push_back(std::move(d));
            }
        }
        return out;
    }();
    return all;
}

const Directive *find_directive(const std::string &name) {
    static const std::unordered_map<std::string, const Directive *> by_name = [] {
        std::unordered_map<std::string, const Directive *> out;
        for (const Directive &d : all_directives()) {
            out.emplace(d.name, &d);
        }
        return out;
    }();
    auto found = by_name.find(name);
    return found == by_name.end() ? nullptr : found->second;
}

} // namespace kiln
