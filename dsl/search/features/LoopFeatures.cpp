#include "dsl/search/features/LoopFeatures.h"

#include "dsl/search/features/NestModel.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace kiln::search {

namespace {

/// Share of a cache that one definition's data can count on: the rest holds what streams by.
constexpr double cache_share = 0.75;
constexpr double line_bytes = 64, sector_bytes = 32;

struct Caches {
    double first = 32 << 10, second = 512 << 10, third = 16 << 20;
};

Caches caches_of(const Device &d) {
    Caches c;
    auto get = [&](const char *name, double otherwise) {
        auto it = d.caches.find(name);
        return it == d.caches.end() || it->second <= 0 ? otherwise : static_cast<double>(it->second);
    };
    if (d.target.backend == Backend::Cpu) {
        c.first = get("L1d", 32 << 10);
        c.second = get("L2", 512 << 10);
        c.third =
            std::max(c.second, get("L3", static_cast<double>(std::max<int64_t>(d.cache_bytes, 1 << 20))));
    } else {
        c.first = static_cast<double>(std::max<int64_t>(d.limits.shared_bytes_unit, 32 << 10));
        c.second = c.third = get("L2", static_cast<double>(std::max<int64_t>(d.cache_bytes, 1 << 20)));
    }
    return c;
}

bool is_vector(LoopKind k) {
    return k == LoopKind::Vectorized;
}
bool is_block_kind(LoopKind k) {
    return k == LoopKind::Vectorized || k == LoopKind::Unrolled;
}

class RowMaker {
public:
    RowMaker(const Problem &problem, const LoopNest &nest, const Schedule &canonical)
        : problem(problem), model(problem, nest, canonical), nest(nest) {}

    void run(Features &out) {
        caches = caches_of(problem.device);
        for (const ModelBody &body : model.bodies) {
            Footprints f;
            for (size_t depth = 0; depth <= body.loops.size(); depth++) {
                f.lines.emplace_back();
                double sum = 0;
                for (const ModelAccess &a : body.accesses) {
                    double n = a.reads_own ? 0 : model.lines(body, a, depth, line_bytes);
                    f.lines.back().push_back(n);
                    sum += n;
                }
                f.sum.push_back(sum);
                // What runs inside one loop shares the caches.
                if (depth > 0) {
                    const ModelLoop &l = body.loops[depth - 1];
                    shared[{l.stage, l.index}] += sum;
                }
            }
            whole += f.sum[0];
            footprints.push_back(std::move(f));
        }
        for (size_t i = 0; i < model.bodies.size(); i++) {
            out.rows.push_back(row(model.bodies[i], footprints[i]));
        }
    }

private:
    struct Footprints {
        std::vector<std::vector<double>> lines; ///< by depth and access
        std::vector<double> sum;
    };
    const Problem &problem;
    NestModel model;
    const LoopNest &nest;
    Caches caches;
    std::vector<Footprints> footprints;
    std::map<std::pair<const StageNest *, int>, double> shared;
    double whole = 0;

    double working_set(const ModelBody &body, const Footprints &f, size_t depth) const {
        if (depth == 0) {
            return f.sum[0];
        }
        const ModelLoop &l = body.loops[depth - 1];
        return std::max(f.sum[depth], l.own ? 0.0 : shared.at({l.stage, l.index}));
    }

    /// Bytes that one access moves into a level of `capacity`, by the largest loop body that it holds.
    double traffic(const ModelBody &body, const Footprints &f, size_t access, double capacity) const {
        size_t depth = 0;
        while (depth < body.loops.size() && working_set(body, f, depth) > capacity * cache_share) {
            depth++;
        }
        if (depth == 0) {
            return f.lines[0][access];
        }
        double runs = 1;
        for (size_t i = 0; i + 1 < depth; i++) {
            runs *= body.loops[i].extent;
        }
        // Neighbouring runs of that body share what both touch.
        double twice =
            std::min(body.loops[depth - 1].extent * f.lines[depth][access], f.lines[depth - 1][access]);
        return runs * twice;
    }

