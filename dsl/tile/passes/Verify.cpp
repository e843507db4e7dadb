#include "dsl/tile/passes/Verify.h"

#include "dsl/tile/ir/Text.h"
#include "dsl/tile/passes/VerifyRules.h"

#include <fmt/format.h>

#include <algorithm>

namespace kiln::tile {

void Faults::add(const char *code, std::string message, const Stmt *where, std::vector<std::string> helps) {
    Diagnostic d;
    d.code = code;
    d.message = std::move(message);
    if (where) {
        d.notes.push_back(fmt::format("in `{}`{}", print(k_, *where),
                                      where->func.empty() ? "" : fmt::format(", of `{}`", where->func)));
    }
    d.helps = std::move(helps);
    all.push_back(std::move(d));
}

std::vector<Diagnostic> verify(const Kernel &k, const DeviceLimits &limits) {
    Faults f(k);
    verify_values(k, f);
    if (f.all.empty()) { // the rest takes names and axes for granted
        verify_layouts(k, f);
        verify_machine(k, limits, f);
    }
    return std::move(f.all);
}

namespace {

using Names = std::set<std::string>;

Names as_set(const std::vector<std::string> &v) {
    return {v.begin(), v.end()};
}

std::string list(const Names &names) {
    std::string s;
    for (const std::string &n : names) {
        s += (s.empty() ? "`" : ", `") + n + "`";
    }
    return s.empty() ? "none" : s;
}

class Values {
public:
    Values(const Kernel &k, Faults &f) : k_(k), f_(f) {}

    void run() {
        for (const auto &[name, t] : k_.tiles) {
            for (const std::string &axis : t.axes) {
                if (!k_.axes.count(axis)) {
                    f_.add("K1191",
                           fmt::format("tile `{}` has the axis `{}`, which the kernel lacks", name, axis));
                }
            }
            if (as_set(t.axes).size() != t.axes.size()) {
                f_.add("K1191", fmt::format("tile `{}` has one axis twice", name));
            }
        }
        walk(k_.body, [&](const Stmt &s) { names(s); });
        if (!f_.all.empty()) {
            return;
        }
        walk(k_.body, [&](const Stmt &s) { axes(s); });
        if (is_early(k_)) {
            order(k_.body, {});
        } else {
            roles();
        }
        outputs();
    }

private:
    const Kernel &k_;
    Faults &f_;

    /// Every tile and view that a statement names exists.
    void names(const Stmt &s) {
        auto tile = [&](const std::string &name) {
            if (!name.empty() && !k_.tiles.count(name)) {
                f_.add("K1190", fmt::format("no tile `{}`", name), &s);
            }
        };
        auto region = [&](const Region &r) {
            const View *v = k_.view(r.view);
            if (!v) {
                f_.add("K1191", fmt::format("no view `{}`", r.view), &s);
            } else if (static_cast<size_t>(v->rank) != r.dims.size()) {
                f_.add("K1191",
                       fmt::format("`{}` has {} dimensions, the region names {}", r.view, v->rank,
                                   r.dims.size()),
                       &s);
            }
            Names seen;
            for (const ViewDim &d : r.dims) {
                if (!d.axis.empty() && !seen.insert(d.axis).second) {
                    f_.add("K1191",
                           fmt::format("the axis `{}` runs along two dimensions of `{}`", d.axis, r.view),
                           &s);
                }
                if (!d.axis.empty() && !k_.axes.count(d.axis)) {
                    f_.add("K1191", fmt::format("no axis `{}`", d.axis), &s);
                }
                if (!k_.axes_of(d.base).empty() || !k_.tiles_of(d.base).empty()) {
                    f_.add("K1191",
                           fmt::format("the base of a dimension of `{}` is not the same for the whole block",
                                       r.view),
                           &s);
                }
            }
        };
        tile(defines(s));
        for (const std::string &name : reads_names(s)) {
            tile(name);
        }
        std::visit(
            [&](const auto &o) {
                using T = std::decay_t<decltype(o)>;
                if constexpr (std::is_same_v<T, Copy> || std::is_same_v<T, Load>) {
                    region(o.from);
                } else if constexpr (std::is_same_v<T, Store> || std::is_same_v<T, TmaStore> ||
                                     std::is_same_v<T, GlobalStore>) {
                    region(o.to);
                } else if constexpr (std::is_same_v<T, Last>) {
                    region(o.at);
                }
            },
            s.op);
    }

