#include "dsl/search/space/directives/Proposals.h"

#include <algorithm>

namespace kiln::search {

namespace {

std::string fresh(const StageNest &stage, std::string base) {
    std::replace(base.begin(), base.end(), '.', '_');
    std::string name = base;
    auto taken = [&](const std::string &n) {
        bool dim =
            std::any_of(stage.dims.begin(), stage.dims.end(), [&](const DimInfo &d) { return d.name == n; });
        return dim || stage.find(n) || stage.consumer_of(n);
    };
    for (int i = 1; taken(name); i++) {
        name = base + std::to_string(i);
    }
    return name;
}

} // namespace

void propose_loops(Proposals &p) {
    for (const Proposals::At &at : p.stages()) {
        const StageNest &stage = *at.loops;
        for (size_t i = 0; i < stage.loops.size(); i++) {
            const Loop &l = stage.loops[i];
            Node loop = Node::name(l.name);
            if (l.kind == LoopKind::Serial || l.kind == LoopKind::Parallel) {
                std::string outer = fresh(stage, l.name + "o"), inner = fresh(stage, l.name + "i");
                for (int64_t size : step_sizes()) {
                    // Inside others, extents are those of the stages that are not specialized.
                    bool exact = at.condition.empty() && at.func->compute.kind != NestLevel::Kind::At;
                    if (exact && l.extent && size > *l.extent) {
                        break;
                    }
                    for (const char *tail : {"Auto", "GuardWithIf", "RoundUp", "ShiftInwards"}) {
                        p.add("split", at, "split",
                              {loop, Node::name(outer), Node::name(inner), Node::integer(size),
                               Node::name(tail)});
                    }
                }
            }
            if (i + 1 < stage.loops.size()) {
                const Loop &next = stage.loops[i + 1];
                p.add("order", at, "reorder", {Node::name(next.name), loop});
            }
            for (size_t j = i + 1; j < stage.loops.size(); j++) {
                p.add("fuse", at, "fuse",
                      {loop, Node::name(stage.loops[j].name), Node::name(fresh(stage, l.name + "f"))});
            }
        }
    }
}

void propose_kinds(Proposals &p) {
    bool gpu = p.problem.target.backend != Backend::Cpu;
    for (const Proposals::At &at : p.stages()) {
        for (const Loop &l : at.loops->loops) {
            std::vector<const char *> kinds = {"vectorize", "unroll", "serial"};
            if (gpu) {
                kinds.insert(kinds.end(), {"gpu_blocks", "gpu_threads", "gpu_lanes"});
            } else {
                kinds.push_back("parallel");
            }
            for (const char *kind : kinds) {
                p.add("kind", at, kind, {Node::name(l.name)});
            }
        }
        if (gpu && at.condition.empty()) {
            p.add("kind", at, "gpu_single_thread", {});
        }
        p.add("kind", at, "unscheduled", {});
    }
}

} // namespace kiln::search