    FeatureRow row(const ModelBody &body, const Footprints &f) {
        FeatureRow r;
        r.stage = body.name;
        device_features(problem, r);
        const bool gpu = problem.target.backend != Backend::Cpu;
        const DeviceLimits &limits = problem.device.limits;
        auto set = [&](Feature c, double v) { r[c] = static_cast<float>(v); };

        double points = body.share, iterations = 0, run = 1, copies = 1, lanes = 1, tasks = 1, launches = 0,
               threads = 1, reduction = 1, inner_extent = 1;
        double exact = 1;
        int depth = 0;
        bool parallel_seen = false;
        size_t inner_serial = body.loops.size();
        for (size_t i = 0; i < body.loops.size(); i++) {
            const ModelLoop &l = body.loops[i];
            points *= l.extent;
            switch (l.kind) {
            case LoopKind::Vectorized:
                lanes *= l.extent;
                break;
            case LoopKind::Unrolled:
                copies *= l.extent;
                break;
            case LoopKind::GpuBlock:
                if (!parallel_seen) {
                    launches = run;
                    parallel_seen = true;
                }
                tasks *= l.extent;
                run *= l.extent;
                break;
            case LoopKind::GpuThread:
            case LoopKind::GpuLane:
                threads *= l.extent;
                run *= l.extent;
                break;
            case LoopKind::Parallel:
                if (!parallel_seen) {
                    launches = run;
                    parallel_seen = true;
                }
                tasks *= l.extent;
                [[fallthrough]];
            case LoopKind::Serial:
                run *= l.extent;
                iterations += run;
                depth++;
                if (l.kind == LoopKind::Serial) {
                    inner_extent = l.extent;
                    inner_serial = i;
                }
                break;
            }
            if (l.own && l.reduction) {
                reduction *= l.extent;
            }
        }
        for (size_t d = 0; d < body.stage->dims.size(); d++) {
            exact *= model.span(*body.stage, static_cast<int>(d), static_cast<int>(body.stage->loops.size()));
        }
        double own = 1;
        for (const ModelLoop &l : body.loops) {
            own *= l.own ? l.extent : 1;
        }
        set(Feature::points, points);
        set(Feature::useful_points, body.useful_points);
        set(Feature::recompute, points / std::max(1.0, body.useful_points));
        set(Feature::guarded, own > 0 ? std::max(0.0, 1 - exact / own) : 0);
        set(Feature::iterations, iterations);
        set(Feature::inner_extent, inner_extent);
        set(Feature::reduction_extent, reduction);
        set(Feature::depth, depth);
        set(Feature::unrolled, copies);
        work(body, points, lanes, r);
        // Stages inside another one's parallel loop run in its tasks and start no threads.
        bool own_launch = std::any_of(body.loops.begin(), body.loops.end(), [&](const ModelLoop &l) {
            return l.own && (l.kind == LoopKind::Parallel || l.kind == LoopKind::GpuBlock);
        });
        set(Feature::launches, own_launch ? std::max(1.0, launches) : gpu && !parallel_seen ? run : 0);
        instructions(body, points, lanes, copies, inner_serial, r);
        memory(body, f, inner_serial, r);
        parallelism(body, tasks, threads, r);
        if (gpu) {
            gpu_columns(body, tasks, threads, r);
        } else {
            double native = std::max(1.0, limits.lanes * 4.0 / std::max(1.0, body.element_bytes));
            set(Feature::lane_use, lanes / (std::ceil(lanes / native) * native));
            double tasks_points = points / std::max(1.0, tasks);
            set(Feature::task_points, tasks_points);
        }
        set(Feature::task_points, points / std::max(1.0, tasks));
        set(Feature::lanes, lanes);
        return r;
    }

    static void work(const ModelBody &body, double points, double lanes, FeatureRow &r) {
        auto set = [&](Feature c, double v) { r[c] = static_cast<float>(v * points); };
        const OpCount &o = body.ops;
        set(Feature::float_adds, o.adds);
        set(Feature::float_muls, o.muls);
        set(Feature::float_divs, o.divs);
        set(Feature::float_specials, o.specials);
        set(Feature::compares, o.compares);
        set(Feature::int_ops, o.ints);
        set(Feature::casts, o.casts);
        r[Feature::flops] = r[Feature::float_adds] + r[Feature::float_muls] + r[Feature::float_divs];
    }

