#include "dsl/tile/passes/Consumer.h"

#include <algorithm>

namespace kiln::tile {

using namespace Halide::Internal;

namespace {

Expr warpgroup() {
    return Variable::make(Halide::Int(32), "wg");
}

} // namespace

Consumer::Consumer(Kernel &k) : k_(k) {
    walk(k_.body, [&](const Stmt &s) {
        if (s.as<Map>() || s.as<Reduce>() || (s.as<Mma>() && !k_.is_asynchronous(s))) {
            for (const std::string &t : reads(k_, s)) {
                if (k_.tile(t).space == Space::Shared) {
                    read_by_threads_.insert(k_.tile(t).ring);
                }
            }
        }
    });
    for (const Ring &r : k_.rings) {
        if (r.blocks > 1) {
            readers_[r.name] = readers_of(k_, r.name);
        }
    }
}

Consumer::Consumer(Inside in)
    : k_(in.outer.k_), read_by_threads_(in.outer.read_by_threads_), readers_(in.outer.readers_),
      nested_(true) {}

Body Consumer::run(const Body &body) {
    Body out;
    straight(out, body);
    finish(out);
    return k_.plan.ping_pong ? in_turn(std::move(out), body) : out;
}

void Consumer::put(Body &out, decltype(Stmt::op) op, const std::string &func) const {
    out.push_back({std::move(op), func});
}

/// Rings that are filled in this body.
Consumer::Names Consumer::rings_of(const Body &body) const {
    Names own;
    for (const Stmt &s : body) {
        if (const Copy *c = s.as<Copy>()) {
            own.insert(k_.tile(c->dst).ring);
        }
    }
    return own;
}

/// Those of `own` whose tiles the statement reads.
Consumer::Names Consumer::rings_read(const Stmt &s, const Names &own) const {
    Names found;
    for (const std::string &t : reads(k_, s)) {
        const Tile &tile = k_.tile(t);
        if (tile.space == Space::Shared && own.count(tile.ring)) {
            found.insert(tile.ring);
        }
    }
    return found;
}

Consumer::Names Consumer::registers_used(const Stmt &s) const {
    Names used;
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

// ---- groups of products

void Consumer::commit(Body &out) {
    if (is_open_) {
        put(out, MmaCommit{});
        flights_.push_back(std::move(open_));
        open_ = {};
        is_open_ = false;
    }
}

/// Until the first `count` groups have ended.
void Consumer::wait(Body &out, size_t count) {
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

void Consumer::finish(Body &out) {
    commit(out);
    wait(out, flights_.size());
}

/// Before anything but a product touches registers: the groups that use them must have ended.
void Consumer::touch(Body &out, const Names &registers) {
    commit(out);
    for (size_t i = flights_.size(); i-- > 0;) {
        if (std::any_of(registers.begin(), registers.end(),
                        [&](const std::string &r) { return flights_[i].registers.count(r) > 0; })) {
            wait(out, i + 1);
            return;
        }
    }
}

void Consumer::product(Body &out, const Stmt &s, const Mma &m) {
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

// ---- slots of rings

void Consumer::release(Body &out, const std::string &ring) const {
    auto readers = readers_.find(ring);
    put(out, Release{ring, read_by_threads_.count(ring) > 0,
                     readers == readers_.end() ? Expr() : readers->second});
}

/// The slot goes back when the last group that reads it has ended, or now.
void Consumer::done_with(Body &out, const std::string &ring) {
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
void Consumer::copy_together(Body &out, const Body &body, size_t i) {
    const int threads = 128 * k_.plan.consumers;
    finish(out);
    if (i == 0 || !body[i - 1].as<Copy>()) {
        put(out, Barrier{0, threads, false}, body[i].func);
    }
    out.push_back(body[i]);
    if (i + 1 == body.size() || !body[i + 1].as<Copy>()) {
        bool by_tensor_cores = false; // they read through the asynchronous proxy
        walk(k_.body, [&](const Stmt &s) { by_tensor_cores |= k_.is_asynchronous(s); });
        if (by_tensor_cores) {
            put(out, ProxyFence{}, body[i].func);
        }
        put(out, Barrier{0, threads, false}, body[i].func);
    }
}

/// All threads that hold parts of a tile have stored theirs, and see to it that other blocks find them, before one of them
/// says so.
void Consumer::last_of_parts(Body &out, const Last &l, const std::string &func) {
    finish(out);
    put(out, Publish{}, func);
    if (k_.plan.ping_pong) {
        put(out, Barrier{own_barriers + warpgroup(), 128, false}, func);
    } else {
        put(out, Barrier{crew_barrier, 128 * k_.plan.consumers, false}, func);
    }
    Last inner{l.at, l.parts, {}};
    Consumer nested(Inside{*this});
    nested.issue(inner.body, {l.body}, {});
    nested.finish(inner.body);
    put(out, std::move(inner), func);
}

// ---- statements

/// The statements of the pieces one after the other; products of two pieces are two groups. `own`: rings whose slots
/// these statements take and give back.
void Consumer::issue(Body &out, const std::vector<Body> &pieces, const Names &own) {
    Body body;
    Names held;
    std::set<size_t> starts;
    for (const Body &piece : pieces) {
        starts.insert(body.size());
        body.insert(body.end(), piece.begin(), piece.end());
    }
    const bool together = k_.plan.producers == 0;
    for (size_t i = 0; i < body.size(); i++) {
        const Stmt &s = body[i];
        if (starts.count(i)) {
            commit(out);
        }
        if (s.as<Copy>()) {
            if (together) {
                copy_together(out, body, i);
            }
            continue;
        }
        const Names needed = together ? Names() : rings_read(s, own);
        for (const std::string &r : needed) {
            if (held.insert(r).second) {
                put(out, Wait{Wait::What::Full, r}, s.func);
            }
        }
        Names last;
        for (const std::string &r : needed) {
            const bool again = std::any_of(body.begin() + static_cast<std::ptrdiff_t>(i) + 1, body.end(),
                                           [&](const Stmt &t) { return rings_read(t, own).count(r) > 0; });
            if (!again) {
                last.insert(r);
            }
        }
        if (const Mma *m = s.as<Mma>(); k_.is_asynchronous(s)) {
            product(out, s, *m);
        } else if (const For *f = s.as<For>()) {
            commit(out);
            for (const std::string &r : loop(out, s, *f, last)) {
                last.erase(r);
            }
        } else if (const Last *l = s.as<Last>()) {
            last_of_parts(out, *l, s.func);
        } else {
            touch(out, registers_used(s));
            out.push_back(s);
        }
        for (const std::string &r : last) {
            done_with(out, r);
        }
    }
    commit(out);
}

// ---- warpgroups that take whole tiles in turn

/// Each warpgroup takes every so-manieth tile, and leaves the slots of the others to them.
Body Consumer::in_turn(Body mine, const Body &body) const {
    If turn{Variable::make(Halide::Int(32), "turn") % k_.plan.consumers == warpgroup(), std::move(mine), {}};
    Names seen;
    skips(turn.otherwise, body, 1, seen);
    return {{std::move(turn), k_.plan.kernel}};
}

void Consumer::skips(Body &out, const Body &body, const Expr &times, Names &seen) const {
    for (const Stmt &s : body) {
        if (const Copy *c = s.as<Copy>(); c && seen.insert(k_.tile(c->dst).ring).second) {
            put(out, Skip{k_.tile(c->dst).ring, simplify(times)}, s.func);
        } else if (const For *f = s.as<For>()) {
            skips(out, f->body, times * max(f->hi - f->lo, 0), seen);
        }
    }
}

/// Two warpgroups issue the products of their loops one after the other, so that one computes while the other stores.
void Consumer::wait_for_turn(Body &out, const std::string &func) {
    if (k_.plan.ping_pong && !nested_) {
        put(out, Barrier{first_turn_barrier + warpgroup(), turn_threads, false}, func);
    }
}

void Consumer::pass_turn(Body &out, const std::string &func) {
    if (k_.plan.ping_pong && !nested_) {
        Expr next = (warpgroup() + 1) % k_.plan.consumers;
        put(out, Barrier{first_turn_barrier + next, turn_threads, true}, func);
    }
}

/// From the first product on until the last group is committed. What they wait for is waited for before.
void Consumer::issue_in_turn(Body &iteration, int groups, const std::string &func) const {
    auto first = std::find_if(iteration.begin(), iteration.end(),
                              [](const Stmt &s) { return s.as<MmaFence>() != nullptr; });
    if (first == iteration.end() || groups == 0) {
        return;
    }
    const auto at = first - iteration.begin();
    iteration.insert(first, {Barrier{first_turn_barrier + warpgroup(), turn_threads, false}, func});
    for (auto s = iteration.begin() + at; s != iteration.end(); ++s) {
        if (s->as<MmaCommit>() && --groups == 0) {
            const Expr next = (warpgroup() + 1) % k_.plan.consumers;
            iteration.insert(s + 1, {Barrier{first_turn_barrier + next, turn_threads, true}, func});
            return;
        }
    }
}

} // namespace kiln::tile
