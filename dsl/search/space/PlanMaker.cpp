#include "dsl/search/space/PlanMaker.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace kiln::search {

namespace {

class Maker {
public:
    Maker(const PlanContext &cx, const Policy &policy, Rng *rng)
        : cx(cx), policy(policy), rng(rng), plan(cx.start()) {
        for (const std::string &func : cx.funcs) { // producers first
            for (const StageAlgorithm &stage : cx.algorithm(func).stages) {
                for (const Access &read : stage.reads) {
                    if (read.func != func && !cx.info(read.func).is_input &&
                        (after_row_sums.count(read.func) > 0 || cx.reduces_contiguous(read.func))) {
                        after_row_sums.insert(func);
                    }
                }
            }
        }
    }

    Plan run() {
        std::vector<std::string> order(cx.funcs.rbegin(), cx.funcs.rend());
        for (const std::string &func : order) {
            decide(func);
        }
        return plan;
    }

private:
    const PlanContext &cx;
    const Policy &policy;
    Rng *rng;
    Plan plan;
    std::set<std::string> after_row_sums; ///< Funcs that read sums along rows, themselves or through others

    bool chance(double p) { return rng ? std::uniform_real_distribution<>(0, 1)(*rng) < p : p >= 0.5; }
    template<typename T>
    T pick(const std::vector<T> &values) {
        return rng ? values[(*rng)() % values.size()] : values[0];
    }

    void decide(const std::string &func) {
        FuncPlan &f = plan.funcs.at(func);
        const FuncInfo &info = cx.info(func);
        if (info.is_extern || f.place.where == Where::Inline) {
            return;
        }
        if (info.is_output) {
            root_tiles(func);
            return;
        }
        if (info.can_be_inlined && (cx.read_once(func) || cx.cost_of(func) <= policy.inline_cost)) {
            f.place.where = Where::Inline;
            return;
        }
        if (cx.has_update(func) && cx.reduces_contiguous(func)) {
            row_reduction(func);
            return;
        }
        if (cx.has_update(func)) {
            product(func);
            return;
        }
        pure(func);
    }

    int64_t extent(const std::string &func, size_t d) const {
        const std::vector<int64_t> &e = cx.algorithm(func).extents;
        return d < e.size() ? std::max<int64_t>(1, e[d]) : 1;
    }

    /// Tasks of a Func at root. At least a few for each unit, none tiny.
    void root_tiles(const std::string &func) {
        FuncPlan &f = plan.funcs.at(func);
        size_t dims = cx.info(func).args.size();
        if (dims == 0) {
            return;
        }
        if (cx.is_gpu) {
            gpu_tiles(func);
            return;
        }
        if (dims == 1) {
            int64_t task = std::clamp<int64_t>(extent(func, 0) / (4 * cx.units), 1024, 32768);
            f.tile[Task][0] = task;
        } else {
            int64_t height = policy.height;
            while (height > 1 && extent(func, 1) / height < 2 * cx.units && dims == 2) {
                height /= 2;
            }
            f.tile[Task][0] = policy.width;
            f.tile[Task][1] = height;
            for (size_t d = 2; d < dims; d++) {
                f.tile[Task][d] = 1;
            }
            if (policy.inner_height > 0) {
                f.tile[Outer][1] = policy.inner_height;
            }
            if (cx.info(func).is_output && after_row_sums.count(func) > 0 && chance(0.9)) {
                // Row by row, so that all that lies between its sums and it can stand where its row is.
                f.tile[Task][0] = 0;
                for (size_t d = 1; d < dims; d++) {
                    f.tile[Outer][d] = 1;
                }
            }
        }
        if (f.vector_dim >= 0) {
            f.tile[Block][static_cast<size_t>(f.vector_dim)] =
                static_cast<int64_t>(f.lanes) * policy.unroll_vectors;
        }
    }

    void gpu_tiles(const std::string &func) {
        FuncPlan &f = plan.funcs.at(func);
        size_t dims = cx.info(func).args.size();
        int64_t lanes = std::max<int64_t>(1, policy.unroll_vectors);
        int64_t x = std::min<int64_t>(dims == 1 ? 256 : pick<int64_t>({32, 64, 128, 256}), extent(func, 0));
        f.tile[Task][0] = x * lanes;
        f.tile[Inner][0] = lanes;
        f.tile[Block][0] = lanes;
        for (size_t d = 1; d < dims; d++) {
            int64_t y = d == 1 ? std::max<int64_t>(1, 256 / x) : 1;
            f.tile[Task][d] = std::min(y, extent(func, d));
            f.tile[Inner][d] = 1;
            f.tile[Block][d] = 1;
        }
    }

