// A sum, maximum or product over an axis that ends inside a tile must not see what lies past its end. Copies fill with
// zeros there, which is enough for a plain sum; what else is read past the end is replaced by the identity of the
// reduction that reads it. Whether that is needed follows from the values, not from what they are for.
#include "dsl/tile/passes/Passes.h"
#include "dsl/tile/passes/Rewrite.h"

#include <fmt/format.h>

#include <algorithm>

namespace kiln::tile {

using namespace Halide::Internal;

namespace {

bool is_zero(const Expr &e) {
    return e.defined() && is_const_zero(e);
}

Expr extent_of(const std::string &view, size_t dimension) {
    return Variable::make(Halide::Int(32), fmt::format("{}.extent.{}", view, dimension));
}

/// What values are where the coordinate of `axis` is at least `limit`.
class PastTheEnd {
public:
    PastTheEnd(const Kernel &k, const std::string &axis, const Expr &limit)
        : k_(k), axis_(axis), limit_(limit), definitions_(definitions(k.body)) {}

    /// The value there if it is one constant, else nothing.
    Expr value(const Expr &e) {
        const Expr v = simplify(Mutator(*this).mutate(e));
        return is_const(v) ? v : Expr();
    }

    Expr tile(const std::string &name) {
        if (auto it = known_.find(name); it != known_.end()) {
            return it->second;
        }
        known_[name] = Expr();
        auto d = definitions_.find(name);
        Expr v;
        if (d != definitions_.end()) {
            if (const Copy *c = d->second->as<Copy>()) {
                v = is_outside(c->from) ? make_zero(k_.tile(name).type) : Expr();
            } else if (const Map *m = d->second->as<Map>()) {
                v = value(m->value);
            }
        }
        return known_[name] = v;
    }

    /// Extents of views that the answer rests on: each at most what it is paired with.
    std::vector<Expr> assumed;
    /// Takes on trust what holds for buffers of matching extents.
    bool may_assume = false;

    bool is_outside(const Region &r) {
        for (size_t d = 0; d < r.dims.size(); d++) {
            if (r.dims[d].axis == axis_ && starts_outside(r.view, d, r.dims[d].base)) {
                return true;
            }
        }
        return false;
    }

private:
    bool starts_outside(const std::string &view, size_t d, const Expr &base) {
        const Expr past = simplify(base + limit_ - extent_of(view, d));
        if (auto c = as_const_int(past)) {
            return *c >= 0;
        }
        if (!may_assume || uses_loop(past)) {
            return false;
        }
        assumed.push_back(simplify(extent_of(view, d) <= simplify(base + limit_)));
        return true;
    }

    /// Whether a variable is no extent of a view: conditions on a call can hold no other.
    static bool uses_loop(const Expr &e) {
        class Visitor : public IRVisitor {
        public:
            bool found = false;
            using IRVisitor::visit;
            void visit(const Variable *op) override {
                found |= op->name.find(".extent.") == std::string::npos;
            }
        } v;
        e.accept(&v);
        return v.found;
    }

    class Mutator : public IRMutator {
    public:
        explicit Mutator(PastTheEnd &past) : past_(past) {}
        using IRMutator::visit;
        Expr visit(const Variable *op) override {
            auto t = past_.k_.tiles.find(op->name);
            if (t == past_.k_.tiles.end() || std::find(t->second.axes.begin(), t->second.axes.end(),
                                                       past_.axis_) == t->second.axes.end()) {
                return op;
            }
            const Expr v = past_.tile(op->name);
            return v.defined() ? v : Expr(op);
        }
        Expr visit(const Call *op) override {
            if (op->name.compare(0, 5, "view:") != 0) {
                return IRMutator::visit(op);
            }
            const std::string view = op->name.substr(5), var = "%" + past_.axis_;
            for (size_t d = 0; d < op->args.size(); d++) {
                const Expr base = simplify(op->args[d] - Variable::make(Halide::Int(32), var));
                if (expr_uses_var(op->args[d], var) && !expr_uses_var(base, var) &&
                    past_.starts_outside(view, d, base)) {
                    return make_zero(op->type);
                }
            }
            return op;
        }

    private:
        PastTheEnd &past_;
    };

    const Kernel &k_;
    const std::string axis_;
    const Expr limit_;
    std::map<std::string, const Stmt *> definitions_;
    std::map<std::string, Expr> known_;
};

class Guard {
public:
    explicit Guard(Kernel &k) : k_(k) {}

    void run(Body &body) {
        for (size_t i = 0; i < body.size(); i++) {
            if (For *f = body[i].as<For>()) {
                run(f->body);
            } else if (If *f = body[i].as<If>()) {
                run(f->body);
                run(f->otherwise);
            } else if (Last *l = body[i].as<Last>()) {
                run(l->body);
            } else if (Reduce *r = body[i].as<Reduce>(); r && r->limit.defined()) {
                reduction(*r, body[i].func);
            } else if (const Mma *m = body[i].as<Mma>(); m && m->limit.defined()) {
                i += product(body, i);
            }
        }
    }

private:
    Expr within(const std::string &axis, const Expr &limit) { return k_.axis_var(axis) < limit; }

    void reduction(Reduce &r, const std::string &func) {
        const Expr identity = reduce_identity(r.op, r.value.type());
        const Expr past = PastTheEnd(k_, r.axis, r.limit).value(r.value);
        if (!past.defined() || !equal(past, identity)) {
            r.value = Select::make(within(r.axis, r.limit), r.value, identity);
            k_.remarks.push_back(
                fmt::format("guard_edges: the {} of `{}` over `{}` leaves out what lies past its end",
                            reduce_name(r.op), func, r.axis));
        }
        r.limit = Expr();
    }

    /// Both factors must be zeros past the end: a zero times an infinity is none. Returns how many statements it added.
    size_t product(Body &body, size_t at) {
        Mma m = *body[at].as<Mma>();
        const std::string func = body[at].func;
        size_t added = 0;
        for (std::string *operand : {&m.a, &m.b}) {
            PastTheEnd past(k_, m.axis, m.limit);
            past.may_assume = true;
            if (is_zero(past.tile(*operand))) {
                for (const Expr &c : past.assumed) {
                    require(c);
                }
                continue;
            }
            const Tile of = k_.tile(*operand);
            const Tile &guarded = k_.add_tile(of.name + "_in", of.type, of.axes, func);
            const Expr value = Select::make(within(m.axis, m.limit), k_.ref(of.name), make_zero(of.type));
            body.insert(body.begin() + at + added, {Map{guarded.name, value, Expr()}, func});
            added++;
            *operand = guarded.name;
            k_.remarks.push_back(
                fmt::format("guard_edges: `{}` is replaced by zeros past the end of `{}` of `{}`", of.name,
                            m.axis, func));
        }
        m.limit = Expr();
        body[at + added].op = m;
        return added;
    }

    void require(const Expr &condition) {
        if (is_const_one(condition) || std::any_of(k_.conditions.begin(), k_.conditions.end(),
                                                   [&](const Expr &c) { return equal(c, condition); })) {
            return;
        }
        k_.conditions.push_back(condition);
    }

    Kernel &k_;
};

} // namespace

void guard_edges(Kernel &k) {
    Guard(k).run(k.body);
}

} // namespace kiln::tile
