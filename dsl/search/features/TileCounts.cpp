#include "dsl/search/features/TileCounts.h"

#include "dsl/schedule/apply/Describe.h"
#include "dsl/search/features/LoopFeatures.h"
#include "dsl/search/space/Algorithm.h"
#include "dsl/search/space/Problem.h"
#include "dsl/tile/build/Build.h"
#include "dsl/tile/build/ReadPlan.h"
#include "dsl/tile/passes/Runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace kiln::search {

namespace {

using namespace tile;
using Halide::Internal::as_const_int;
using Halide::Internal::Call;

/// Sizes of views in place of their names; `x.extent.0` and `x.stride.0`, dense.
Expr at_sizes(const Problem &problem, const Expr &e) {
    class Bind : public Halide::Internal::IRMutator {
    public:
        explicit Bind(const Problem &problem) : problem(problem) {}
        using IRMutator::mutate;

    protected:
        Expr visit(const Halide::Internal::Variable *op) override {
            size_t last = op->name.rfind('.'),
                   first = last == std::string::npos ? last : op->name.rfind('.', last - 1);
            if (first == std::string::npos) {
                auto scalar = problem.scalars.find(op->name);
                return scalar == problem.scalars.end() || op->type.is_float()
                           ? Expr(op)
                           : Halide::Internal::make_const(op->type, static_cast<int64_t>(scalar->second));
            }
            std::string view = op->name.substr(0, first), what = op->name.substr(first + 1, last - first - 1);
            size_t d = static_cast<size_t>(std::atoi(op->name.c_str() + last + 1));
            const FuncAlgorithm *f = problem.algorithm->find(view);
            auto named = problem.extents.find(view);
            std::vector<int64_t> extents = named != problem.extents.end() ? named->second
                                           : f                            ? f->extents
                                                                          : std::vector<int64_t>();
            if (d >= extents.size()) {
                return op;
            }
            int64_t stride = 1;
            for (size_t i = 0; i < d; i++) {
                stride *= extents[i];
            }
            int64_t v = what == "extent" ? extents[d] : what == "stride" ? stride : 0;
            return Halide::Internal::make_const(op->type, v);
        }

    private:
        const Problem &problem;
    };
    return Halide::Internal::simplify(Bind(problem).mutate(e));
}

struct Ops {
    double simple = 0, special = 0, special_cost = 0;
};

/// Operations of one element; addresses of views left out.
class CountOps : public Halide::Internal::IRGraphVisitor {
public:
    Ops ops;

protected:
    using IRGraphVisitor::visit;
    template<typename Op>
    void binary(const Op *op) {
        ops.simple += op->type.is_float() || op->type.is_bool();
        IRGraphVisitor::visit(op);
    }
    void visit(const Halide::Internal::Add *op) override { binary(op); }
    void visit(const Halide::Internal::Sub *op) override { binary(op); }
    void visit(const Halide::Internal::Mul *op) override { binary(op); }
    void visit(const Halide::Internal::Div *op) override {
        ops.simple += op->type.is_float() ? 8 : 4;
        IRGraphVisitor::visit(op);
    }
    void visit(const Halide::Internal::Min *op) override { binary(op); }
    void visit(const Halide::Internal::Max *op) override { binary(op); }
    void visit(const Halide::Internal::Select *op) override { binary(op); }
    void visit(const Call *op) override {
        if (op->name.starts_with("view:")) {
            return;
        }
        if (op->type.is_float()) {
            ops.special += 1;
            ops.special_cost += op->name.starts_with("exp") ? 4 : 10;
        }
        IRGraphVisitor::visit(op);
    }
};

Ops ops_of(const Expr &e) {
    CountOps count;
    if (e.defined()) {
        e.accept(&count);
    }
    return count.ops;
}

class Counter {
public:
    Counter(const Problem &problem, const Kernel &k) : problem(problem), k(k) {}

