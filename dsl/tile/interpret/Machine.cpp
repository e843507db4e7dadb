// Who moves when: stacks, loops, the scheduler, named barriers, and what must hold at the end.
#include "dsl/tile/interpret/Machine.h"

#include "dsl/tile/ir/Text.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace kiln::tile {

Machine::Machine(Run &run, const Mode &mode, int block, std::mt19937 &random, Cluster &cluster)
    : run_(run), k_(run.k), mode_(mode), block_(block), random_(random), cluster_(cluster),
      shared_(static_cast<size_t>(std::max(0, run.k.shared_bytes))), grid_(run.grid_size()) {
    for (const Ring &r : k_.rings) {
        full_[r.name].assign(static_cast<size_t>(r.depth), {1, 1, 0, 0});
        const int arrivals = r.consumers * r.blocks;
        empty_[r.name].assign(static_cast<size_t>(r.depth), {arrivals, arrivals, 0, 0});
        given_back_[r.name].assign(static_cast<size_t>(r.depth), 0);
    }
    walk(k_.body, [&](const Stmt &s) {
        if (const Load *l = s.as<Load>()) {
            produced_.insert(k_.tile(l->dst).ring);
        }
    });
    const bool roles =
        std::any_of(k_.body.begin(), k_.body.end(), [](const Stmt &s) { return s.as<Role>(); });
    if (!roles) {
        start(Role{"block", 0, std::max(1, k_.threads / 128), 128, 0, {}}, k_.body);
        return;
    }
    for (const Stmt &s : k_.body) {
        const Role *r = s.as<Role>();
        if (!r) {
            throw Fault{fmt::format("`{}` stands beside roles: who runs it?", print(k_, s))};
        }
        run_.out.reached.insert(&s);
        start(*r, r->body);
    }
}

void Machine::start(const Role &role, const Body &body) {
    for (int wg = 0; wg < role.warpgroups; wg++) {
        Actor a;
        a.number = role.first_warpgroup + wg;
        a.wg = wg;
        a.single = role.threads == 1;
        a.name = role.warpgroups == 1 ? role.name : fmt::format("{} {}", role.name, wg);
        a.stack.push_back({&body});
        a.scope["wg"] = wg;
        const int blocks = k_.cluster_blocks();
        a.scope["cluster.rank"] = block_ % blocks;
        if (blocks > 1) {
            a.name += fmt::format(" of block {}", block_ % blocks);
        }
        for (const Actor &other : actors_) {
            if (other.number == a.number) {
                throw Fault{
                    fmt::format("warpgroup {} has two roles: {} and {}", a.number, other.name, a.name)};
            }
        }
        actors_.push_back(std::move(a));
    }
}

void Machine::fault(const Actor &a, const std::string &text) const {
    std::string where = a.name;
    if (!a.stack.empty() && a.stack.back().pc < a.stack.back().body->size()) {
        where += fmt::format(", `{}`", print(k_, (*a.stack.back().body)[a.stack.back().pc]));
    }
    std::string loops;
    for (const auto &[name, value] : a.scope) {
        loops += fmt::format("{}{} = {}", loops.empty() ? "" : ", ", name, value);
    }
    throw Fault{fmt::format("{} ({}; {})", text, where, loops)};
}

bool Machine::ended() const {
    return live() == 0;
}

size_t Machine::live() const {
    return static_cast<size_t>(
        std::count_if(actors_.begin(), actors_.end(), [](const Actor &a) { return !a.stack.empty(); }));
}

void Machine::go(Cluster &cluster, std::mt19937 &random) {
    std::vector<Machine *> blocks;
    for (const auto &m : cluster.blocks) {
        blocks.push_back(m.get());
    }
    while (!std::all_of(blocks.begin(), blocks.end(), [](const Machine *m) { return m->ended(); })) {
        bool moved = false;
        if (blocks.size() > 1) {
            std::shuffle(blocks.begin(), blocks.end(), random);
        }
        for (Machine *m : blocks) {
            moved |= m->run_some();
        }
        if (moved) {
            continue;
        }
        auto busy =
            std::find_if(blocks.begin(), blocks.end(), [](const Machine *m) { return !m->loading_.empty(); });
        if (busy == blocks.end()) {
            std::string text = "deadlock:";
            for (const auto &m : cluster.blocks) {
                text += m->deadlock();
            }
            text.pop_back();
            throw Fault{text};
        }
        (*busy)->complete_one();
    }
    for (Machine *m : blocks) {
        while (!m->loading_.empty()) {
            m->complete_one();
        }
        m->check_end();
    }
}

