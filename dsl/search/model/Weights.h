/** \file
 * Weights on disk: one JSON file of version `weights_version`, numbers of six digits (what a float keeps through text).
 * docs/cost_model.md describes its fields.
 */
#pragma once

#include "dsl/search/model/ModelData.h"

#include <filesystem>
#include <string>
#include <string_view>

namespace kiln::search {

constexpr int weights_version = 1;

/// Without what was learned since.
std::string weights_text(const ModelData &data);
void write_weights(const ModelData &data, const std::filesystem::path &path);

/// Throws Error: K1350 it is no file of weights, K1351 it is of another version, or names features that do not exist here.
/// Features that exist here and not there are not looked at. `name` is for messages.
ModelData parse_weights(std::string_view text, const std::string &name);
/// Throws also as read_text_file.
ModelData read_weights(const std::filesystem::path &path);

/// The text of weights/shipped.json, which libkiln carries.
std::string_view shipped_weights();

/// Rounds all numbers as a file does, so that a model is the same before and after it was stored.
void round_weights(ModelData &data);

void round_member(Network &network, Trees &trees);

/// 64 bits in hexadecimal (FNV-1a).
std::string hash_text(std::string_view text);

} // namespace kiln::search