    void instructions(const ModelBody &body, double points, double lanes, double copies, size_t inner_serial,
                      FeatureRow &r) {
        const bool gpu = problem.target.backend != Backend::Cpu;
        const DeviceLimits &limits = problem.device.limits;
        auto set = [&](Feature c, double v) { r[c] = static_cast<float>(v); };
        double native = gpu ? 1 : std::max(1.0, limits.lanes * 4.0 / std::max(1.0, body.element_bytes));
        double per = std::min(std::max(1.0, lanes), native); // lanes of one instruction
        const OpCount &o = body.ops;
        double fused = std::min(o.adds, o.muls);
        double arithmetic = o.adds + o.muls - fused + 5 * o.divs + o.compares + o.ints + o.casts;
        set(Feature::arithmetic_instructions, arithmetic * points / per);
        set(Feature::special_instructions, o.special_cost * points / per);

        // Loads after reuse in registers: an address that does not move with an unrolled loop is loaded once for all its
        // copies; one that does not move with the innermost serial loop, once for that loop, if all around it is unrolled.
        double block = std::max(1.0, lanes) * copies, runs = points / block, element = body.element_bytes;
        double vector_loads = 0, scalar_loads = 0, gathers = 0, vector_stores = 0, scalar_stores = 0,
               scatters = 0, bytes = 0, held = 0, accumulators = 0, operands = 0;
        std::vector<double> kept;
        for (const ModelAccess &a : body.accesses) {
            double times = a.count, held_times = a.count, width = 1;
            bool contiguous = false, strided = false;
            for (size_t i = 0; i < body.loops.size(); i++) {
                const ModelLoop &l = body.loops[i];
                if (!is_block_kind(l.kind)) {
                    continue;
                }
                bool other = false;
                double step = model.step(body, a, i, other);
                bool moves = step != 0 || other;
                if (is_vector(l.kind)) {
                    if (moves) {
                        width *= l.extent;
                        (std::abs(step) == 1 && !other ? contiguous : strided) = true;
                    }
                } else if (moves) {
                    times *= l.extent;
                    held_times *= l.reduction ? 1 : l.extent;
                }
            }
            // Copies of a stencil's reads that meet: neighbouring points share all but the rim.
            double hoist = 1;
            if (inner_serial < body.loops.size()) {
                bool other = false;
                double step = model.step(body, a, inner_serial, other);
                bool tight = true;
                for (size_t i = inner_serial + 1; i < body.loops.size(); i++) {
                    tight = tight && is_block_kind(body.loops[i].kind);
                }
                if (step == 0 && !other && tight) {
                    hoist = body.loops[inner_serial].extent;
                }
            }
            double instructions_one =
                contiguous ? std::ceil(width * a.bytes / std::max(1.0, limits.lanes * 4.0)) : 1;
            if (gpu) {
                instructions_one = 1;
            }
            double n = runs * times / hoist;
            bytes += n * (strided || contiguous ? width : 1) * a.bytes;
            if (strided && !contiguous) {
                (a.is_store ? scatters : gathers) += n * width;
            } else if (contiguous) {
                (a.is_store ? vector_stores : vector_loads) += n * instructions_one;
            } else {
                (a.is_store ? scalar_stores : scalar_loads) += n;
            }
            double registers_of =
                held_times * std::max(1.0, std::ceil(width * a.bytes / std::max(1.0, limits.lanes * 4.0)));
            if (gpu) {
                registers_of = held_times * width * a.bytes / 4;
            }
            if (a.is_store && body.is_reduction) {
                accumulators = registers_of;
            } else if (!a.is_store && !a.reads_own) {
                kept.push_back(registers_of);
            }
            operands += a.is_store ? 0 : points * a.count * a.bytes;
        }
        // Of two operands that meet in all pairs, the smaller stays while the larger passes.
        std::sort(kept.begin(), kept.end());
        held = accumulators + (kept.empty() ? 0 : kept.front()) + 2 + (o.specials > 0 ? 6 : 0);
        if (!body.is_reduction) {
            held = std::min(copies, 8.0) + 2 + (o.specials > 0 ? 6 : 0);
        }
        double available = gpu ? std::max<double>(32, static_cast<double>(limits.registers))
                               : std::max(8.0, static_cast<double>(limits.vector_registers));
        set(Feature::vector_loads, vector_loads);
        set(Feature::scalar_loads, scalar_loads);
        set(Feature::gathers, gathers);
        set(Feature::vector_stores, vector_stores);
        set(Feature::scalar_stores, scalar_stores);
        set(Feature::scatters, scatters);
        set(Feature::bytes_register, bytes);
        set(Feature::registers, held + (gpu ? 16 : 0));
        set(Feature::spilled, std::max(0.0, held - available));
        set(Feature::chains,
            body.is_reduction && accumulators > 0 ? accumulators : copies * std::max(1.0, lanes / native));
        double results = points * element;
        set(Feature::reuse_register, bytes > 0 ? (operands + results) / bytes : 0);
    }

