// From a loop over tiles to roles that work at once: the producer fills rings, the consumers wait for a slot, issue
// products in groups, and give a slot back when the last product that reads it has ended.
#include "dsl/tile/passes/Passes.h"

#include <fmt/format.h>

#include <algorithm>

namespace kiln::tile {

namespace {

using namespace Halide::Internal;

/// Named barriers 1 … are the stores'; those from 8 on say whose turn it is to issue products.
constexpr int first_turn_barrier = 8;
constexpr int turn_threads = 256; // who passes and who waits

bool is_zero(const Expr &e) {
    return e.defined() && is_const_zero(e);
}

/// The producer's side of a body: the same loops, with loads in place of everything else.
Body produce(const Kernel &k, const Body &body) {
    Body out;
    std::set<std::string> filled;
    for (const Stmt &s : body) {
        if (const For *f = s.as<For>()) {
            Body inner = produce(k, f->body);
            if (!inner.empty()) {
                out.push_back({For{f->var, f->lo, f->hi, {}, std::move(inner)}, s.func});
            }
            continue;
        }
        const Copy *first = s.as<Copy>();
        if (!first || !filled.insert(k.tile(first->dst).ring).second) {
            continue;
        }
        const std::string ring = k.tile(first->dst).ring;
        out.push_back({Wait{Wait::What::Empty, ring}, s.func});
        out.push_back({Expect{ring, k.ring(ring)->bytes}, s.func});
        for (const Stmt &other : body) {
            const Copy *c = other.as<Copy>();
            if (c && k.tile(c->dst).ring == ring) {
                auto plan = k.plan.copies.find(c->from.view);
                out.push_back(
                    {Load{c->dst, c->from, plan == k.plan.copies.end() ? CopyKind::Tma : plan->second.kind},
                     other.func});
            }
        }
        out.push_back({Advance{ring}, s.func});
    }
    return out;
}

/// Issues the consumers' statements in order and keeps account of what is in flight.
class Consumer {
public:
    explicit Consumer(Kernel &k) : k_(k) {
        // Rings that threads read themselves: all of them must have read before one gives the slot back.
        walk(k_.body, [&](const Stmt &s) {
            if (s.as<Map>() || s.as<Reduce>() || (s.as<Mma>() && !in_flight(s))) {
                for (const std::string &t : reads(k_, s)) {
                    if (k_.tile(t).space == Space::Shared) {
                        read_by_threads_.insert(k_.tile(t).ring);
                    }
                }
            }
        });
    }

    Body run(const Body &body) {
        Body out;
        straight(out, body);
        finish(out);
        return k_.plan.ping_pong ? in_turn(std::move(out), body) : out;
    }

private:
    /// A group of products: the registers they use, and the rings whose slots go back when it has ended.
    struct Flight {
        std::set<std::string> registers;
        std::set<std::string> reading;
        std::vector<std::string> release;
    };

    Kernel &k_;
    std::set<std::string> read_by_threads_;
    std::vector<Flight> flights_;
    Flight open_;
    bool is_open_ = false;

    bool nested_ = false;

    /// Whether the product runs on after it was issued; others are done when their threads go on.
    bool in_flight(const Stmt &s) const {
        auto plan = k_.plan.products.find(s.func);
        return plan == k_.plan.products.end() || plan->second.kind == MmaKind::Wgmma;
    }

    Expr warpgroup() const { return Variable::make(Halide::Int(32), "wg"); }

    /// Each warpgroup takes every so-manieth tile, and leaves the slots of the others to them.
    Body in_turn(Body mine, const Body &body) const {
        If turn{
            Variable::make(Halide::Int(32), "turn") % k_.plan.consumers == warpgroup(), std::move(mine), {}};
        std::set<std::string> seen;
        skips(turn.otherwise, body, 1, seen);
        return {{std::move(turn), k_.plan.kernel}};
    }

