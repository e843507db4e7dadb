// Shared memory: which tiles share a ring, how deep each is, staging buffers for stores, and where all of it lies.
#include "dsl/tile/passes/Passes.h"

#include <fmt/format.h>

#include <algorithm>

namespace kiln::tile {

namespace {

/// A swizzled box starts where the swizzle's pattern does (CUDA programming guide: 128-byte swizzle repeats after 1024).
constexpr int tile_alignment = 1024;
constexpr int barrier_bytes = 8;
constexpr int most_stages = 8;

int align(int bytes, int to) {
    return (bytes + to - 1) / to * to;
}

class Shared {
public:
    Shared(Kernel &k, const DeviceLimits &limits) : k_(k), limit_(static_cast<int>(limits.shared_bytes)) {}

    void run() {
        collect(k_.body, false);
        for (Ring &r : k_.rings) {
            r.blocks = count_readers(readers_of(k_, r.name), 0);
        }
        plan_staging();
        plan_scratch();
        choose_depths();
        place();
    }

private:
    Kernel &k_;
    int limit_;
    std::vector<std::string> flexible_; ///< rings whose depth the schedule leaves open

    int stage_of(const Body &body, const std::string &tile) const {
        for (const Stmt &s : body) {
            if (s.as<Mma>() && reads(k_, s).count(tile)) {
                auto p = k_.plan.products.find(s.func);
                return p == k_.plan.products.end() ? 0 : p->second.stage;
            }
        }
        return 0;
    }

    /// Copies of one body with one depth and one stage fill and empty together: they share a ring.
    void collect(Body &body, bool looped) {
        std::map<std::pair<int, int>, std::string> ring_for;
        for (Stmt &s : body) {
            if (For *f = s.as<For>()) {
                collect(f->body, true);
            }
            const Copy *c = s.as<Copy>();
            if (!c) {
                continue;
            }
            auto plan = k_.plan.copies.find(c->from.view);
            // Threads that copy for themselves are not ahead of themselves. Warpgroups that take tiles in turn have a slot each of
            // what is copied once a tile: the later may ask for its fill before that of the other has come, and a parity
            // cannot tell two fills ahead from none.
            const int once = k_.plan.ping_pong && k_.plan.producers > 0 ? k_.plan.consumers : 1;
            const int depth = k_.plan.producers == 0         ? 1
                              : !looped                      ? once
                              : plan == k_.plan.copies.end() ? 0
                                                             : plan->second.stages;
            std::string &ring = ring_for[{depth, stage_of(body, c->dst)}];
            if (ring.empty()) {
                ring = k_.fresh("ring");
                Ring r;
                r.name = ring;
                r.depth = std::max(1, depth);
                r.consumers = k_.warpgroups();
                k_.rings.push_back(r);
                if (depth == 0) {
                    flexible_.push_back(ring);
                }
            }
            Tile &t = k_.tiles.at(c->dst);
            t.ring = ring;
            k_.ring(ring)->tiles.push_back(t.name);
            k_.ring(ring)->bytes += t.shared.bytes();
        }
    }

    /// Two boxes of 64 rows for each warpgroup, so that one is written while the other leaves; one where there is no
    /// room for two.
    void plan_staging() {
        walk(k_.body, [&](Stmt &s) {
            if (const Store *store = s.as<Store>(); store && staged(k_, *store)) {
                k_.staging_bytes =
                    std::max(k_.staging_bytes, 2 * align(staging_box(k_, *store).bytes(), tile_alignment));
            }
        });
    }

    /// Reductions whose axis lies over several warps meet in shared memory: what each warp has of each element.
    void plan_scratch() {
        walk(k_.body, [&](Stmt &s) {
            const Reduce *r = s.as<Reduce>();
            if (!r) {
                return;
            }
            int below = 1, across = 1, apart = 1;
            for (const LayoutPart &p : r->over.threads) {
                if (p.axis == r->axis) {
                    across *= p.extent / std::max(1, std::min(p.extent, 32 / below));
                } else if (!p.axis.empty()) {
                    apart *= p.extent;
                }
                below *= p.extent;
            }
            if (across > 1) {
                const Tile &t = k_.tile(r->dst);
                const int held = t.registers.register_count() * t.type.bytes();
                k_.scratch_bytes = std::max(k_.scratch_bytes, held * across * apart);
            }
        });
    }

    int fixed_bytes() const {
        return align(k_.staging_bytes * k_.plan.consumers, tile_alignment) +
               align(k_.scratch_bytes, tile_alignment) +
               tile_alignment; // the start of dynamic shared memory is brought to a boundary
    }

