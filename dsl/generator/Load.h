/** \file
 * Shared objects with generators: Kiln's own and the user's (`--load`).
 */
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace kiln {

/// Kiln's own: what KILN_GENERATORS names (separated by ':'), else `lib/kiln_generators.so` beside the folder
/// of the running program or of libkiln.so. Throws Error K1011 where there is none.
std::vector<std::filesystem::path> own_generators();

/// Opens Kiln's own and then `more`, so that Halide's and Kiln's registries know their generators. Each is
/// first opened in a child: K1012 (no such file, no shared object, undefined symbols), K1013 (it registers no
/// generator), K1014 (it crashes, hangs or throws while it is loaded). Where two register one name the later
/// one wins. Objects that are open already are not opened again.
struct LoadedGenerators {
    struct Object {
        std::filesystem::path path;
        std::vector<std::string> generators;
        std::vector<std::string> replaces; ///< names that an earlier object had registered
    };
    std::vector<Object> objects;
};
LoadedGenerators load_generators(const std::vector<std::filesystem::path> &more);

/// All names that are registered now, sorted.
std::vector<std::string> generator_names();

} // namespace kiln
