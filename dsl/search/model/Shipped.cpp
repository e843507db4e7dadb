#include "dsl/search/model/Weights.h"

// The file itself, put into this object by the assembler: KILN_WEIGHTS is its path.
__asm__(".section .rodata\n"
        ".global kiln_shipped_weights_begin\n"
        ".global kiln_shipped_weights_end\n"
        "kiln_shipped_weights_begin:\n"
        ".incbin \"" KILN_WEIGHTS "\"\n"
        "kiln_shipped_weights_end:\n"
        ".byte 0\n"
        ".previous\n");

extern "C" {
extern const char kiln_shipped_weights_begin[] __attribute__((visibility("hidden")));
extern const char kiln_shipped_weights_end[] __attribute__((visibility("hidden")));
}

namespace kiln::search {

std::string_view shipped_weights() {
    return {kiln_shipped_weights_begin,
            static_cast<size_t>(kiln_shipped_weights_end - kiln_shipped_weights_begin)};
}

} // namespace kiln::search
