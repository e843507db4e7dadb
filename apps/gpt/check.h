/** \file
 * The model's scores against those that PyTorch gives in double for the same weights (reference.py wrote the file).
 */
#pragma once

#include "model.h"

#include <string>

namespace gpt {

/// Runs the text of the reference: most of it at once, a few characters together, the rest one by one, all over one cache.
/// Prints a line and returns whether every score is as near as it must be and, for float32, whether the text that follows
/// by the best score each is PyTorch's. Throws Error for a file that is none.
bool check(Model &model, kiln_type type, const std::string &reference_file);

} // namespace gpt
