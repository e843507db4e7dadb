/** \file
 * A library to build, as a file: what kiln_add_kernels writes and `kiln-build --library` reads.
 */
#pragma once

#include "dsl/lower/BuildLibrary.h"

#include <filesystem>

namespace kiln {

/// {"generator", "name", "output_dir", "targets": [text], "schedules": ["default" or a file], "params": ["key=value"],
/// "loads": [file]}. Each target takes the first file with a schedule for it, or the default one where "default" comes
/// first. Throws Error: K0711 no schedule for a target, K0716 not such a file, K0930… a schedule that cannot be read.
BuildRequest read_library_request(const std::filesystem::path &file);

/// The variant of `generator` for `target` by the first of `schedules` that has one for it; "default" always has.
VariantRequest choose_schedule(const std::string &generator, const Target &target,
                               const std::vector<std::string> &schedules);

} // namespace kiln
