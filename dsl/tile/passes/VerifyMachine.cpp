// What the device has: rings and their bytes, copies by TMA, shared memory, registers, threads and roles.
#include "dsl/tile/ir/Text.h"
#include "dsl/tile/passes/VerifyRules.h"

#include <fmt/format.h>

#include <algorithm>

namespace kiln::tile {

namespace {

class MachineRules {
public:
    MachineRules(const Kernel &k, const DeviceLimits &limits, Faults &f) : k_(k), limits_(limits), f_(f) {}

    void run() {
        rings();
        bytes(k_.body);
        clusters();
        reductions();
        walk(k_.body, [&](const Stmt &s) { copies(s); });
        if (k_.shared_bytes > 0) {
            shared_memory();
        }
        threads();
        roles();
    }

private:
    const Kernel &k_;
    const DeviceLimits &limits_;
    Faults &f_;

    void rings() {
        for (const auto &[name, t] : k_.tiles) {
            const Ring *r = t.ring.empty() ? nullptr : k_.ring(t.ring);
            if (!t.ring.empty() && (!r || std::count(r->tiles.begin(), r->tiles.end(), name) != 1)) {
                f_.add("K1193", fmt::format("`{}` names the ring `{}`, which {}", name, t.ring,
                                            r ? "does not list it once" : "there is not"));
            }
            if (!t.ring.empty() && t.space != Space::Shared) {
                f_.add("K1193", fmt::format("`{}` is in a ring and not in shared memory", name));
            }
        }
        for (const Ring &r : k_.rings) {
            int bytes = 0;
            for (const std::string &t : r.tiles) {
                auto tile = k_.tiles.find(t);
                bytes += tile == k_.tiles.end() ? 0 : tile->second.shared.bytes();
                if (tile == k_.tiles.end() || tile->second.ring != r.name) {
                    f_.add("K1193", fmt::format("ring `{}` lists `{}`, which is not in it", r.name, t));
                }
            }
            if (bytes != r.bytes) {
                f_.add("K1193", fmt::format("a slot of ring `{}` counts {} bytes, its tiles have {}", r.name,
                                            r.bytes, bytes));
            }
            if (r.depth < 1 || r.consumers < 1) {
                f_.add("K1193",
                       fmt::format("ring `{}` has {} slots and {} readers", r.name, r.depth, r.consumers));
            }
        }
        walk(k_.body, [&](const Stmt &s) {
            const std::string name = s.as<Wait>()      ? s.as<Wait>()->ring
                                     : s.as<Expect>()  ? s.as<Expect>()->ring
                                     : s.as<Release>() ? s.as<Release>()->ring
                                     : s.as<Advance>() ? s.as<Advance>()->ring
                                     : s.as<Skip>()    ? s.as<Skip>()->ring
                                     : s.as<Drain>()   ? s.as<Drain>()->ring
                                                       : "";
            const Ring *r = k_.ring(name);
            if (!name.empty() && !r) {
                f_.add("K1193", fmt::format("no ring `{}`", name), &s);
            }
        });
    }

    /// What is expected in a slot against what the loads behind it bring.
    void bytes(const Body &b) {
        for (size_t i = 0; i < b.size(); i++) {
            const Expect *e = b[i].as<Expect>();
            if (!e || !k_.ring(e->ring)) {
                continue;
            }
            Expr come = 0;
            for (size_t j = i + 1; j < b.size() && !b[j].as<Expect>(); j++) {
                const Load *l = b[j].as<Load>();
                if (l && k_.tile(l->dst).ring == e->ring) {
                    const SharedLayout &layout = k_.tile(l->dst).shared;
                    come += l->rows.defined() ? l->rows * (layout.bytes() / layout.outer_extent)
                                              : Expr(layout.bytes());
                }
            }
            come = Halide::Internal::simplify(come);
            if (!Halide::Internal::is_const_zero(Halide::Internal::simplify(e->bytes - come))) {
                f_.add("K1193",
                       fmt::format("{} bytes are expected in a slot of `{}`, {} arrive", print(k_, e->bytes),
                                   e->ring, print(k_, come)),
                       &b[i]);
            }
        }
        for (const Stmt &s : b) {
            if (auto *f = s.as<For>()) {
                bytes(f->body);
            } else if (auto *t = s.as<TileLoop>()) {
                bytes(t->body);
            } else if (auto *r = s.as<Role>()) {
                bytes(r->body);
            } else if (auto *i = s.as<If>()) {
                bytes(i->body);
                bytes(i->otherwise);
            }
        }
    }