Machine &Machine::block(const Actor &a, int rank) const {
    if (rank < 0 || rank >= static_cast<int>(cluster_.blocks.size())) {
        fault(a, fmt::format("names block {} of a cluster of {}", rank, cluster_.blocks.size()));
    }
    Machine &m = *cluster_.blocks[static_cast<size_t>(rank)];
    if (m.ended()) {
        fault(a, fmt::format("block {} of the cluster has ended, and is still written to or told", rank));
    }
    return m;
}

std::vector<int> Machine::ranks(const Actor &a, const Expr &blocks) const {
    const int own = block_ % static_cast<int>(cluster_.blocks.size());
    if (!blocks.defined()) {
        return {own};
    }
    const int64_t bits = run_.integer(blocks, a.scope);
    std::vector<int> all;
    for (int i = 0; i < 16; i++) {
        if (bits >> i & 1) {
            all.push_back(i);
        }
    }
    return all;
}

bool Machine::run_some() {
    std::vector<Actor *> live;
    for (Actor &a : actors_) {
        if (!a.stack.empty()) {
            live.push_back(&a);
        }
    }
    std::shuffle(live.begin(), live.end(), random_);
    bool moved = false;
    for (Actor *a : live) {
        for (unsigned n = random_() % 12 + 1; n > 0 && !a->stack.empty(); n--) {
            if (!step(*a)) {
                break;
            }
            moved = true;
            drift(*a);
        }
    }
    return moved;
}

/// Asynchronous copies end only when somebody waits for one: first those that are asked for.
void Machine::complete_one() {
    std::set<std::pair<std::string, int64_t>> asked;
    for (const Actor &a : actors_) {
        const Wait *w = a.waits_for ? a.waits_for->as<Wait>() : nullptr;
        if (w && w->what == Wait::What::Full) {
            const Actor::Place &p = a.rings.at(w->ring);
            asked.insert({w->ring, p.taken % ring(w->ring).depth});
        }
    }
    std::vector<size_t> due;
    for (size_t i = 0; i < loading_.size(); i++) {
        if (asked.count({loading_[i].ring, loading_[i].slot % ring(loading_[i].ring).depth})) {
            due.push_back(i);
        }
    }
    const size_t pick = due.empty() ? random_() % loading_.size() : due[random_() % due.size()];
    const Loading l = loading_[pick];
    loading_.erase(loading_.begin() + static_cast<std::ptrdiff_t>(pick));
    complete(l);
}

void Machine::drift(Actor &a) {
    if (mode_.loads == When::Random && !loading_.empty() && random_() % 4 == 0) {
        complete_one();
    }
    if (mode_.products == When::Random && random_() % 3 == 0) {
        for (auto *group : {&a.open}) {
            for (Actor::Product &p : *group) {
                if (a.groups.empty() && !p.done) {
                    multiply(a, p);
                    return;
                }
            }
        }
        for (auto &group : a.groups) {
            for (Actor::Product &p : group) {
                if (!p.done) {
                    multiply(a, p);
                    return;
                }
            }
        }
    }
    if (mode_.stores == When::Random && random_() % 3 == 0) {
        for (auto &group : a.store_groups) {
            for (Actor::Copying &c : group) {
                if (!c.done) {
                    carry_out(a, c);
                    return;
                }
            }
        }
    }
}

std::string Machine::deadlock() const {
    std::string text;
    for (const Actor &a : actors_) {
        if (!a.stack.empty()) {
            text += fmt::format(" {} at `{}`;", a.name, a.waits_for ? print(k_, *a.waits_for) : "?");
        }
    }
    return text;
}

bool Machine::next_tile(Actor &a, Actor::Frame &f) {
    if (f.at >= grid_) {
        a.scope.erase("turn");
        return false;
    }
    for (const auto &[name, value] : run_.grid_variables(f.at)) {
        a.scope[name] = value;
    }
    const int64_t stride =
        k_.plan.persistent ? std::max(1, mode_.blocks) * static_cast<int64_t>(k_.cluster_blocks()) : grid_;
    a.scope["turn"] = f.at / std::max<int64_t>(1, stride);
    f.at += stride;
    return true;
}

