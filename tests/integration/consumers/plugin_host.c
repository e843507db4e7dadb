#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv) {
    for (int round = 0; argc > 1 && round < 3; round++) {
        void *first = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL),
             *second = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
        if (!first || !second) {
            fprintf(stderr, "%s\n", dlerror());
            return 1;
        }
        int (*run)(void);
        *(void **)&run = dlsym(second, "plugin_run");
        if (!run || run() != 0) {
            fprintf(stderr, "round %d is wrong\n", round);
            return 1;
        }
        dlclose(first);
        if (run() != 0) {
            return 1;
        }
        dlclose(second);
    }
    return 0;
}
