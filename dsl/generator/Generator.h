/** \file
 * What Kiln keeps of a generator beside Halide's own registration: words for people, and the shapes on which
 * `kiln check` and `kiln bench` run it when the user names none.
 *
 * A generator is a Halide::Generator class in a source file of its own, closed by KILN_GENERATOR, built into a shared
 * object that is linked with libkiln. Ours are in generators/ (kiln_generators.so); `kiln --load libmine.so` opens
 * any other in the same way.
 */
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace kiln {

/// A named problem: the extents of every input and output buffer, innermost first, values of scalar inputs, and
/// generator parameters (such as a mask) that it needs.
struct Workload {
    std::string name;
    /// Of every buffer; those that a build has not (an optional output) are passed over.
    std::map<std::string, std::vector<int64_t>> extents;
    std::map<std::string, double> scalars;
    std::map<std::string, std::string> params;
    bool bench = false; ///< a size for timing: `kiln check` takes the others when it is to be quick
};

struct GeneratorInfo {
    std::string name = {};
    std::string summary = {};    ///< one sentence
    std::string interface_ = {}; ///< what its Funcs and Vars mean to a schedule, as Markdown
    std::vector<Workload> workloads = {};
    /// Floating-point operations of one call, from the extents; 0 where bytes alone matter.
    double (*flops)(const Workload &) = nullptr;
    std::map<std::string, std::string> params = {}; ///< what each GeneratorParam means; its values: Params.h
    /// GeneratorParams that choose between forms of one algorithm (how long its blocks are), and the values that a search
    /// may try where the user gives none.
    std::map<std::string, std::vector<std::string>> alternatives = {};
    std::string origin = {}; ///< the source file that registered it
};

/// Called by KILN_GENERATOR at load time. The later of two of one name wins and `kiln list` says so.
void register_generator_info(GeneratorInfo info);
const GeneratorInfo *find_generator_info(const std::string &name);
std::vector<const GeneratorInfo *> all_generator_infos();
/// Names registered more than once, with the origins in order.
std::map<std::string, std::vector<std::string>> shadowed_generators();

/// The product of a buffer's extents, 0 where the workload names none: for `flops`.
double elements(const Workload &workload, const std::string &buffer);

} // namespace kiln

/// KILN_GENERATOR(Class, name, {.summary = …, .workloads = …}): HALIDE_REGISTER_GENERATOR and the above. The
/// fields in braces are those of GeneratorInfo, in its order; `name` and `origin` are filled in.
#define KILN_GENERATOR(CLASS, NAME, ...)                                                                     \
    HALIDE_REGISTER_GENERATOR(CLASS, NAME)                                                                   \
    namespace {                                                                                              \
    const bool kiln_info_of_##NAME = [] {                                                                    \
        kiln::GeneratorInfo info __VA_ARGS__;                                                                \
        info.name = #NAME;                                                                                   \
        info.origin = __FILE__;                                                                              \
        kiln::register_generator_info(std::move(info));                                                      \
        return true;                                                                                         \
    }();                                                                                                     \
    }