    void run(FeatureRow &r) {
        device_features(problem, r);
        blocks = 1;
        for (const GridLoop &g : k.grid) {
            double extent = value(g.extent, 1);
            grid[g.name] = extent;
            blocks *= extent;
        }
        place_blocks(r);
        body(k.body, blocks, 1);
        write(r);
    }

private:
    const Problem &problem;
    const Kernel &k;
    std::map<std::string, double> grid, middle; ///< extents of grid loops; middle values of loops
    double blocks = 1, resident = 1, persistent_blocks = 1;
    // Totals over the grid.
    double mma_flops = 0, mma_count = 0, columns = 0, mma_shared = 0, simple = 0, special = 0,
           special_cost = 0;
    double loaded = 0, stored = 0, direct_loaded = 0, staged = 0, barriers = 0, iterations = 0, points = 0,
           memory = 0;
    bool is_16_bit = false;

    double value(const Expr &e, double otherwise) const {
        Expr v = at_sizes(problem, e);
        if (auto c = as_const_int(v)) {
            return static_cast<double>(*c);
        }
        // What depends on the block: in the middle of the grid.
        std::map<std::string, Expr> middles;
        for (const auto &[name, extent] : grid) {
            middles[name] = Halide::Internal::make_const(Halide::Int(32), static_cast<int64_t>(extent / 2));
        }
        for (const auto &[name, at] : middle) {
            middles[name] = Halide::Internal::make_const(Halide::Int(32), static_cast<int64_t>(at));
        }
        middles["wg"] = Halide::Internal::make_const(Halide::Int(32), 0);
        v = Halide::Internal::simplify(Halide::Internal::substitute(middles, v));
        if (auto c = as_const_int(v)) {
            return static_cast<double>(*c);
        }
        return otherwise;
    }

    double elements(const std::string &name) const {
        double n = 1;
        auto it = k.tiles.find(name);
        if (it == k.tiles.end()) {
            return 1;
        }
        for (const std::string &axis : it->second.axes) {
            n *= axis_extent(axis);
        }
        return n;
    }
    double axis_extent(const std::string &axis) const {
        auto it = k.axes.find(axis);
        return it == k.axes.end() ? 1 : it->second;
    }
    double bytes_of(const std::string &name) const {
        auto it = k.tiles.find(name);
        return it == k.tiles.end() ? 0 : elements(name) * it->second.type.bytes();
    }

    void place_blocks(FeatureRow &r) {
        const DeviceLimits &l = problem.device.limits;
        double threads = std::max(1, k.threads);
        resident = 32;
        if (l.threads_unit > 0) {
            resident = std::min(resident, std::floor(static_cast<double>(l.threads_unit) / threads));
        }
        if (k.shared_bytes > 0 && l.shared_bytes_unit > 0) {
            // A kilobyte of each block's shared memory is the driver's.
            resident = std::min(
                resident, std::floor(static_cast<double>(l.shared_bytes_unit) / (k.shared_bytes + 1024)));
        }
        double registers = registers_of_thread();
        if (l.registers_unit > 0) {
            resident = std::min(resident, std::floor(static_cast<double>(l.registers_unit) /
                                                     (threads * std::min(255.0, registers))));
        }
        resident = std::max(1.0, resident);
        auto set = [&](Feature c, double v) { r[c] = static_cast<float>(v); };
        set(Feature::registers, registers);
        set(Feature::spilled, std::max(0.0, registers - 255));
        set(Feature::occupancy,
            l.threads_unit > 0 ? std::min(1.0, resident * threads / static_cast<double>(l.threads_unit)) : 1);
    }

    /// Of a computing thread: the register tiles that live at once are not known before ptxas; the largest carried ones
    /// and a share for addresses are.
    double registers_of_thread() const {
        double words = 0, largest = 0;
        std::set<std::string> roots;
        for (const auto &[name, t] : k.tiles) {
            if (t.space != Space::Register || !roots.insert(k.root(name)).second) {
                continue;
            }
            double w =
                elements(name) * std::max(4, t.type.bytes()) / 4 / (128.0 * std::max(1, k.warpgroups()));
            largest = std::max(largest, w);
            words += t.type.is_float() && t.type.bits() == 32 ? w : w / 2;
        }
        return 40 + std::min(words, largest * 2);
    }

