#include "dsl/tile/ir/Ir.h"

#include <algorithm>
#include <limits>

namespace kiln::tile {

using namespace Halide::Internal;

void refuse(const char *code, std::string message, Span span, std::vector<std::string> helps) {
    Diagnostic d;
    d.code = code;
    d.message = std::move(message);
    d.span = span;
    d.helps = std::move(helps);
    throw Error(std::move(d));
}

std::string type_name(Halide::Type t) {
    if (t.is_bool()) {
        return "bool";
    }
    const char *kind = t.is_bfloat() ? "bf" : t.is_float() ? "f" : t.is_uint() ? "u" : "i";
    return kind + std::to_string(t.bits());
}

const char *reduce_name(ReduceOp op) {
    switch (op) {
    case ReduceOp::Sum:
        return "sum";
    case ReduceOp::Product:
        return "product";
    case ReduceOp::Max:
        return "max";
    case ReduceOp::Min:
        return "min";
    }
    return "";
}

Expr reduce_identity(ReduceOp op, Halide::Type type) {
    switch (op) {
    case ReduceOp::Sum:
        return make_zero(type);
    case ReduceOp::Product:
        return make_one(type);
    case ReduceOp::Max:
        return type.is_float() ? make_const(type, -std::numeric_limits<double>::infinity()) : type.min();
    case ReduceOp::Min:
        return type.is_float() ? make_const(type, std::numeric_limits<double>::infinity()) : type.max();
    }
    return {};
}

Expr reduce_combine(ReduceOp op, const Expr &a, const Expr &b) {
    switch (op) {
    case ReduceOp::Sum:
        return Add::make(a, b);
    case ReduceOp::Product:
        return Mul::make(a, b);
    case ReduceOp::Max:
        return Max::make(a, b);
    case ReduceOp::Min:
        return Min::make(a, b);
    }
    return {};
}

namespace {

/// Names of the free variables.
class FreeVariables : public IRGraphVisitor {
public:
    std::set<std::string> names;

private:
    using IRGraphVisitor::visit;
    void visit(const Variable *op) override { names.insert(op->name); }
};

std::set<std::string> free_variables(const Expr &e) {
    FreeVariables v;
    if (e.defined()) {
        e.accept(&v);
    }
    return v.names;
}

class Replace : public IRMutator {
public:
    Replace(const std::string &name, const Expr &by) : name_(name), by_(by) {}

private:
    using IRMutator::visit;
    Expr visit(const Variable *op) override { return op->name == name_ ? by_ : Expr(op); }
    const std::string &name_;
    const Expr &by_;
};

template<typename S, typename F>
void exprs_of(S &s, const F &f) {
    auto one = [&](auto &e) {
        if (e.defined()) {
            f(e);
        }
    };
    auto region = [&](auto &r) {
        for (auto &d : r.dims) {
            one(d.base);
        }
    };
    std::visit(
        [&](auto &o) {
            using T = std::decay_t<decltype(o)>;
            if constexpr (std::is_same_v<T, Copy>) {
                region(o.from);
            } else if constexpr (std::is_same_v<T, Load>) {
                region(o.from);
                one(o.rows);
                one(o.part);
                one(o.blocks);
            } else if constexpr (std::is_same_v<T, Expect>) {
                one(o.bytes);
            } else if constexpr (std::is_same_v<T, Release>) {
                one(o.blocks);
            } else if constexpr (std::is_same_v<T, Store> || std::is_same_v<T, TmaStore> ||
                                 std::is_same_v<T, GlobalStore>) {
                region(o.to);
                if constexpr (std::is_same_v<T, TmaStore>) {
                    one(o.buffer);
                }
            } else if constexpr (std::is_same_v<T, StageStore>) {
                one(o.buffer);
                one(o.value);
            } else if constexpr (std::is_same_v<T, Barrier>) {
                one(o.id);
            } else if constexpr (std::is_same_v<T, Skip>) {
                one(o.count);
            } else if constexpr (std::is_same_v<T, Mma>) {
                one(o.zero_when);
                one(o.limit);
            } else if constexpr (std::is_same_v<T, Map>) {
                one(o.value);
                one(o.unless);
            } else if constexpr (std::is_same_v<T, Reduce>) {
                one(o.value);
                one(o.limit);
            } else if constexpr (std::is_same_v<T, Fill>) {
                one(o.value);
            } else if constexpr (std::is_same_v<T, For>) {
                one(o.lo);
                one(o.hi);
                one(o.untested_from);
                one(o.untested_to);
                for (auto &c : o.carry) {
                    one(c.init);
                }
            } else if constexpr (std::is_same_v<T, If>) {
                one(o.condition);
            } else if constexpr (std::is_same_v<T, Last>) {
                region(o.at);
                one(o.parts);
            }
        },
        s.op);
}

/// The bodies inside a statement.
template<typename S, typename F>
void bodies_of(S &s, const F &f) {
    std::visit(
        [&](auto &o) {
            using T = std::decay_t<decltype(o)>;
            if constexpr (std::is_same_v<T, For> || std::is_same_v<T, Role> || std::is_same_v<T, TileLoop> ||
                          std::is_same_v<T, Last>) {
                f(o.body);
            } else if constexpr (std::is_same_v<T, If>) {
                f(o.body);
                f(o.otherwise);
            }
        },
        s.op);
}

} // namespace

const View *Kernel::view(const std::string &name) const {
    auto it = std::find_if(views.begin(), views.end(), [&](const View &v) { return v.name == name; });
    return it == views.end() ? nullptr : &*it;
}

const Tile &Kernel::tile(const std::string &name) const {
    return tiles.at(name);
}

const Ring *Kernel::ring(const std::string &name) const {
    auto it = std::find_if(rings.begin(), rings.end(), [&](const Ring &r) { return r.name == name; });
    return it == rings.end() ? nullptr : &*it;
}

Ring *Kernel::ring(const std::string &name) {
    return const_cast<Ring *>(static_cast<const Kernel *>(this)->ring(name));
}

std::string Kernel::fresh(const std::string &base) {
    const std::string stem = base.substr(0, base.find('$'));
    auto taken = [&](const std::string &n) {
        return names_.count(n) || tiles.count(n) || axes.count(n) || view(n) || ring(n) ||
               std::any_of(grid.begin(), grid.end(), [&](const GridLoop &g) { return g.name == n; });
    };
    std::string name = stem;
    for (int i = 1; taken(name); i++) {
        name = stem + std::to_string(i);
    }
    names_.insert(name);
    return name;
}

Tile &Kernel::add_tile(const std::string &base, Halide::Type type, std::vector<std::string> of,
                       const std::string &func) {
    Tile t;
    t.name = fresh(base);
    t.type = type;
    t.axes = std::move(of);
    t.func = func;
    return tiles[t.name] = t;
}

Expr Kernel::ref(const std::string &tile) const {
    return Variable::make(tiles.at(tile).type, tile);
}

Expr Kernel::axis_var(const std::string &axis) const {
    return Variable::make(Halide::Int(32), "%" + axis);
}

std::set<std::string> Kernel::axes_of(const Expr &e) const {
    std::set<std::string> found;
    for (const std::string &name : free_variables(e)) {
        if (is_axis_var(name)) {
            found.insert(name.substr(1));
        } else if (auto t = tiles.find(name); t != tiles.end()) {
            found.insert(t->second.axes.begin(), t->second.axes.end());
        }
    }
    return found;
}

std::set<std::string> Kernel::tiles_of(const Expr &e) const {
    std::set<std::string> found = free_variables(e);
    std::erase_if(found, [&](const std::string &n) { return !tiles.count(n); });
    return found;
}

const std::string &Kernel::root(const std::string &tile) const {
    const Tile *t = &tiles.at(tile);
    while (!t->alias.empty()) {
        t = &tiles.at(t->alias);
    }
    return t->name;
}

int Kernel::cluster_blocks() const {
    int n = 1;
    for (const GridLoop &g : grid) {
        n *= g.cluster;
    }
    return n;
}

MmaKind Kernel::product_kind(const std::string &func) const {
    auto p = plan.products.find(func);
    return p == plan.products.end() ? MmaKind::Wgmma : p->second.kind;
}

bool Kernel::is_asynchronous(const Stmt &product) const {
    return product.as<Mma>() && product_kind(product.func) == MmaKind::Wgmma;
}

bool Kernel::may_exceed_grid(const Expr &e) const {
    const std::set<std::string> names = free_variables(e);
    return std::any_of(grid.begin(), grid.end(),
                       [&](const GridLoop &g) { return g.cluster > 1 && names.count(g.name) > 0; });
}

void walk(Body &body, const std::function<void(Stmt &)> &f) {
    for (Stmt &s : body) {
        f(s);
        bodies_of(s, [&](Body &b) { walk(b, f); });
    }
}

void walk(const Body &body, const std::function<void(const Stmt &)> &f) {
    for (const Stmt &s : body) {
        f(s);
        bodies_of(s, [&](const Body &b) { walk(b, f); });
    }
}

void each_expr(Stmt &s, const std::function<void(Expr &)> &f) {
    exprs_of(s, f);
}

void each_expr(const Stmt &s, const std::function<void(const Expr &)> &f) {
    exprs_of(s, f);
}

std::string defines(const Stmt &s) {
    return std::visit(
        [](const auto &o) -> std::string {
            using T = std::decay_t<decltype(o)>;
            if constexpr (std::is_same_v<T, Copy> || std::is_same_v<T, Mma> || std::is_same_v<T, Map> ||
                          std::is_same_v<T, Reduce> || std::is_same_v<T, Load> || std::is_same_v<T, Fill> ||
                          std::is_same_v<T, Move> || std::is_same_v<T, LaneReduce>) {
                return o.dst;
            } else {
                return "";
            }
        },
        s.op);
}

std::set<std::string> reads(const Kernel &k, const Stmt &s) {
    std::set<std::string> found;
    each_expr(s, [&](const Expr &e) {
        std::set<std::string> t = k.tiles_of(e);
        found.insert(t.begin(), t.end());
    });
    auto add = [&](const std::string &t) {
        if (!t.empty()) {
            found.insert(t);
        }
    };
    std::visit(
        [&](const auto &o) {
            using T = std::decay_t<decltype(o)>;
            if constexpr (std::is_same_v<T, Store> || std::is_same_v<T, Move> ||
                          std::is_same_v<T, LaneReduce> || std::is_same_v<T, GlobalStore>) {
                add(o.src);
            } else if constexpr (std::is_same_v<T, StageStore>) {
                add(o.value.defined() ? "" : o.src);
            } else if constexpr (std::is_same_v<T, Mma>) {
                add(o.start);
                add(o.a);
                add(o.b);
            } else if constexpr (std::is_same_v<T, For>) {
                for (const Carry &c : o.carry) {
                    add(c.next);
                }
            }
        },
        s.op);
    bodies_of(s, [&](const Body &b) {
        for (const Stmt &inner : b) {
            std::set<std::string> t = reads(k, inner);
            found.insert(t.begin(), t.end());
        }
    });
    return found;
}

bool is_early(const Kernel &k) {
    bool early = true;
    walk(k.body, [&](const Stmt &s) {
        early &= s.as<Copy>() || s.as<Store>() || s.as<Mma>() || s.as<Map>() || s.as<Reduce>() ||
                 s.as<For>() || s.as<If>() || s.as<Last>() || s.as<LaneReduce>();
    });
    return early;
}

bool is_axis_var(const std::string &variable) {
    return !variable.empty() && variable[0] == '%';
}

Expr replace_variable(const Expr &e, const std::string &name, const Expr &by) {
    return e.defined() ? Replace(name, by).mutate(e) : e;
}

} // namespace kiln::tile
