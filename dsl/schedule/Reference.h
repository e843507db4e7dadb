/** \file
 * The reference page of all directives, made from the registry: `kiln schedule doc`, docs/directives.md.
 */
#pragma once

#include <string>

namespace kiln {

/// Markdown.
std::string directive_reference();

/// The entry of one directive, or "" where there is none of this name.
std::string directive_reference(const std::string &name);

} // namespace kiln