    /// Bits of the blocks for each block of the cluster; none where they are no constants.
    std::vector<int64_t> bits(const Expr &blocks) const {
        std::vector<int64_t> all;
        for (int rank = 0; rank < k_.cluster_blocks(); rank++) {
            const Expr e = Halide::Internal::simplify(replace_variable(blocks, "cluster.rank", rank));
            auto value = Halide::Internal::as_const_int(e);
            if (!value) {
                return {};
            }
            all.push_back(*value);
        }
        return all;
    }

    /// Blocks that fill slots for each other: each part of a slot comes once, and everybody tells those who wait for it.
    /// What is reduced along an axis that blocks share must be reduced over all of them, and nothing else.
    void reductions() {
        std::set<std::string> shared; // stores tell: there each block has its own part
        const int n = k_.plan.spread_blocks;
        walk(k_.body, [&](const Stmt &s) {
            const Store *store = s.as<Store>();
            const GlobalStore *direct = s.as<GlobalStore>();
            if (n > 1 && (store || direct)) {
                for (const ViewDim &d : (store ? store->to : direct->to).dims) {
                    if (!d.axis.empty() && Halide::Internal::expr_uses_var(d.base, "cluster.rank")) {
                        shared.insert(d.axis);
                    }
                }
            }
        });
        walk(k_.body, [&](const Stmt &s) {
            const Reduce *r = s.as<Reduce>();
            if (r && r->blocks != (shared.count(r->axis) ? n : 1)) {
                f_.add("K1155",
                       fmt::format("a reduction over {} blocks along `{}`, of which {} have a part each",
                                   r->blocks, r->axis, shared.count(r->axis) ? n : 1),
                       &s);
            } else if (r && r->blocks > 1 && k_.tile(r->dst).partial) {
                f_.add("K1155",
                       fmt::format("`{}` is left spread over threads, and is to meet over blocks", r->dst),
                       &s);
            }
        });
    }

    void clusters() {
        const int n = k_.cluster_blocks();
        if (limits_.cluster_blocks > 0 && n > limits_.cluster_blocks) {
            f_.add("K1193",
                   fmt::format("clusters of {} blocks, the device takes {}", n, limits_.cluster_blocks));
            return;
        }
        std::map<std::string, std::vector<int64_t>> served; // ring -> block -> those that it loads into
        walk(k_.body, [&](const Stmt &s) {
            const Load *l = s.as<Load>();
            if (!l || !k_.ring(k_.tile(l->dst).ring)) {
                return;
            }
            std::vector<int64_t> &of = served[k_.tile(l->dst).ring];
            of.resize(static_cast<size_t>(n));
            const std::vector<int64_t> to = l->blocks.defined() ? bits(l->blocks) : std::vector<int64_t>();
            if (!l->blocks.defined()) {
                for (int b = 0; b < n; b++) {
                    of[static_cast<size_t>(b)] |= int64_t(1) << b;
                }
                return;
            }
            const std::vector<int64_t> part = bits(l->part);
            const SharedLayout &layout = k_.tile(l->dst).shared;
            bool good = to.size() == static_cast<size_t>(n) && part.size() == to.size() &&
                        l->kind == CopyKind::Tma && l->parts > 0 && layout.outer_extent % l->parts == 0;
            for (int b = 0; good && b < n; b++) { // parts that reach block b
                int64_t parts = 0;
                for (int from = 0; from < n; from++) {
                    const size_t f = static_cast<size_t>(from);
                    if (to[f] >> b & 1) {
                        good &= part[f] >= 0 && part[f] < l->parts && !(parts >> part[f] & 1);
                        parts |= int64_t(1) << part[f];
                    }
                    good &= to[f] >> n == 0;
                }
                good &= parts == (int64_t(1) << l->parts) - 1;
            }
            if (!good) {
                f_.add("K1193",
                       fmt::format("not each of the {} parts of `{}` comes once to each block of the cluster",
                                   l->parts, l->dst),
                       &s);
            }
            for (int b = 0; good && b < n; b++) {
                of[static_cast<size_t>(b)] |= to[static_cast<size_t>(b)];
            }
        });
        if (!f_.all.empty()) {
            return;
        }
        walk(k_.body, [&](const Stmt &s) {
            const Release *r = s.as<Release>();
            if (!r || !served.count(r->ring)) {
                return;
            }
            std::vector<int64_t> told = r->blocks.defined() ? bits(r->blocks) : std::vector<int64_t>();
            for (int b = 0; !r->blocks.defined() && b < n; b++) {
                told.push_back(int64_t(1) << b);
            }
            if (told != served[r->ring] ||
                __builtin_popcountll(static_cast<unsigned long long>(told[0])) != k_.ring(r->ring)->blocks) {
                f_.add(
                    "K1193",
                    fmt::format("a slot of `{}` is given back to other blocks of the cluster than fill it, "
                                "or its barrier counts another number of them ({})",
                                r->ring, k_.ring(r->ring)->blocks),
                    &s);
            }
        });
        std::set<std::string> drained;
        walk(k_.body, [&](const Stmt &s) {
            if (auto *d = s.as<Drain>()) {
                drained.insert(d->ring);
            }
        });
        for (const Ring &r : k_.rings) {
            if (r.blocks > 1 && served.count(r.name) && !drained.count(r.name)) {
                f_.add("K1193",
                       fmt::format("blocks of a cluster fill `{}` for each other, and nobody drains it "
                                   "before its block ends",
                                   r.name));
            }
        }
    }

