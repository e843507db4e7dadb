// What says the same twice is said once, and what nobody reads goes: copies of tiles, equal copies of views, equal
// values, carried tiles that only their own update reads.
#include "dsl/tile/passes/Passes.h"
#include "dsl/tile/passes/Rewrite.h"

#include <algorithm>

namespace kiln::tile {

using namespace Halide::Internal;

namespace {

bool same_axes(const Kernel &k, const std::string &a, const std::string &b) {
    const std::vector<std::string> &x = k.tile(a).axes, &y = k.tile(b).axes;
    return std::set<std::string>(x.begin(), x.end()) == std::set<std::string>(y.begin(), y.end());
}

bool same_or_undefined(const Expr &a, const Expr &b) {
    return a.defined() == b.defined() && (!a.defined() || equal(a, b));
}

/// Equal regions but for the names of their axes: those that would have to become one.
using AxisPairs = std::vector<std::pair<std::string, std::string>>;

std::optional<AxisPairs> same_region(const Kernel &k, const Region &a, const Region &b) {
    if (a.view != b.view || a.dims.size() != b.dims.size()) {
        return std::nullopt;
    }
    AxisPairs pairs;
    for (size_t d = 0; d < a.dims.size(); d++) {
        const ViewDim &x = a.dims[d], &y = b.dims[d];
        if (!equal(x.base, y.base) || x.axis.empty() != y.axis.empty()) {
            return std::nullopt;
        }
        if (x.axis == y.axis) {
            continue;
        }
        if (k.axes.at(x.axis) != k.axes.at(y.axis) || axes_meet(k, x.axis, y.axis)) {
            return std::nullopt;
        }
        pairs.push_back({x.axis, y.axis});
    }
    return pairs;
}

/// Whether the statements give the same value.
bool same_value(const Kernel &k, const Stmt &a, const Stmt &b) {
    if (const Map *x = a.as<Map>()) {
        const Map *y = b.as<Map>();
        return y && equal(x->value, y->value) && same_or_undefined(x->unless, y->unless) &&
               same_axes(k, x->dst, y->dst);
    }
    if (const Reduce *x = a.as<Reduce>()) {
        const Reduce *y = b.as<Reduce>();
        return y && x->op == y->op && x->axis == y->axis && equal(x->value, y->value) &&
               same_or_undefined(x->limit, y->limit);
    }
    if (const Mma *x = a.as<Mma>()) {
        const Mma *y = b.as<Mma>();
        return y && x->start == y->start && x->a == y->a && x->b == y->b && x->axis == y->axis &&
               same_or_undefined(x->limit, y->limit);
    }
    return false;
}

/// Statements that are in force at a place: those above it in its body and in the bodies around it.
using InForce = std::vector<const Stmt *>;

/// One simplification; the walk starts anew after it.
bool merge_one(Kernel &k, Body &body, InForce in_force) {
    for (size_t i = 0; i < body.size(); i++) {
        Stmt &s = body[i];
        auto drop_for = [&](const std::string &dst, const std::string &by) {
            body.erase(body.begin() + i);
            replace_reads(k.body, dst, by);
            k.tiles.erase(dst);
        };
        if (const Map *m = s.as<Map>()) {
            const Variable *v = m->value.as<Variable>();
            if (v && k.tiles.count(v->name) && same_axes(k, m->dst, v->name) && !m->unless.defined()) {
                const std::string dst = m->dst, by = v->name;
                // A carried tile that stays as it is has no other name for its next value.
                bool is_next = false;
                walk(k.body, [&](const Stmt &inner) {
                    if (const For *f = inner.as<For>()) {
                        for (const Carry &c : f->carry) {
                            is_next |= c.next == dst;
                        }
                    }
                });
                const auto all = definitions(k.body);
                auto d = all.find(by);
                if (!is_next || (d != all.end() && !d->second->as<For>())) {
                    drop_for(dst, by);
                    return true;
                }
            }
        }
        for (const Stmt *earlier : in_force) {
            if (const Copy *c = s.as<Copy>()) {
                const Copy *first = earlier->as<Copy>();
                std::optional<AxisPairs> pairs = first ? same_region(k, first->from, c->from) : std::nullopt;
                if (pairs) {
                    const std::string dst = c->dst, by = first->dst;
                    drop_for(dst, by);
                    for (const auto &[to, from] : *pairs) {
                        rename_axis(k, from, to);
                    }
                    return true;
                }
            } else if (same_value(k, *earlier, s)) {
                const std::string dst = defines(s), by = defines(*earlier);
                drop_for(dst, by);
                return true;
            }
        }
        auto inside = [&](Body &inner) { return merge_one(k, inner, in_force); };
        if (For *f = s.as<For>()) {
            if (inside(f->body)) {
                return true;
            }
        } else if (If *f = s.as<If>()) {
            if (inside(f->body) || inside(f->otherwise)) {
                return true;
            }
        } else if (Last *l = s.as<Last>(); l && inside(l->body)) {
            return true;
        }
        in_force.push_back(&s);
    }
    return false;
}

/// Tiles that a store needs, through everything that leads to it.
std::set<std::string> live_tiles(const Kernel &k) {
    std::set<std::string> live;
    std::vector<std::string> todo;
    auto need = [&](const std::set<std::string> &tiles) {
        for (const std::string &t : tiles) {
            if (live.insert(t).second) {
                todo.push_back(t);
            }
        }
    };
    const auto all = definitions(k.body);
    walk(k.body, [&](const Stmt &s) {
        if (s.as<Store>()) {
            need(reads(k, s));
        } else if (const For *f = s.as<For>()) {
            need(k.tiles_of(f->lo));
            need(k.tiles_of(f->hi));
        } else if (const If *i = s.as<If>()) {
            need(k.tiles_of(i->condition));
        }
    });
    while (!todo.empty()) {
        const std::string t = todo.back();
        todo.pop_back();
        auto d = all.find(t);
        if (d == all.end()) {
            continue;
        }
        if (const For *f = d->second->as<For>()) {
            for (const Carry &c : f->carry) {
                if (c.name == t) {
                    need({c.next});
                    need(k.tiles_of(c.init));
                }
            }
        } else {
            need(reads(k, *d->second));
        }
    }
    return live;
}

void drop_dead(Body &body, const std::set<std::string> &live) {
    for (Stmt &s : body) {
        if (For *f = s.as<For>()) {
            std::erase_if(f->carry, [&](const Carry &c) { return !live.count(c.name); });
            drop_dead(f->body, live);
        } else if (If *i = s.as<If>()) {
            drop_dead(i->body, live);
            drop_dead(i->otherwise, live);
        } else if (Last *l = s.as<Last>()) {
            drop_dead(l->body, live);
        }
    }
    std::erase_if(body, [&](const Stmt &s) {
        if (const For *f = s.as<For>()) {
            return f->body.empty() && f->carry.empty();
        }
        if (const If *i = s.as<If>()) {
            return i->body.empty() && i->otherwise.empty();
        }
        const std::string d = defines(s);
        return !d.empty() && !live.count(d);
    });
}

} // namespace

void clean_up(Kernel &k) {
    while (merge_one(k, k.body, {})) {
    }
    drop_dead(k.body, live_tiles(k));
    std::set<std::string> left;
    for (const Stmt &s : k.body) {
        const std::set<std::string> d = defined_in(s);
        left.insert(d.begin(), d.end());
    }
    std::erase_if(k.tiles, [&](const auto &t) { return !left.count(t.first); });
    std::set<std::string> used;
    for (const auto &[name, tile] : k.tiles) {
        used.insert(tile.axes.begin(), tile.axes.end());
    }
    walk(k.body, [&](const Stmt &s) {
        if (const Store *st = s.as<Store>()) {
            for (const ViewDim &d : st->to.dims) {
                used.insert(d.axis);
            }
        } else if (const Reduce *r = s.as<Reduce>()) {
            used.insert(r->axis);
        }
    });
    std::erase_if(k.axes, [&](const auto &a) { return !used.count(a.first); });
}

} // namespace kiln::tile
