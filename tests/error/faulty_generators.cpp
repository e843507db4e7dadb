// Shared objects of generators, each with one fault (FAULT_…), for generator_error_test and kernel_error_test.
#include "dsl/generator/Generator.h"

#include <Halide.h>

#include <cstdio>
#include <cstdlib>

namespace {

class Copy : public Halide::Generator<Copy> {
public:
    Input<Buffer<float, 1>> x{"x"};
    Output<Buffer<float, 1>> y{"y"};
    void generate() {
        Var i{"i"};
        y(i) = x(i);
    }
};

} // namespace

#ifdef FAULT_replaces
KILN_GENERATOR(Copy, chain_relu, {.summary = "the name of one of Kiln's own"})
#else
KILN_GENERATOR(Copy, copy_of_x, {.summary = "no work at all"})
#endif

#ifdef FAULT_twice
namespace {
const bool again = [] {
    Halide::Internal::GeneratorRegistry::register_factory(
        "copy_of_x", [](const Halide::GeneratorContext &context) { return Copy::create(context); });
    return true;
}();
} // namespace
#endif

#ifdef FAULT_aborts
namespace {
const bool never = [] {
    fputs("no licence for this generator\n", stderr);
    abort();
    return true;
}();
} // namespace
#endif
