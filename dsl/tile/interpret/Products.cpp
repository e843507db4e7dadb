// Products that run beside the threads: fences, groups, and the moment when they read their operands.
#include "dsl/tile/interpret/Machine.h"

#include "dsl/tile/ir/Text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace kiln::tile {

namespace {

/// The tensor cores look at 19 of the 32 bits.
float cut_to_tf32(double x) {
    const float f = static_cast<float>(x);
    uint32_t bits;
    memcpy(&bits, &f, sizeof(bits));
    bits &= ~0x1fffu;
    float cut;
    memcpy(&cut, &bits, sizeof(cut));
    return cut;
}

} // namespace

bool Machine::run(Actor &a, const MmaFence &, const Stmt &) {
    a.fenced = ++a.clock;
    return true;
}

bool Machine::run(Actor &a, const MmaCommit &, const Stmt &) {
    a.groups.push_back(std::move(a.open));
    a.open.clear();
    return true;
}

bool Machine::run(Actor &a, const MmaWait &o, const Stmt &) {
    retire(a, static_cast<size_t>(std::max(0, o.pending)));
    return true;
}

void Machine::retire(Actor &a, size_t left) {
    while (a.groups.size() > left) {
        for (Actor::Product &p : a.groups.front()) {
            multiply(a, p);
        }
        a.groups.pop_front();
    }
}

/// Products that are done when their threads go on.
bool Machine::by_threads(const Stmt &s) const {
    return !k_.is_asynchronous(s);
}

bool Machine::run(Actor &a, const Mma &o, const Stmt &s) {
    Actor::Product p;
    p.stmt = &s;
    p.zero = o.start.empty() || (o.zero_when.defined() && run_.integer(o.zero_when, a.scope) != 0);
    if (o.limit.defined()) {
        fault(a, "a product in a role still has a limit");
    }
    if (!o.start.empty() && k_.root(o.start) != k_.root(o.dst)) {
        fault(a, fmt::format("the product accumulates in place, but `{}` and `{}` lie in different registers",
                             o.start, o.dst));
    }
    const bool done_by_threads = by_threads(s);
    std::vector<std::string> in_registers{o.dst};
    for (const std::string &name : {o.a, o.b}) {
        const Tile &t = k_.tile(name);
        if (t.space == Space::Shared) {
            p.uses[t.ring] = held_use(a, t);
            if (!has_producer(t.ring)) {
                a.read_since.insert(name);
            } else if (done_by_threads) {
                a.rings[t.ring].read_by_threads.insert(p.uses[t.ring]);
            }
        } else {
            in_registers.push_back(name);
            if (!a.registers[k_.root(name)].has_value) {
                fault(a, fmt::format("`{}` is read before it has a value", name));
            }
        }
    }
    if (!p.zero && !a.registers[k_.root(o.dst)].has_value) {
        fault(a, fmt::format("`{}` has no value to start at", o.start));
    }
    if (done_by_threads) {
        for (const std::string &name : in_registers) {
            touch(a, name, name == o.dst);
        }
        a.registers[k_.root(o.dst)].has_value = true;
        multiply(a, p);
        return true;
    }
    for (const std::string &name : in_registers) {
        if (a.registers[k_.root(name)].touched > a.fenced || a.fenced < 0) {
            fault(a,
                  fmt::format("`{}` was touched by the threads and no `mma_fence` follows before the product",
                              name));
        }
    }
    auto writes = [&](const Actor::Product &other, const std::string &operand) {
        return k_.tile(operand).space == Space::Register &&
               k_.root(other.stmt->as<Mma>()->dst) == k_.root(operand);
    };
    for (const auto &group : a.groups) {
        for (const Actor::Product &other : group) {
            if (writes(other, o.a) || writes(other, o.b)) {
                fault(a, "an operand is the result of a product in flight");
            }
        }
    }
    for (const Actor::Product &other : a.open) {
        if (writes(other, o.a) || writes(other, o.b)) {
            fault(a, "an operand is the result of a product in flight");
        }
    }
    a.registers[k_.root(o.dst)].has_value = true;
    a.open.push_back(std::move(p));
    if (mode_.products == When::Early) {
        multiply(a, a.open.back());
    }
    return true;
}

namespace {

/// Different coordinates along an axis, and the place of each among them.
struct Along {
    std::vector<int> values, place;
    Along(const std::vector<int> &at, int extent) : place(static_cast<size_t>(extent), -1) {
        for (int c : at) {
            if (place[static_cast<size_t>(c)] < 0) {
                place[static_cast<size_t>(c)] = static_cast<int>(values.size());
                values.push_back(c);
            }
        }
    }
};

} // namespace