    /// cuTensorMapEncodeTiled (CUDA driver API): box and swizzle.
    void box(const Region &r, const SharedLayout &l, const Stmt &s) {
        if (r.dims.empty() || r.dims[0].axis != l.inner) {
            f_.add(
                "K1194",
                fmt::format(
                    "TMA needs the contiguous dimension of `{}` innermost in shared memory, there lies `{}`",
                    r.view, l.inner),
                &s);
        }
        if (l.outer_extent > 256 || l.slab > 256) {
            f_.add("K1194",
                   fmt::format("a box of {} by {} elements: TMA moves at most 256 along each dimension",
                               l.slab, l.outer_extent),
                   &s);
        }
        const int bytes = l.slab * l.element_bytes;
        if (bytes % 16 != 0) {
            f_.add("K1194", fmt::format("rows of {} bytes: TMA takes multiples of 16", bytes), &s);
        }
        if (l.swizzle != 0 && l.swizzle != 32 && l.swizzle != 64 && l.swizzle != 128) {
            f_.add("K1194", fmt::format("a swizzle of {} bytes: there are 32, 64 and 128", l.swizzle), &s);
        }
        if (l.swizzle != 0 && bytes > l.swizzle) {
            f_.add("K1194",
                   fmt::format("rows of {} bytes in a swizzle of {}: they must lie within its span", bytes,
                               l.swizzle),
                   &s);
        }
        if (l.pitch != bytes) {
            f_.add("K1194",
                   fmt::format("rows of {} bytes at a distance of {}: TMA leaves no gaps", bytes, l.pitch),
                   &s);
        }
        if (l.inner_extent % l.slab != 0) {
            f_.add("K1194", fmt::format("{} elements in boxes of {}", l.inner_extent, l.slab), &s);
        }
    }

    void aligned(int64_t at, const SharedLayout &l, const std::string &what, const Stmt &s) {
        // The pattern of a swizzle repeats after eight of its rows; plain boxes start at 128 bytes.
        const int64_t need = l.swizzle ? 8 * l.swizzle : 128;
        if (at % need != 0) {
            f_.add("K1194",
                   fmt::format("{} lies at byte {}: with a swizzle of {} it must be a multiple of {}", what,
                               at, l.swizzle, need),
                   &s);
        }
    }

    void copies(const Stmt &s) {
        if (auto *l = s.as<Load>()) {
            const Tile &t = k_.tile(l->dst);
            if (t.space != Space::Shared || t.ring.empty()) {
                f_.add("K1193", fmt::format("`{}` is loaded and is in no ring", l->dst), &s);
            } else if (l->kind == CopyKind::Tma) {
                box(l->from, t.shared, s);
                aligned(t.offset, t.shared, fmt::format("`{}`", l->dst), s);
                if (k_.ring(t.ring)->depth > 1) {
                    aligned(t.offset + t.shared.bytes(), t.shared,
                            fmt::format("the second slot of `{}`", l->dst), s);
                }
            }
        } else if (auto *o = s.as<TmaStore>()) {
            box(o->to, o->layout, s);
        }
    }