    static std::vector<std::string> reads_names(const Stmt &s) {
        if (auto *o = s.as<Store>()) {
            return {o->src};
        } else if (auto *o = s.as<Mma>()) {
            return {o->start, o->a, o->b};
        } else if (auto *o = s.as<Move>()) {
            return {o->src};
        } else if (auto *o = s.as<LaneReduce>()) {
            return {o->src};
        } else if (auto *o = s.as<StageStore>()) {
            return {o->src}; // in no registers where it has a value, but a tile all the same
        } else if (auto *o = s.as<GlobalStore>()) {
            return {o->src};
        } else if (auto *o = s.as<For>()) {
            std::vector<std::string> all;
            for (const Carry &c : o->carry) {
                all.push_back(c.name);
                all.push_back(c.next);
            }
            return all;
        }
        return {};
    }

    void same_axes(const Names &has, const Names &wants, const std::string &what, const Stmt &s) {
        if (has != wants) {
            f_.add("K1191", fmt::format("{}: axes {} against {}", what, list(has), list(wants)), &s);
        }
    }

    static Names axes_in(const Region &r) {
        Names n;
        for (const ViewDim &d : r.dims) {
            if (!d.axis.empty()) {
                n.insert(d.axis);
            }
        }
        return n;
    }

    void within(const Expr &e, Names has, const std::string &dst, const Stmt &s) {
        for (const std::string &axis : k_.axes_of(e)) {
            if (!has.count(axis)) {
                f_.add("K1191",
                       fmt::format("the value of `{}` depends on the axis `{}`, which it lacks", dst, axis),
                       &s);
            }
        }
    }

    void axes(const Stmt &s) {
        auto of = [&](const std::string &t) { return as_set(k_.tile(t).axes); };
        if (auto *o = s.as<Copy>()) {
            same_axes(axes_in(o->from), of(o->dst),
                      fmt::format("`{}` and the region it is copied from", o->dst), s);
        } else if (auto *o = s.as<Load>()) {
            same_axes(axes_in(o->from), of(o->dst),
                      fmt::format("`{}` and the region it is loaded from", o->dst), s);
        } else if (auto *o = s.as<Store>()) {
            same_axes(axes_in(o->to), of(o->src), fmt::format("`{}` and the region it is stored to", o->src),
                      s);
        } else if (auto *o = s.as<GlobalStore>()) {
            same_axes(axes_in(o->to), of(o->src), fmt::format("`{}` and the region it is stored to", o->src),
                      s);
        } else if (auto *o = s.as<Map>()) {
            within(o->value, of(o->dst), o->dst, s);
        } else if (auto *o = s.as<Fill>()) {
            within(o->value, of(o->dst), o->dst, s);
        } else if (auto *o = s.as<Reduce>()) {
            Names has = of(o->dst);
            if (!k_.axes.count(o->axis) || has.count(o->axis)) {
                f_.add("K1191",
                       fmt::format("`{}` is reduced over `{}`, {}", o->dst, o->axis,
                                   has.count(o->axis) ? "which it still has" : "which is no axis"),
                       &s);
            }
            has.insert(o->axis);
            within(o->value, has, o->dst, s);
        } else if (auto *o = s.as<Mma>()) {
            Names a = of(o->a), b = of(o->b);
            if (!a.erase(o->axis) || !b.erase(o->axis)) {
                f_.add("K1191",
                       fmt::format("an operand of the product lacks the axis `{}` that is summed", o->axis),
                       &s);
            }
            a.insert(b.begin(), b.end());
            same_axes(of(o->dst), a, fmt::format("the product `{}` and its operands", o->dst), s);
            if (!o->start.empty()) {
                same_axes(of(o->start), of(o->dst), fmt::format("the start `{}` and the product", o->start),
                          s);
            }
        } else if (auto *o = s.as<For>()) {
            for (const Carry &c : o->carry) {
                same_axes(of(c.next), of(c.name),
                          fmt::format("`{}` and the next value of `{}`", c.next, c.name), s);
                within(c.init, of(c.name), c.name, s);
                if (k_.tile(c.next).type != k_.tile(c.name).type) {
                    f_.add("K1191",
                           fmt::format("`{}` is {} and the next value of `{}`, which is {}", c.next,
                                       type_name(k_.tile(c.next).type), c.name,
                                       type_name(k_.tile(c.name).type)),
                           &s);
                }
            }
        } else if (auto *o = s.as<Move>()) {
            same_axes(of(o->src), of(o->dst), fmt::format("`{}` and `{}`", o->dst, o->src), s);
        }
        const StageStore *stage = s.as<StageStore>();
        if (stage && stage->value.defined()) {
            within(stage->value, of(stage->src), stage->src, s);
        }
        const Expr *value = s.as<Map>()                       ? &s.as<Map>()->value
                            : s.as<Reduce>()                  ? &s.as<Reduce>()->value
                            : stage && stage->value.defined() ? &stage->value
                                                              : nullptr;
        const std::string dst = stage ? stage->src : defines(s);
        if (value && value->type() != k_.tile(dst).type) {
            f_.add("K1191",
                   fmt::format("`{}` is {}, its value {}", dst, type_name(k_.tile(dst).type),
                               type_name(value->type())),
                   &s);
        }
    }