    /// The loop at a level of a reader that all readers share, or root.
    PlanPlace place_at(const std::string &func, int level) {
        PlanPlace best;
        for (const PlanPlace &p : cx.places(plan, func)) {
            if (p.level <= level) {
                best = p;
            }
        }
        return best;
    }

    void pure(const std::string &func) {
        FuncPlan &f = plan.funcs.at(func);
        bool of_row = !cx.is_gpu && after_row_sums.count(func) > 0;
        PlanPlace place =
            place_at(func, of_row ? std::max<int>(policy.fuse_level, Outer) : policy.fuse_level);
        if (place.where == Where::At && chance(policy.fuse)) {
            f.place = place;
            if (policy.slide && place.level > Task) {
                f.store = PlanPlace{Where::At, place.host, Task};
            }
            if (cx.is_gpu) {
                gpu_inside(func);
            }
        } else {
            root_tiles(func);
        }
    }

    /// Inside a block: its threads share the work; inside a thread: all of it.
    void gpu_inside(const std::string &func) {
        FuncPlan &f = plan.funcs.at(func);
        if (f.place.level == Task) {
            std::vector<int64_t> region = cx.region(plan, func, f.place);
            int64_t threads = 256;
            for (size_t d = 0; d < region.size(); d++) {
                int64_t n = std::min<int64_t>(region[d], threads);
                f.tile[Outer][d] = n;
                f.tile[Inner][d] = 1;
                f.tile[Block][d] = 1;
                threads = std::max<int64_t>(1, threads / std::max<int64_t>(1, n));
            }
        }
    }

    /// Sums along a row: computed where its row is, by vectors of partial sums.
    void row_reduction(const std::string &func) {
        FuncPlan &f = plan.funcs.at(func);
        int lanes = cx.is_gpu ? 64 : cx.native_lanes(func);
        f.rfactor = lanes * pick<int>({4, 2, 8, 1});
        bool fuse = chance(0.9);
        PlanPlace place = place_at(func, Outer);
        if (place.where == Where::At && fuse) {
            // One row at a time: the reader's second level is a row.
            FuncPlan &host = plan.funcs.at(place.host);
            for (size_t d = 1; d < host.tile[Outer].size(); d++) {
                host.tile[Outer][d] = 1;
            }
            if (!host.tile[Task].empty()) {
                host.tile[Task][0] = 0;
            }
            if (cx.is_gpu) {
                for (size_t d = 1; d < host.tile[Task].size(); d++) {
                    host.tile[Task][d] = 1;
                }
                host.tile[Outer][0] = 256;
                host.tile[Inner][0] = 1;
                place.level = Task;
            }
            f.place = place;
        } else {
            root_tiles(func);
        }
    }

    /// Sums into a tile that stays in registers.
    void product(const std::string &func) {
        FuncPlan &f = plan.funcs.at(func);
        std::vector<std::string> readers = cx.readers(plan, func);
        const size_t dims = cx.info(func).args.size();
        f.reduce_unroll = policy.reduce_unroll;
        FuncPlan *host = nullptr;
        std::vector<PlanPlace> places = cx.places(plan, func);
        std::string host_name;
        if (readers.size() == 1 && !cx.has_update(readers[0]) && !places.empty() &&
            places.back().level == Block && reads_elementwise(readers[0], func)) {
            host_name = readers[0];
            host = &plan.funcs.at(host_name);
        }
        if (!host || (rng && chance(0.1))) {
            PlanPlace place = place_at(func, policy.fuse_level);
            if (place.where == Where::At && chance(policy.fuse)) {
                f.place = place;
                if (cx.is_gpu) {
                    gpu_inside(func);
                }
            } else {
                root_tiles(func);
                product_block(f, func);
            }
            return;
        }
        f.place = {Where::At, host_name, Block};
        for (int64_t &t : f.tile[Block]) {
            t = INT32_MAX;
        }
        host->vector_dim = f.vector_dim;
        host->lanes = f.lanes;
        if (cx.is_gpu) {
            gpu_product(*host, host_name);
            return;
        }
        product_block(*host, host_name);
        size_t v = host->vector_dim >= 0 ? static_cast<size_t>(host->vector_dim) : 0;
        for (auto &tile : {Task, Outer, Inner}) {
            for (size_t d = 0; d < dims && d < host->tile[tile].size(); d++) {
                host->tile[tile][d] = 0;
            }
        }
        host->tile[Task][v] = policy.panel;
        bool first = true;
        for (size_t d = 0; d < host->tile[Task].size(); d++) {
            if (d == v) {
                continue;
            }
            host->tile[Task][d] = first ? policy.panel_rows : 1;
            first = false;
        }
        host->tail = Tail::Shift;
        if (policy.reduce_split > 0) {
            f.reduce = policy.reduce_split;
        }
        if (policy.pack) {
            pack(func, host_name);
        }
    }