    int ring_bytes() const {
        int total = 0;
        for (const Ring &r : k_.rings) {
            total += r.bytes * r.depth + 2 * barrier_bytes * r.depth;
        }
        return total;
    }

    void choose_depths() {
        for (bool grown = true; grown;) {
            grown = false;
            for (const std::string &name : flexible_) {
                Ring &r = *k_.ring(name);
                r.depth++;
                if (r.depth > most_stages || fixed_bytes() + ring_bytes() > limit_) {
                    r.depth--;
                } else {
                    grown = true;
                }
            }
        }
        if (fixed_bytes() + ring_bytes() > limit_) {
            k_.staging_bytes /= 2;
        }
        const int need = fixed_bytes() + ring_bytes();
        if (need > limit_) {
            std::string parts;
            for (const Ring &r : k_.rings) {
                parts += fmt::format("{}{} slots of {}", parts.empty() ? "" : ", ", r.depth, r.bytes);
            }
            refuse("K1121",
                   fmt::format("`{}` needs {} bytes of shared memory ({}; {} for stores), the device has {}",
                               k_.name, need, parts, k_.staging_bytes * k_.plan.consumers, limit_),
                   {}, {"take fewer `stages` or a smaller tile"});
        }
    }

    void place() {
        int at = 0;
        for (Ring &r : k_.rings) {
            for (const std::string &name : r.tiles) {
                Tile &t = k_.tiles.at(name);
                t.offset = at;
                at += t.shared.bytes() * r.depth;
            }
        }
        at = align(at, tile_alignment);
        k_.staging = at;
        at += k_.staging_bytes * k_.plan.consumers;
        k_.scratch = at;
        at += k_.scratch_bytes;
        at = align(at, barrier_bytes);
        for (Ring &r : k_.rings) {
            r.barriers = at;
            at += 2 * barrier_bytes * r.depth;
        }
        k_.shared_bytes = at == 0 ? 0 : at + tile_alignment;
        k_.threads = 128 * (k_.plan.consumers + (k_.rings.empty() ? 0 : k_.plan.producers));
    }
};

} // namespace

SharedLayout staging_box(const Kernel &k, const Store &store) {
    const Tile &t = k.tile(store.src);
    constexpr int rows = 64;
    SharedLayout l;
    l.inner = store.to.dims[0].axis;
    l.element_bytes = t.type.bytes();
    if (l.inner == k.row_axis) { // the box lies on its side: 64 elements of each of a few columns
        constexpr int most = 64;
        l.outer = t.axes[0] == l.inner ? t.axes[1] : t.axes[0];
        l.inner_extent = l.slab = rows;
        l.pitch = l.swizzle = rows * l.element_bytes;
        l.outer_extent = std::min(most, k.axes.at(l.outer));
        while (k.axes.at(l.outer) % l.outer_extent != 0 || l.outer_extent % 8 != 0) {
            l.outer_extent--;
        }
        return l;
    }
    l.outer = k.row_axis;
    const int cols = k.axes.at(l.inner) * l.element_bytes;
    l.swizzle = l.pitch = cols % 128 == 0 ? 128 : cols % 64 == 0 ? 64 : 0;
    if (l.swizzle == 0) {
        // Rows at an odd multiple of 16 bytes lie in different banks without a swizzle: as few boxes as give such rows.
        constexpr int widest = 256;
        for (int boxes = 1; l.pitch == 0; boxes++) {
            const int bytes = cols / boxes;
            l.pitch = cols % boxes == 0 && bytes <= widest && bytes % 32 == 16 ? bytes : 0;
        }
    }
    l.slab = l.pitch / l.element_bytes;
    l.inner_extent = l.slab;
    l.outer_extent = rows;
    return l;
}

bool staged(const Kernel &k, const Store &store) {
    const Tile &t = k.tile(store.src);
    if (k.plan.direct || k.rings.empty() || k.plan.producers == 0 || t.axes.size() != 2 ||
        t.type.bits() != 16 || store.to.dims[0].axis.empty()) {
        return false;
    }
    const std::string &row = k.row_axis, &col = t.axes[0] == row ? t.axes[1] : t.axes[0];
    return std::count(t.axes.begin(), t.axes.end(), row) > 0 && k.axes.at(col) % 8 == 0 &&
           t.registers == wgmma_fragment(row, k.axes.at(row), col, k.axes.at(col), k.warpgroups());
}

void plan_shared(Kernel &k, const DeviceLimits &limits) {
    Shared(k, limits).run();
}

} // namespace kiln::tile