    void body(const Body &stmts, double runs, double depth) {
        for (const Stmt &s : stmts) {
            stmt(s, runs, depth);
        }
    }

    void stmt(const Stmt &s, double runs, double depth) {
        if (const auto *f = s.as<For>()) {
            double lo = value(f->lo, 0), hi = value(f->hi, lo + 8), n = std::max(0.0, hi - lo);
            middle[f->var] = lo + std::floor(n / 2);
            iterations += runs * n;
            body(f->body, runs * n, depth + 1);
            middle.erase(f->var);
        } else if (const auto *i = s.as<If>()) {
            body(i->body, runs, depth);
            body(i->otherwise, 0, depth);
        } else if (const auto *role = s.as<Role>()) {
            // In ping-pong each computing warpgroup takes its share of the tiles.
            body(role->body, runs, depth);
        } else if (const auto *t = s.as<TileLoop>()) {
            body(t->body, runs, depth);
        } else if (const auto *m = s.as<Mma>()) {
            double n = 2 * elements(m->dst) * axis_extent(m->axis);
            const Tile &a = k.tile(m->a);
            is_16_bit = a.type.bits() == 16;
            if (is_16_bit) {
                mma_flops += runs * n;
                double cols = 1;
                const Tile &dst = k.tile(m->dst);
                for (const std::string &axis : dst.axes) {
                    cols = axis != k.row_axis ? std::max(cols, axis_extent(axis)) : cols;
                }
                columns = std::max(columns, std::min(256.0, cols));
                double count = n / 2 / (64 * std::min(256.0, cols) * 16);
                mma_count += runs * count;
                double from_shared =
                    (a.space == Space::Shared ? 64.0 * 16 : 0.0) + std::min(256.0, cols) * 16;
                mma_shared += runs * count * from_shared * a.type.bytes();
            } else {
                simple += runs * n / 2; // multiply-adds
                mma_shared += runs * n / 2 * a.type.bytes() / 4;
            }
            points += runs * n / 2;
        } else if (const auto *l = s.as<Load>()) {
            load(l->dst, l->from, runs);
        } else if (const auto *c = s.as<Copy>()) {
            load(c->dst, c->from, runs);
        } else if (const auto *map = s.as<Map>()) {
            Ops o = ops_of(map->value);
            double n = elements(map->dst);
            simple += runs * n * o.simple;
            special += runs * n * o.special;
            special_cost += runs * n * o.special_cost;
            points += runs * n;
            views(map->value, map->dst, runs);
        } else if (const auto *reduce = s.as<Reduce>()) {
            Ops o = ops_of(reduce->value);
            double n = elements(reduce->dst) * axis_extent(reduce->axis);
            simple += runs * n * (o.simple + 1);
            special += runs * n * o.special;
            special_cost += runs * n * o.special_cost;
            points += runs * n;
        } else if (const auto *fill = s.as<Fill>()) {
            simple += runs * elements(fill->dst);
        } else if (const auto *g = s.as<GlobalStore>()) {
            stored += runs * elements(g->src) * view_bytes(g->to.view);
        } else if (const auto *st = s.as<Store>()) {
            stored += runs * elements(st->src) * view_bytes(st->to.view);
        } else if (const auto *stage = s.as<StageStore>()) {
            double n = 64.0 * stage->layout.inner_extent * k.tile(stage->src).type.bytes();
            staged += runs * 2 * n * k.warpgroups();
            stored += runs * n * k.warpgroups();
        } else if (s.as<Wait>() || s.as<Barrier>()) {
            barriers += runs;
        }
    }

    double view_bytes(const std::string &name) const {
        const View *v = k.view(name);
        return v ? v->type.bytes() : 4;
    }

