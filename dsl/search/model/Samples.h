/** \file
 * Samples on disk, for other tools: JSON lines, of which the first names the features. What is collected is kept as
 * timings (collect/Timings.h), which do not depend on features.
 */
#pragma once

#include "dsl/search/model/Model.h"

#include <filesystem>
#include <string>
#include <vector>

namespace kiln::search {

constexpr int samples_version = 1;

/// Replaces the file. Throws as write_file_atomic.
void write_samples(const std::filesystem::path &path, std::span<const Sample> samples);

/// All samples of these files. Throws Error K1352 where a line is none, or
/// names no time above 0, or the features are others than those here; K0930 and others as read_text_file.
std::vector<Sample> read_samples(const std::vector<std::filesystem::path> &paths);

} // namespace kiln::search
