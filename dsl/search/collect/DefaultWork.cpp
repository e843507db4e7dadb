// What a data set is made from when the user names nothing.
#include "dsl/search/collect/Collect.h"
#include "dsl/search/model/Random.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace kiln::search {

namespace {

constexpr double most_bytes = 2.0e8, most_flops = 3e9, least_elements = 4096;

double buffer_elements(const Workload &w) {
    double sum = 0;
    for (const auto &[name, extents] : w.extents) {
        double n = 1;
        for (int64_t e : extents) {
            n *= static_cast<double>(e);
        }
        sum += n;
    }
    return sum;
}

bool fits(const GeneratorInfo &info, const Workload &w) {
    double n = buffer_elements(w);
    return n >= least_elements && 4 * n <= most_bytes && (!info.flops || info.flops(w) <= most_flops);
}

/// Large extents times `factor`; extents that differ by a few (an image and its margin) still do. Small ones stay.
Workload scaled(const Workload &w, double factor) {
    constexpr int64_t margin = 16, small = 48;
    std::set<int64_t> distinct;
    for (const auto &[name, extents] : w.extents) {
        distinct.insert(extents.begin(), extents.end());
    }
    std::map<int64_t, int64_t> to;
    int64_t base = 0;
    for (int64_t e : distinct) {
        if (e < small) {
            to[e] = e;
            continue;
        }
        if (base < small || e - base > margin) {
            base = e;
            to[e] = std::max<int64_t>(16, std::llround(static_cast<double>(e) * factor / 8) * 8);
        } else {
            to[e] = to[base] + e - base;
        }
    }
    Workload out = w;
    std::string text;
    for (auto &[name, extents] : out.extents) {
        for (int64_t &e : extents) {
            e = to[e];
        }
    }
    out.name = fmt::format("{} x {:.2f}", w.name, factor);
    return out;
}

} // namespace

std::vector<CollectWork> default_work(int random_pipelines, uint64_t seed) {
    std::vector<CollectWork> work;
    uint64_t state = seed;
    const GeneratorInfo *random = nullptr;
    for (const GeneratorInfo *info : all_generator_infos()) {
        if (info->name == "random_pipeline") {
            random = info;
            continue;
        }
        // Three sizes of each: what the generator names, and others.
        std::vector<Workload> sizes;
        for (const Workload &w : info->workloads) {
            for (double factor :
                 {1.0, 0.35 + 0.4 * next_uniform(state), 0.15 + 0.1 * next_uniform(state), 1.6}) {
                Workload s = factor == 1.0 ? w : scaled(w, factor);
                if (fits(*info, s) && (w.bench || factor == 1.0)) {
                    sizes.push_back(std::move(s));
                }
            }
        }
        for (size_t i = sizes.size(); i > 1; i--) {
            std::swap(sizes[i - 1], sizes[next_random(state) % i]);
        }
        sizes.resize(std::min<size_t>(sizes.size(), 4));
        for (Workload &w : sizes) {
            work.push_back({info->name, {}, std::move(w), info->name});
        }
    }
    for (int i = 0; random && i < random_pipelines; i++) {
        std::string pipeline = std::to_string(next_random(state) % 1000000);
        std::string stages = std::to_string(1 + next_random(state) % 6);
        int64_t width = 8 * (8 + static_cast<int64_t>(next_random(state) % 160));
        int64_t height = 8 * (8 + static_cast<int64_t>(next_random(state) % 120));
        Workload w;
        w.name = fmt::format("{}x{}", width, height);
        w.extents = {{"a", {width, height}}, {"b", {width, 512}}, {"out", {width, height}}};
        work.push_back(
            {"random_pipeline", {{"seed", pipeline}, {"stages", stages}}, w, "random/" + pipeline});
    }
    // In an order that shows all kinds early: a collection may be stopped anywhere.
    for (size_t i = work.size(); i > 1; i--) {
        std::swap(work[i - 1], work[next_random(state) % i]);
    }
    return work;
}

} // namespace kiln::search