    void memory(const ModelBody &body, const Footprints &f, size_t inner_serial, FeatureRow &r) {
        auto set = [&](Feature c, double v) { r[c] = static_cast<float>(v); };
        double first = 0, second = 0, third = 0, memory = 0, unique = 0, used = 0, aliased = 0, moving = 0;
        size_t task_depth = 0;
        for (size_t i = 0; i < body.loops.size(); i++) {
            bool task = body.loops[i].kind == LoopKind::Parallel || body.loops[i].kind == LoopKind::GpuBlock;
            task_depth = task ? i + 1 : task_depth;
        }
        const bool fits = whole < caches.third * cache_share;
        for (size_t a = 0; a < body.accesses.size(); a++) {
            const ModelAccess &access = body.accesses[a];
            if (access.reads_own) {
                continue;
            }
            double write = access.is_store ? 2 : 1; // a line is read before it is written, and written back
            double t1 = traffic(body, f, a, caches.first), t2 = traffic(body, f, a, caches.second),
                   t3 = traffic(body, f, a, caches.third);
            bool local = access.store_depth > 0; // its lines stay where they were made, if they fit
            double size = f.lines[0][a];
            first += t1;
            second += local && size <= caches.second * cache_share ? std::min(t2, size) : t2;
            third += local && size <= caches.second * cache_share ? 0 : t2;
            memory += fits || (local && size <= caches.third * cache_share) ? 0 : write * t3;
            unique += model.bytes(body, access, 0);
            used += f.lines[0][a] > 0 ? model.bytes(body, access, 0) / f.lines[0][a] : 1;
            // Steps from line to line that are a multiple of a page meet in few sets.
            moving += 1;
            if (access.stored.size() > 1) {
                double row = access.stored[0] * access.bytes;
                std::vector<double> n;
                model.box(body, access, inner_serial < body.loops.size() ? inner_serial : 0, n);
                bool many_rows = n.size() > 1 && n[1] > 8;
                aliased += many_rows && row >= 4096 && std::fmod(row, 4096) == 0;
            }
        }
        set(Feature::bytes_first, first);
        set(Feature::bytes_second, second);
        set(Feature::bytes_third, third);
        set(Feature::bytes_memory, memory);
        set(Feature::bytes_unique, unique);
        set(Feature::lines_first, first / line_bytes);
        set(Feature::lines_memory, memory / line_bytes);
        set(Feature::line_use, moving > 0 ? std::min(1.0, used / moving) : 1);
        set(Feature::power_of_two_stride, moving > 0 ? aliased / moving : 0);
        set(Feature::reuse_first, first > 0 ? r[Feature::bytes_register] / first : 0);
        set(Feature::reuse_second, second > 0 ? first / second : 0);
        set(Feature::reuse_memory, memory > 0 ? unique / memory : 1);
        set(Feature::working_set_inner, f.sum[std::min(inner_serial, f.sum.size() - 1)]);
        set(Feature::working_set_task, working_set(body, f, task_depth));
        if (body.stage->update < 0 && !body.func->is_output) {
            double bytes = model.stored_bytes(body.func->name);
            set(Feature::allocated, bytes);
            // Small constant sizes lie on the stack.
            bool heap = bytes > 16384 && body.func->memory != "Stack" && body.func->memory != "Register";
            double times = 1;
            NestLevel store =
                body.func->store.kind == NestLevel::Kind::Inlined ? body.func->compute : body.func->store;
            if (store.kind == NestLevel::Kind::At) {
                for (const ModelLoop &l : body.loops) {
                    if (l.own) {
                        break;
                    }
                    times *= l.extent;
                    if (l.stage->func == store.func && l.stage->loops[l.index].name == store.loop) {
                        break;
                    }
                }
            }
            set(Feature::allocations, heap ? times : 0);
        }
    }

