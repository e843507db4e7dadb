// Slots that are filled and emptied in turn: barriers with phases and bytes, and the copies that fill a slot.
#include "dsl/tile/interpret/Machine.h"

#include "dsl/tile/ir/Text.h"

#include <fmt/format.h>

#include <algorithm>

namespace kiln::tile {

const Ring &Machine::ring(const std::string &name) const {
    const Ring *r = k_.ring(name);
    if (!r) {
        throw Fault{fmt::format("no ring `{}`", name)};
    }
    return *r;
}

void Machine::arrive(Barriers &b, int count, int64_t bytes, const std::string &what) {
    b.pending -= count;
    b.bytes += bytes;
    if (b.pending < 0) {
        throw Fault{fmt::format("the {} gets more arrivals in a phase than it counts ({})", what, b.count)};
    }
    if (b.pending == 0 && b.bytes == 0) {
        b.completed++;
        b.pending = b.count;
    }
}

bool Machine::run(Actor &a, const Wait &o, const Stmt &) {
    const Ring &r = ring(o.ring);
    Actor::Place &p = a.rings[o.ring];
    const size_t slot = static_cast<size_t>(p.taken % r.depth);
    const int64_t pass = p.taken / r.depth;
    // A wait names the parity of a phase: it passes when as many phases, or two more, or two fewer have ended.
    const bool full = o.what == Wait::What::Full;
    const int64_t ended = (full ? full_ : empty_).at(o.ring)[slot].completed, wanted = full ? pass + 1 : pass;
    if ((ended - wanted) % 2 != 0) {
        return false;
    }
    if (ended != wanted) {
        fault(a, fmt::format("wrong phase: {} fills of the slot have {}, {} are meant", ended,
                             full ? "arrived" : "been given back", wanted));
    }
    run_.out.counters.waits++;
    if (full) {
        if (!p.held.empty() && p.held.back() == p.taken) {
            fault(a, "waits again for a slot that it holds");
        }
        p.held.push_back(p.taken);
    }
    return true;
}

bool Machine::run(Actor &a, const Expect &o, const Stmt &) {
    const Ring &r = ring(o.ring);
    const size_t slot = static_cast<size_t>(a.rings[o.ring].taken % r.depth);
    Barriers &b = full_.at(o.ring)[slot];
    b.bytes += run_.integer(o.bytes, a.scope);
    arrive(b, 1, 0, fmt::format("full barrier of `{}`", o.ring));
    return true;
}

bool Machine::run(Actor &a, const Advance &o, const Stmt &) {
    ring(o.ring);
    a.rings[o.ring].taken++;
    return true;
}

bool Machine::run(Actor &a, const Skip &o, const Stmt &) {
    ring(o.ring);
    a.rings[o.ring].taken += run_.integer(o.count, a.scope);
    return true;
}

bool Machine::run(Actor &a, const Release &o, const Stmt &) {
    const Ring &r = ring(o.ring);
    Actor::Place &p = a.rings[o.ring];
    if (p.held.empty()) {
        fault(a, "gives back a slot that it does not hold");
    }
    const int64_t use = p.held.front();
    auto reads = [&](const Actor::Product &m) {
        auto u = m.uses.find(o.ring);
        return u != m.uses.end() && u->second == use;
    };
    bool in_flight = std::any_of(a.open.begin(), a.open.end(), reads);
    for (const auto &group : a.groups) {
        in_flight |= std::any_of(group.begin(), group.end(), reads);
    }
    if (in_flight) {
        fault(a, "gives back a slot that a product in flight still reads");
    }
    if (p.read_by_threads.erase(use) && !o.sync) {
        fault(a, "one thread gives back a slot that the others may still read: `sync` is missing");
    }
    p.held.pop_front();
    const size_t slot = static_cast<size_t>(use % r.depth);
    given_back_.at(o.ring)[slot]++;
    for (int rank : ranks(a, o.blocks)) {
        block(a, rank).arrive(block(a, rank).empty_.at(o.ring)[slot], 1, 0,
                              fmt::format("empty barrier of `{}`", o.ring));
    }
    return true;
}

bool Machine::run(Actor &a, const Drain &o, const Stmt &) {
    const Ring &r = ring(o.ring);
    const int64_t taken = a.rings[o.ring].taken;
    for (int64_t slot = 0; slot < r.depth; slot++) {
        const int64_t fills = (taken - slot + r.depth - 1) / r.depth;
        if (empty_.at(o.ring)[static_cast<size_t>(slot)].completed < fills) {
            return false;
        }
    }
    return true;
}

int64_t Machine::slot_address(const Tile &t, int64_t use) const {
    return t.offset + (t.ring.empty() ? 0 : use % ring(t.ring).depth) * t.shared.bytes();
}

int64_t Machine::held_use(const Actor &a, const Tile &t) const {
    if (!has_producer(t.ring)) {
        return 0;
    }
    auto p = a.rings.find(t.ring);
    const int64_t use = p == a.rings.end() ? 0 : p->second.taken;
    if (p == a.rings.end() ||
        std::find(p->second.held.begin(), p->second.held.end(), use) == p->second.held.end()) {
        fault(a, fmt::format("reads `{}` in a slot of `{}` that it has not waited for or has given back",
                             t.name, t.ring));
    }
    return use;
}

void Machine::each_of_box(const Region &r, const std::vector<int64_t> &base, const SharedLayout &l,
                          const std::function<void(const std::vector<int64_t> &, int)> &f, int from,
                          int to) const {
    int inner = -1, outer = -1;
    for (size_t d = 0; d < r.dims.size(); d++) {
        if (r.dims[d].axis.empty()) {
            continue;
        }
        int &which = r.dims[d].axis == l.inner ? inner : outer;
        if ((r.dims[d].axis != l.inner && r.dims[d].axis != l.outer) || which >= 0) {
            throw Fault{fmt::format("the axis `{}` of `{}` is none of its box in shared memory ({})",
                                    r.dims[d].axis, print(k_, r), l.str())};
        }
        which = static_cast<int>(d);
    }
    std::vector<int64_t> index = base;
    for (int o = from; o < (to < 0 ? l.outer_extent : to); o++) {
        if (outer >= 0) {
            index[static_cast<size_t>(outer)] = base[static_cast<size_t>(outer)] + o;
        }
        for (int i = 0; i < l.inner_extent; i++) {
            if (inner >= 0) {
                index[static_cast<size_t>(inner)] = base[static_cast<size_t>(inner)] + i;
            }
            f(index, l.address(i, o));
        }
    }
}

std::vector<std::pair<size_t, size_t>> Machine::bytes_of_rows(const Tile &t, int64_t slot, int from,
                                                              int to) const {
    const SharedLayout &l = t.shared;
    std::vector<std::pair<size_t, size_t>> all;
    const int64_t start = slot_address(t, slot);
    for (int column = 0; column < l.inner_extent; column += l.slab) {
        const int64_t slab = start + column / l.slab * l.outer_extent * l.pitch;
        all.push_back({static_cast<size_t>(slab + from * l.pitch), static_cast<size_t>(slab + to * l.pitch)});
    }
    return all;
}

bool Machine::run(Actor &a, const Load &o, const Stmt &s) {
    const Tile &t = k_.tile(o.dst);
    const Ring &r = ring(t.ring);
    const int64_t use = a.rings[t.ring].taken, pass = use / r.depth;
    if (empty_.at(t.ring)[static_cast<size_t>(use % r.depth)].completed < pass) {
        fault(a, fmt::format("refills a slot of `{}` before all readers gave it back", t.ring));
    }
    int from = 0, to = t.shared.outer_extent;
    if (o.rows.defined()) {
        to = static_cast<int>(std::clamp<int64_t>(run_.integer(o.rows, a.scope), 0, to));
    }
    if (o.blocks.defined()) {
        const int rows = t.shared.outer_extent / o.parts;
        from = rows * static_cast<int>(run_.integer(o.part, a.scope));
        to = from + rows;
    }
    for (int rank : ranks(a, o.blocks)) {
        block(a, rank).begin(a, o,
                             {&s, run_.bases(o.from, a.scope), t.ring, use, from, to, !o.blocks.defined()});
    }
    return true;
}

void Machine::begin(const Actor &a, const Load &o, Loading l) {
    const Tile &t = k_.tile(o.dst);
    const Ring &r = ring(t.ring);
    if (given_back_.at(t.ring)[static_cast<size_t>(l.slot % r.depth)] < l.slot / r.depth * r.consumers) {
        fault(a, fmt::format("refills a slot of `{}` before all readers gave it back", t.ring));
    }
    const auto ranges = bytes_of_rows(t, l.slot, l.from, l.to);
    for (const auto &[from, to] : ranges) {
        if (to > shared_.bytes.size()) {
            fault(a, fmt::format("writes bytes {} to {} of shared memory, which has {}", from, to,
                                 shared_.bytes.size()));
        }
        for (size_t i = from; i < to; i++) {
            if (shared_.state[i] == SharedMemory::State::Arriving) {
                fault(a, fmt::format("two copies write byte {} of shared memory at once", i));
            }
            if (shared_.reads[i] != 0) {
                fault(a, fmt::format("writes byte {} of shared memory, which a store still reads", i));
            }
            shared_.state[i] = SharedMemory::State::Arriving;
        }
    }
    if (mode_.loads == When::Early) {
        complete(l);
    } else {
        loading_.push_back(std::move(l));
    }
}

bool Machine::run(Actor &a, const Copy &o, const Stmt &) {
    const Tile &t = k_.tile(o.dst);
    const Array &array = run_.array(o.from.view);
    const std::vector<int64_t> base = run_.bases(o.from, a.scope);
    if (t.space == Space::Register) {
        const Threads &at = threads(t.registers, a.wg);
        std::vector<ColumnPtr> index;
        for (size_t d = 0; d < base.size(); d++) {
            auto c = std::make_shared<Column>(Column::of(base[d]));
            if (const std::vector<int> *along = at.coordinates(o.from.dims[d].axis)) {
                c->whole.assign(along->begin(), along->end());
                for (int64_t &i : c->whole) {
                    i += base[d];
                }
            }
            index.push_back(c);
        }
        write(a, o.dst, run_.read_view(o.from.view, index, nullptr, true));
        return true;
    }
    for (const Actor &other : actors_) {
        if (other.read_since.count(o.dst)) {
            fault(a, fmt::format("overwrites `{}`, which {} has read since its last barrier", o.dst,
                                 other.name));
        }
    }
    // Runs of 16 bytes are dealt to all threads in turn: each warpgroup writes its share.
    const int bytes = array.type.bytes(), run = std::max(1, 16 / bytes);
    const int computing = k_.plan.consumers;
    int64_t n = 0;
    each_of_box(o.from, base, t.shared, [&](const std::vector<int64_t> &index, int at) {
        if (n++ / run / 128 % computing != a.wg) {
            return;
        }
        const size_t to = static_cast<size_t>(slot_address(t, 0) + at);
        if (to + static_cast<size_t>(bytes) > shared_.bytes.size()) {
            fault(a, fmt::format("writes byte {} of shared memory, which has {}", to, shared_.bytes.size()));
        }
        if (array.contains(index)) {
            std::copy_n(array.bytes.data() + array.offset(index) * bytes, bytes, shared_.bytes.data() + to);
            run_.out.counters.loaded += bytes;
        } else {
            std::fill_n(shared_.bytes.data() + to, bytes, uint8_t(0));
        }
        for (size_t b = to; b < to + static_cast<size_t>(bytes); b++) {
            shared_.state[b] = SharedMemory::State::Written;
            shared_.writer[b] = static_cast<int8_t>(a.number);
            shared_.seen[b] = 0;
        }
        shared_.low = std::min(shared_.low, to);
        shared_.high = std::max(shared_.high, to + static_cast<size_t>(bytes));
    });
    return true;
}

void Machine::complete(const Loading &l) {
    const Load &o = *l.stmt->as<Load>();
    const Tile &t = k_.tile(o.dst);
    const Array &a = run_.array(o.from.view);
    const int64_t from = slot_address(t, l.slot);
    const int bytes = a.type.bytes();
    each_of_box(
        o.from, l.base, t.shared,
        [&](const std::vector<int64_t> &index, int at) {
            uint8_t *to = shared_.bytes.data() + from + at;
            if (a.contains(index)) {
                std::copy_n(a.bytes.data() + a.offset(index) * bytes, bytes, to);
                run_.out.counters.loaded += bytes;
            } else {
                std::fill_n(to, bytes, uint8_t(0));
            }
        },
        l.from, l.to);
    int64_t arrived = 0;
    for (const auto &[first, last] : bytes_of_rows(t, l.slot, l.from, l.to)) {
        std::fill(shared_.state.begin() + static_cast<std::ptrdiff_t>(first),
                  shared_.state.begin() + static_cast<std::ptrdiff_t>(last), SharedMemory::State::Arrived);
        arrived += static_cast<int64_t>(last - first);
    }
    if (l.last) { // what is above may be anything: as floats no numbers
        for (const auto &[first, last] : bytes_of_rows(t, l.slot, l.to, t.shared.outer_extent)) {
            for (size_t i = first; i < last; i++) {
                shared_.bytes[i] = 0xff;
                shared_.state[i] = SharedMemory::State::Arrived;
            }
        }
    }
    arrive(full_.at(l.ring)[static_cast<size_t>(l.slot % ring(l.ring).depth)], 0, -arrived,
           fmt::format("full barrier of `{}`", l.ring));
}

void Machine::check_arrived(const Actor &a, int64_t at, int bytes, const std::string &tile) const {
    for (int64_t i = at; i < at + bytes; i++) {
        if (i < 0 || i >= static_cast<int64_t>(shared_.bytes.size())) {
            fault(a, fmt::format("reads byte {} of shared memory, which has {}", i, shared_.bytes.size()));
        }
        const SharedMemory::State s = shared_.state[static_cast<size_t>(i)];
        if (s == SharedMemory::State::Arriving || s == SharedMemory::State::Empty) {
            fault(a, fmt::format("reads `{}` before it arrived", tile));
        }
        if (s != SharedMemory::State::Arrived && !(shared_.seen[static_cast<size_t>(i)] >> a.number & 1)) {
            fault(a, fmt::format("reads `{}`, which other threads wrote: a barrier is missing", tile));
        }
    }
}

} // namespace kiln::tile
