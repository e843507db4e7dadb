// Stores: straight from registers, or staged in shared memory and copied out asynchronously.
#include "dsl/tile/interpret/Machine.h"

#include "dsl/tile/ir/Text.h"

#include <fmt/format.h>

#include <algorithm>

namespace kiln::tile {

bool Machine::run(Actor &a, const Store &o, const Stmt &) {
    store_global(a, o.to, o.src, 1);
    return true;
}

bool Machine::run(Actor &a, const GlobalStore &o, const Stmt &) {
    store_global(a, o.to, o.src, o.vector);
    return true;
}

void Machine::store_global(Actor &a, const Region &to, const std::string &src, int vector) {
    const Tile &t = k_.tile(src);
    const Threads &at = threads(t.registers, a.wg);
    const ColumnPtr v = read(a, src);
    const std::vector<int64_t> base = run_.bases(to, a.scope);
    std::vector<const std::vector<int> *> along;
    for (const ViewDim &d : to.dims) {
        along.push_back(d.axis.empty() ? nullptr : at.coordinates(d.axis));
        if (!d.axis.empty() && !along.back()) {
            fault(a, fmt::format("`{}` has no axis `{}`", src, d.axis));
        }
    }
    const Array &array = run_.array(to.view);
    const int bytes = array.type.bytes();
    const size_t group = static_cast<size_t>(std::max(1, vector)), registers = at.size() / 128;
    std::vector<int64_t> index(base.size());
    for (size_t r0 = 0; r0 < registers; r0 += group) {
        for (size_t warp = 0; warp < 4; warp++) {
            std::vector<int64_t> lanes;
            for (size_t t0 = warp * 32; t0 < warp * 32 + 32; t0++) {
                int64_t first = -1;
                for (size_t r = r0; r < std::min(registers, r0 + group); r++) {
                    const size_t e = r * 128 + t0;
                    if (!at.is_first(e)) {
                        continue;
                    }
                    for (size_t d = 0; d < base.size(); d++) {
                        index[d] = base[d] + (along[d] ? (*along[d])[e] : 0);
                    }
                    if (!run_.write(to.view, index, *v, e)) {
                        continue;
                    }
                    const int64_t byte = array.offset(index) * bytes;
                    if (first < 0) {
                        first = byte;
                        lanes.push_back(byte);
                    } else if (byte != first + static_cast<int64_t>(r - r0) * bytes) {
                        fault(a, fmt::format(
                                     "{} registers of `{}` are stored in one access, and are no neighbours",
                                     vector, src));
                    }
                }
            }
            if (!lanes.empty()) {
                count_sectors(run_.out.counters.view_writes, lanes, bytes * static_cast<int>(group));
            }
        }
    }
}

bool Machine::run(Actor &a, const StageStore &o, const Stmt &) {
    const Tile &t = k_.tile(o.src);
    const Threads &at = threads(t.registers, a.wg);
    const int64_t buffer = run_.integer(o.buffer, a.scope);
    const std::vector<int> *inner = at.coordinates(o.layout.inner), *outer = at.coordinates(o.layout.outer);
    if (!inner || !outer) {
        fault(a, fmt::format("`{}` lacks an axis of its box ({})", o.src, o.layout.str()));
    }
    const bool across = o.layout.inner == k_.row_axis; // rows are contiguous in the view
    const std::vector<int> &rows = across ? *inner : *outer;
    const int first_row = *std::min_element(rows.begin(), rows.end()) + 64 * o.row_block;
    const int first_inner = across ? first_row : o.column, first_outer = across ? o.column : first_row;
    auto box = std::make_shared<std::vector<uint8_t>>(at.size());
    for (size_t e = 0; e < at.size(); e++) {
        const int i = (*inner)[e] - first_inner, r = (*outer)[e] - first_outer;
        (*box)[e] = i >= 0 && i < o.layout.inner_extent && r >= 0 && r < o.layout.outer_extent;
    }
    const ColumnPtr v = o.value.defined() ? evaluate(a, o.value, at, box) : read(a, o.src);
    // Neighbours in a thread's first digit leave together, with those of the lanes beside it: eight rows of 16 bytes, as
    // stmatrix writes them.
    const std::vector<LayoutPart> &digits = t.registers.registers;
    const size_t pair =
        digits.empty() || digits[0].axis != o.layout.inner ? 1 : static_cast<size_t>(digits[0].extent);
    std::map<std::pair<size_t, size_t>, std::set<int64_t>> chunks; // by registers and warp
    for (size_t e = 0; e < at.size(); e++) {
        const int i = (*inner)[e] - first_inner, r = (*outer)[e] - first_outer;
        if (!(*box)[e] || !at.is_first(e)) {
            continue;
        }
        const int64_t byte = buffer + o.layout.address(i, r);
        if (byte < 0 || byte + t.type.bytes() > static_cast<int64_t>(shared_.bytes.size())) {
            fault(a,
                  fmt::format("writes byte {} of shared memory, which has {}", byte, shared_.bytes.size()));
        }
        for (int64_t b = byte; b < byte + t.type.bytes(); b++) {
            const size_t n = static_cast<size_t>(b);
            if (shared_.reads[n] == 1) {
                fault(a, "overwrites a staging buffer while a store still reads it: `store_wait` is missing");
            }
            if (shared_.reads[n] == 2) {
                fault(a, "overwrites a staging buffer whose store only one thread waited for: a barrier is "
                         "missing");
            }
            shared_.state[n] = SharedMemory::State::Written;
            shared_.writer[n] = static_cast<int8_t>(a.number);
            shared_.seen[n] = 0;
            shared_.low = std::min(shared_.low, n);
            shared_.high = std::max(shared_.high, n + 1);
        }
        uint8_t *to = shared_.bytes.data() + byte;
        if (v->is_real) {
            store_element(t.type, to, v->number(e));
        } else {
            store_integer(t.type, to, v->integer(e));
        }
        chunks[{e / 128 / pair, e % 128 / 32}].insert(byte / 16 * 16);
    }
    for (const auto &[request, at_bytes] : chunks) {
        count_banks(run_.out.counters.shared_writes, {at_bytes.begin(), at_bytes.end()}, 16);
    }
    return true;
}

bool Machine::run(Actor &a, const ProxyFence &, const Stmt &) {
    for (size_t i = shared_.low; i < shared_.high; i++) {
        if (shared_.state[i] == SharedMemory::State::Written && shared_.writer[i] == a.number) {
            shared_.state[i] = SharedMemory::State::Fenced;
        }
    }
    return true;
}

bool Machine::run(Actor &a, const TmaStore &o, const Stmt &s) {
    Actor::Copying c{&s, run_.bases(o.to, a.scope), run_.integer(o.buffer, a.scope), false};
    each_of_box(o.to, c.base, o.layout, [&](const std::vector<int64_t> &, int at) {
        for (int64_t b = c.buffer + at; b < c.buffer + at + o.layout.element_bytes; b++) {
            const size_t n = static_cast<size_t>(b);
            if (n >= shared_.bytes.size()) {
                fault(a,
                      fmt::format("reads byte {} of shared memory, which has {}", n, shared_.bytes.size()));
            }
            switch (shared_.state[n]) {
            case SharedMemory::State::Written:
                fault(a, "copies out what was written without `proxy_fence` behind it");
            case SharedMemory::State::Fenced:
                fault(a,
                      "copies out what other threads wrote: a barrier behind their `proxy_fence` is missing");
            case SharedMemory::State::Empty:
            case SharedMemory::State::Arriving:
                fault(a, "copies out bytes that nobody wrote");
            case SharedMemory::State::Visible:
                if (!(shared_.seen[n] >> a.number & 1)) {
                    fault(a, "copies out what another warpgroup wrote: a barrier with it is missing");
                }
                break;
            case SharedMemory::State::Arrived:
                break;
            }
            shared_.reads[n] = 1;
            shared_.reader[n] = static_cast<int8_t>(a.number);
        }
    });
    if (mode_.stores == When::Early) {
        carry_out(a, c);
    }
    a.open_stores.push_back(std::move(c));
    return true;
}

void Machine::carry_out(Actor &a, Actor::Copying &c) {
    if (c.done) {
        return;
    }
    c.done = true;
    const TmaStore &o = *c.stmt->as<TmaStore>();
    const Array &array = run_.array(o.to.view);
    each_of_box(o.to, c.base, o.layout, [&](const std::vector<int64_t> &index, int at) {
        const uint8_t *from = shared_.bytes.data() + c.buffer + at;
        Column v = Column::sized(array.type, 1);
        if (v.is_real) {
            v.real[0] = load_element(array.type, from);
        } else {
            v.whole[0] = load_integer(array.type, from);
        }
        if (run_.write(o.to.view, index, v, 0)) {
            run_.out.counters.tma_stored += array.type.bytes();
        }
    });
}

bool Machine::run(Actor &a, const StoreCommit &, const Stmt &) {
    a.store_groups.push_back(std::move(a.open_stores));
    a.open_stores.clear();
    return true;
}

bool Machine::run(Actor &a, const StoreWait &o, const Stmt &) {
    while (a.store_groups.size() > static_cast<size_t>(std::max(0, o.pending))) {
        for (Actor::Copying &c : a.store_groups.front()) {
            carry_out(a, c);
            const TmaStore &t = *c.stmt->as<TmaStore>();
            each_of_box(t.to, c.base, t.layout, [&](const std::vector<int64_t> &, int at) {
                std::fill_n(shared_.reads.begin() + c.buffer + at, t.layout.element_bytes, uint8_t(2));
            });
        }
        a.store_groups.pop_front();
    }
    return true;
}

} // namespace kiln::tile
