/** \file
 * The parameter `epilogue` of products: steps joined by '_', applied in order.
 */
#pragma once

#include <string>
#include <vector>

namespace kiln::generators {

/// "bias_gelu_residual" → {"bias", "gelu", "residual"}; "none" → {}. A step is bias, residual or an activation
/// (kiln::ops::activation_names; one with '_' in its name is written without: gelutanh). Throws kiln::Error K1031 for
/// any other, and for bias or residual twice.
std::vector<std::string> epilogue_steps(const std::string &epilogue);

/// The name in kiln::ops of a step: gelutanh → gelu_tanh.
std::string activation_of_step(const std::string &step);

} // namespace kiln::generators