    void skips(Body &out, const Body &body, const Expr &times, std::set<std::string> &seen) const {
        for (const Stmt &s : body) {
            if (const Copy *c = s.as<Copy>(); c && seen.insert(k_.tile(c->dst).ring).second) {
                out.push_back({Skip{k_.tile(c->dst).ring, simplify(times)}, s.func});
            } else if (const For *f = s.as<For>()) {
                skips(out, f->body, times * max(f->hi - f->lo, 0), seen);
            }
        }
    }

    /// Two warpgroups issue the products of their loops one after the other, so that one computes while the other
    /// stores.
    void wait_for_turn(Body &out, const std::string &func) {
        if (k_.plan.ping_pong && !nested_) {
            put(out, Barrier{first_turn_barrier + warpgroup(), turn_threads, false}, func);
        }
    }
    void pass_turn(Body &out, const std::string &func) {
        if (k_.plan.ping_pong && !nested_) {
            Expr next = (warpgroup() + 1) % k_.plan.consumers;
            put(out, Barrier{first_turn_barrier + next, turn_threads, true}, func);
        }
    }

    void put(Body &out, decltype(Stmt::op) op, const std::string &func = "") {
        out.push_back({std::move(op), func});
    }

    void release(Body &out, const std::string &ring) {
        put(out, Release{ring, read_by_threads_.count(ring) > 0});
    }

    /// Rings filled in this body whose tiles the statement reads.
    std::set<std::string> rings_read(const Stmt &s, const std::set<std::string> &own) const {
        std::set<std::string> found;
        for (const std::string &t : reads(k_, s)) {
            const Tile &tile = k_.tile(t);
            if (tile.space == Space::Shared && own.count(tile.ring)) {
                found.insert(tile.ring);
            }
        }
        return found;
    }

    std::set<std::string> registers_used(const Stmt &s) const {
        std::set<std::string> used;
        auto add = [&](const std::string &t) {
            if (!t.empty() && k_.tile(t).space == Space::Register) {
                used.insert(k_.root(t));
            }
        };
        for (const std::string &t : reads(k_, s)) {
            add(t);
        }
        Body one{s};
        walk(one, [&](const Stmt &inner) {
            add(defines(inner));
            if (const For *f = inner.as<For>()) {
                for (const Carry &c : f->carry) {
                    add(c.name);
                }
            }
        });
        return used;
    }

    void commit(Body &out) {
        if (is_open_) {
            put(out, MmaCommit{});
            flights_.push_back(std::move(open_));
            open_ = {};
            is_open_ = false;
        }
    }

    /// Until the first `count` groups have ended.
    void wait(Body &out, size_t count) {
        if (count == 0) {
            return;
        }
        put(out, MmaWait{static_cast<int>(flights_.size() - count)});
        for (size_t i = 0; i < count; i++) {
            for (const std::string &r : flights_[i].release) {
                release(out, r);
            }
        }
        flights_.erase(flights_.begin(), flights_.begin() + static_cast<std::ptrdiff_t>(count));
    }

    void finish(Body &out) {
        commit(out);
        wait(out, flights_.size());
    }

    /// Before anything but a product touches registers: the groups that use them must have ended.
    void touch(Body &out, const std::set<std::string> &registers) {
        commit(out);
        for (size_t i = flights_.size(); i-- > 0;) {
            if (std::any_of(registers.begin(), registers.end(),
                            [&](const std::string &r) { return flights_[i].registers.count(r) > 0; })) {
                wait(out, i + 1);
                return;
            }
        }
    }

    void product(Body &out, const Stmt &s, const Mma &m) {
        // An operand in registers that an earlier group still writes is the one thing that the hardware does not order.
        if (k_.tile(m.a).space == Space::Register) {
            for (const Flight &f : flights_) {
                if (f.registers.count(k_.root(m.a)) && !is_open_) {
                    touch(out, {k_.root(m.a)});
                    break;
                }
            }
        }
        if (!is_open_) {
            put(out, MmaFence{}, s.func);
        }
        out.push_back(s);
        is_open_ = true;
        open_.registers.insert(k_.root(m.dst));
        for (const std::string &t : {m.a, m.b}) {
            if (k_.tile(t).space == Space::Register) {
                open_.registers.insert(k_.root(t));
            } else {
                open_.reading.insert(k_.tile(t).ring);
            }
        }
    }

