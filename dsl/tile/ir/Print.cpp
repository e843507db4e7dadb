#include "dsl/tile/ir/Names.h"
#include "dsl/tile/ir/Text.h"

#include <fmt/format.h>

#include <algorithm>

namespace kiln::tile {

namespace {

const char *copy_name(CopyKind kind) {
    switch (kind) {
    case CopyKind::Tma:
        return "tma";
    case CopyKind::CpAsync:
        return "cp_async";
    case CopyKind::Plain:
        return "plain";
    }
    return "";
}

const char *mma_name(MmaKind kind) {
    switch (kind) {
    case MmaKind::Wgmma:
        return "wgmma";
    case MmaKind::MmaSync:
        return "mma_sync";
    case MmaKind::Fma:
        return "fma";
    }
    return "";
}

bool is_empty(const RegisterLayout &l) {
    return l.threads.empty() && l.registers.empty();
}

class Printer {
public:
    explicit Printer(const Kernel &k) : k_(k) {
        for (const auto &[name, t] : k.tiles) {
            if (t.space == Space::Shared) {
                add(shared_, t.shared);
            } else if (!is_empty(t.registers)) {
                add(registers_, t.registers);
            }
        }
        walk(k.body, [&](const Stmt &s) {
            if (auto *o = s.as<StageStore>()) {
                add(shared_, o->layout);
            } else if (auto *o = s.as<TmaStore>()) {
                add(shared_, o->layout);
            } else if (auto *o = s.as<Reduce>(); o && !is_empty(o->over)) {
                add(registers_, o->over);
            }
        });
    }

    std::string kernel() {
        line("kernel " + name_text(k_.name) + " {");
        indent_++;
        header();
        plan();
        storage();
        // What no statement defines is declared before the statements.
        std::set<std::string> defined;
        walk(k_.body, [&](const Stmt &s) {
            defined.insert(defines(s));
            if (auto *f = s.as<For>()) {
                for (const Carry &c : f->carry) {
                    defined.insert(c.name);
                }
            }
        });
        for (const auto &[name, t] : k_.tiles) {
            if (!defined.count(name)) {
                line("tile " + declared(name));
            }
        }
        line("body {");
        body(k_.body);
        line("}");
        indent_--;
        line("}");
        return out_;
    }

    std::string statement(const Stmt &s) {
        for (const auto &[name, t] : k_.tiles) {
            declared_.insert(name); // where it was first defined the kernel's text says the rest
        }
        const std::string text = head(s);
        return text.ends_with(" {") ? text.substr(0, text.size() - 2) : text;
    }

private:
    const Kernel &k_;
    std::string out_;
    int indent_ = 0;
    std::vector<RegisterLayout> registers_;
    std::vector<SharedLayout> shared_;
    std::set<std::string> declared_;

    void line(const std::string &s) { out_ += std::string(static_cast<size_t>(2 * indent_), ' ') + s + "\n"; }
    template<typename L>
    static void add(std::vector<L> &all, const L &l) {
        if (std::find(all.begin(), all.end(), l) == all.end()) {
            all.push_back(l);
        }
    }
    template<typename L>
    static size_t index(const std::vector<L> &all, const L &l) {
        return static_cast<size_t>(std::find(all.begin(), all.end(), l) - all.begin());
    }
    template<typename C, typename F>
    static std::string list(const C &items, const F &text) {
        std::string s;
        for (const auto &i : items) {
            s += (s.empty() ? "" : ", ") + text(i);
        }
        return s;
    }
    std::string text(const Expr &e) const { return print(k_, e); }

    void header() {
        if (!k_.axes.empty()) {
            line("axes " + list(k_.axes, [](const auto &a) {
                     return fmt::format("{}:{}", name_text(a.first), a.second);
                 }));
        }
        if (!k_.row_axis.empty()) {
            line("rows " + name_text(k_.row_axis));
        }
        for (const View &v : k_.views) {
            if (!v.is_buffer()) {
                line(fmt::format("{} {}: {} extents {}",
                                 v.memory == View::Memory::Workspace ? "workspace" : "counters",
                                 name_text(v.name), type_name(v.type),
                                 list(v.extents, [&](const Expr &e) { return text(e); })));
                continue;
            }
            line(fmt::format("{} {}: {} rank {}", v.is_output ? "output" : "input", name_text(v.name),
                             type_name(v.type), v.rank));
        }
        for (const GridLoop &g : k_.grid) {
            line(fmt::format("grid {}: {}{}", name_text(g.name), text(g.extent),
                             g.cluster > 1 ? fmt::format(" cluster {}", g.cluster) : ""));
        }
        for (const Expr &c : k_.conditions) {
            line("condition " + text(c));
        }
        for (const std::string &r : k_.remarks) {
            line("remark " + quoted(r));
        }
    }