    void parallelism(const ModelBody &body, double tasks, double threads, FeatureRow &r) {
        auto set = [&](Feature c, double v) { r[c] = static_cast<float>(v); };
        double units = std::max(1, problem.device.units), at_once = units;
        if (problem.target.backend != Backend::Cpu) {
            double occupancy = 0, resident = resident_blocks(body, threads, r, occupancy);
            set(Feature::occupancy, occupancy);
            at_once = units * resident;
        }
        double waves = tasks / std::max(1.0, at_once);
        set(Feature::tasks, tasks);
        set(Feature::cores_used, std::min(tasks, units));
        set(Feature::waves, waves);
        set(Feature::wave_use, tasks < at_once ? 1 : waves / std::ceil(waves));
    }

    double shared_bytes(const ModelBody &body) const {
        // All that is stored in shared memory inside the same blocks.
        const StageNest *block = nullptr;
        for (const ModelLoop &l : body.loops) {
            block = l.kind == LoopKind::GpuBlock ? l.stage : block;
        }
        double bytes = 0;
        for (const FuncNest &f : nest.funcs) {
            if (f.memory == "GPUShared" && block) {
                for (const LoopNest::Enclosing &e : nest.enclosing(f.compute)) {
                    if (e.func->name == block->func) {
                        bytes += model.stored_bytes(f.name);
                        break;
                    }
                }
            }
        }
        return bytes;
    }

    double resident_blocks(const ModelBody &body, double threads, FeatureRow &r, double &occupancy) const {
        const DeviceLimits &l = problem.device.limits;
        double shared = shared_bytes(body), resident = 32;
        double in_unit = l.threads_unit > 0 ? static_cast<double>(l.threads_unit) : 1024;
        double warps = std::ceil(threads / std::max(1, l.lanes)) * std::max(1, l.lanes);
        resident = std::min(resident, std::floor(in_unit / std::max(1.0, warps)));
        if (l.registers_unit > 0) {
            resident = std::min(resident,
                                std::floor(static_cast<double>(l.registers_unit) /
                                           std::max(1.0, warps * std::min(255.0f, r[Feature::registers]))));
        }
        if (shared > 0 && l.shared_bytes_unit > 0) {
            resident = std::min(resident, std::floor(static_cast<double>(l.shared_bytes_unit) / shared));
        }
        resident = std::max(1.0, resident);
        occupancy = std::min(1.0, resident * warps / in_unit);
        r[Feature::shared_bytes] = static_cast<float>(shared);
        return resident;
    }

