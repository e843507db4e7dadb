/** \file
 * Wide accesses, run on the CPU: the same values as element by element, and no access where the index may be odd. What
 * they become on CUDA: runtime_cuda_test.cpp.
 */
#include "dsl/lower/WidenAccesses.h"

#include <gtest/gtest.h>

#include <cstring>

namespace kiln::test {
namespace {

using namespace Halide;

/// The alignment that out(i) = 3 in(i + shift) + 1, and whole rows of it, ask for. Checks the values.
template<typename T>
std::map<std::string, int> run(int lanes, int shift, bool known_stride, int width, int height) {
    ImageParam in(type_of<T>(), 2, "in");
    Func out("out");
    Var i("i"), j("j");
    out(i, j) = cast<T>(3) * in(i + shift, j) + cast<T>(1);
    in.dim(0).set_min(0);
    in.dim(1).set_min(0);
    OutputImageParam y = out.output_buffer();
    y.dim(0).set_min(0);
    y.dim(1).set_min(0);
    Expr fits = y.dim(0).extent() % lanes == 0;
    if (known_stride) {
        fits = fits && in.dim(1).stride() % lanes == 0 && y.dim(1).stride() % lanes == 0;
    }
    out.specialize(fits).vectorize(i, lanes);
    Pipeline pipeline(out);
    std::map<std::string, int> alignment;
    pipeline.add_custom_lowering_pass(widen_accesses(&alignment, DeviceAPI::Host));

    Buffer<T> x(width + 16, height), result(width, height);
    std::memset(result.data(), 0x55, result.size_in_bytes());
    x.for_each_element([&](int a, int b) { x(a, b) = static_cast<T>(a * 7 % 61 + b); });
    in.set(x);
    pipeline.realize(result, get_jit_target_from_environment());
    result.for_each_element([&](int a, int b) {
        EXPECT_EQ(result(a, b), static_cast<T>(3 * x(a + shift, b) + 1)) << a << ", " << b;
    });
    std::map<std::string, int> plain; // a second Func `out` in one process is Halide's `out$1`
    for (const auto &[name, bytes] : alignment) {
        plain[name.substr(0, name.find('$'))] = bytes;
    }
    return plain;
}

using Asked = std::map<std::string, int>;

TEST(WidenAccesses, AsWideAsTheVector) {
    EXPECT_EQ(run<uint16_t>(8, 0, true, 64, 3), (Asked{{"in", 16}, {"out", 16}}));
    EXPECT_EQ(run<uint16_t>(4, 0, true, 64, 3), (Asked{{"in", 8}, {"out", 8}}));
    EXPECT_EQ(run<uint16_t>(2, 0, true, 64, 3), (Asked{{"in", 4}, {"out", 4}}));
    EXPECT_EQ(run<uint16_t>(16, 0, true, 64, 3), (Asked{{"in", 16}, {"out", 16}})) << "two of them";
    EXPECT_EQ(run<float>(4, 0, true, 64, 3), (Asked{{"in", 16}, {"out", 16}}));
    EXPECT_EQ(run<float>(8, 0, true, 64, 3), (Asked{{"in", 16}, {"out", 16}}));
    EXPECT_EQ(run<uint8_t>(16, 0, true, 64, 3), (Asked{{"in", 16}, {"out", 16}}));
    EXPECT_EQ(run<int32_t>(2, 0, true, 64, 3), (Asked{{"in", 8}, {"out", 8}}));
}

TEST(WidenAccesses, NoWiderThanTheIndexAllows) {
    EXPECT_EQ(run<uint16_t>(8, 4, true, 64, 3), (Asked{{"in", 8}, {"out", 16}}));
    EXPECT_EQ(run<uint16_t>(8, 2, true, 64, 3), (Asked{{"in", 4}, {"out", 16}}));
    EXPECT_EQ(run<uint16_t>(8, 1, true, 64, 3), (Asked{{"out", 16}}));
    EXPECT_EQ(run<uint16_t>(8, 0, false, 64, 3), Asked{}) << "rows may begin anywhere";
    EXPECT_EQ(run<uint16_t>(8, 0, true, 61, 3), (Asked{{"in", 16}, {"out", 16}}))
        << "in code that does not run";
}

} // namespace
} // namespace kiln::test