bool Machine::step(Actor &a) {
    Actor::Frame &f = a.stack.back();
    if (f.pc == f.body->size()) {
        if (f.loop && f.loop->as<TileLoop>() && next_tile(a, f)) {
            f.pc = 0;
            return true;
        }
        if (f.loop && f.loop->as<For>()) {
            const std::string &var = f.loop->as<For>()->var;
            if (++f.at < f.end) {
                a.scope[var] = f.at;
                f.pc = 0;
                return true;
            }
            a.scope.erase(var);
        }
        a.stack.pop_back();
        return true;
    }
    run_.writer = int64_t(block_) * 16 + a.number;
    const Stmt &s = (*f.body)[f.pc];
    const size_t depth = a.stack.size(), pc = f.pc;
    if (!std::visit([&](const auto &o) { return run(a, o, s); }, s.op)) {
        a.waits_for = &s;
        return false;
    }
    a.waits_for = nullptr;
    run_.out.reached.insert(&s);
    a.stack[depth - 1].pc = pc + 1;
    return true;
}

template<typename T>
bool Machine::run(Actor &a, const T &, const Stmt &) {
    fault(a, "a statement that does not belong into a role");
}

bool Machine::run(Actor &a, const For &o, const Stmt &s) {
    if (!o.carry.empty()) {
        fault(a, "a loop in a role still carries tiles");
    }
    const int64_t lo = run_.integer(o.lo, a.scope), hi = run_.integer(o.hi, a.scope);
    if (lo < hi) {
        a.scope[o.var] = lo;
        a.stack.push_back({&o.body, 0, &s, lo, hi});
    }
    return true;
}

bool Machine::run(Actor &a, const If &o, const Stmt &) {
    const Body &taken = run_.integer(o.condition, a.scope) ? o.body : o.otherwise;
    if (!taken.empty()) {
        a.stack.push_back({&taken});
    }
    return true;
}

bool Machine::run(Actor &a, const Publish &, const Stmt &) {
    run_.publish(run_.writer);
    a.published++;
    return true;
}

/// One thread arrives for all warpgroups that hold parts of the tile.
bool Machine::run(Actor &a, const Last &o, const Stmt &) {
    const int64_t number = a.arrivals++;
    bool is_last;
    if (k_.warpgroups() == 1) {
        if (a.published <= number) {
            fault(a, "says that its share is stored, and has not published it");
        }
        is_last = run_.arrive(o.at, run_.integer(o.parts, a.scope), a.scope);
    } else {
        if (!last_.count(number)) {
            for (const Actor &other : actors_) {
                if (other.number < k_.plan.consumers && other.published <= number) {
                    fault(a,
                          fmt::format("says that the block's share is stored, and {} has not published its "
                                      "own: a barrier is missing",
                                      other.name));
                }
            }
            last_[number] = run_.arrive(o.at, run_.integer(o.parts, a.scope), a.scope);
        }
        is_last = last_.at(number);
    }
    if (is_last && !o.body.empty()) {
        a.stack.push_back({&o.body});
    }
    return true;
}

bool Machine::run(Actor &a, const TileLoop &o, const Stmt &s) {
    Actor::Frame f{&o.body, 0, &s, block_, 0};
    if (next_tile(a, f)) {
        a.stack.push_back(f);
    }
    return true;
}

bool Machine::run(Actor &a, const Barrier &o, const Stmt &) {
    const int64_t id = run_.integer(o.id, a.scope);
    if (id < 0 || id > 15) {
        fault(a, fmt::format("barrier {}: a block has 16, 0 to 15", id));
    }
    Named &n = named_[id];
    if (a.barrier_waited >= 0) {
        if (n.generation == a.barrier_waited) {
            return false;
        }
        a.barrier_waited = -1;
        return true;
    }
    if (a.single) {
        fault(a, "one thread alone at a barrier of whole warps");
    }
    if (n.arrived && n.threads != o.threads) {
        fault(a, fmt::format("barrier {} of {} threads is reached by one that counts {}", id, n.threads,
                             o.threads));
    }
    if (!o.arrive_only && n.who >> a.number & 1) {
        fault(a, fmt::format("arrives twice at barrier {} before the others", id));
    }
    n.threads = o.threads;
    n.arrived += 128;
    n.who |= 1u << a.number;
    if (n.arrived > n.threads) {
        fault(a, fmt::format("{} threads arrive at barrier {} of {}", n.arrived, id, n.threads));
    }
    if (n.arrived < n.threads) {
        if (o.arrive_only) {
            return true;
        }
        a.barrier_waited = n.generation;
        return false;
    }
    passed(n.who);
    n.generation++;
    n.arrived = 0;
    n.who = 0;
    return true;
}