    /// What a map reads of views itself, past shared memory.
    void views(const Expr &e, const std::string &dst, double runs) {
        class Find : public Halide::Internal::IRGraphVisitor {
        public:
            std::vector<const Call *> calls;

        protected:
            using IRGraphVisitor::visit;
            void visit(const Call *op) override {
                if (op->name.starts_with("view:")) {
                    calls.push_back(op);
                }
                IRGraphVisitor::visit(op);
            }
        } find;
        e.accept(&find);
        for (const Call *call : find.calls) {
            double n = 1;
            std::set<std::string> axes;
            for (const Expr &arg : call->args) {
                for (const std::string &axis : k.axes_of(arg)) {
                    axes.insert(axis);
                }
            }
            for (const std::string &axis : axes) {
                n *= axis_extent(axis);
            }
            direct_loaded += runs * std::min(n, elements(dst)) * call->type.bytes();
            from_memory(call->args, n * call->type.bytes(), runs);
        }
    }

    void load(const std::string &dst, const Region &from, double runs) {
        double n = bytes_of(dst);
        loaded += runs * n;
        std::vector<Expr> bases;
        for (const ViewDim &d : from.dims) {
            bases.push_back(d.base);
        }
        from_memory(bases, n, runs);
    }

    /// Distinct bytes of a region in one wave of blocks, times waves: what the last cache does not serve.
    void from_memory(const std::vector<Expr> &bases, double tile_bytes, double runs) {
        std::set<std::string> used;
        for (const Expr &base : bases) {
            for (const auto &[name, extent] : grid) {
                if (base.defined() && Halide::Internal::expr_uses_var(base, name)) {
                    used.insert(name);
                }
            }
        }
        double units = std::max(1, problem.device.units),
               wave = std::max(1.0, std::min(blocks, units * resident));
        // Blocks of a wave lie `group` deep along the second loop where the kernel is persistent, else along the first.
        std::map<std::string, double> extent_in_wave;
        double left = wave;
        for (size_t g = 0; g < k.grid.size(); g++) {
            double e = grid.at(k.grid[g].name);
            if (k.plan.persistent > 0 && k.grid.size() > 1) {
                double group = std::min<double>(k.plan.persistent, grid.at(k.grid[1].name));
                e = g == 0 ? std::min(e, std::ceil(wave / group)) : g == 1 ? std::min(group, e) : e;
            }
            e = std::min(e, left);
            extent_in_wave[k.grid[g].name] = e;
            left = std::max(1.0, left / std::max(1.0, e));
        }
        double distinct = 1, all = 1;
        for (const std::string &name : used) {
            distinct *= extent_in_wave[name];
            all *= grid[name];
        }
        double per_block = runs / std::max(1.0, blocks) * tile_bytes; // of one block, all its loops
        double waves = std::max(1.0, blocks / wave), unique = all * per_block;
        double l2 = static_cast<double>(std::max<int64_t>(problem.device.cache_bytes, 1 << 20));
        memory += unique < l2 / 2
                      ? unique
                      : std::max(unique, std::min(waves * distinct * per_block, runs * tile_bytes));
    }

