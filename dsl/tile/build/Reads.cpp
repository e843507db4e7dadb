#include "dsl/schedule/apply/Describe.h"
#include "dsl/tile/build/Builder.h"
#include "dsl/tile/ir/Text.h"

#include <fmt/format.h>

#include <algorithm>

namespace kiln::tile {

using namespace Halide::Internal;

namespace {

bool repeats_axis(const std::vector<ViewDim> &dims) {
    std::set<std::string> seen;
    return std::any_of(dims.begin(), dims.end(),
                       [&](const ViewDim &d) { return !d.axis.empty() && !seen.insert(d.axis).second; });
}

} // namespace

/// Replaces reads of Funcs and buffers.
class ReadMutator : public IRMutator {
public:
    explicit ReadMutator(Builder &b) : b_(b) {}

private:
    using IRMutator::visit;
    Expr visit(const Variable *op) override {
        // Without its Parameter: a plain value that the launch knows by name.
        return op->param.defined() || op->image.defined() ? Variable::make(op->type, op->name) : Expr(op);
    }
    Expr visit(const Call *op) override {
        if (op->call_type != Call::Halide && op->call_type != Call::Image) {
            return IRMutator::visit(op);
        }
        std::vector<Expr> args;
        for (const Expr &a : op->args) {
            args.push_back(b_.axes_.simplify(mutate(a)));
        }
        return op->call_type == Call::Image ? b_.read_view(op->name, op->type, args)
                                            : b_.read_func(Function(op->func), op->value_index, args);
    }
    Builder &b_;
};

Expr Builder::value(const Expr &e) {
    return ReadMutator(*this).mutate(e);
}

Expr Builder::coordinate(const ViewDim &d) const {
    return d.axis.empty() ? d.base : axes_.simplify(d.base + axes_.var(d.axis));
}

void Builder::put(Stmt s) {
    scopes_.back().out->push_back(std::move(s));
}

std::string Builder::new_tile(const std::string &base, Halide::Type type,
                              const std::vector<std::string> &axes, const std::string &func) {
    axes_.keep_apart(axes);
    return k_.add_tile(base, type, axes, func).name;
}

std::string Builder::map_tile(const std::string &base, const Expr &e, const std::string &func,
                              const std::vector<std::string> &axes) {
    const std::string name = new_tile(base, e.type(), axes, func);
    put({Map{name, e, Expr()}, func});
    return name;
}

std::string Builder::map_tile(const std::string &base, const Expr &e, const std::string &func) {
    return map_tile(base, e, func, axes_.axes_of(e));
}

const Builder::Memo *Builder::recall(const std::string &key, const std::vector<ViewDim> &dims) {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
        auto it = scope->memo.find(key);
        if (it == scope->memo.end()) {
            continue;
        }
        for (const Memo &m : it->second) {
            bool same = m.dims.size() == dims.size();
            for (size_t d = 0; same && d < dims.size(); d++) {
                const ViewDim &a = m.dims[d], &b = dims[d];
                same = equal(a.base, b.base) && a.axis.empty() == b.axis.empty() &&
                       (a.axis.empty() || axes_.can_unify(a.axis, b.axis));
            }
            if (!same) {
                continue;
            }
            for (size_t d = 0; d < dims.size(); d++) {
                if (!dims[d].axis.empty()) {
                    axes_.unify(m.dims[d].axis, dims[d].axis);
                }
            }
            return &m;
        }
    }
    return nullptr;
}

void Builder::remember(const std::string &key, const std::vector<ViewDim> &dims, const std::string &tile) {
    scopes_.back().memo[key].push_back({tile, dims});
}

Expr Builder::read_view(const std::string &name, Halide::Type type, const std::vector<Expr> &args) {
    if (!k_.view(name)) {
        k_.views.push_back({name, type, int(args.size()), false});
    }
    const Expr view = Call::make(type, "view:" + name, args, Call::PureExtern);
    if (!plan_.copies.count(name) || axes_.axes_of(view).empty()) {
        return view;
    }
    const std::string tile = copy_tile(view.as<Call>());
    if (tile.empty()) {
        refuse(
            "K1102",
            fmt::format(
                "`{}` is to be staged in shared memory, and is read at an index that is not a base plus one "
                "coordinate: {}",
                name, print(k_, view)),
            plan_.copies.at(name).span,
            {fmt::format("leave out the copy of `{}`: then the read stays where its value is used", name)});
    }
    return k_.ref(tile);
}