    /// The slot goes back when the last group that reads it has ended, or now.
    void done_with(Body &out, const std::string &ring) {
        put(out, Advance{ring});
        if (is_open_ && open_.reading.count(ring)) {
            open_.release.push_back(ring);
            return;
        }
        for (size_t i = flights_.size(); i-- > 0;) {
            if (flights_[i].reading.count(ring)) {
                flights_[i].release.push_back(ring);
                return;
            }
        }
        release(out, ring);
    }

    /// Without a producer all threads copy: after all have read what was there, and before any reads what is new.
    void copy_together(Body &out, const Body &body, size_t i) {
        const int threads = 128 * k_.plan.consumers;
        finish(out);
        if (i == 0 || !body[i - 1].as<Copy>()) {
            put(out, Barrier{0, threads, false}, body[i].func);
        }
        out.push_back(body[i]);
        if (i + 1 == body.size() || !body[i + 1].as<Copy>()) {
            bool by_tensor_cores = false; // they read through the asynchronous proxy
            walk(k_.body, [&](const Stmt &s) { by_tensor_cores |= s.as<Mma>() && in_flight(s); });
            if (by_tensor_cores) {
                put(out, ProxyFence{}, body[i].func);
            }
            put(out, Barrier{0, threads, false}, body[i].func);
        }
    }

    void straight(Body &out, const Body &body) {
        std::set<std::string> own, held;
        for (const Stmt &s : body) {
            if (const Copy *c = s.as<Copy>()) {
                own.insert(k_.tile(c->dst).ring);
            }
        }
        const bool together = k_.plan.producers == 0;
        for (size_t i = 0; i < body.size(); i++) {
            const Stmt &s = body[i];
            if (s.as<Copy>()) {
                if (together) {
                    copy_together(out, body, i);
                }
                continue;
            }
            const std::set<std::string> needed = together ? std::set<std::string>() : rings_read(s, own);
            for (const std::string &r : needed) {
                if (held.insert(r).second) {
                    put(out, Wait{Wait::What::Full, r}, s.func);
                }
            }
            if (const Mma *m = s.as<Mma>(); m && in_flight(s)) {
                product(out, s, *m);
            } else if (const For *f = s.as<For>()) {
                commit(out);
                loop(out, s, *f);
            } else {
                touch(out, registers_used(s));
                out.push_back(s);
            }
            for (const std::string &r : needed) {
                bool last = true;
                for (size_t j = i + 1; j < body.size(); j++) {
                    last &= rings_read(body[j], own).count(r) == 0;
                }
                if (last) {
                    done_with(out, r);
                }
            }
        }
        commit(out);
    }

    /// A carried tile that starts at zero and that only one product reads: the product starts at zero in the first
    /// iteration, and no register is cleared. Returns the others.
    std::vector<Carry> fold_zero_starts(For &f) const {
        std::vector<Carry> rest;
        for (const Carry &c : f.carry) {
            Mma *user = nullptr;
            bool foldable = is_zero(c.init) && k_.root(c.next) == k_.root(c.name);
            for (Stmt &s : f.body) {
                if (!reads(k_, s).count(c.name)) {
                    continue;
                }
                Mma *m = s.as<Mma>();
                foldable &= m && m->start == c.name && m->a != c.name && m->b != c.name && !user;
                user = m;
            }
            if (foldable && user) {
                user->zero_when = Variable::make(Halide::Int(32), f.var) == f.lo;
            } else {
                rest.push_back(c);
            }
        }
        return rest;
    }