    /// Static single assignment: what is read was defined above, here or in a body around.
    Names order(const Body &body, Names known) {
        Names own;
        auto need = [&](const Names &tiles, const Stmt &s) {
            for (const std::string &t : tiles) {
                if (!known.count(t)) {
                    f_.add("K1190", fmt::format("`{}` is read before it is defined", t), &s);
                }
            }
        };
        auto define = [&](const std::string &t, const Stmt &s) {
            if (!own.insert(t).second || known.count(t)) {
                f_.add("K1190", fmt::format("`{}` is defined twice", t), &s);
            }
            known.insert(t);
        };
        for (const Stmt &s : body) {
            if (const For *o = s.as<For>()) {
                Names first = k_.tiles_of(o->lo), inside = known;
                for (const Carry &c : o->carry) {
                    const Names t = k_.tiles_of(c.init);
                    first.insert(t.begin(), t.end());
                    if (!inside.insert(c.name).second) {
                        f_.add("K1190", fmt::format("`{}` is defined twice", c.name), &s);
                    }
                }
                need(first, s);
                const Names end = order(o->body, inside);
                for (const Carry &c : o->carry) {
                    if (!end.count(c.next)) {
                        f_.add("K1190",
                               fmt::format("`{}`, the next value of `{}`, is not defined in the loop", c.next,
                                           c.name),
                               &s);
                    }
                    define(c.name, s);
                }
            } else if (const If *o = s.as<If>()) {
                need(k_.tiles_of(o->condition), s);
                order(o->body, known);
                order(o->otherwise, known);
            } else if (const Last *o = s.as<Last>()) {
                order(o->body, known);
            } else {
                need(reads(k_, s), s);
                if (const std::string t = defines(s); !t.empty()) {
                    define(t, s);
                }
            }
        }
        return known;
    }

    /// What a role reads some statement of it defines, or a load of any role fills.
    void roles() {
        Names loaded;
        walk(k_.body, [&](const Stmt &s) {
            if (auto *l = s.as<Load>()) {
                loaded.insert(l->dst);
            }
        });
        for (const Stmt &top : k_.body) {
            Names defined = loaded;
            const Body one{top};
            walk(one, [&](const Stmt &s) {
                if (const std::string t = defines(s); !t.empty()) {
                    defined.insert(t);
                    defined.insert(k_.root(t)); // a carried tile whose next value lies in its registers
                }
            });
            walk(one, [&](const Stmt &s) {
                if (s.as<For>() || s.as<If>() || s.as<Last>() || s.as<Role>() || s.as<TileLoop>()) {
                    return;
                }
                for (const std::string &t : reads(k_, s)) {
                    if (!defined.count(t) && !defined.count(k_.root(t))) {
                        f_.add("K1190", fmt::format("`{}` is read, and nothing in its role defines it", t),
                               &s);
                    }
                }
            });
        }
    }

    void outputs() {
        std::map<std::string, int> stored;
        walk(k_.body, [&](const Stmt &s) {
            if (const Last *l = s.as<Last>(); l && k_.view(l->at.view)->memory != View::Memory::Counters) {
                f_.add("K1198", fmt::format("`{}` counts no parts: it is no list of counters", l->at.view),
                       &s);
            }
            const Region *r = s.as<Store>()         ? &s.as<Store>()->to
                              : s.as<TmaStore>()    ? &s.as<TmaStore>()->to
                              : s.as<GlobalStore>() ? &s.as<GlobalStore>()->to
                                                    : nullptr;
            if (!r) {
                return;
            }
            stored[r->view]++;
            if (k_.view(r->view)->memory == View::Memory::Workspace) {
                return;
            }
            if (!k_.view(r->view)->is_output) {
                f_.add("K1198", fmt::format("the input `{}` is stored to", r->view), &s);
            } else if (is_early(k_) && stored[r->view] == 2) {
                f_.add("K1198", fmt::format("the output `{}` is stored twice", r->view), &s);
            }
        });
        for (const View &v : k_.views) {
            if (v.is_output && !stored.count(v.name)) {
                f_.add("K1198", fmt::format("the output `{}` is not stored", v.name));
            }
        }
    }
};

} // namespace

void verify_values(const Kernel &k, Faults &f) {
    Values(k, f).run();
}

} // namespace kiln::tile
