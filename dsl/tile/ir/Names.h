/** \file
 * How the text of tile IR spells names and strings: shared by printer and parser.
 */
#pragma once

#include <string>

namespace kiln::tile {

/// Whether `name` reads back as one plain name: letters, digits, `_`, `$`, single dots; `%` before an axis.
bool is_plain_name(const std::string &name);
/// The name, between backquotes where it is not plain or is a word of the language.
std::string name_text(const std::string &name);
/// With quotes; `"`, `\` and line ends escaped.
std::string quoted(const std::string &text);

} // namespace kiln::tile