    void shared_memory() {
        struct Part {
            std::string name;
            int from, to;
        };
        std::vector<Part> parts;
        for (const auto &[name, t] : k_.tiles) {
            if (t.space == Space::Shared) {
                const Ring *r = k_.ring(t.ring);
                parts.push_back(
                    {fmt::format("`{}`", name), t.offset, t.offset + t.shared.bytes() * (r ? r->depth : 1)});
            }
        }
        for (const Ring &r : k_.rings) {
            parts.push_back(
                {fmt::format("the barriers of `{}`", r.name), r.barriers, r.barriers + 16 * r.depth});
            if (r.barriers % 8 != 0) {
                f_.add("K1195", fmt::format("the barriers of `{}` lie at byte {}: they need a multiple of 8",
                                            r.name, r.barriers));
            }
        }
        parts.push_back(
            {"the staging of stores", k_.staging, k_.staging + k_.staging_bytes * k_.plan.consumers});
        parts.push_back({"the scratch of reductions", k_.scratch, k_.scratch + k_.scratch_bytes});
        std::erase_if(parts, [](const Part &p) { return p.from == p.to; });
        std::sort(parts.begin(), parts.end(), [](const Part &a, const Part &b) { return a.from < b.from; });
        for (size_t i = 0; i + 1 < parts.size(); i++) {
            if (parts[i].to > parts[i + 1].from) {
                f_.add("K1195",
                       fmt::format("{} ends at byte {} of shared memory, {} begins at {}", parts[i].name,
                                   parts[i].to, parts[i + 1].name, parts[i + 1].from));
            }
        }
        for (const Part &p : parts) {
            if (p.to > k_.shared_bytes || p.from < 0) {
                f_.add("K1195",
                       fmt::format("{} lies at bytes {} to {} of shared memory, the kernel asks for {}",
                                   p.name, p.from, p.to, k_.shared_bytes));
            }
        }
        if (limits_.shared_bytes > 0 && k_.shared_bytes > limits_.shared_bytes) {
            f_.add("K1195",
                   fmt::format("{} bytes of shared memory, the device has {}", k_.shared_bytes,
                               limits_.shared_bytes),
                   nullptr, {"take fewer `stages` or a smaller tile"});
        }
    }

    /// 32-bit registers that a tile takes of each thread.
    int registers_of(const std::string &tile) const {
        const Tile &t = k_.tile(tile);
        return t.space == Space::Register
                   ? (t.registers.register_count() * std::max(16, t.type.bits()) + 31) / 32
                   : 0;
    }

    /// The most that tiles hold at once: each from its first to its last mention, through all of a loop that it enters
    /// from outside.
    int live_registers(const Body &body) const {
        std::vector<std::pair<std::string, int>> mentions;
        std::map<int, int> boxes; // registers of a box that is computed as it is staged
        std::vector<std::pair<int, int>> loops;
        int clock = 0;
        std::function<void(const Body &)> go = [&](const Body &b) {
            for (const Stmt &s : b) {
                clock++;
                const bool loop = s.as<For>() || s.as<TileLoop>();
                auto mention = [&](const std::string &t) {
                    if (!t.empty() && k_.tile(t).space == Space::Register) {
                        mentions.push_back({k_.root(t), clock});
                    }
                };
                if (!loop && !s.as<If>() && !s.as<Last>() && !s.as<Role>()) {
                    for (const std::string &t : reads(k_, s)) {
                        mention(t);
                    }
                }
                mention(defines(s));
                if (auto *o = s.as<StageStore>(); o && o->value.defined()) {
                    const int bits = k_.tile(o->src).type.bits();
                    boxes[clock] = o->layout.inner_extent * o->layout.outer_extent * bits / 32 / 128;
                }
                const int from = clock;
                if (auto *o = s.as<For>()) {
                    go(o->body);
                } else if (auto *o = s.as<TileLoop>()) {
                    go(o->body);
                } else if (auto *o = s.as<If>()) {
                    go(o->body);
                    go(o->otherwise);
                } else if (auto *o = s.as<Last>()) {
                    go(o->body);
                }
                if (s.as<For>()) {
                    loops.push_back({from, clock});
                }
            }
        };
        go(body);
        std::map<std::string, std::pair<int, int>> life;
        for (const auto &[t, at] : mentions) {
            auto [l, fresh] = life.emplace(t, std::pair{at, at});
            l->second.second = at;
        }
        for (auto &[t, l] : life) {
            for (const auto &[from, to] : loops) { // inner loops come first
                if (l.first <= to && l.second > from && (l.first < from || l.second > to)) {
                    l = {std::min(l.first, from), std::max(l.second, to)};
                }
            }
        }
        int most = 0;
        for (int at = 0; at <= clock; at++) {
            int sum = boxes.count(at) ? boxes[at] : 0;
            for (const auto &[t, l] : life) {
                sum += l.first <= at && at <= l.second ? registers_of(t) : 0;
            }
            most = std::max(most, sum);
        }
        return most;
    }

