/** \file
 * From compiled variants to NAME.a, NAME.h and NAME.json.
 */
#pragma once

#include "dsl/lower/BuildProtocol.h"

namespace kiln {

/// A variant as compiled: its function is NAME__v0, NAME__v1, …
struct CompiledVariant {
    VariantRequest request;
    CompileReply reply;
    std::filesystem::path object;
};

struct LibraryParts {
    std::string name; ///< the C symbol
    std::string generator;
    std::vector<CompiledVariant> variants;
    std::filesystem::path folder; ///< where the three files are written, and work in progress
};

/// Writes the three files into parts.folder and returns the key. Throws Error K0704, K0706, K0709, K0712–K0714.
std::string write_library(const LibraryParts &parts);

/// Throws Error K0707 where `name` is no identifier of C and C++.
void check_c_name(const std::string &name);

/// `y.0` as a C parameter: `y_0`.
std::string c_parameter(const std::string &argument);

} // namespace kiln
