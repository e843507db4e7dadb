// A store becomes its steps: wait for a free buffer, write the box, fence, barrier, TMA; or, where there is no box,
// stores straight from registers.
#include "dsl/tile/passes/Passes.h"

#include <algorithm>

namespace kiln::tile {

namespace {

using namespace Halide::Internal;

Expr warpgroup() {
    return Variable::make(Halide::Int(32), "wg");
}

class Lower {
public:
    explicit Lower(Kernel &k) : k_(k) {}

    void run() {
        for (Stmt &s : k_.body) {
            Role *r = s.as<Role>();
            if (!r || r->threads == 1) {
                continue;
            }
            staged_any_ = false;
            body(r->body);
            if (staged_any_) { // the block may not end while its shared memory is read
                r->body.push_back({StoreWait{0}, s.func});
            }
        }
    }

private:
    Kernel &k_;
    bool staged_any_ = false;

    void body(Body &b) {
        Body out;
        for (Stmt &s : b) {
            if (For *f = s.as<For>()) {
                body(f->body);
            } else if (TileLoop *t = s.as<TileLoop>()) {
                body(t->body);
            } else if (If *i = s.as<If>()) {
                body(i->body);
                body(i->otherwise);
            } else if (Last *l = s.as<Last>()) {
                body(l->body);
            }
            if (const Store *store = s.as<Store>(); !store) {
                out.push_back(std::move(s));
            } else if (staged(k_, *store)) {
                staged_any_ = true;
                through_shared(out, *store, s.func, taken_value(out, *store));
            } else {
                out.push_back({GlobalStore{store->to, store->src, vector_of(*store)}, s.func});
            }
        }
        b = std::move(out);
    }

    /// Neighbours along the contiguous dimension that a thread holds next to each other.
    int vector_of(const Store &store) const {
        const Tile &t = k_.tile(store.src);
        const std::vector<LayoutPart> &digits = t.registers.registers;
        if (k_.plan.direct || digits.empty() || digits[0].axis != store.to.dims[0].axis ||
            digits[0].stride != 1) {
            return 1;
        }
        return std::min(digits[0].extent, 16 / t.type.bytes());
    }

    /// What is stored, where a map computes it for this store alone: then each box is computed as it is staged, and no
    /// register holds more of it than that. The map goes from `out`. Undefined: the tile lies in registers.
    Expr taken_value(Body &out, const Store &store) const {
        int readers = 0;
        walk(k_.body, [&](const Stmt &s) {
            if (!s.as<For>() && !s.as<If>() && !s.as<Role>() && !s.as<TileLoop>()) {
                readers += static_cast<int>(reads(k_, s).count(store.src));
            }
        });
        std::set<std::string> changed; // registers that statements behind the map write
        for (size_t i = out.size(); i-- > 0;) {
            const Map *m = out[i].as<Map>();
            if (m && m->dst == store.src) {
                const Expr value = m->value;
                bool alone = readers == 1 && !m->unless.defined() && k_.tile(store.src).alias.empty();
                for (const std::string &t : k_.tiles_of(value)) {
                    alone &= k_.tile(t).space == Space::Register && !changed.count(k_.root(t));
                }
                if (!alone) {
                    return {};
                }
                out.erase(out.begin() + static_cast<std::ptrdiff_t>(i));
                return value;
            }
            if (out[i].as<For>() || out[i].as<If>()) {
                return {};
            }
            if (const std::string t = defines(out[i]); !t.empty()) {
                changed.insert(k_.root(t));
            }
        }
        return {};
    }

    void through_shared(Body &out, const Store &store, const std::string &func, const Expr &value) {
        const SharedLayout box = staging_box(k_, store);
        const bool across = box.inner == k_.row_axis;
        const std::string col = across ? box.outer : box.inner;
        const int width = across ? box.outer_extent : box.inner_extent, chunks = k_.axes.at(col) / width;
        const int band = k_.axes.at(k_.row_axis) / k_.warpgroups(), blocks = band / 64;
        const Expr first_row = k_.warpgroups() == 1 ? Expr(0) : warpgroup() * band;
        const int bytes = (box.bytes() + 1023) / 1024 * 1024, buffers = k_.staging_bytes / bytes;
        const Expr id = 1 + warpgroup();
        auto buffer = [&](int n) {
            return simplify(k_.staging + warpgroup() * k_.staging_bytes + n % buffers * bytes);
        };
        auto put = [&](decltype(Stmt::op) op) { out.push_back({std::move(op), func}); };
        const int total = blocks * chunks;
        // As many boxes at a time as there are buffers where all fit; else one, while the others leave.
        const int at_once = total <= buffers ? total : 1;
        for (int first = 0; first < total; first += at_once) {
            put(StoreWait{total <= buffers ? 0 : buffers - 1});
            put(Barrier{id, 128, false});
            for (int n = first; n < first + at_once; n++) {
                put(StageStore{store.src, buffer(n), n / chunks, n % chunks * width, box, value});
            }
            put(ProxyFence{});
            put(Barrier{id, 128, false});
            for (int n = first; n < first + at_once; n++) {
                Region to = store.to;
                for (ViewDim &d : to.dims) {
                    if (d.axis == k_.row_axis) {
                        d.base = simplify(d.base + first_row + n / chunks * 64);
                    } else if (d.axis == col) {
                        d.base = simplify(d.base + n % chunks * width);
                    }
                }
                put(TmaStore{std::move(to), buffer(n), box});
                put(StoreCommit{});
            }
        }
    }
};

} // namespace

void lower_stores(Kernel &k) {
    Lower(k).run();
}

} // namespace kiln::tile
