// Pipelines drawn by a seed: stencils, pointwise stages, pyramids, products, norms and transpositions in any order.
// Cost models learn from them what the other pipelines, a handful, do not show.
#include "bench/pipelines/pipelines.h"

#include <random>

namespace {

using namespace Halide;
namespace bench = kiln::bench;

class RandomPipeline : public Generator<RandomPipeline> {
public:
    GeneratorParam<int> seed{"seed", 1, 0, 1000000};
    GeneratorParam<int> stages{"stages", 4, 1, 40};
    Input<Buffer<float, 2>> a{"a"};
    Input<Buffer<float, 2>> b{"b"}; ///< weights of products and of pointwise stages, by row and column
    Output<Buffer<float, 2>> out{"out"};
    Var x{"x"}, y{"y"};

    void generate() {
        rng.seed(static_cast<uint32_t>(seed) + 1);
        // BoundaryConditions::repeat_edge would give both the same name.
        a_edge(x, y) = a(clamp(x, 0, a.dim(0).extent() - 1), clamp(y, 0, a.dim(1).extent() - 1));
        b_edge(x, y) = b(clamp(x, 0, b.dim(0).extent() - 1), clamp(y, 0, b.dim(1).extent() - 1));
        Func first("first");
        first(x, y) = a_edge(x, y);
        all.push_back(first);
        for (int i = 0; i < stages; i++) {
            add_stage("s" + std::to_string(i));
        }
        out(x, y) = all.back()(x, y) + 0.5f * some()(x, y);
        bench::sizes(a, {512, 512});
        bench::sizes(b, {512, 512});
        bench::sizes(out, {512, 512});
    }

private:
    std::mt19937 rng;
    std::vector<Func> all;
    Func a_edge{"a_edge"}, b_edge{"b_edge"};

    int draw(int n) { return static_cast<int>(rng() % static_cast<uint32_t>(n)); }
    float weight() { return 0.1f + 0.05f * static_cast<float>(draw(16)); }
    /// One of the last few stages: chains with some branches.
    Func some() {
        return all[all.size() - 1 -
                   static_cast<size_t>(draw(std::min<int>(3, static_cast<int>(all.size()))))];
    }

    void add_stage(const std::string &name) {
        Func p = all.back(), q = some(), f(name);
        switch (draw(9)) {
        case 0: // pointwise
            f(x, y) = max(p(x, y) * weight() + weight(), 0.0f) * b_edge(x, 0);
            break;
        case 1: { // pointwise, with a special function
            Expr e = p(x, y) * weight();
            f(x, y) = e / (1.0f + exp(-clamp(e, -20.0f, 20.0f)));
            break;
        }
        case 2: // two stages meet
            f(x, y) = p(x, y) * weight() + q(x, y) * weight();
            break;
        case 3:
        case 4: { // a stencil along one dimension
            int radius = 1 + draw(3), along = draw(2);
            Expr e = 0.0f;
            for (int i = -radius; i <= radius; i++) {
                e += weight() * (along ? p(x, y + i) : p(x + i, y));
            }
            f(x, y) = e;
            break;
        }
        case 5: { // a stencil of 3 x 3
            Expr e = 0.0f;
            for (int i = 0; i < 9; i++) {
                e += weight() * p(x + i % 3 - 1, y + i / 3 - 1);
            }
            f(x, y) = e;
            break;
        }
        case 6: { // half the size and back
            Func half(name + "_half");
            half(x, y) =
                (p(2 * x, 2 * y) + p(2 * x + 1, 2 * y) + p(2 * x, 2 * y + 1) + p(2 * x + 1, 2 * y + 1)) / 4;
            f(x, y) = p(x, y) - half(x / 2, y / 2);
            all.push_back(half);
            break;
        }
        case 7: { // a product with the weights
            Func sum(name + "_sum");
            RDom k(0, 16 << draw(4), name + "_k");
            sum(x, y) += p(k, y) * b_edge(x, k);
            f(x, y) = sum(x, y) * weight();
            break;
        }
        default:
            if (draw(2)) { // rows scaled by their own size
                Func square(name + "_square");
                RDom k(0, 128, name + "_k");
                square(y) += p(k, y) * p(k, y);
                f(x, y) = p(x, y) / sqrt(square(y) + 1.0f);
            } else {
                f(x, y) = p(y, x) * weight();
            }
        }
        all.push_back(f);
    }
};

kiln::Workload square(const char *name, int64_t n, bool timed) {
    return bench::work(name, {{"a", {n, n}}, {"b", {n, n}}, {"out", {n, n}}}, timed);
}

} // namespace

KILN_GENERATOR(RandomPipeline, random_pipeline,
               {.summary = "a pipeline drawn by `seed`, of `stages` stages",
                .interface_ = "- `first`, `s0`, `s1`, …: its stages; `out(x, y)`: the output",
                .workloads = {square("37", 37, false), square("256", 256, true), square("1024", 1024, true)},
                .params = {{"seed", "which pipeline"}, {"stages", "how many stages"}}})
