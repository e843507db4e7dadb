/** \file
 * What Kiln keeps of a generator beside Halide's own registration: words for people, and the shapes on which
 * `kiln check` and `kiln bench` run it when the user names none.
 */
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace kiln {

/// A named problem: the extents of every input and output buffer, innermost first, values of scalar inputs,
/// and generator parameters (such as a mask) that it needs.
struct Workload {
    std::string name;
    std::map<std::string, std::vector<int64_t>> extents;
    std::map<std::string, double> scalars;
    std::map<std::string, std::string> params;
};

struct GeneratorInfo {
    std::string name;
    std::string summary;    ///< one sentence
    std::string interface_; ///< what its Funcs and Vars mean to a schedule, as Markdown
    std::vector<Workload> workloads;
    /// Floating-point operations of one call, from the extents; 0 where bytes alone matter.
    double (*flops)(const Workload &) = nullptr;
};

/// Called by KILN_GENERATOR at load time. The later of two of one name wins and `kiln list` says so.
void register_generator_info(GeneratorInfo info);
const GeneratorInfo *find_generator_info(const std::string &name);
std::vector<const GeneratorInfo *> all_generator_infos();

} // namespace kiln

/// KILN_GENERATOR(Class, name, {.summary = …, .workloads = …}): HALIDE_REGISTER_GENERATOR and the above.
#define KILN_GENERATOR(CLASS, NAME, ...)                                                                     \
    HALIDE_REGISTER_GENERATOR(CLASS, NAME)                                                                   \
    namespace {                                                                                              \
    const bool kiln_info_of_##NAME = [] {                                                                    \
        kiln::GeneratorInfo info __VA_ARGS__;                                                                \
        info.name = #NAME;                                                                                   \
        kiln::register_generator_info(std::move(info));                                                      \
        return true;                                                                                         \
    }();                                                                                                     \
    }
