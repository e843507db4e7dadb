#include "dsl/check/Groups.h"

#include "dsl/generator/Load.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <random>

namespace kiln {

namespace {

[[noreturn]] void no_workload(std::string message, std::vector<std::string> notes, std::string help) {
    Diagnostic d;
    d.code = "K0805";
    d.message = std::move(message);
    d.notes = std::move(notes);
    d.helps = {std::move(help)};
    throw Error(std::move(d));
}

std::string with_shapes(const std::string &help) {
    return help + ", or give `kiln bench` and `kiln tune` the extents of every buffer: `--shape x=512x256`";
}

} // namespace

void ensure_generator(const BuildRequest &build) {
    std::vector<std::string> names = generator_names();
    if (std::find(names.begin(), names.end(), build.generator) == names.end()) {
        load_generators(build.load);
    }
}

Workload find_workload(const std::string &generator, const std::string &name) {
    const GeneratorInfo *info = find_generator_info(generator);
    std::vector<std::string> names;
    for (const Workload &w : info ? info->workloads : std::vector<Workload>()) {
        if (w.name == name) {
            return w;
        }
        names.push_back(w.name);
    }
    std::string near = nearest(name, names);
    no_workload(fmt::format("generator `{}` has no workload `{}`", generator, name),
                names.empty() ? std::vector<std::string>{}
                              : std::vector{fmt::format("its workloads are `{}`", fmt::join(names, "`, `"))},
                near.empty() ? with_shapes("take one of these") : fmt::format("did you mean `{}`?", near));
}

std::vector<WorkloadGroup> group_workloads(const BuildRequest &build, const std::vector<Workload> &asked) {
    std::vector<Workload> chosen = asked;
    const GeneratorInfo *info = find_generator_info(build.generator);
    if (chosen.empty() && info) {
        std::copy_if(info->workloads.begin(), info->workloads.end(), std::back_inserter(chosen),
                     [](const Workload &w) { return !w.bench; });
        if (chosen.empty() && !info->workloads.empty()) {
            chosen = {info->workloads[0]};
        }
    }
    if (chosen.empty()) {
        no_workload(fmt::format("generator `{}` names no workload to run it on", build.generator), {},
                    with_shapes("name workloads in KILN_GENERATOR"));
    }
    std::vector<WorkloadGroup> groups;
    for (const Workload &w : chosen) {
        std::map<std::string, std::string> params = build.params;
        bool fits = true;
        for (const auto &[name, value] : w.params) {
            fits = fits && params.emplace(name, value).first->second == value;
        }
        if (!fits) {
            continue;
        }
        auto it = std::find_if(groups.begin(), groups.end(),
                               [&](const WorkloadGroup &g) { return g.params == params; });
        if (it == groups.end()) {
            groups.push_back({params, {}});
            it = groups.end() - 1;
        }
        it->workloads.push_back(w);
    }
    if (groups.empty()) {
        no_workload(
            fmt::format("no workload of `{}` has the parameters that were asked for", build.generator), {},
            with_shapes("name a workload with these parameters in KILN_GENERATOR"));
    }
    return groups;
}

BuiltKernel build_kernel(BuildRequest build, const std::map<std::string, std::string> &params,
                         const std::filesystem::path &archive, std::vector<Diagnostic> &diagnostics) {
    BuiltKernel kernel;
    auto start = std::chrono::steady_clock::now();
    try {
        std::filesystem::path path = archive;
        if (path.empty()) {
            kernel.folder = std::make_unique<TemporaryFolder>();
            build.params = params;
            build.output_dir = kernel.folder->path();
            BuildResult result = build_library(build);
            diagnostics.insert(diagnostics.end(), result.diagnostics.begin(), result.diagnostics.end());
            if (!result.ok) {
                return kernel;
            }
            path = result.archive;
        }
        kernel.archive = path;
        kernel.library.emplace(path);
    } catch (const Error &e) {
        diagnostics.insert(diagnostics.end(), e.diagnostics.begin(), e.diagnostics.end());
    }
    kernel.build_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return kernel;
}

Halide::Target reference_target(const BuildRequest &build) {
    return Halide::Target(build.variants.empty() ? Target().halide() : build.variants[0].target.halide());
}

uint64_t fresh_seed() {
    std::random_device device;
    return (uint64_t(device()) << 32 | device()) >> 16; // short enough to type
}

} // namespace kiln