    void plan() {
        const TilePlan &p = k_.plan;
        line("plan {");
        indent_++;
        auto split = [&](const char *word, const auto &what) {
            for (const auto &[func, vars] : what) {
                for (const auto &[var, size] : vars) {
                    line(fmt::format("{} {} {} {}", word, name_text(func), name_text(var), size));
                }
            }
        };
        auto names = [&](const char *word, const auto &what) {
            if (!what.empty()) {
                line(fmt::format("{} {}", word, list(what, name_text)));
            }
        };
        if (!p.kernel.empty()) {
            line("kernel " + name_text(p.kernel));
        }
        for (const BlockDim &b : p.blocks) {
            line(fmt::format("block {}: {}{}", name_text(b.var), b.size,
                             b.loop.empty() ? "" : " over " + name_text(b.loop)));
        }
        names("grid", p.grid);
        split("split", p.split);
        split("whole", p.whole);
        names("tiles", p.tiles);
        names("outside", p.outside);
        for (const auto &[view, c] : p.copies) {
            line(fmt::format("copy {}: {} swizzle {} stages {}{}{}", name_text(view), copy_name(c.kind),
                             c.swizzle, c.stages, c.registers ? " registers" : "",
                             c.multicast ? " multicast" : ""));
        }
        for (const auto &[func, m] : p.products) {
            line(fmt::format("product {}: {} stage {}{}", name_text(func), mma_name(m.kind), m.stage,
                             m.tf32 ? " tf32" : ""));
        }
        for (const auto &[func, s] : p.splits) {
            line(fmt::format("split_reduce {}: {}", name_text(func), s.parts));
        }
        for (const auto &[func, l] : p.lags) {
            line(fmt::format("lag {}: {}", name_text(func), l.bits));
        }
        if (!p.rows.empty()) {
            line("rows " + name_text(p.rows));
        }
        line(fmt::format("warpgroups {}, {}", p.consumers, p.producers));
        line(fmt::format("registers {}, {}", p.consumer_registers, p.producer_registers));
        if (p.persistent) {
            line(fmt::format("persistent {}", p.persistent));
        }
        for (const auto &[on, word] : {std::pair{p.dynamic, "dynamic"},
                                       {p.ping_pong, "ping_pong"},
                                       {p.turns, "turns"},
                                       {p.launch_ahead, "launch_ahead"},
                                       {p.direct, "direct"}}) {
            if (on) {
                line(word);
            }
        }
        if (p.slow_warp >= 0) {
            line(fmt::format("slow_warp {}", p.slow_warp));
        }
        if (p.cluster_x != 1 || p.cluster_y != 1) {
            line(fmt::format("cluster {}, {}", p.cluster_x, p.cluster_y));
        }
        if (p.spread_blocks > 1) {
            line(fmt::format("spread {}: {}", name_text(p.spread), p.spread_blocks));
        }
        indent_--;
        line("}");
    }

    void storage() {
        auto parts = [](const std::vector<LayoutPart> &all) {
            return list(all, [](const LayoutPart &p) {
                const std::string stride =
                    p.axis.empty() || p.stride == 1 ? "" : fmt::format("*{}", p.stride);
                return fmt::format("{}{}:{}", p.axis.empty() ? "-" : name_text(p.axis), stride, p.extent);
            });
        };
        for (size_t i = 0; i < registers_.size(); i++) {
            line(fmt::format("layout L{} = threads({}) registers({})", i, parts(registers_[i].threads),
                             parts(registers_[i].registers)));
        }
        for (size_t i = 0; i < shared_.size(); i++) {
            const SharedLayout &l = shared_[i];
            line(fmt::format("layout S{} = shared({}:{}, {}:{}) element {} slab {} pitch {} swizzle {}", i,
                             axis(l.inner), l.inner_extent, axis(l.outer), l.outer_extent, l.element_bytes,
                             l.slab, l.pitch, l.swizzle));
        }
        for (const Ring &r : k_.rings) {
            line(fmt::format("ring {}: {} depth {} bytes {} consumers {}{} barriers {}", name_text(r.name),
                             r.tiles.empty() ? "-" : list(r.tiles, name_text), r.depth, r.bytes, r.consumers,
                             r.blocks > 1 ? fmt::format(" blocks {}", r.blocks) : "", r.barriers));
        }
        if (k_.threads) {
            line(fmt::format("threads {}", k_.threads));
        }
        if (k_.shared_bytes) {
            line(fmt::format("shared {}", k_.shared_bytes));
        }
        if (k_.staging_bytes) {
            line(fmt::format("staging {} bytes {}", k_.staging, k_.staging_bytes));
        }
        if (k_.scratch_bytes) {
            line(fmt::format("scratch {} bytes {}", k_.scratch, k_.scratch_bytes));
        }
    }

