/** \file
 * A library to build, as a file: what kiln_add_kernels writes and `kiln-build --library` reads.
 */
#pragma once

#include "dsl/lower/BuildLibrary.h"

#include <filesystem>
#include <functional>

namespace kiln {

/// The variants of `auto` for a target: what tuning found, or what a model thinks best.
using AutomaticSchedule =
    std::function<std::vector<VariantRequest>(const BuildRequest &request, const Target &target)>;

/// {"generator", "name", "output_dir", "targets": [text], "schedules": ["default", "auto", a file or a folder], "params":
/// ["key=value"], "loads": [file]}. Throws Error: K0711 no schedule for a target, K0716 not such a file, K0717 a line of
/// variants.txt that says nothing, K0718 a kind of device that there is not, K0930… a schedule that cannot be read. Without `automatic`, `auto` is a file.
BuildRequest read_library_request(const std::filesystem::path &file, const AutomaticSchedule &automatic = {});

/// The variants of `generator`, built with `params`, for `target`: by the first of `schedules` that is a file with a
/// schedule for it, a folder that has one, or "default", which always has. A folder holds GENERATOR/TARGET.sched; where it
/// has none for a CPU's features, the one for the most of them serves. Its variants.txt says in lines `GENERATOR TARGET
/// SCHEDULE CONDITION` which schedules a call tries first and when; a condition `parameter=value` chooses by the
/// generator's parameters instead, and if no other follows it, that schedule stands in the place of TARGET.sched.
std::vector<VariantRequest> choose_schedules(const std::string &generator, const Target &target,
                                             const std::vector<std::string> &schedules,
                                             const std::map<std::string, std::string> &params = {});

} // namespace kiln
