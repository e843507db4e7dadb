#include "dsl/schedule/apply/Describe.h"
#include "dsl/tile/build/Builder.h"
#include "dsl/tile/ir/EachCall.h"

#include <fmt/format.h>

#include <algorithm>

namespace kiln::tile {

using namespace Halide::Internal;

namespace {

bool is_self(const Expr &e, const std::string &func) {
    const Call *c = e.as<Call>();
    return c && c->call_type == Call::Halide && c->name == func;
}

bool calls(const Expr &e, const std::string &func) {
    bool found = false;
    each_call(e, [&](const Call &c) { found |= c.call_type == Call::Halide && c.name == func; });
    return found;
}

template<typename Op>
void flatten(const Expr &e, std::vector<Expr> &parts) {
    if (const Op *op = e.as<Op>()) {
        flatten<Op>(op->a, parts);
        flatten<Op>(op->b, parts);
    } else {
        parts.push_back(e);
    }
}

/// f = f op rest.
struct Associative {
    ReduceOp op;
    Expr rest;
};

std::optional<Associative> associative(const Expr &e, const std::string &func, int component) {
    std::vector<Expr> parts;
    ReduceOp op = ReduceOp::Sum;
    if (e.as<Add>() || e.as<Sub>()) {
        parts = terms_of(e);
    } else if (e.as<Mul>()) {
        op = ReduceOp::Product;
        parts = factors_of(e);
    } else if (e.as<Max>()) {
        op = ReduceOp::Max;
        flatten<Max>(e, parts);
    } else if (e.as<Min>()) {
        op = ReduceOp::Min;
        flatten<Min>(e, parts);
    }
    auto self = std::find_if(parts.begin(), parts.end(), [&](const Expr &p) { return is_self(p, func); });
    if (self == parts.end() || self->as<Call>()->value_index != component || parts.size() < 2) {
        return std::nullopt;
    }
    parts.erase(self);
    Expr rest = parts[0];
    for (size_t i = 1; i < parts.size(); i++) {
        rest = reduce_combine(op, rest, parts[i]);
    }
    if (calls(rest, func)) {
        return std::nullopt;
    }
    return Associative{op, rest};
}

} // namespace

std::vector<Expr> factors_of(const Expr &e) {
    std::vector<Expr> parts;
    flatten<Mul>(e, parts);
    return parts;
}

std::vector<Expr> terms_of(const Expr &e) {
    if (const Sub *s = e.as<Sub>()) {
        std::vector<Expr> parts = terms_of(s->a);
        for (const Expr &t : terms_of(s->b)) {
            parts.push_back(Mul::make(make_const(t.type(), -1), t));
        }
        return parts;
    }
    if (const Add *a = e.as<Add>()) {
        std::vector<Expr> parts = terms_of(a->a), more = terms_of(a->b);
        parts.insert(parts.end(), more.begin(), more.end());
        return parts;
    }
    return {e};
}

std::vector<std::string> Builder::make_tiles(const Function &f, const std::vector<ViewDim> &region) {
    const std::string func = schedule_name(f);
    std::map<std::string, Expr> replace;
    Values at;
    for (size_t d = 0; d < region.size(); d++) {
        at.push_back(coordinate(region[d]));
        replace[f.args()[d]] = at.back();
    }
    Values values;
    for (const Expr &v : f.definition().values()) {
        values.push_back(value(substitute(replace, substitute_in_all_lets(v))));
    }
    for (size_t i = 0; i < f.updates().size(); i++) {
        const Update u = read_update(f, int(i), region, at);
        values = run_update(u, 0, values);
    }
    std::vector<std::string> tiles;
    for (const Expr &v : values) {
        const Variable *ref = v.as<Variable>();
        tiles.push_back(ref && k_.tiles.count(ref->name) ? ref->name : map_tile(func, v, func));
    }
    return tiles;
}

Builder::Update Builder::read_update(const Function &f, int index, const std::vector<ViewDim> &region,
                                     const Values &at) {
    const Definition &definition = f.updates()[index];
    Update u;
    u.f = f;
    u.func = schedule_name(f);
    u.at = at;
    std::map<std::string, Expr> replace;
    for (size_t d = 0; d < at.size(); d++) {
        const Variable *v = definition.args()[d].as<Variable>();
        if (!v || v->name != f.args()[d]) {
            refuse("K1106",
                   fmt::format("update {} of `{}` writes at other coordinates than its Vars, which a tile "
                               "kernel cannot do",
                               index, u.func),
                   {}, {fmt::format("compute it before the kernel: `{}.compute_root()`", u.func)});
        }
        replace[v->name] = at[d];
    }
    const std::vector<ReductionVariable> &rvars = definition.schedule().rvars();
    for (const ReductionVariable &rv : rvars) {
        read_rvar(u, rv, schedule_name_of_rvar(rv.var, rvars), replace);
    }
    std::reverse(u.loops.begin(), u.loops.end()); // Halide's innermost comes first
    for (const Expr &v : definition.values()) {
        u.values.push_back(substitute(replace, substitute_in_all_lets(v)));
    }
    for (const Expr &p : definition.split_predicate()) {
        const Expr read = axes_.simplify(value(substitute(replace, substitute_in_all_lets(p))));
        if (!becomes_limit(u, read)) {
            u.predicate = axes_.simplify(u.predicate.defined() ? u.predicate && read : read);
        }
    }
    for (size_t c = 0; c < u.values.size(); c++) {
        std::set<std::string> axes;
        for (size_t d = 0; d < region.size(); d++) {
            if (!region[d].axis.empty() && depends_.on(f, int(c), int(d))) {
                axes.insert(region[d].axis);
            }
        }
        u.carried_axes.push_back(axes_.in_order(axes));
    }
    return u;
}

/// A condition `axis < limit` on an RVar inside the tile ends it there.
bool Builder::becomes_limit(Update &u, const Expr &condition) {
    Expr below; // condition: below > 0
    if (const LT *c = condition.as<LT>()) {
        below = c->b - c->a;
    } else if (const LE *c = condition.as<LE>()) {
        below = c->b - c->a + 1;
    } else if (const GT *c = condition.as<GT>()) {
        below = c->a - c->b;
    } else if (const GE *c = condition.as<GE>()) {
        below = c->a - c->b + 1;
    }
    if (!below.defined() || below.type() != Halide::Int(32)) {
        return false;
    }
    for (TileRVar &over : u.in_tile) {
        const Expr limit = axes_.simplify(below + axes_.var(over.axis));
        if (!axes_.axes_of(below).empty() && axes_.axes_of(limit).empty() && k_.tiles_of(limit).empty()) {
            over.limit = over.limit.defined() ? axes_.simplify(min(over.limit, limit)) : limit;
            return true;
        }
    }
    return false;
}

void Builder::read_rvar(Update &u, const ReductionVariable &rv, const std::string &name,
                        std::map<std::string, Expr> &replace) {
    auto planned = [&](const auto &table) -> std::optional<int> {
        auto f = table.find(u.func);
        if (f == table.end()) {
            return std::nullopt;
        }
        auto r = f->second.find(name);
        return r == f->second.end() ? std::nullopt : std::optional<int>(r->second);
    };
    const Expr extent = axes_.simplify(value(rv.extent));
    const auto constant = as_const_int(extent);
    const std::optional<int> whole = planned(plan_.whole), split = planned(plan_.split);
    const int size = whole ? *whole : split ? *split : constant ? int(*constant) : 1;
    std::string base = name;
    std::replace(base.begin(), base.end(), '.', '_');

    Expr at = axes_.simplify(value(rv.min)), limit;
    if (whole) {
        if (constant && *constant > size) {
            refuse("K1108",
                   fmt::format("`{}` of `{}` has {} iterations, and its tile is to span all of them with {}",
                               name, u.func, *constant, size));
        }
        if (!constant) {
            k_.conditions.push_back(extent <= size);
        }
        if (!constant || *constant < size) {
            limit = extent;
        }
    } else if (!constant || *constant != size) {
        const std::string loop = k_.fresh(base + "o");
        const Expr v = Variable::make(Halide::Int(32), loop);
        u.loops.push_back({loop, axes_.simplify(size == 1 ? extent : (extent + (size - 1)) / size)});
        at = at + v * size;
        if (size > 1 && !(constant && *constant % size == 0)) {
            limit = axes_.simplify(extent - v * size);
        }
    }
    if (whole || size > 1) {
        const std::string axis = axes_.make(base, size);
        if (name == plan_.rows && k_.row_axis.empty()) {
            k_.row_axis = axis;
        }
        u.in_tile.push_back({axis, limit});
        at = at + axes_.var(axis);
    }
    replace[rv.var] = axes_.simplify(at);
}

Builder::Values Builder::run_update(const Update &u, size_t level, const Values &start) {
    if (level == u.loops.size()) {
        return one_step(u, start);
    }
    For loop;
    loop.var = u.loops[level].loop;
    loop.lo = 0;
    loop.hi = u.loops[level].trips;
    scopes_.push_back({&loop.body, {}});
    std::vector<std::string> carried;
    Values now;
    for (size_t c = 0; c < start.size(); c++) {
        carried.push_back(new_tile(u.func, start[c].type(), u.carried_axes[c], u.func));
        now.push_back(k_.ref(carried[c]));
    }
    const Values next = run_update(u, level + 1, now);
    for (size_t c = 0; c < start.size(); c++) {
        const std::string name = map_tile(carried[c] + "_next", next[c], u.func, u.carried_axes[c]);
        loop.carry.push_back({carried[c], start[c], name});
    }
    scopes_.pop_back();
    put({std::move(loop), u.func});
    return now;
}

Builder::Values Builder::one_step(const Update &u, const Values &start) {
    std::vector<Associative> forms;
    for (size_t c = 0; c < u.values.size(); c++) {
        if (auto form = associative(u.values[c], u.f.name(), int(c))) {
            forms.push_back(*form);
        }
    }
    Values next;
    if (forms.size() == u.values.size() && (!u.in_tile.empty() || !u.loops.empty())) {
        for (size_t c = 0; c < forms.size(); c++) {
            const auto &[op, rest] = forms[c];
            const Expr part = reduce_in_tile(u, op, rest);
            next.push_back(equal(start[c], reduce_identity(op, start[c].type()))
                               ? part
                               : reduce_combine(op, start[c], part));
        }
        return next;
    }
    if (!u.in_tile.empty()) {
        refuse("K1106",
               fmt::format("`{}` of `{}` runs inside a tile, and the update is no sum, product, maximum or "
                           "minimum over it",
                           u.in_tile[0].axis, u.func),
               {},
               {fmt::format("split `{}` by 1: then `{}` is carried from iteration to iteration",
                            u.in_tile[0].axis, u.func)});
    }
    selfs_.push_back({u.f.name(), u.at, start});
    for (size_t c = 0; c < u.values.size(); c++) {
        const Expr v = value(u.values[c]);
        next.push_back(u.predicate.defined() ? select(u.predicate, v, start[c]) : v);
    }
    selfs_.pop_back();
    return next;
}

} // namespace kiln::tile