    void product_block(FuncPlan &f, const std::string &func) {
        size_t v = f.vector_dim >= 0 ? static_cast<size_t>(f.vector_dim) : 0;
        bool first = true;
        for (size_t d = 0; d < f.tile[Block].size(); d++) {
            if (d == v) {
                f.tile[Block][d] = std::min<int64_t>(policy.block_vectors * f.lanes,
                                                     std::max<int64_t>(f.lanes, extent(func, d)));
            } else {
                f.tile[Block][d] = first ? std::min(policy.block_rows, extent(func, d)) : 1;
                first = false;
            }
        }
    }

    void gpu_product(FuncPlan &host, const std::string &func) {
        host.vector_dim = -1;
        host.lanes = 1;
        const size_t dims = host.tile[Task].size();
        for (size_t d = 0; d < dims; d++) {
            int64_t per_thread = d == 0 ? policy.block_vectors * 2 : d == 1 ? policy.block_rows : 1;
            int64_t threads = d == 0 ? 32 : d == 1 ? 8 : 1;
            per_thread = std::min(per_thread, extent(func, d));
            host.tile[Block][d] = host.tile[Inner][d] = per_thread;
            host.tile[Outer][d] = 0;
            host.tile[Task][d] = per_thread * threads;
        }
    }

    bool reads_elementwise(const std::string &reader, const std::string &func) const {
        std::vector<int> stages = cx.reading_stages(plan, reader, func);
        if (stages.size() != 1) {
            return false;
        }
        // Through inlined Funcs the indices may change; what is read at one place is seen by the region of one point.
        Plan probe = plan;
        FuncPlan &p = probe.funcs.at(reader);
        for (auto &tile : p.tile) {
            std::fill(tile.begin(), tile.end(), 1);
        }
        p.lanes = 1;
        probe.funcs.at(func).place = {Where::At, reader, Block};
        for (int64_t n : cx.region(probe, func, probe.funcs.at(func).place)) {
            if (n != 1) {
                return false;
            }
        }
        return true;
    }

    /// What is read along the vectors and over the reduction is copied once a panel.
    void pack(const std::string &func, const std::string &host) {
        const FuncPlan &f = plan.funcs.at(func);
        const FuncInfo &info = cx.info(func);
        if (f.vector_dim < 0) {
            return;
        }
        const std::string &vector = info.args[static_cast<size_t>(f.vector_dim)];
        for (const Access &read : cx.algorithm(func).stages.back().reads) {
            bool along = false, reduced = false;
            int vector_at = -1;
            for (size_t d = 0; d < read.dims.size(); d++) {
                for (const AccessDim::Term &t : read.dims[d].terms) {
                    if (t.loop == vector) {
                        along = true;
                        vector_at = static_cast<int>(d);
                    }
                    for (const DimInfo &dim : info.stages.back().dims) {
                        reduced = reduced || (dim.is_rvar && dim.name == t.loop);
                    }
                }
            }
            auto it = plan.funcs.find(read.func);
            bool is_inline = it != plan.funcs.end() && it->second.place.where == Where::Inline;
            bool known = std::any_of(plan.wraps.begin(), plan.wraps.end(), [&](const WrapPlan &w) {
                return w.producer == read.func && w.consumer == func;
            });
            if (!along || !reduced || is_inline || known) {
                continue;
            }
            WrapPlan w{read.func, func, {Where::At, host, Task}, cx.native_lanes(func), {}};
            if (vector_at > 0) {
                for (size_t d = 0; d < read.dims.size(); d++) {
                    w.storage.push_back(static_cast<int>(d));
                }
                std::swap(w.storage[0], w.storage[static_cast<size_t>(vector_at)]);
            }
            plan.wraps.push_back(std::move(w));
        }
    }
};

} // namespace

