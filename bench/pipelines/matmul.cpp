// A plain matrix product, as anybody would write it.
#include "bench/pipelines/pipelines.h"

namespace {

using namespace Halide;
namespace bench = kiln::bench;

class Matmul : public Generator<Matmul> {
public:
    Input<Buffer<float, 2>> a{"a"};
    Input<Buffer<float, 2>> b{"b"};
    Output<Buffer<float, 2>> out{"out"};

    void generate() {
        Var x("x"), y("y");
        Func prod("prod");
        RDom k(0, a.dim(0).extent(), "k");
        prod(x, y) += a(k, y) * b(x, k);
        out(x, y) = prod(x, y);
        bench::sizes(a, {1024, 1024});
        bench::sizes(b, {1024, 1024});
        bench::sizes(out, {1024, 1024});
        bench::extent_of(b, 1, a, 0);
        bench::extent_of(out, 0, b, 0);
        bench::extent_of(out, 1, a, 1);
    }
};

kiln::Workload product(const char *name, int64_t m, int64_t n, int64_t k, bool timed) {
    return bench::work(name, {{"a", {k, m}}, {"b", {n, k}}, {"out", {n, m}}}, timed);
}

} // namespace

KILN_GENERATOR(Matmul, matmul,
               {.summary = "out(x, y) = sum over k of a(k, y) b(x, k)",
                .interface_ = "- `out(x, y)`: the output, a copy of `prod(x, y)`, whose update runs over `k`",
                .workloads = {product("1x1x1", 1, 1, 1, false), product("37x53x29", 37, 53, 29, false),
                              product("256", 256, 256, 256, true), product("512", 512, 512, 512, true),
                              product("1024", 1024, 1024, 1024, true),
                              product("2048", 2048, 2048, 2048, true)},
                .flops = [](const kiln::Workload &w) {
                    return 2 * kiln::elements(w, "a") * static_cast<double>(w.extents.at("b")[0]);
                }})
