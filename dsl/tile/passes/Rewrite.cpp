#include "dsl/tile/passes/Rewrite.h"

#include <algorithm>

namespace kiln::tile {

using namespace Halide::Internal;

namespace {

/// Calls `f` for every field of the statement that names a tile it reads.
template<typename F>
void each_read_name(Stmt &s, const F &f) {
    if (auto *o = s.as<Store>()) {
        f(o->src);
    } else if (auto *o = s.as<Mma>()) {
        f(o->start);
        f(o->a);
        f(o->b);
    } else if (auto *o = s.as<For>()) {
        for (Carry &c : o->carry) {
            f(c.next);
        }
    }
}

template<typename F>
void each_region(Body &body, const F &f) {
    walk(body, [&](Stmt &s) {
        if (auto *c = s.as<Copy>()) {
            f(c->from);
        } else if (auto *st = s.as<Store>()) {
            f(st->to);
        }
    });
}

} // namespace

std::vector<Body *> bodies_of(Stmt &s) {
    if (For *f = s.as<For>()) {
        return {&f->body};
    }
    if (If *i = s.as<If>()) {
        return {&i->body, &i->otherwise};
    }
    if (Last *l = s.as<Last>()) {
        return {&l->body};
    }
    return {};
}

std::set<std::string> defined_in(const Stmt &s) {
    std::set<std::string> found;
    walk(Body{s}, [&](const Stmt &inner) {
        if (const std::string d = defines(inner); !d.empty()) {
            found.insert(d);
        }
        if (const For *f = inner.as<For>()) {
            for (const Carry &c : f->carry) {
                found.insert(c.name);
            }
        }
    });
    return found;
}

bool uses_variable(const Stmt &s, const std::string &name) {
    bool found = false;
    walk(Body{s}, [&](const Stmt &inner) {
        each_expr(inner, [&](const Expr &e) { found |= expr_uses_var(e, name); });
    });
    return found;
}

void replace_reads(Body &body, const std::string &tile, const std::string &by) {
    walk(body, [&](Stmt &s) {
        each_expr(s, [&](Expr &e) {
            if (expr_uses_var(e, tile)) {
                // The type is that of the old variable: both tiles hold the same values.
                class Rename : public IRMutator {
                public:
                    Rename(const std::string &from, const std::string &to) : from_(from), to_(to) {}
                    using IRMutator::visit;
                    Expr visit(const Variable *op) override {
                        return op->name == from_ ? Variable::make(op->type, to_) : Expr(op);
                    }

                private:
                    const std::string &from_, &to_;
                };
                e = Rename(tile, by).mutate(e);
            }
        });
        each_read_name(s, [&](std::string &name) {
            if (name == tile) {
                name = by;
            }
        });
    });
}

void rename_axis(Kernel &k, const std::string &from, const std::string &to) {
    auto rename = [&](std::string &axis) {
        if (axis == from) {
            axis = to;
        }
    };
    for (auto &[name, tile] : k.tiles) {
        for (std::string &a : tile.axes) {
            rename(a);
        }
    }
    walk(k.body, [&](Stmt &s) {
        each_expr(s, [&](Expr &e) { e = replace_variable(e, "%" + from, k.axis_var(to)); });
        if (auto *m = s.as<Mma>()) {
            rename(m->axis);
        } else if (auto *r = s.as<Reduce>()) {
            rename(r->axis);
        }
    });
    each_region(k.body, [&](Region &r) {
        for (ViewDim &d : r.dims) {
            rename(d.axis);
        }
    });
    rename(k.row_axis);
    k.axes.erase(from);
}

bool axes_meet(const Kernel &k, const std::string &a, const std::string &b) {
    auto both = [&](const auto &axes) {
        return std::find(axes.begin(), axes.end(), a) != axes.end() &&
               std::find(axes.begin(), axes.end(), b) != axes.end();
    };
    for (const auto &[name, tile] : k.tiles) {
        if (both(tile.axes)) {
            return true;
        }
    }
    bool meet = false;
    walk(k.body, [&](const Stmt &s) { each_expr(s, [&](const Expr &e) { meet |= both(k.axes_of(e)); }); });
    return meet;
}

std::map<std::string, const Stmt *> definitions(const Body &body) {
    std::map<std::string, const Stmt *> found;
    walk(body, [&](const Stmt &s) {
        if (const std::string d = defines(s); !d.empty()) {
            found[d] = &s;
        }
        if (const For *f = s.as<For>()) {
            for (const Carry &c : f->carry) {
                found[c.name] = &s;
            }
        }
    });
    return found;
}

Map *map_of(For &f, const std::string &tile) {
    for (Stmt &s : f.body) {
        if (Map *m = s.as<Map>(); m && m->dst == tile) {
            return m;
        }
    }
    return nullptr;
}

int count_reads(const Kernel &k, const Body &body, const std::string &tile) {
    int count = 0;
    walk(body, [&](const Stmt &s) {
        if (const For *f = s.as<For>()) {
            // Its own reads only: what is inside comes by itself.
            For alone{f->var, f->lo, f->hi, f->carry, {}};
            count += int(reads(k, Stmt{alone, s.func}).count(tile));
        } else if (const If *i = s.as<If>()) {
            count += int(k.tiles_of(i->condition).count(tile));
        } else if (!s.as<Last>()) { // what is inside comes by itself
            count += int(reads(k, s).count(tile));
        }
    });
    return count;
}

} // namespace kiln::tile
