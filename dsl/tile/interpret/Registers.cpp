// Tiles in the registers of threads: maps, reductions, and the tiles that they read at other layouts or in shared
// memory.
#include "dsl/tile/interpret/Machine.h"

#include "dsl/tile/ir/Text.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

namespace kiln::tile {

Threads::Threads(const Kernel &k, RegisterLayout l, int warpgroup) : layout(std::move(l)) {
    const int count = layout.thread_count(), registers = layout.register_count();
    size_ = static_cast<size_t>(registers) * 128;
    first_.resize(128);
    for (int t = 0; t < 128; t++) {
        const int all = 128 * warpgroup + t;
        // Where each warpgroup has tiles of its own, all of them have a first copy.
        bool first = k.warpgroups() == 1 || all < std::max(count, 1);
        int index = all % count;
        for (const LayoutPart &p : layout.threads) {
            first &= !p.axis.empty() || index % p.extent == 0;
            index /= p.extent;
        }
        if (k.warpgroups() == 1) {
            first &= t < count;
        }
        first_[static_cast<size_t>(t)] = first;
    }
    for (const auto &[axis, extent] : k.axes) {
        if (!layout.has(axis) && extent != 1) {
            continue;
        }
        std::vector<int> &at = at_[axis];
        at.reserve(size_);
        for (int r = 0; r < registers; r++) {
            for (int t = 0; t < 128; t++) {
                at.push_back(layout.coordinate(axis, (128 * warpgroup + t) % count, r));
            }
        }
    }
}

const std::vector<int> *Threads::coordinates(const std::string &axis) const {
    auto a = at_.find(axis);
    return a == at_.end() ? nullptr : &a->second;
}

/// The places of an Expr in a role: the elements that one warpgroup holds.
class Elements : public Places {
public:
    Elements(Machine &m, Actor &a, const Threads &t) : m_(m), a_(a), t_(t) {}
    size_t count() const override { return t_.size(); }
    ColumnPtr variable(const std::string &name) override {
        if (is_axis_var(name)) {
            const std::vector<int> *at = t_.coordinates(name.substr(1));
            if (!at) {
                m_.fault(a_, fmt::format("the layout {} has no axis `{}`", t_.layout.str(), name.substr(1)));
            }
            auto c = std::make_shared<Column>();
            c->whole.assign(at->begin(), at->end());
            return c;
        }
        if (auto tile = m_.k_.tiles.find(name); tile != m_.k_.tiles.end()) {
            return tile->second.space == Space::Shared ? m_.shared_values(a_, tile->second, t_)
                                                       : m_.aligned(a_, name, t_);
        }
        return std::make_shared<Column>(Column::of(m_.run_.variable(name, a_.scope)));
    }
    ColumnPtr view(const std::string &name, const std::vector<ColumnPtr> &at, const Mask &mask) override {
        return m_.run_.read_view(name, at, mask, true);
    }

private:
    Machine &m_;
    Actor &a_;
    const Threads &t_;
};

int Machine::layout_id(const RegisterLayout &l) {
    auto it = std::find(layouts_.begin(), layouts_.end(), l);
    if (it == layouts_.end()) {
        layouts_.push_back(l);
        it = layouts_.end() - 1;
    }
    return static_cast<int>(it - layouts_.begin());
}

const Threads &Machine::threads(const RegisterLayout &l, int wg) {
    const std::pair<int, int> key{layout_id(l), wg};
    auto it = threads_.find(key);
    if (it == threads_.end()) {
        it = threads_.emplace(key, Threads(k_, l, wg)).first;
    }
    return it->second;
}

void Machine::touch(Actor &a, const std::string &tile, bool writes) {
    const std::string &root = k_.root(tile);
    auto in_use = [&](const Actor::Product &p) {
        const Mma &m = *p.stmt->as<Mma>();
        if (k_.root(m.dst) == root) {
            fault(a,
                  fmt::format("`{}` is touched while the product in `{}` is in flight", tile, p.stmt->func));
        }
        if (writes && k_.tile(m.a).space == Space::Register && k_.root(m.a) == root) {
            fault(a, fmt::format("`{}` is written while the product in `{}`, which is in flight, reads it",
                                 tile, p.stmt->func));
        }
    };
    for (const Actor::Product &p : a.open) {
        in_use(p);
    }
    for (const auto &group : a.groups) {
        for (const Actor::Product &p : group) {
            in_use(p);
        }
    }
    a.registers[root].touched = ++a.clock;
}

ColumnPtr Machine::read(Actor &a, const std::string &tile) {
    touch(a, tile, false);
    const ColumnPtr &v = a.registers[k_.root(tile)].values;
    if (!v) {
        fault(a, fmt::format("`{}` is read before it has a value", tile));
    }
    if (v->size() != threads(k_.tile(tile).registers, a.wg).size()) {
        fault(a, fmt::format("`{}` shares registers with a tile of another number of them", tile));
    }
    return v;
}

void Machine::write(Actor &a, const std::string &tile, ColumnPtr values) {
    touch(a, tile, true);
    const size_t n = threads(k_.tile(tile).registers, a.wg).size();
    if (values->size() != n) {
        auto all = std::make_shared<Column>(Column::sized(k_.tile(tile).type, n));
        if (values->is_real) {
            all->real.assign(n, values->real.at(0));
        } else {
            all->whole.assign(n, values->whole.at(0));
        }
        values = all;
    }
    Actor::Registers &r = a.registers[k_.root(tile)];
    r.values = std::move(values);
    r.has_value = true;
}

ColumnPtr Machine::aligned(Actor &a, const std::string &tile, const Threads &to) {
    const Tile &t = k_.tile(tile);
    const ColumnPtr v = read(a, tile);
    if (t.registers == to.layout) {
        return v;
    }
    const Threads &from = threads(t.registers, a.wg);
    std::vector<uint32_t> &index = aligned_[{layout_id(t.registers), layout_id(to.layout), a.wg}];
    if (index.empty()) {
        std::vector<std::pair<const std::vector<int> *, const std::vector<int> *>> axes;
        for (const std::string &axis : t.axes) {
            if (k_.axes.at(axis) == 1) {
                continue;
            }
            if (!from.coordinates(axis) || !to.coordinates(axis)) {
                fault(a, fmt::format("`{}` has the axis `{}`, which {} lacks", tile, axis,
                                     from.coordinates(axis) ? "the layout that reads it" : "its own layout"));
            }
            axes.push_back({from.coordinates(axis), to.coordinates(axis)});
        }
        auto key = [&](bool source, size_t e) {
            int64_t n = 0;
            for (const auto &[f, g] : axes) {
                n = n << 20 | (*(source ? f : g))[e];
            }
            return n;
        };
        std::vector<uint32_t> found(to.size());
        for (size_t thread = 0; thread < 128; thread++) {
            std::unordered_map<int64_t, uint32_t> held;
            for (size_t e = thread; e < from.size(); e += 128) {
                held.emplace(key(true, e), static_cast<uint32_t>(e));
            }
            for (size_t e = thread; e < to.size(); e += 128) {
                auto h = held.find(key(false, e));
                if (h == held.end()) {
                    fault(a,
                          fmt::format(
                              "thread {} does not hold the element of `{}` that it needs: {} is read at {}",
                              thread, tile, t.registers.str(), to.layout.str()));
                }
                found[e] = h->second;
            }
        }
        index = std::move(found);
    }
    auto out = std::make_shared<Column>(Column::sized(t.type, to.size()));
    for (size_t e = 0; e < to.size(); e++) {
        out->is_real ? void(out->real[e] = v->real[index[e]]) : void(out->whole[e] = v->whole[index[e]]);
    }
    return out;
}

ColumnPtr Machine::shared_values(Actor &a, const Tile &t, const Threads &at) {
    const int64_t use = held_use(a, t);
    if (has_producer(t.ring)) {
        a.rings[t.ring].read_by_threads.insert(use);
    } else {
        a.read_since.insert(t.name);
    }
    const std::vector<int> *inner = at.coordinates(t.shared.inner), *outer = at.coordinates(t.shared.outer);
    if (!inner || (!t.shared.outer.empty() && !outer)) {
        fault(a, fmt::format("`{}` is read at {}, which lacks an axis of it", t.name, at.layout.str()));
    }
    const int64_t from = slot_address(t, use);
    auto out = std::make_shared<Column>(Column::sized(t.type, at.size()));
    std::vector<int64_t> lanes;
    for (size_t e = 0; e < at.size(); e++) {
        const int64_t byte = from + t.shared.address((*inner)[e], outer ? (*outer)[e] : 0);
        check_arrived(a, byte, t.type.bytes(), t.name);
        const uint8_t *p = shared_.bytes.data() + byte;
        out->is_real ? void(out->real[e] = load_element(t.type, p))
                     : void(out->whole[e] = load_integer(t.type, p));
        lanes.push_back(byte);
        if (lanes.size() == 32) {
            count_banks(run_.out.counters.shared_reads, lanes, t.type.bytes());
            lanes.clear();
        }
    }
    return out;
}

ColumnPtr Machine::evaluate(Actor &a, const Expr &e, const Threads &at, const Mask &mask) {
    Elements places(*this, a, at);
    return Evaluator(places)(e, mask);
}

bool Machine::run(Actor &a, const Map &o, const Stmt &) {
    if (o.unless.defined() && run_.integer(o.unless, a.scope)) {
        return true;
    }
    write(a, o.dst, evaluate(a, o.value, threads(k_.tile(o.dst).registers, a.wg)));
    return true;
}

bool Machine::run(Actor &a, const Fill &o, const Stmt &) {
    write(a, o.dst, evaluate(a, o.value, threads(k_.tile(o.dst).registers, a.wg)));
    return true;
}

bool Machine::run(Actor &a, const Move &o, const Stmt &) {
    write(a, o.dst, aligned(a, o.src, threads(k_.tile(o.dst).registers, a.wg)));
    return true;
}

namespace {

/// A number for the coordinates along some axes.
std::vector<int64_t> keys(const Threads &t, const std::vector<std::string> &axes) {
    std::vector<int64_t> k(t.size());
    for (const std::string &axis : axes) {
        const std::vector<int> *at = t.coordinates(axis);
        for (size_t e = 0; at && e < k.size(); e++) {
            k[e] = k[e] << 20 | (*at)[e];
        }
    }
    return k;
}

/// Threads of several warpgroups hold parts of one sum.
bool meets(const RegisterLayout &l, const std::string &axis) {
    int threads = 1;
    for (const LayoutPart &p : l.threads) {
        threads *= p.extent;
        if (p.axis == axis && threads > 128) {
            return true;
        }
    }
    return false;
}

} // namespace

bool Machine::run(Actor &a, const Reduce &o, const Stmt &s) {
    const Tile &t = k_.tile(o.dst);
    const Threads &to = threads(t.registers, a.wg);
    const RegisterLayout over = o.over.threads.empty() && o.over.registers.empty() ? t.registers : o.over;
    const Threads &from = threads(over, a.wg);
    const std::vector<int> *along = from.coordinates(o.axis);
    if (!along) {
        fault(a, fmt::format("the layout {} lacks the axis `{}` that is reduced", over.str(), o.axis));
    }
    const int64_t limit = o.limit.defined() ? run_.integer(o.limit, a.scope) : k_.axes.at(o.axis);
    const std::vector<int64_t> left = keys(from, t.axes), wanted = keys(to, t.axes);
    // A warpgroup that has to wait for the others has put its values down already.
    const int blocks = o.blocks > 1 ? static_cast<int>(cluster_.blocks.size()) : 1;
    if (o.blocks != blocks) {
        fault(a,
              fmt::format("a reduction over {} blocks in a cluster of {}", o.blocks, cluster_.blocks.size()));
    }
    const int groups = (meets(over, o.axis) ? k_.warpgroups() : 1) * blocks;
    const bool together = !t.partial && groups > 1;
    if (t.partial && blocks > 1) {
        fault(a, "a sum over the blocks of a cluster is left spread over threads");
    }
    const int64_t round = together ? a.meetings : -1 - a.number;
    // Where each warpgroup has rows of its own, it meets its like in the other blocks.
    const int64_t key_of_group = blocks > 1 && !meets(over, o.axis) ? round * 64 + a.wg : round;
    auto &all = blocks > 1 ? cluster_.meetings : meetings_;
    Meeting &m = all[{&s, blocks > 1 ? key_of_group : round}];
    const int64_t start = blocks > 1 ? a.scope.at("cluster.rank") * k_.axes.at(o.axis) : 0;
    if (!together || !(a.barrier_waited == -2)) {
        const ColumnPtr v = evaluate(a, o.value, from);
        for (size_t e = 0; e < from.size(); e++) {
            if ((*along)[e] < limit) {
                const int64_t key = t.partial ? left[e] << 7 | static_cast<int64_t>(e % 128) : left[e];
                m.values[key].emplace(start + (*along)[e], v->number(v->size() == 1 ? 0 : e));
            }
        }
        m.arrived++;
    }
    if (together && m.arrived < groups) {
        a.barrier_waited = -2;
        return false;
    }
    a.barrier_waited = -1;
    auto out = std::make_shared<Column>(Column::sized(t.type, to.size()));
    for (size_t e = 0; e < to.size(); e++) {
        double sum = identity_of(o.op, t.type);
        const int64_t key = t.partial ? wanted[e] << 7 | static_cast<int64_t>(e % 128) : wanted[e];
        if (auto found = m.values.find(key); found != m.values.end()) {
            for (const auto &[at, v] : found->second) {
                sum = combine(o.op, t.type, sum, v);
            }
        } else if (!t.partial && limit > 0) {
            fault(a, fmt::format("element {} of `{}` is reduced from nothing that these threads hold", e,
                                 o.dst));
        }
        out->is_real ? void(out->real[e] = sum) : void(out->whole[e] = static_cast<int64_t>(sum));
    }
    if (together) {
        a.meetings++;
    } else {
        meetings_.erase({&s, round});
    }
    write(a, o.dst, out);
    return true;
}

bool Machine::run(Actor &a, const LaneReduce &o, const Stmt &) {
    const Tile &t = k_.tile(o.dst);
    const Threads &to = threads(t.registers, a.wg);
    const ColumnPtr v = read(a, o.src);
    const std::vector<int64_t> key = keys(threads(k_.tile(o.src).registers, a.wg), t.axes),
                               wanted = keys(to, t.axes);
    std::map<int64_t, double> sums;
    for (size_t e = 0; e < v->size(); e++) {
        auto [s, fresh] = sums.emplace(key[e], v->number(e));
        if (!fresh) {
            s->second = combine(o.op, t.type, s->second, v->number(e));
        }
    }
    auto out = std::make_shared<Column>(Column::sized(t.type, to.size()));
    for (size_t e = 0; e < to.size(); e++) {
        out->is_real ? void(out->real[e] = sums.at(wanted[e]))
                     : void(out->whole[e] = static_cast<int64_t>(sums.at(wanted[e])));
    }
    write(a, o.dst, out);
    return true;
}

} // namespace kiln::tile
