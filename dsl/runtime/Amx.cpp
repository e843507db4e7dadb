#include "Amx.h"

#if defined(__linux__) && defined(__x86_64__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace kiln::runtime {

bool amx_is_permitted() {
#if defined(__linux__) && defined(__x86_64__)
    enum : int { Unknown, Yes, No };
    static int permitted = Unknown; // threads that ask at once get the same answer
    int known = __atomic_load_n(&permitted, __ATOMIC_RELAXED);
    if (known == Unknown) {
        constexpr long request_permission = 0x1023, tile_data = 18; // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
        known = syscall(SYS_arch_prctl, request_permission, tile_data) == 0 ? Yes : No;
        __atomic_store_n(&permitted, known, __ATOMIC_RELAXED);
    }
    return known == Yes;
#else
    return false;
#endif
}

} // namespace kiln::runtime