    void gpu_columns(const ModelBody &body, double tasks, double threads, FeatureRow &r) {
        auto set = [&](Feature c, double v) { r[c] = static_cast<float>(v); };
        const double warp = std::max(1, problem.device.limits.lanes);
        set(Feature::is_gpu, 1);
        set(Feature::threads, threads);
        set(Feature::warp_use, threads / (std::ceil(threads / warp) * warp));
        set(Feature::lane_use, threads / (std::ceil(threads / warp) * warp));
        // The innermost thread loop is what a warp's lanes run along.
        size_t x = body.loops.size();
        for (size_t i = 0; i < body.loops.size(); i++) {
            x = body.loops[i].kind == LoopKind::GpuThread || body.loops[i].kind == LoopKind::GpuLane ? i : x;
        }
        double used = 0, moved = 0, shared = 0, conflicts = 0, shared_accesses = 0;
        double points = r[Feature::points];
        for (const ModelAccess &a : body.accesses) {
            bool other = false;
            double step = x < body.loops.size() ? model.step(body, a, x, other) : 1;
            double lanes = x < body.loops.size() ? std::min(warp, body.loops[x].extent) : 1;
            double vector = 1;
            for (size_t i = 0; i < body.loops.size(); i++) {
                bool o = false;
                if (is_vector(body.loops[i].kind) && std::abs(model.step(body, a, i, o)) == 1) {
                    vector *= body.loops[i].extent;
                }
            }
            const FuncNest *f = nest.find(a.func);
            double bytes = points * a.count * a.bytes / std::max(1.0, vector);
            if (f && f->memory == "GPUShared") {
                shared += points * a.count * a.bytes;
                double words = std::abs(step) * a.bytes / 4;
                double ways = other || words == 0
                                  ? 1
                                  : std::max(1.0, std::gcd(static_cast<int64_t>(words), int64_t(32)) * 1.0);
                conflicts += ways;
                shared_accesses += 1;
                continue;
            }
            if (f && !f->is_input && !f->is_output && a.store_depth > 0) {
                continue; // in registers
            }
            double span =
                other ? lanes * sector_bytes : std::max(1.0, (lanes - 1) * std::abs(step) + vector) * a.bytes;
            double sectors = std::min(lanes * std::max(1.0, std::ceil(vector * a.bytes / sector_bytes)),
                                      std::ceil(span / sector_bytes));
            double asked = step == 0 && !other ? vector * a.bytes : lanes * vector * a.bytes;
            used += bytes;
            moved += bytes * std::max(1.0, sectors * sector_bytes / std::max(1.0, asked));
        }
        set(Feature::coalescing, moved > 0 ? used / moved : 1);
        set(Feature::bytes_shared, shared);
        set(Feature::bank_conflicts, shared_accesses > 0 ? conflicts / shared_accesses : 1);
        // Sectors that are moved and not used, at every level beyond the first.
        double waste = used > 0 ? moved / used : 1;
        for (Feature c :
             {Feature::bytes_first, Feature::bytes_second, Feature::bytes_third, Feature::bytes_memory}) {
            // Lines are counted whole already: the waste of strides is in there where a row is touched once.
            r[c] = std::max(r[c],
                            c == Feature::bytes_first ? static_cast<float>(r[c] * std::sqrt(waste)) : r[c]);
        }
        bool in_block = body.func->memory == "GPUShared";
        double serial = 1;
        for (const ModelLoop &l : body.loops) {
            serial *= !l.own && l.kind == LoopKind::Serial ? l.extent : 1;
        }
        set(Feature::barriers, in_block ? tasks * serial : 0);
    }
};

} // namespace

void device_features(const Problem &problem, FeatureRow &row) {
    const Device &d = problem.device;
    auto set = [&](Feature c, double v) { row[c] = static_cast<float>(v); };
    if (d.ceilings) {
        auto peak = d.ceilings->flops.find("float32");
        set(Feature::device_peak_flops, peak == d.ceilings->flops.end() ? 0 : peak->second);
        set(Feature::device_bandwidth, d.ceilings->copy_bytes_per_s);
    }
    Caches c = caches_of(d);
    set(Feature::device_units, d.units);
    set(Feature::device_lanes, d.limits.lanes);
    set(Feature::device_first, c.first);
    set(Feature::device_second, c.second);
    set(Feature::device_third, c.third);
}

void loop_features(const Problem &problem, const LoopNest &nest, const Schedule &canonical, Features &out) {
    RowMaker(problem, nest, canonical).run(out);
}

} // namespace kiln::search
