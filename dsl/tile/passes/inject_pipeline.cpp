// From a loop over tiles to roles that work at once: the producer fills rings, the consumers wait for a slot, issue
// products in groups, and give a slot back when the last product that reads it has ended.
#include "dsl/tile/passes/Consumer.h"
#include "dsl/tile/passes/Passes.h"

#include <fmt/format.h>

#include <algorithm>

namespace kiln::tile {

namespace {

using namespace Halide::Internal;

/// Rows of the tile's box that a launch copies: no more than the view has, in groups of eight. Rows that are not copied
/// reach nothing that is stored, if no sum runs along them: each is another element of the same products. Undefined: all.
Expr rows_copied(const Kernel &k, const Copy &c) {
    constexpr int group = 8, most_rows = 256;
    const SharedLayout &l = k.tile(c.dst).shared;
    if (l.outer.empty() || l.outer_extent <= group || l.outer_extent > most_rows ||
        l.outer_extent % group != 0) {
        return {};
    }
    bool free = true;
    walk(k.body, [&](const Stmt &s) {
        if (const Mma *m = s.as<Mma>()) {
            free &= m->axis != l.outer;
        } else if (const Reduce *r = s.as<Reduce>()) {
            free &= r->axis != l.outer;
        }
    });
    for (size_t d = 0; d < c.from.dims.size(); d++) {
        if (free && c.from.dims[d].axis == l.outer) {
            const Expr extent = Variable::make(Halide::Int(32), fmt::format("{}.extent.{}", c.from.view, d));
            return min((extent + (group - 1)) / group * group, l.outer_extent);
        }
    }
    return {};
}

/// The producer's side of a body: the same loops, with loads in place of everything else.
Body produce(const Kernel &k, const Body &body) {
    Body out;
    std::set<std::string> filled;
    for (const Stmt &s : body) {
        if (const For *f = s.as<For>()) {
            Body inner = produce(k, f->body);
            if (!inner.empty()) {
                out.push_back({For{f->var, f->lo, f->hi, {}, std::move(inner)}, s.func});
            }
            continue;
        }
        const Copy *first = s.as<Copy>();
        if (!first || !filled.insert(k.tile(first->dst).ring).second) {
            continue;
        }
        const std::string ring = k.tile(first->dst).ring;
        Body loads;
        Expr bytes = 0;
        for (const Stmt &other : body) {
            const Copy *c = other.as<Copy>();
            if (!c || k.tile(c->dst).ring != ring) {
                continue;
            }
            auto plan = k.plan.copies.find(c->from.view);
            const SharedLayout &layout = k.tile(c->dst).shared;
            const SharedCopy shared = shared_copy(k, *c);
            Load load{c->dst, c->from, plan == k.plan.copies.end() ? CopyKind::Tma : plan->second.kind};
            if (shared.parts > 1) {
                load.parts = shared.parts;
                load.part = shared.part;
                load.blocks = shared.blocks;
            } else if (load.kind == CopyKind::Tma) {
                load.rows = rows_copied(k, *c);
            }
            bytes = simplify(bytes + (load.rows.defined() ? load.rows * (layout.bytes() / layout.outer_extent)
                                                          : Expr(layout.bytes())));
            loads.push_back({std::move(load), other.func});
        }
        out.push_back({Wait{Wait::What::Empty, ring}, s.func});
        out.push_back({Expect{ring, bytes}, s.func});
        out.insert(out.end(), loads.begin(), loads.end());
        out.push_back({Advance{ring}, s.func});
    }
    return out;
}

/// setmaxnreg: what launch registers times threads gives, dealt out (golden figures of the register file: 64 K a block).
void default_registers(Kernel &k) {
    TilePlan &p = k.plan;
    if (p.consumer_registers != 0 || k.rings.empty() || p.producers == 0) {
        return;
    }
    if (p.consumers == 2) {
        p.consumer_registers = 232;
        p.producer_registers = 40;
    } else if (p.consumers == 3) {
        p.consumer_registers = 160;
        p.producer_registers = 32;
    }
}

} // namespace

void inject_pipeline(Kernel &k) {
    default_registers(k);
    Role consumer{"consumer", 0, k.plan.consumers, 128, k.plan.producers > 0 ? k.plan.consumer_registers : 0,
                  {}};
    if (k.plan.ping_pong || k.plan.turns) { // the first turn is warpgroup 0's
        Expr last = Variable::make(Halide::Int(32), "wg") == k.plan.consumers - 1;
        consumer.body.push_back(
            {If{last, {{Barrier{first_turn_barrier, turn_threads, true}, k.plan.kernel}}, {}},
             k.plan.kernel});
    }
    consumer.body.push_back({TileLoop{Consumer(k).run(k.body)}, k.plan.kernel});
    Body roles;
    if (!k.rings.empty() && k.plan.producers > 0) {
        bool by_tma = true; // one thread issues it; other copies take all threads
        walk(k.body, [&](const Stmt &s) {
            if (const Copy *c = s.as<Copy>()) {
                auto plan = k.plan.copies.find(c->from.view);
                by_tma &= plan == k.plan.copies.end() || plan->second.kind == CopyKind::Tma;
            }
        });
        Role producer{"producer",       k.plan.consumers,          k.plan.producers,
                      by_tma ? 1 : 128, k.plan.producer_registers, {}};
        producer.body.push_back({TileLoop{produce(k, k.body)}, k.plan.kernel});
        for (const Ring &r : k.rings) {
            if (r.blocks > 1) {
                producer.body.push_back({Drain{r.name}, k.plan.kernel});
            }
        }
        roles.push_back({std::move(producer), k.plan.kernel});
    }
    roles.push_back({std::move(consumer), k.plan.kernel});
    k.body = std::move(roles);
}

} // namespace kiln::tile