/// The operands are read now, from where they lie now.
void Machine::multiply(Actor &a, Actor::Product &p) {
    if (p.done) {
        return;
    }
    p.done = true;
    const Mma &o = *p.stmt->as<Mma>();
    const Tile &d = k_.tile(o.dst);
    const Threads &to = threads(d.registers, a.wg);
    const int depth = k_.axes.at(o.axis);
    const bool asynchronous = !by_threads(*p.stmt);
    // The axis of each operand beside the one that is summed.
    auto other = [&](const Tile &t) {
        std::string found;
        for (const std::string &axis : t.axes) {
            found = axis == o.axis ? found : axis;
        }
        return found;
    };
    auto operand = [&](const std::string &name, const Along &rows, const std::string &axis) {
        const Tile &t = k_.tile(name);
        std::vector<float> v(rows.values.size() * static_cast<size_t>(depth));
        if (t.space == Space::Shared) {
            const bool by_depth = t.shared.inner == o.axis;
            const int64_t from = slot_address(t, p.uses.at(t.ring));
            for (size_t i = 0; i < rows.values.size(); i++) {
                for (int r = 0; r < depth; r++) {
                    const int c = rows.values[i];
                    const int64_t at = from + (by_depth ? t.shared.address(r, c) : t.shared.address(c, r));
                    check_arrived(a, at, t.type.bytes(), name);
                    if (asynchronous &&
                        shared_.state[static_cast<size_t>(at)] == SharedMemory::State::Written) {
                        fault(a, fmt::format("the tensor cores read `{}`, which threads wrote without "
                                             "`proxy_fence` behind it",
                                             name));
                    }
                    const double x = load_element(t.type, shared_.bytes.data() + at);
                    v[i * static_cast<size_t>(depth) + static_cast<size_t>(r)] =
                        asynchronous && t.type == Halide::Float(32) ? cut_to_tf32(x) : static_cast<float>(x);
                }
            }
            return v;
        }
        const Threads &from = threads(t.registers, a.wg);
        const std::vector<int> *row = from.coordinates(axis), *sum = from.coordinates(o.axis);
        if (!row || !sum) {
            fault(a, fmt::format("the layout of the operand `{}` lacks an axis", name));
        }
        const ColumnPtr values = a.registers[k_.root(name)].values;
        std::vector<bool> held(v.size());
        for (size_t e = 0; e < from.size(); e++) {
            const int place = rows.place[static_cast<size_t>((*row)[e])];
            if (place >= 0) {
                const size_t i =
                    static_cast<size_t>(place) * static_cast<size_t>(depth) + static_cast<size_t>((*sum)[e]);
                v[i] = static_cast<float>(values->number(e));
                held[i] = true;
            }
        }
        if (std::find(held.begin(), held.end(), false) != held.end()) {
            fault(a, fmt::format("the warpgroup does not hold all rows of the operand `{}`", name));
        }
        return v;
    };
    const std::string row = other(k_.tile(o.a)), col = other(k_.tile(o.b));
    const std::vector<int> *rows = to.coordinates(row), *cols = to.coordinates(col);
    if (!rows || !cols) {
        fault(a, fmt::format("the layout of `{}` lacks an axis of its operands", o.dst));
    }
    const Along r(*rows, k_.axes.at(row)), c(*cols, k_.axes.at(col));
    const std::vector<float> x = operand(o.a, r, row), y = operand(o.b, c, col);
    const size_t n = c.values.size(), m = r.values.size(), k = static_cast<size_t>(depth);
    std::vector<float> acc(m * n), yt(k * n);
    for (size_t j = 0; j < n; j++) {
        for (size_t q = 0; q < k; q++) {
            yt[q * n + j] = y[j * k + q];
        }
    }
    ColumnPtr &held = a.registers[k_.root(o.dst)].values;
    auto place = [&](size_t e) {
        return static_cast<size_t>(r.place[static_cast<size_t>((*rows)[e])]) * n +
               static_cast<size_t>(c.place[static_cast<size_t>((*cols)[e])]);
    };
    if (!p.zero) {
        for (size_t e = 0; e < to.size(); e++) {
            acc[place(e)] = static_cast<float>(held->number(e));
        }
    }
    for (size_t i = 0; i < m; i++) {
        for (size_t q = 0; q < k; q++) {
            const float f = x[i * k + q];
            for (size_t j = 0; j < n; j++) {
                acc[i * n + j] += f * yt[q * n + j];
            }
        }
    }
    auto out = std::make_shared<Column>(Column::sized(d.type, to.size()));
    for (size_t e = 0; e < to.size(); e++) {
        out->is_real ? void(out->real[e] = acc[place(e)])
                     : void(out->whole[e] = static_cast<int64_t>(acc[place(e)]));
    }
    held = out;
    Counters &counters = run_.out.counters;
    const int64_t step =
        std::max(1, 32 / k_.tile(o.a).type.bytes()); // elements along the sum that one instruction takes
    counters.products += static_cast<int64_t>((m + 63) / 64) * ((depth + step - 1) / step);
    counters.multiply_adds += static_cast<int64_t>(m * n * k);
}

} // namespace kiln::tile