    static std::string axis(const std::string &a) { return a.empty() ? "-" : name_text(a); }

    /// The name, and where it stands for the first time all that is known of the tile.
    std::string declared(const std::string &name) {
        auto it = k_.tiles.find(name);
        if (it == k_.tiles.end() || !declared_.insert(name).second) {
            return name_text(name);
        }
        const Tile &t = it->second;
        std::string s = fmt::format(
            "{}: {}[{}]", name_text(name), type_name(t.type), list(t.axes, [&](const std::string &a) {
                auto e = k_.axes.find(a);
                return fmt::format("{}:{}", name_text(a), e == k_.axes.end() ? 0 : e->second);
            }));
        if (t.func != name) {
            s += " of " + (t.func.empty() ? "-" : name_text(t.func));
        }
        if (t.space == Space::Shared) {
            s += fmt::format(" @S{} at {}", index(shared_, t.shared), t.offset);
        } else if (!is_empty(t.registers)) {
            s += fmt::format(" @L{}", index(registers_, t.registers));
        }
        if (!t.ring.empty()) {
            s += " ring " + name_text(t.ring);
        }
        if (!t.alias.empty()) {
            s += " in " + name_text(t.alias);
        }
        return s + (t.partial ? " partial" : "");
    }

    /// Behind a statement: its Func, where it is not that of the tile it defines.
    std::string note(const Stmt &s) const {
        auto t = k_.tiles.find(defines(s));
        const std::string usual = t == k_.tiles.end() ? "" : t->second.func;
        return s.func == usual ? "" : s.func.empty() ? "  //" : "  // " + s.func;
    }

    void body(const Body &b) {
        indent_++;
        for (const Stmt &s : b) {
            line(head(s) + note(s));
            if (auto *f = s.as<For>()) {
                body(f->body);
                line("}");
            } else if (auto *r = s.as<Role>()) {
                body(r->body);
                line("}");
            } else if (auto *t = s.as<TileLoop>()) {
                body(t->body);
                line("}");
            } else if (auto *l = s.as<Last>()) {
                body(l->body);
                line("}");
            } else if (auto *i = s.as<If>()) {
                body(i->body);
                if (!i->otherwise.empty()) {
                    line("} else {");
                    body(i->otherwise);
                }
                line("}");
            }
        }
        indent_--;
    }

    std::string head(const Stmt &s) {
        return std::visit([&](const auto &o) { return of(o); }, s.op);
    }
    std::string set(const std::string &dst, const std::string &value) {
        return declared(dst) + " = " + value;
    }