    void write(FeatureRow &r) {
        auto set = [&](Feature c, double v) { r[c] = static_cast<float>(v); };
        const double units = std::max(1, problem.device.units);
        set(Feature::is_gpu, 1);
        set(Feature::is_tile, 1);
        set(Feature::points, points);
        set(Feature::useful_points, points);
        set(Feature::recompute, 1);
        set(Feature::mma_flops, mma_flops);
        set(Feature::float_adds, simple);
        set(Feature::float_specials, special);
        set(Feature::flops, mma_flops + simple);
        set(Feature::arithmetic_instructions, simple);
        set(Feature::special_instructions, special_cost);
        set(Feature::iterations, iterations);
        set(Feature::mma_instructions, mma_count);
        set(Feature::mma_columns, columns);
        set(Feature::bytes_shared, mma_shared + staged + loaded);
        set(Feature::bytes_register, mma_shared + direct_loaded + stored);
        set(Feature::bytes_first, loaded + direct_loaded + stored);
        set(Feature::bytes_second, loaded + direct_loaded + stored);
        set(Feature::bytes_third, loaded + direct_loaded + stored);
        set(Feature::bytes_memory, memory + stored);
        double unique = 0;
        for (const View &v : k.views) {
            auto e = problem.extents.find(v.name);
            double n = v.type.bytes();
            if (e != problem.extents.end()) {
                for (int64_t x : e->second) {
                    n *= static_cast<double>(x);
                }
                unique += n;
            }
        }
        set(Feature::bytes_unique, unique);
        set(Feature::lines_memory, (memory + stored) / 64);
        set(Feature::lines_first, (loaded + direct_loaded + stored) / 64);
        set(Feature::line_use, 1);
        set(Feature::reuse_memory, memory + stored > 0 ? unique / (memory + stored) : 1);
        set(Feature::reuse_first, loaded > 0 ? (mma_shared + staged) / loaded : 0);
        set(Feature::reuse_second, 1);
        set(Feature::coalescing, 1);
        set(Feature::bank_conflicts, 1);
        double at_once = units * resident, waves = blocks / at_once;
        set(Feature::tasks, blocks);
        set(Feature::task_points, points / std::max(1.0, blocks));
        set(Feature::cores_used, std::min(units, blocks));
        set(Feature::waves, waves);
        set(Feature::wave_use, blocks < at_once ? 1 : waves / std::ceil(waves));
        set(Feature::launches, 1);
        set(Feature::threads, k.threads);
        set(Feature::warp_use, 1);
        set(Feature::lanes, 32);
        set(Feature::lane_use, 1);
        set(Feature::shared_bytes, k.shared_bytes);
        set(Feature::barriers, barriers);
        double depth = 0, flight = 0;
        for (const Ring &ring : k.rings) {
            depth = std::max<double>(depth, ring.depth);
            flight += static_cast<double>(ring.depth) * ring.bytes;
        }
        if (k.rings.empty()) {
            // Registers are filled by many loads at once: all of a tile.
            flight = blocks > 0 ? direct_loaded / blocks : 0;
        }
        set(Feature::pipeline_depth, depth);
        set(Feature::bytes_in_flight, flight * resident);
        set(Feature::consumers, k.plan.consumers);
        set(Feature::producers, k.plan.producers);
        set(Feature::persistent, k.plan.persistent > 0);
        set(Feature::ping_pong, k.plan.ping_pong);
        set(Feature::cluster, k.plan.cluster_x * k.plan.cluster_y);
        set(Feature::split_parts, 1);
        set(Feature::specials_per_mma, mma_flops > 0 ? special / mma_flops : 0);
        set(Feature::working_set_task, k.shared_bytes);
        if (is_16_bit) {
            set(Feature::device_peak_flops, peak_of_16_bit());
        }
    }

    /// Operations a second of 16-bit products: as measured, else the measured float32's times the ratio of a device of the kind.
    double peak_of_16_bit() const {
        auto peak = [](const Device &d, const char *type) {
            if (!d.ceilings || !d.ceilings->flops.count(type)) {
                return 0.0;
            }
            return d.ceilings->flops.at(type);
        };
        double measured = peak(problem.device, "bfloat16");
        if (measured > 0) {
            return measured;
        }
        Device kind = nominal_device(problem.target);
        double narrow = peak(kind, "bfloat16"), wide = peak(kind, "float32"),
               here = peak(problem.device, "float32");
        return here > 0 ? here * narrow / wide : narrow;
    }
};

} // namespace

FeatureRow tile_row(const Problem &problem, const TileGroup &group) {
    TilePlan plan = read_plan(group);
    fit_target(plan, problem.target);
    FuncMap funcs = funcs_of(problem.outputs);
    std::vector<Halide::Func> outputs;
    for (const FuncNest *f : group.outputs) {
        outputs.push_back(funcs.at(f->name));
    }
    Kernel k = run_passes(build_kernel(plan, outputs), problem.device.limits);
    FeatureRow row;
    row.stage = group.kernel->name;
    Counter(problem, k).run(row);
    return row;
}

} // namespace kiln::search