std::vector<Policy> seed_policies(const PlanContext &cx) {
    std::vector<Policy> out;
    auto add = [&](Policy p, const char *name) {
        p.name = name;
        out.push_back(std::move(p));
    };
    Policy p;
    if (cx.is_gpu) {
        p.block_vectors = 2, p.block_rows = 8;
        p.inline_cost = 4, add(p, "threads");
        p.unroll_vectors = 2, add(p, "pairs");
        p.unroll_vectors = 4, p.block_rows = 4, add(p, "quads");
        p.unroll_vectors = 1, p.inline_cost = 20, add(p, "inline");
        p.fuse = 0, p.inline_cost = 4, add(p, "kernels");
        p.fuse = 1, p.fuse_level = Inner, add(p, "registers");
        return out;
    }
    for (int64_t panel : {64, 32, 128, 48}) {
        for (int64_t panel_rows : {0, 96, 240}) {
            Policy q = p;
            q.panel = panel, q.panel_rows = panel_rows;
            q.block_rows = panel == 48 ? 4 : 6;
            q.block_vectors = panel == 48 ? 3 : 2;
            q.reduce_unroll = panel == 64 ? 4 : 1;
            q.height = panel;
            q.unroll_vectors = panel == 64 ? 4 : panel == 32 ? 2 : 1;
            q.inline_cost = panel == 128 ? 20 : 6;
            add(q, "panels");
        }
    }
    for (int64_t width : {0, 256, 128, 512}) {
        for (int64_t height : {32, 64, 16, 8}) {
            Policy q = p;
            q.width = width, q.height = height;
            q.inline_cost = height == 16 ? 20 : 6;
            add(q, "tiles");
            q.slide = true, q.fuse_level = Outer, q.inner_height = 1;
            add(q, "slide");
        }
    }
    Policy roots = p;
    roots.fuse = 0;
    for (double cost : {0.0, 6.0, 20.0, 60.0}) {
        roots.inline_cost = cost;
        add(roots, "roots");
    }
    Policy rows = p;
    rows.inline_cost = 6;
    for (int64_t height : {4, 8, 16}) {
        rows.height = height, rows.unroll_vectors = 4, rows.fuse_level = Outer;
        add(rows, "rows");
    }
    return out;
}

Policy random_policy(const PlanContext &cx, Rng &rng) {
    auto pick = [&](auto... values) {
        std::vector<int64_t> all = {static_cast<int64_t>(values)...};
        return all[rng() % all.size()];
    };
    Policy p;
    p.name = "random";
    p.inline_cost = static_cast<double>(pick(0, 4, 8, 20, 60));
    p.fuse_level = static_cast<int>(pick(Task, Task, Outer, Inner, Block));
    p.fuse = static_cast<double>(pick(0, 1, 2, 4, 6, 8, 9, 10, 10)) / 10;
    p.width = pick(0, 0, 64, 128, 256, 512);
    p.height = pick(1, 4, 8, 16, 32, 64, 128);
    p.inner_height = pick(0, 0, 1, 2, 4, 8);
    p.block_vectors = pick(1, 2, 2, 3, 4);
    p.block_rows = pick(2, 4, 4, 6, 6, 8);
    p.panel = pick(16, 32, 48, 64, 64, 96, 128, 256);
    p.panel_rows = pick(0, 0, 48, 96, 192, 240, 480);
    p.reduce_split = static_cast<int>(pick(0, 0, 0, 8, 64, 256));
    p.reduce_unroll = static_cast<int>(pick(1, 1, 2, 4));
    p.pack = rng() % 3 != 0;
    p.unroll_vectors = static_cast<int>(cx.is_gpu ? pick(1, 2, 4) : pick(1, 1, 2, 4));
    p.slide = p.fuse_level > Task && rng() % 2;
    return p;
}

Plan make_plan(const PlanContext &context, const Policy &policy, Rng *rng) {
    return Maker(context, policy, rng).run();
}

} // namespace kiln::search
