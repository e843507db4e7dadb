/** \file
 * What passes share that rewrite the statements which `build` makes: definitions, uses, renaming.
 */
#pragma once

#include "dsl/tile/ir/Ir.h"

namespace kiln::tile {

/// The bodies inside a statement that `build` makes: of a loop, a branch, the last of several blocks.
std::vector<Body *> bodies_of(Stmt &s);
/// Tiles that the statement defines, with those inside it and those that its loops carry.
std::set<std::string> defined_in(const Stmt &s);
/// Whether an Expr of the statement, or of one inside it, uses the variable.
bool uses_variable(const Stmt &s, const std::string &name);
/// The tile's name is replaced wherever it is read.
void replace_reads(Body &body, const std::string &tile, const std::string &by);
/// One axis takes the place of another of the same extent, everywhere.
void rename_axis(Kernel &k, const std::string &from, const std::string &to);
/// Whether some tile or some value has both axes.
bool axes_meet(const Kernel &k, const std::string &a, const std::string &b);
/// The statement that defines each tile; carried tiles: the loop.
std::map<std::string, const Stmt *> definitions(const Body &body);
/// The map that defines the tile in the loop's own body, or null.
Map *map_of(For &f, const std::string &tile);
/// How many statements read the tile; a loop that carries it on counts once.
int count_reads(const Kernel &k, const Body &body, const std::string &tile);

} // namespace kiln::tile
