#include "dsl/tile/passes/CombineParts.h"

#include "dsl/tile/interpret/Values.h"
#include "dsl/tile/passes/Rewrite.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>

namespace kiln::tile {

namespace {

using namespace Halide::Internal;

/// The operator where `e` is the tile combined with what does not depend on carried tiles.
std::optional<ReduceOp> operator_of(const Kernel &k, const Expr &e, const std::string &tile,
                                    const std::set<std::string> &carried) {
    auto split = [&](const auto *op, ReduceOp kind) -> std::optional<ReduceOp> {
        if (!op) {
            return std::nullopt;
        }
        for (const auto &[self, rest] : {std::pair{op->a, op->b}, std::pair{op->b, op->a}}) {
            const Variable *v = self.template as<Variable>();
            const std::set<std::string> others = k.tiles_of(rest);
            if (v && v->name == tile && std::none_of(others.begin(), others.end(), [&](const std::string &t) {
                    return carried.count(t) > 0;
                })) {
                return kind;
            }
        }
        return std::nullopt;
    };
    for (const auto &found : {split(e.as<Add>(), ReduceOp::Sum), split(e.as<Mul>(), ReduceOp::Product),
                              split(e.as<Max>(), ReduceOp::Max), split(e.as<Min>(), ReduceOp::Min)}) {
        if (found) {
            return found;
        }
    }
    return std::nullopt;
}

/// Values of a Tuple update at one place.
using Numbers = std::vector<double>;

class Scalars : public Places {
public:
    explicit Scalars(const std::map<std::string, double> &values) : values_(values) {}
    size_t count() const override { return 1; }
    ColumnPtr variable(const std::string &name) override {
        return std::make_shared<Column>(Column::of(values_.at(name)));
    }
    ColumnPtr view(const std::string &, const std::vector<ColumnPtr> &, const Mask &) override {
        return nullptr;
    }

private:
    const std::map<std::string, double> &values_;
};

/// The update of some components that depend on one another: next = f(carried, value of the iteration).
struct Update {
    std::vector<std::string> carried, values;
    std::vector<Expr> next;
    Numbers start;

    Numbers operator()(const Numbers &a, const Numbers &b) const {
        std::map<std::string, double> at;
        for (size_t i = 0; i < carried.size(); i++) {
            at[carried[i]] = a[i];
            at[values[i]] = b[i];
        }
        Numbers out;
        for (const Expr &e : next) {
            Scalars places(at);
            out.push_back(Evaluator(places)(e)->number(0));
        }
        return out;
    }
};

bool close(const Numbers &a, const Numbers &b) {
    for (size_t i = 0; i < a.size(); i++) {
        const bool same = a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]));
        if (!same && !(std::abs(a[i] - b[i]) <= 1e-4 * std::max({1.0, std::abs(a[i]), std::abs(b[i])}))) {
            return false;
        }
    }
    return true;
}

std::string text(const Numbers &n) {
    std::string s;
    for (double x : n) {
        s += fmt::format("{}{:.4g}", s.empty() ? "" : ", ", x);
    }
    return "(" + s + ")";
}

/// Whether sequences that are cut anywhere come to the same. A disproof, or "".
std::string disprove(const Update &f) {
    constexpr int trials = 200;
    std::mt19937 random(1);
    std::uniform_real_distribution<double> draw(-4, 4);
    auto value = [&] {
        Numbers n;
        for (size_t i = 0; i < f.carried.size(); i++) {
            n.push_back(static_cast<float>(draw(random)));
        }
        return f(f.start, n);
    };
    for (int t = 0; t < trials; t++) {
        const Numbers a = value(), b = value(), c = value();
        const Numbers none = f.start;
        struct Case {
            Numbers left, right;
            const char *what;
        };
        for (const Case &x : {Case{f(f(a, b), c), f(a, f(b, c)), "is not associative"},
                              Case{f(a, none), a, "changes at the start of an empty part"},
                              Case{f(none, a), a, "does not begin at its identity"},
                              Case{f(none, none), none, "changes at the start of an empty part"}}) {
            if (!close(x.left, x.right)) {
                return fmt::format("its update {}: it gives {} for one order of parts and {} for another",
                                   x.what, text(x.left), text(x.right));
            }
        }
    }
    return "";
}

} // namespace

