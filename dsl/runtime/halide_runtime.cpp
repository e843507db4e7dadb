/** \file
 * Writes Halide's runtime for one target as an object file: `kiln-halide-runtime OUT.o TARGET`. Used while Kiln is
 * built.
 */
#include <Halide.h>

#include <cstdio>

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: %s OUT.o TARGET\n", argv[0]);
        return 2;
    }
    try {
        Halide::compile_standalone_runtime(argv[1], Halide::Target(argv[2]));
    } catch (const Halide::Error &e) {
        fprintf(stderr, "%s\n", e.what());
        return 1;
    }
    return 0;
}