void Machine::passed(uint32_t who) {
    // What its members wrote is now seen by all of them, by copies only if it was fenced before; what their stores
    // have read is free.
    for (size_t i = shared_.low; i < shared_.high; i++) {
        if (shared_.state[i] == SharedMemory::State::Fenced && who >> shared_.writer[i] & 1) {
            shared_.state[i] = SharedMemory::State::Visible;
            shared_.seen[i] = 0;
        }
        if (shared_.state[i] >= SharedMemory::State::Written &&
            (shared_.seen[i] | 1u << shared_.writer[i]) & who) {
            shared_.seen[i] |= who;
        }
        if (shared_.reads[i] == 2 && who >> shared_.reader[i] & 1) {
            shared_.reads[i] = 0;
        }
    }
    for (Actor &other : actors_) {
        if (who >> other.number & 1) {
            other.read_since.clear();
        }
    }
}

bool Machine::run(Actor &a, const ClusterBarrier &, const Stmt &) {
    if (a.single) {
        fault(a, "one thread alone at a barrier of the cluster");
    }
    if (a.cluster_waited < 0) {
        a.cluster_waited = cluster_.generation;
        cluster_.arrived++;
    } else if (a.cluster_waited != cluster_.generation) {
        a.cluster_waited = -1;
        return true;
    }
    size_t live = 0; // threads that have ended are not waited for
    for (const auto &m : cluster_.blocks) {
        live += m->live();
    }
    if (static_cast<size_t>(cluster_.arrived) < live) {
        return false;
    }
    for (const auto &m : cluster_.blocks) {
        m->passed(~0u);
    }
    cluster_.generation++;
    cluster_.arrived = 0;
    a.cluster_waited = -1;
    return true;
}

void Machine::check_end() const {
    for (const Ring &r : k_.rings) {
        for (size_t slot = 0; slot < full_.at(r.name).size(); slot++) {
            const Barriers &full = full_.at(r.name)[slot], &empty = empty_.at(r.name)[slot];
            if (full.bytes != 0 || full.pending != full.count) {
                throw Fault{fmt::format(
                    "at the end the full barrier of `{}` is in the middle of a phase: {} of {} arrivals and "
                    "{} bytes are missing",
                    r.name, full.pending, full.count, full.bytes)};
            }
            if (empty.pending != empty.count || empty.completed != full.completed) {
                throw Fault{
                    fmt::format("at the end a slot of `{}` was filled {} times and given back {} times",
                                r.name, full.completed, empty.completed)};
            }
        }
    }
    for (const Actor &a : actors_) {
        if (!a.open.empty() || !a.groups.empty()) {
            throw Fault{fmt::format("{} ends with products in flight", a.name)};
        }
        if (!a.open_stores.empty() || !a.store_groups.empty()) {
            throw Fault{fmt::format("{} ends while its stores still read shared memory", a.name)};
        }
        for (const auto &[name, place] : a.rings) {
            int64_t filled = 0;
            for (const Barriers &b : full_.at(name)) {
                filled += b.completed;
            }
            if (place.taken != filled) {
                throw Fault{fmt::format(
                    "{} ends at slot {} of `{}`, {} were filled: an `advance` is missing or too much", a.name,
                    place.taken, name, filled)};
            }
            if (!place.held.empty()) {
                throw Fault{fmt::format("{} ends with a slot of `{}` in hand", a.name, name)};
            }
        }
    }
}

void run_final(Run &run, const Mode &mode) {
    std::mt19937 random(mode.seed);
    const int in_cluster = run.k.cluster_blocks();
    const int64_t clusters = run.k.plan.persistent ? std::max(1, mode.blocks) : run.grid_size() / in_cluster;
    std::vector<int64_t> order(static_cast<size_t>(clusters));
    std::iota(order.begin(), order.end(), 0);
    if (mode.seed != 1 && !run.k.plan.splits.empty()) {
        std::shuffle(order.begin(), order.end(), random); // any block may come last
    }
    for (int64_t c : order) {
        Cluster cluster;
        for (int rank = 0; rank < in_cluster; rank++) {
            cluster.blocks.push_back(std::make_unique<Machine>(
                run, mode, static_cast<int>(c) * in_cluster + rank, random, cluster));
        }
        Machine::go(cluster, random);
    }
}

} // namespace kiln::tile
