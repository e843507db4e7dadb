/** \file
 * What check and bench share: which workloads a request means, built with which parameters, and one library each.
 */
#pragma once

#include "dsl/check/CheckKernel.h"
#include "dsl/check/Problem.h"
#include "dsl/support/Files.h"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kiln {

/// Workloads that need the same generator parameters.
struct WorkloadGroup {
    std::map<std::string, std::string> params;
    std::vector<Workload> workloads;
};

/// Opens the generators of `build` where they are not registered yet.
void ensure_generator(const BuildRequest &build);

/// The parameters of `build` win: workloads that need others are left out. Throws K0805 where none is left.
std::vector<WorkloadGroup> group_workloads(const BuildRequest &build, const std::vector<Workload> &asked);

/// A kernel ready to be called, and the folder that it was built in, if that is ours.
struct BuiltKernel {
    std::unique_ptr<TemporaryFolder> folder;
    std::filesystem::path archive;
    std::optional<LoadedLibrary> library;
    double build_s = 0;
};

/// Builds (or opens `archive`). Faults go to `diagnostics`; then `library` is empty.
BuiltKernel build_kernel(BuildRequest build, const std::map<std::string, std::string> &params,
                         const std::filesystem::path &archive, std::vector<Diagnostic> &diagnostics);

/// The target whose algorithm is the reference's.
Halide::Target reference_target(const BuildRequest &build);

/// 64 random bits that nobody chose.
uint64_t fresh_seed();

} // namespace kiln