std::string combine_parts(Kernel &k, For &loop, std::vector<SharedComponent> &components, For &combine) {
    const std::map<std::string, const Stmt *> known = definitions(loop.body);
    std::set<std::string> carried;
    for (const SharedComponent &c : components) {
        carried.insert(c.carry->name);
    }
    Update joint;
    std::vector<size_t> members;
    std::vector<Expr> next(components.size());
    std::map<std::string, bool> joins; ///< carried tiles that others need
    for (size_t i = 0; i < components.size(); i++) {
        const auto d = known.find(components[i].carry->next);
        const Map *m = d == known.end() ? nullptr : d->second->as<Map>();
        if (!m) {
            return fmt::format("`{}` is carried from iteration to iteration in another form than an update",
                               components[i].carry->name);
        }
        next[i] = m->value;
        for (const std::string &t : k.tiles_of(m->value)) {
            joins[t] |= carried.count(t) && t != components[i].carry->name;
        }
    }
    for (size_t i = 0; i < components.size(); i++) {
        SharedComponent &c = components[i];
        const auto op = operator_of(k, next[i], c.carry->name, carried);
        if (!op || joins[c.carry->name]) {
            members.push_back(i);
            continue;
        }
        const Halide::Type type = k.tile(c.carry->name).type;
        const std::string sum =
            k.add_tile(c.all + "_next", type, k.tile(c.all).axes, k.tile(c.all).func).name;
        combine.body.push_back(
            {Map{sum, reduce_combine(*op, k.ref(c.all), c.part), Expr()}, k.tile(c.all).func});
        combine.carry.push_back({c.all, c.carry->init, sum});
        c.carry->init = reduce_identity(*op, type);
    }
    if (members.empty()) {
        return "";
    }
    // The value of the iteration that a component takes in: what its update reads and none before it did.
    std::set<std::string> taken;
    for (size_t i : members) {
        const std::string &name = components[i].carry->name;
        std::vector<std::string> fresh;
        for (const std::string &t : k.tiles_of(next[i])) {
            if (!carried.count(t) && taken.insert(t).second) {
                fresh.push_back(t);
            }
        }
        if (fresh.size() != 1 || k.tile(fresh[0]).type != k.tile(name).type) {
            return fmt::format(
                "the update of `{}` takes in {} values of an iteration, and a part would stand for one", name,
                fresh.size());
        }
        const Expr start = Halide::Internal::simplify(components[i].carry->init);
        const auto number = as_const_float(start);
        const auto whole = as_const_int(start);
        if (!number && !whole) {
            return fmt::format("`{}` does not start at a constant", name);
        }
        joint.carried.push_back(name);
        joint.values.push_back(fresh[0]);
        joint.next.push_back(next[i]);
        joint.start.push_back(number ? *number : static_cast<double>(*whole));
        if (!k.axes_of(next[i]).empty()) {
            for (const std::string &axis : k.axes_of(next[i])) {
                if (!std::count(k.tile(name).axes.begin(), k.tile(name).axes.end(), axis)) {
                    return fmt::format("the update of `{}` depends on `{}`, which it lacks", name, axis);
                }
            }
        }
    }
    try {
        if (const std::string why = disprove(joint); !why.empty()) {
            return why;
        }
    } catch (const std::out_of_range &) {
        return "its update depends on more than the values of the iteration";
    }
    for (size_t m = 0; m < members.size(); m++) {
        SharedComponent &c = components[members[m]];
        Expr e = joint.next[m];
        for (size_t i = 0; i < members.size(); i++) {
            e = replace_variable(e, joint.values[i], components[members[i]].part);
            e = replace_variable(e, joint.carried[i], k.ref(components[members[i]].all));
        }
        const Tile &all = k.tile(c.all);
        const std::string name = k.add_tile(c.all + "_next", all.type, all.axes, all.func).name;
        combine.body.push_back({Map{name, e, Expr()}, all.func});
        combine.carry.push_back({c.all, c.carry->init, name});
    }
    return "";
}

} // namespace kiln::tile
