/** \file
 * The C that a kernel library is made of beside its variants: NAME.h for its users, and the entry that names the
 * contract and the variants to the runtime.
 */
#pragma once

#include "dsl/lower/WriteLibrary.h"

namespace kiln {

std::string header_text(const LibraryParts &parts);
std::string entry_text(const LibraryParts &parts, const std::string &json);

} // namespace kiln
