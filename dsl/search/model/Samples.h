/** \file
 * A data set on disk: JSON lines. The first line names the features, each other line is a sample; so it grows by appending,
 * and an interrupted collection loses at most its last line.
 */
#pragma once

#include "dsl/search/model/Model.h"

#include <filesystem>
#include <string>
#include <vector>

namespace kiln::search {

constexpr int samples_version = 1;

/// The first line: {"kiln_samples": version, "features": [names]}.
std::string samples_header();
/// One line: problem, device, operation, ms, and per row its estimate and values.
std::string sample_line(const Sample &sample);

/// Appends to the file, writing the header where it is new. Throws Error K1352 where it holds other features, K0935 where
/// it cannot be written.
void append_samples(const std::filesystem::path &path, std::span<const Sample> samples);

/// All samples of these files; a last line that was cut short is passed over. Throws Error K1352 where a line is none, or
/// names no time above 0, or the features are others than those here; K0930 and others as read_text_file.
std::vector<Sample> read_samples(const std::vector<std::filesystem::path> &paths);

} // namespace kiln::search