std::string Builder::copy_tile(const Call *view) {
    const std::string name = view->name.substr(5);
    std::vector<ViewDim> dims;
    std::vector<std::string> axes;
    auto plan = plan_.copies.find(name);
    std::vector<ClampedRead> clamped;
    for (const Expr &a : view->args) {
        std::optional<ViewDim> d = axes_.dim_of(a);
        if (!d && plan != plan_.copies.end() && !plan->second.registers) {
            const Unclamped u = unclamped(a, [&](const Expr &e) { return !axes_.axes_of(e).empty(); });
            d = axes_.dim_of(u.index);
            if (d && u.last.defined()) {
                clamped.push_back(
                    {"", name, d->axis, axes_.simplify(u.last + 1 - d->base), plan->second.span});
            }
        }
        if (!d) {
            return "";
        }
        dims.push_back(*d);
        if (!d->axis.empty()) {
            axes.push_back(d->axis);
        }
    }
    if (repeats_axis(dims)) {
        return "";
    }
    axes_.keep_apart(axes);
    const std::string key = "copy " + name;
    auto note = [&](const std::string &tile) {
        for (ClampedRead &c : clamped) {
            c.tile = tile;
            clamped_.push_back(std::move(c));
        }
        return tile;
    };
    if (const Memo *m = recall(key, dims)) {
        return note(m->tile);
    }
    const std::string tile = new_tile(name + "s", view->type, axes, name);
    if (plan != plan_.copies.end() && plan->second.registers) {
        put({Map{tile, Expr(view), Expr()}, name});
    } else {
        put({Copy{tile, {name, dims}}, name});
    }
    remember(key, dims, tile);
    return note(tile);
}

Expr Builder::inlined(const Function &f, int component, const std::vector<Expr> &args) {
    std::map<std::string, Expr> at;
    for (size_t i = 0; i < args.size(); i++) {
        at[f.args()[i]] = args[i];
    }
    return value(substitute(at, substitute_in_all_lets(f.definition().values()[component])));
}

Expr Builder::read_func(Function f, int component, const std::vector<Expr> &args) {
    const std::string name = schedule_name(f);
    for (const Self &self : selfs_) {
        if (self.func != f.name()) {
            continue;
        }
        for (size_t i = 0; i < args.size(); i++) {
            if (!is_const_zero(axes_.simplify(args[i] - self.args[i]))) {
                refuse("K1106", fmt::format("the update of `{}` reads `{}` at another place than it writes: "
                                            "{} where {} is written",
                                            name, name, print(k_, args[i]), print(k_, self.args[i])));
            }
        }
        return self.values[component];
    }
    if (plan_.outside.count(name)) {
        return read_view(f.outputs() == 1 ? name : fmt::format("{}.{}", name, component),
                         f.output_types()[component], args);
    }
    if (f.has_extern_definition()) {
        refuse("K1107",
               fmt::format("`{}` is an extern stage and cannot be computed inside the tile kernel `{}`", name,
                           plan_.kernel),
               {}, {fmt::format("compute it before: `{}.compute_root()`", name)});
    }
    if (!f.has_update_definition() && !plan_.tiles.count(name)) {
        return inlined(f, component, args);
    }
    std::vector<ViewDim> region;
    for (size_t i = 0; i < args.size(); i++) {
        std::optional<ViewDim> d = axes_.dim_of(args[i]);
        if (!d && depends_.on(f, component, int(i))) {
            refuse("K1103",
                   fmt::format("`{}` is a tile, and is read at an index that is not a base plus one "
                               "coordinate: `{}` = {}",
                               name, f.args()[i], print(k_, args[i])),
                   {},
                   {f.has_update_definition()
                        ? fmt::format("compute `{}` before the kernel: `{}.compute_root()`", name, name)
                        : fmt::format("inline `{}`", name)});
        }
        region.push_back(d ? *d : ViewDim{0, ""});
    }
    if (repeats_axis(region)) {
        refuse("K1103", fmt::format("`{}` is a tile, and two of its dimensions run along one axis", name));
    }
    return k_.ref(func_tile(f, component, region));
}

std::string Builder::func_tile(const Function &f, int component, const std::vector<ViewDim> &region) {
    auto key = [&](int c) { return fmt::format("{}#{}", f.name(), c); };
    auto needed = [&](int c) {
        std::vector<ViewDim> dims;
        for (size_t d = 0; d < region.size(); d++) {
            if (depends_.on(f, c, int(d))) {
                dims.push_back(region[d]);
            }
        }
        return dims;
    };
    if (const Memo *m = recall(key(component), needed(component))) {
        return m->tile;
    }
    const std::vector<std::string> tiles = make_tiles(f, region);
    for (int c = 0; c < int(tiles.size()); c++) {
        remember(key(c), needed(c), tiles[c]);
    }
    return tiles[component];
}

} // namespace kiln::tile