    /// What is stored may yet be computed box by box: until lower_stores nobody knows how many registers it takes.
    static bool has_stores(const Stmt &role) {
        bool found = false;
        walk(Body{role}, [&](const Stmt &s) { found |= s.as<Store>() != nullptr; });
        return found;
    }

    void threads() {
        if (k_.threads % 128 != 0 || (limits_.threads > 0 && k_.threads > limits_.threads)) {
            f_.add("K1196", fmt::format("{} threads: whole warpgroups of 128, at most {}", k_.threads,
                                        limits_.threads));
        }
        if (k_.threads == 0) {
            return;
        }
        const int even = static_cast<int>(
            std::min<int64_t>(255, std::max<int64_t>(1, limits_.registers_unit) / k_.threads));
        for (const Stmt &s : k_.body) {
            const Role *r = s.as<Role>();
            if (!r || limits_.registers_unit == 0 || has_stores(s)) {
                continue;
            }
            const int has = std::min(255, r->registers ? r->registers : even), live = live_registers(r->body);
            if (live > has) {
                f_.add(
                    "K1196",
                    fmt::format("the tiles of role `{}` take {} registers of each thread at once, it has {}",
                                r->name, live, has),
                    nullptr, {"take a smaller tile, or more warpgroups for it"});
            }
        }
    }

    void roles() {
        std::map<int, std::string> taken;
        int registers = 0;
        bool any = false, all = true;
        std::map<std::string, std::set<std::string>> fills, empties;
        for (const Stmt &s : k_.body) {
            const Role *r = s.as<Role>();
            if (!r) {
                continue;
            }
            any = true;
            for (int wg = r->first_warpgroup; wg < r->first_warpgroup + r->warpgroups; wg++) {
                if (128 * (wg + 1) > k_.threads) {
                    f_.add("K1197", fmt::format("role `{}` takes warpgroup {}, the block has {}", r->name, wg,
                                                k_.threads / 128));
                }
                if (!taken.emplace(wg, r->name).second) {
                    f_.add("K1197",
                           fmt::format("warpgroup {} has two roles, `{}` and `{}`", wg, taken[wg], r->name));
                }
            }
            // PTX ISA, "setmaxnreg".
            if (r->registers && (r->registers % 8 != 0 || r->registers < 24 || r->registers > 256)) {
                f_.add("K1197", fmt::format("role `{}` asks for {} registers: a multiple of 8 from 24 to 256",
                                            r->name, r->registers));
            }
            all &= r->registers != 0;
            registers += r->registers * 128 * r->warpgroups;
            std::map<std::string, int> released;
            const Body one{s};
            walk(one, [&](const Stmt &inner) {
                if (auto *l = inner.as<Load>()) {
                    fills[k_.tile(l->dst).ring].insert(r->name);
                } else if (auto *rel = inner.as<Release>()) {
                    if (empties[rel->ring].insert(r->name).second && k_.ring(rel->ring) &&
                        !k_.plan.ping_pong && k_.ring(rel->ring)->consumers != r->warpgroups) {
                        f_.add(
                            "K1197",
                            fmt::format("{} warpgroups of role `{}` give back slots of `{}`, which counts {}",
                                        r->warpgroups, r->name, rel->ring, k_.ring(rel->ring)->consumers));
                    }
                }
            });
        }
        if (!any) {
            return;
        }
        if (all && limits_.registers_unit > 0 && registers > limits_.registers_unit) {
            f_.add("K1197",
                   fmt::format("the roles ask for {} registers, a multiprocessor has {}", registers,
                               limits_.registers_unit),
                   nullptr, {"state fewer in registers(…)"});
        }
        std::set<std::string> used;
        walk(k_.body, [&](const Stmt &s) {
            if (auto *w = s.as<Wait>()) {
                used.insert(w->ring);
            }
        });
        for (const Ring &r : k_.rings) {
            if (!used.count(r.name) && fills[r.name].empty()) {
                continue; // all threads copy, between barriers
            }
            for (const auto &[what, who] :
                 {std::pair{"fills", fills[r.name]}, {"empties", empties[r.name]}}) {
                if (who.size() != 1) {
                    f_.add("K1197", fmt::format("{} role {} ring `{}`", who.empty() ? "no" : "more than one",
                                                what, r.name));
                }
            }
        }
    }
};

} // namespace

void verify_machine(const Kernel &k, const DeviceLimits &limits, Faults &f) {
    MachineRules(k, limits, f).run();
}

} // namespace kiln::tile