    void loop(Body &out, const Stmt &s, const For &original) {
        For f = original;
        const std::vector<Carry> all = f.carry, filled = fold_zero_starts(f);
        f.carry.clear();
        std::set<std::string> used = registers_used(s);
        touch(out, used);
        wait_for_turn(out, s.func);
        Body full;
        for (const Carry &c : filled) {
            put(full, Fill{c.name, c.init}, s.func);
        }
        Body inner;
        Consumer nested(Inside{*this});
        nested.straight(inner, f.body);
        for (const Carry &c : all) {
            if (k_.root(c.next) != k_.root(c.name)) {
                nested.touch(inner, {k_.root(c.next), k_.root(c.name)});
                put(inner, Move{c.name, c.next}, s.func);
            }
        }
        // Groups may stay in flight into the next iteration where only products touch their registers: then one
        // iteration's products run while the next one's operands arrive.
        bool chain = !nested.flights_.empty();
        for (const Stmt &t : f.body) {
            if (!t.as<Mma>() && !t.as<Copy>()) {
                for (const std::string &r : registers_used(t)) {
                    for (const Flight &x : nested.flights_) {
                        chain &= x.registers.count(r) == 0;
                    }
                }
            }
        }
        if (chain) {
            put(inner, MmaWait{static_cast<int>(nested.flights_.size())}, s.func);
            If later{Variable::make(Halide::Int(32), f.var) > f.lo, {}, {}};
            for (const Flight &x : nested.flights_) {
                for (const std::string &r : x.release) {
                    release(later.body, r);
                }
            }
            if (!later.body.empty()) {
                put(inner, std::move(later), s.func);
            }
        } else {
            nested.finish(inner);
        }
        f.body = std::move(inner);
        full.push_back({f, s.func});
        pass_turn(full, s.func);
        nested.finish(full);
        if (Halide::Internal::can_prove(f.lo < f.hi)) {
            out.insert(out.end(), full.begin(), full.end());
            return;
        }
        // Without an iteration no slot was taken, and a carried tile keeps its start.
        If any{f.lo < f.hi, std::move(full), {}};
        for (const Carry &c : all) {
            put(any.otherwise, Fill{c.name, c.init}, s.func);
        }
        pass_turn(any.otherwise, s.func);
        put(out, std::move(any), s.func);
    }

    /// For the body of a loop: nothing of the outer body is in flight there.
    struct Inside {
        const Consumer &outer;
    };
    explicit Consumer(Inside in)
        : k_(in.outer.k_), read_by_threads_(in.outer.read_by_threads_), nested_(true) {}
};

/// setmaxnreg: what launch registers times threads gives, dealt out (golden figures of the register file: 64 K a block).
void default_registers(Kernel &k) {
    TilePlan &p = k.plan;
    if (p.consumer_registers != 0 || k.rings.empty() || p.producers == 0) {
        return;
    }
    if (p.consumers == 2) {
        p.consumer_registers = 232;
        p.producer_registers = 40;
    } else if (p.consumers == 3) {
        p.consumer_registers = 160;
        p.producer_registers = 32;
    }
}

} // namespace

void inject_pipeline(Kernel &k) {
    default_registers(k);
    Role consumer{"consumer", 0, k.plan.consumers, 128, k.plan.consumer_registers, {}};
    if (k.plan.ping_pong) { // the first turn is warpgroup 0's
        Expr last = Variable::make(Halide::Int(32), "wg") == k.plan.consumers - 1;
        consumer.body.push_back(
            {If{last, {{Barrier{first_turn_barrier, turn_threads, true}, k.plan.kernel}}, {}},
             k.plan.kernel});
    }
    consumer.body.push_back({TileLoop{Consumer(k).run(k.body)}, k.plan.kernel});
    Body roles;
    if (!k.rings.empty() && k.plan.producers > 0) {
        bool by_tma = true; // one thread issues it; other copies take all threads
        walk(k.body, [&](const Stmt &s) {
            if (const Copy *c = s.as<Copy>()) {
                auto plan = k.plan.copies.find(c->from.view);
                by_tma &= plan == k.plan.copies.end() || plan->second.kind == CopyKind::Tma;
            }
        });
        Role producer{"producer",       k.plan.consumers,          k.plan.producers,
                      by_tma ? 1 : 128, k.plan.producer_registers, {}};
        producer.body.push_back({TileLoop{produce(k, k.body)}, k.plan.kernel});
        roles.push_back({std::move(producer), k.plan.kernel});
    }
    roles.push_back({std::move(consumer), k.plan.kernel});
    k.body = std::move(roles);
}

} // namespace kiln::tile
