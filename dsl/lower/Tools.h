/** \file
 * What a build needs outside this process: files of Kiln's own beside libkiln.so, and the C compiler and binutils.
 */
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace kiln {

/// The folder above libkiln.so's: of the build tree or of an installation. Both hold bin/kiln-build,
/// lib/libkiln_runtime.a and include/kiln/kiln.h.
std::filesystem::path kiln_root();

/// KILN_BUILD_TOOL, else bin/kiln-build. Throws Error K0704 where it is not there.
std::filesystem::path build_tool();
/// KILN_RUNTIME, else lib/libkiln_runtime.a. Throws Error K0704.
std::filesystem::path runtime_archive();
/// The folder of kiln.h. Throws Error K0704.
std::filesystem::path runtime_headers();

/// The C compiler: CC (which may hold options), else `cc`.
std::vector<std::string> c_compiler();

/// Runs a tool in `folder`. Throws Error K0704 where it cannot be started, K0706 with its text where it fails.
void run_tool(const std::vector<std::string> &argv, const std::filesystem::path &folder);

} // namespace kiln
