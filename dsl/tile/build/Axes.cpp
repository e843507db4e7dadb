#include "dsl/tile/build/Axes.h"

#include <fmt/format.h>

#include <algorithm>

namespace kiln::tile {

using namespace Halide::Internal;

namespace {

/// Renames axes by `find`.
class RenameAxes : public IRMutator {
public:
    explicit RenameAxes(const AxisTable &axes) : axes_(axes) {}

private:
    using IRMutator::visit;
    Expr visit(const Variable *op) override {
        if (!is_axis_var(op->name)) {
            return op;
        }
        const std::string name = "%" + axes_.find(op->name.substr(1));
        return name == op->name ? Expr(op) : Variable::make(op->type, name);
    }
    const AxisTable &axes_;
};

} // namespace

std::string AxisTable::make(const std::string &base, int extent) {
    const std::string name = k_.fresh(base);
    k_.axes[name] = extent;
    order_.push_back(name);
    up_[name] = name;
    return name;
}

int AxisTable::extent(const std::string &axis) const {
    return k_.axes.at(axis);
}

std::string AxisTable::find(std::string axis) const {
    for (auto it = up_.find(axis); it != up_.end() && it->second != axis; it = up_.find(axis)) {
        axis = it->second;
    }
    return axis;
}

void AxisTable::keep_apart(const std::vector<std::string> &axes) {
    for (const std::string &a : axes) {
        for (const std::string &b : axes) {
            const std::string x = find(a), y = find(b);
            if (x != y) {
                apart_[x].insert(y);
            }
        }
    }
}

bool AxisTable::can_unify(const std::string &a, const std::string &b) const {
    const std::string x = find(a), y = find(b);
    if (x == y) {
        return true;
    }
    auto it = apart_.find(x);
    return extent(x) == extent(y) && (it == apart_.end() || !it->second.count(y));
}

void AxisTable::unify(const std::string &a, const std::string &b) {
    std::string x = find(a), y = find(b);
    if (x == y) {
        return;
    }
    if (std::find(order_.begin(), order_.end(), y) < std::find(order_.begin(), order_.end(), x)) {
        std::swap(x, y);
    }
    up_[y] = x;
    for (const std::string &other : apart_[y]) {
        apart_[x].insert(other);
        apart_[other].erase(y);
        apart_[other].insert(x);
    }
    apart_.erase(y);
}

std::vector<std::string> AxisTable::in_order(const std::set<std::string> &axes) const {
    std::set<std::string> heads;
    for (const std::string &a : axes) {
        heads.insert(find(a));
    }
    std::vector<std::string> sorted;
    for (const std::string &a : order_) {
        if (heads.count(a)) {
            sorted.push_back(a);
        }
    }
    return sorted;
}

std::vector<std::string> AxisTable::axes_of(const Expr &e) const {
    return in_order(k_.axes_of(e));
}

Expr AxisTable::simplify(const Expr &e) const {
    Scope<Interval> bounds;
    for (const std::string &a : order_) {
        bounds.push("%" + a, Interval(0, extent(a) - 1));
    }
    return Halide::Internal::simplify(e, true, bounds);
}

std::optional<ViewDim> AxisTable::dim_of(const Expr &index) const {
    const Expr e = RenameAxes(*this).mutate(index);
    const std::vector<std::string> axes = axes_of(e);
    if (axes.empty()) {
        return ViewDim{simplify(e), ""};
    }
    if (axes.size() > 1 || !k_.tiles_of(e).empty()) {
        return std::nullopt;
    }
    const Expr base = simplify(replace_variable(e, "%" + axes[0], 0));
    if (!is_const_zero(simplify(e - base - var(axes[0])))) {
        return std::nullopt;
    }
    return ViewDim{base, axes[0]};
}

void AxisTable::resolve() {
    auto rename = [&](Expr &e) { e = RenameAxes(*this).mutate(e); };
    auto region = [&](Region &r) {
        for (ViewDim &d : r.dims) {
            d.axis = d.axis.empty() ? "" : find(d.axis);
        }
    };
    for (auto &[name, tile] : k_.tiles) {
        tile.axes = in_order({tile.axes.begin(), tile.axes.end()});
    }
    walk(k_.body, [&](Stmt &s) {
        each_expr(s, rename);
        if (auto *c = s.as<Copy>()) {
            region(c->from);
        } else if (auto *st = s.as<Store>()) {
            region(st->to);
        } else if (auto *m = s.as<Mma>()) {
            m->axis = find(m->axis);
        } else if (auto *r = s.as<Reduce>()) {
            r->axis = find(r->axis);
        }
    });
    if (!k_.row_axis.empty()) {
        k_.row_axis = find(k_.row_axis);
    }
    std::set<std::string> used;
    for (const auto &[name, tile] : k_.tiles) {
        used.insert(tile.axes.begin(), tile.axes.end());
    }
    walk(k_.body, [&](Stmt &s) {
        if (auto *m = s.as<Mma>()) {
            used.insert(m->axis);
        } else if (auto *r = s.as<Reduce>()) {
            used.insert(r->axis);
        }
    });
    std::erase_if(k_.axes, [&](const auto &a) { return !used.count(a.first); });
}

} // namespace kiln::tile