    std::string of(const Copy &o) { return set(o.dst, "copy " + print(k_, o.from)); }
    std::string of(const Store &o) { return fmt::format("store {} = {}", print(k_, o.to), name_text(o.src)); }
    std::string of(const Mma &o) {
        std::string s = fmt::format("mma({}, {}, {}; {}{})", o.start.empty() ? "0" : name_text(o.start),
                                    name_text(o.a), name_text(o.b), name_text(o.axis), below(o.limit));
        return set(o.dst, s + (o.zero_when.defined() ? " zero when " + text(o.zero_when) : ""));
    }
    std::string below(const Expr &limit) const { return limit.defined() ? " below " + text(limit) : ""; }
    std::string of(const Map &o) {
        return set(o.dst, "map " + text(o.value) + (o.unless.defined() ? " unless " + text(o.unless) : "") +
                              (o.seldom ? " seldom" : ""));
    }
    std::string of(const Reduce &o) {
        const std::string over = is_empty(o.over) ? "" : fmt::format(" @L{}", index(registers_, o.over));
        return set(o.dst,
                   fmt::format("reduce {} over {}{}{} of {}", reduce_name(o.op), name_text(o.axis),
                               below(o.limit) + (o.blocks > 1 ? fmt::format(" blocks {}", o.blocks) : ""),
                               over, text(o.value)));
    }
    std::string of(const For &o) {
        std::string carry = list(o.carry, [&](const Carry &c) {
            return fmt::format("{} = {} then {}", declared(c.name), text(c.init), name_text(c.next));
        });
        const std::string untested =
            o.untested_to.defined()
                ? fmt::format(" untested {} .. {}", text(o.untested_from), text(o.untested_to))
                : "";
        return fmt::format("for {} in {} .. {}{}{} {{", name_text(o.var), text(o.lo), text(o.hi), untested,
                           carry.empty() ? "" : " carry " + carry);
    }
    std::string of(const If &o) { return "if " + text(o.condition) + " {"; }
    std::string of(const Last &o) {
        return fmt::format("last of {} at {} {{", text(o.parts), print(k_, o.at));
    }
    std::string of(const Publish &) { return "publish"; }
    std::string of(const Role &o) {
        return fmt::format("role {} warpgroups {} from {} threads {} registers {} {{", name_text(o.name),
                           o.warpgroups, o.first_warpgroup, o.threads, o.registers);
    }
    std::string of(const TileLoop &) { return "for each tile {"; }
    std::string of(const Wait &o) {
        return fmt::format("wait {} {}", o.what == Wait::What::Full ? "full" : "empty", name_text(o.ring));
    }
    std::string of(const Expect &o) {
        return fmt::format("expect {} bytes {}", name_text(o.ring), text(o.bytes));
    }
    std::string of(const Release &o) {
        return "release " + name_text(o.ring) + (o.sync ? " sync" : "") +
               (o.blocks.defined() ? " to " + text(o.blocks) : "");
    }
    std::string of(const Advance &o) { return "advance " + name_text(o.ring); }
    std::string of(const Skip &o) { return "skip " + name_text(o.ring) + " by " + text(o.count); }
    std::string of(const Drain &o) { return "drain " + name_text(o.ring); }
    std::string of(const Load &o) {
        std::string s = fmt::format("load {} {}", copy_name(o.kind), print(k_, o.from));
        if (o.rows.defined()) {
            s += " rows " + text(o.rows);
        }
        if (o.blocks.defined()) {
            s += fmt::format(" part {} of {} to {}", text(o.part), o.parts, text(o.blocks));
        }
        return set(o.dst, s);
    }
    std::string of(const MmaFence &) { return "mma_fence"; }
    std::string of(const MmaCommit &) { return "mma_commit"; }
    std::string of(const MmaWait &o) { return fmt::format("mma_wait {}", o.pending); }
    std::string of(const Fill &o) { return set(o.dst, "fill " + text(o.value)); }
    std::string of(const Move &o) { return set(o.dst, "move " + name_text(o.src)); }
    std::string of(const LaneReduce &o) {
        return set(o.dst, fmt::format("lane_reduce {} {}", reduce_name(o.op), name_text(o.src)));
    }
    std::string of(const Barrier &o) {
        return fmt::format("barrier {} threads {}{}", text(o.id), o.threads, o.arrive_only ? " arrive" : "");
    }
    std::string of(const ClusterBarrier &) { return "cluster_barrier"; }
    std::string of(const ProxyFence &) { return "proxy_fence"; }
    std::string of(const StageStore &o) {
        const std::string src = o.value.defined() ? declared(o.src) : name_text(o.src);
        return fmt::format("stage {} rows {} column {} at {} @S{}{}", src, o.row_block, o.column,
                           text(o.buffer), index(shared_, o.layout),
                           o.value.defined() ? " of " + text(o.value) : "");
    }
    std::string of(const TmaStore &o) {
        return fmt::format("tma_store {} at {} @S{}", print(k_, o.to), text(o.buffer),
                           index(shared_, o.layout));
    }
    std::string of(const StoreCommit &) { return "store_commit"; }
    std::string of(const StoreWait &o) { return fmt::format("store_wait {}", o.pending); }
    std::string of(const GlobalStore &o) {
        return fmt::format("global_store {} = {} vector {}", print(k_, o.to), name_text(o.src), o.vector);
    }
};

} // namespace

std::string print(const Kernel &k) {
    return Printer(k).kernel();
}

std::string print(const Kernel &k, const Stmt &s) {
    return Printer(k).statement(s);
}

} // namespace kiln::tile
