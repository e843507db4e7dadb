#include "dsl/search/space/directives/Proposals.h"

namespace kiln::search {

void propose_ahead(Proposals &p) {
    if (p.problem.target.backend != Backend::Cpu) {
        return;
    }
    for (const Proposals::At &at : p.stages()) {
        for (const Loop &l : at.loops->loops) {
            if (l.kind != LoopKind::Serial) {
                continue;
            }
            for (const ReadInfo &read : at.loops->reads) {
                for (int64_t offset : {1, 2, 4, 8}) {
                    p.add("ahead", at, "prefetch",
                          {Node::name(read.func), Node::name(l.name), Node::name(l.name),
                           Node::integer(offset), Node::name("GuardWithIf")});
                }
            }
        }
    }
    // On a thread of its own: where values are kept further out than they are computed.
    for (const FuncNest &f : p.nest.funcs) {
        if (p.wants(f) && !f.is_input && !f.is_output && !f.is_extern &&
            f.compute.kind == NestLevel::Kind::At && !f.store.same_place(f.compute)) {
            p.add("ahead", f, "async", {});
        }
    }
}

} // namespace kiln::search
