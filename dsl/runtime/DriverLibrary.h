/** \file
 * Where a driver's functions come from: its shared library, opened when the first is asked for. Machines without the
 * development package have no name without a version.
 */
#pragma once

#include "kiln.h"

namespace kiln::runtime {

/// `name` from the first of two files that opens, or null. `*library` keeps what was opened, for all threads.
inline void *driver_symbol(void **library, const char *file, const char *other_file, const char *name) {
    void *have = __atomic_load_n(library, __ATOMIC_ACQUIRE);
    for (const char *candidate : {file, other_file}) {
        if (!have) {
            have = halide_load_library(candidate);
            __atomic_store_n(library, have, __ATOMIC_RELEASE);
        }
    }
    return have ? halide_get_library_symbol(have, name) : nullptr;
}

} // namespace kiln::runtime
