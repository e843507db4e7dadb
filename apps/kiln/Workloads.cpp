#include "apps/kiln/Workloads.h"

#include "dsl/check/CheckKernel.h"
#include "dsl/generator/Params.h"
#include "dsl/target/Target.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

namespace kiln::cli {

namespace {

/// The parameters of `generator` with the values that a build would have.
Params all_params(const std::string &generator, const Params &given) {
    nlohmann::json defaults = run_generator(generator, [&]() -> nlohmann::json {
        Params values;
        for (const ParamInfo &param : generator_params(generator, Halide::Target(Target{}.halide()))) {
            values[param.name] = param.fallback;
        }
        return values;
    });
    Params all = defaults.get<Params>();
    for (const auto &[name, value] : given) {
        all[name] = value;
    }
    return all;
}

std::vector<Workload> fitting(const std::string &generator, const Params &params, bool bench) {
    const GeneratorInfo *info = find_generator_info(generator);
    std::vector<Workload> fit;
    if (!info) {
        return fit;
    }
    Params all = all_params(generator, params);
    std::copy_if(info->workloads.begin(), info->workloads.end(), std::back_inserter(fit),
                 [&](const Workload &w) {
                     return std::all_of(w.params.begin(), w.params.end(), [&](const auto &param) {
                         auto it = all.find(param.first);
                         return it == all.end() || it->second == param.second;
                     });
                 });
    std::vector<Workload> chosen;
    std::copy_if(fit.begin(), fit.end(), std::back_inserter(chosen),
                 [&](const Workload &w) { return w.bench == bench; });
    return chosen.empty() ? fit : chosen;
}

std::optional<std::vector<int64_t>> parse_extents(const std::string &text) {
    std::vector<int64_t> extents;
    const char *at = text.data(), *end = at + text.size();
    while (at < end) {
        int64_t value = 0;
        auto [next, error] = std::from_chars(at, end, value);
        if (error != std::errc() || value < 1 || (next < end && *next != 'x')) {
            return std::nullopt;
        }
        extents.push_back(value);
        at = next < end ? next + 1 : next;
    }
    return extents.empty() || text.back() == 'x' ? std::nullopt : std::optional(extents);
}

[[noreturn]] void no_shape(std::string message, const std::vector<std::string> &buffers) {
    Diagnostic d;
    d.code = "K1330";
    d.message = std::move(message);
    d.notes = {fmt::format("its buffers: {}", fmt::join(buffers, ", "))};
    d.helps = {"write one for each buffer, the innermost extent first: `--shape x=512x256`"};
    throw Error(std::move(d));
}

} // namespace

double rough_bytes(const Workload &workload) {
    double bytes = 0;
    for (const auto &[name, extents] : workload.extents) {
        double elements = 4;
        for (int64_t extent : extents) {
            elements *= static_cast<double>(extent);
        }
        bytes += elements;
    }
    return bytes;
}

std::vector<Workload> checking_workloads(const std::string &generator, const Params &params) {
    return fitting(generator, params, false);
}

std::vector<Workload> timing_workloads(const std::string &generator, const Params &params) {
    std::vector<Workload> all = fitting(generator, params, true);
    // The widest range of sizes that stays quick: gigabytes are for `kiln bench`.
    std::vector<Workload> small;
    std::copy_if(all.begin(), all.end(), std::back_inserter(small),
                 [](const Workload &w) { return rough_bytes(w) <= 512e6; });
    if (small.empty()) {
        return all;
    }
    constexpr size_t most = 4;
    if (small.size() > most) {
        small.resize(most);
    }
    return small;
}

std::vector<Workload> bench_workloads(const std::string &generator, const Params &params, bool can_build) {
    const GeneratorInfo *info = find_generator_info(generator);
    if (!info || !params.empty() || !can_build) {
        return fitting(generator, params, true);
    }
    std::vector<Workload> all;
    std::copy_if(info->workloads.begin(), info->workloads.end(), std::back_inserter(all),
                 [](const Workload &w) { return w.bench; });
    return all.empty() ? info->workloads : all;
}

std::vector<Workload> workloads_by_name(const std::string &generator, const std::vector<std::string> &names) {
    std::vector<Workload> out;
    for (const std::string &name : names) {
        out.push_back(find_workload(generator, name));
    }
    return out;
}

Workload shaped_workload(const std::string &generator, const Params &params,
                         const std::vector<std::string> &shapes) {
    Workload w;
    w.name = fmt::format("{}", fmt::join(shapes, " "));
    nlohmann::ordered_json about = describe_generator(generator, params);
    std::map<std::string, int> ranks;
    std::vector<std::string> names;
    for (const char *kind : {"inputs", "outputs"}) {
        for (const auto &one : about[kind]) {
            std::string name = one["name"];
            int rank = one["dimensions"];
            if (rank == 0) {
                if (!one["scalar"].get<bool>()) {
                    w.extents[name] = {};
                }
                continue;
            }
            ranks[name] = rank;
            names.push_back(fmt::format("{} ({} dimensions)", name, rank));
        }
    }
    for (const std::string &shape : shapes) {
        size_t equals = shape.find('=');
        std::string name = shape.substr(0, equals);
        std::optional<std::vector<int64_t>> extents =
            equals == std::string::npos ? std::nullopt : parse_extents(shape.substr(equals + 1));
        if (!extents || !ranks.count(name) || static_cast<int>(extents->size()) != ranks[name]) {
            no_shape(fmt::format("`--shape {}` gives no sizes of a buffer of `{}`", shape, generator), names);
        }
        w.extents[name] = *extents;
    }
    std::vector<std::string> missing;
    for (const auto &[name, rank] : ranks) {
        if (!w.extents.count(name)) {
            missing.push_back(name);
        }
    }
    if (!missing.empty()) {
        no_shape(fmt::format("no sizes of `{}`", fmt::join(missing, "`, `")), names);
    }
    return w;
}

} // namespace kiln::cli
