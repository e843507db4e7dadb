// What the model needs beside Kiln's own generators: tokens to rows, rotary positions, and scores in float32 whatever the
// rest is stored in.
#include <dsl/generator/Generator.h>
#include <dsl/ops/Contraction.h>
#include <dsl/ops/Numeric.h>

#include <Halide.h>

using namespace Halide;
namespace ops = kiln::ops;

namespace {

/// Coordinates begin at 0; the innermost dimension is dense, the others lie as the caller likes.
template<typename... Buffers>
void from_zero(Buffers &...buffers) {
    auto one = [](auto &b) {
        for (int d = 0; d < b.dimensions(); ++d) {
            b.dim(d).set_min(0);
        }
    };
    (one(buffers), ...);
}

class Embed : public Generator<Embed> {
public:
    GeneratorParam<Type> type{"type", Float(32)};
    Input<Buffer<void, 2>> table{"table"};
    Input<Buffer<int32_t, 1>> tokens{"tokens"};
    Output<Buffer<void, 2>> x{"x"};
    Var n{"n"}, i{"i"};

    void configure() {
        table.set_type(type);
        x.set_type(type);
    }
    void generate() {
        x(n, i) = table(n, clamp(tokens(i), 0, table.dim(1).extent() - 1));
        from_zero(table, tokens, x);
        x.dim(0).set_extent(table.dim(0).extent());
        x.dim(1).set_extent(tokens.dim(0).extent());
    }
};

/// Element c < D/2 of a head turns with element c + D/2 by the angle of c and of the position (Su et al. 2021; the order of
/// Llama). turns(c, 0, p) and turns(c, 1, p): cosine and sine at position p; query i stands at first + i.
class Rotate : public Generator<Rotate> {
public:
    GeneratorParam<Type> type{"type", Float(32)};
    Input<Buffer<void, 3>> x{"x"};
    Input<Buffer<float, 3>> turns{"turns"};
    Input<int32_t> first{"first"};
    Output<Buffer<void, 3>> y{"y"};
    Var c{"c"}, i{"i"}, head{"head"};

    void configure() {
        x.set_type(type);
        y.set_type(type);
    }
    void generate() {
        Expr half = turns.dim(0).extent(), low = c < half;
        // What bounds inference does not see of the selects, clamps tell it.
        Expr angle = clamp(select(low, c, c - half), 0, half - 1);
        Expr partner = clamp(select(low, c + half, c - half), 0, 2 * half - 1);
        Expr here = ops::f32(x(c, i, head)), other = ops::f32(x(partner, i, head));
        Expr cosine = turns(angle, 0, first + i), sine = turns(angle, 1, first + i);
        y(c, i, head) = ops::to_type(type, here * cosine + select(low, -other, other) * sine);
        from_zero(x, turns, y);
        x.dim(0).set_extent(2 * turns.dim(0).extent());
        turns.dim(1).set_extent(2);
        for (int d = 0; d < 3; ++d) {
            y.dim(d).set_extent(x.dim(d).extent());
        }
    }
};

/// scores(n, i) = sum over k of h(k, i) table(k, n), never rounded to `type`: a choice hangs on their differences.
class Scores : public Generator<Scores> {
public:
    GeneratorParam<Type> type{"type", Float(32)};
    Input<Buffer<void, 2>> h{"h"};
    Input<Buffer<void, 2>> table{"table"};
    Output<Buffer<float, 2>> scores{"scores"};

    void configure() {
        h.set_type(type);
        table.set_type(type);
    }
    void generate() {
        ops::ContractionOptions options;
        options.b = ops::Layout::Transposed;
        ops::Contraction product = ops::contraction(h, table, h.dim(0).extent(), options);
        scores(product.n, product.m) = product.acc(product.n, product.m);
        from_zero(h, table, scores);
        table.dim(0).set_extent(h.dim(0).extent());
        scores.dim(0).set_extent(table.dim(1).extent());
        scores.dim(1).set_extent(h.dim(1).extent());
    }
};

} // namespace

KILN_GENERATOR(Embed, gpt_embed,
               {.summary = "x(n, i) = table(n, tokens(i))",
                .workloads = {{.name = "128x37",
                               .extents = {{"table", {128, 96}}, {"tokens", {37}}, {"x", {128, 37}}}}}})
KILN_GENERATOR(Rotate, gpt_rotate,
               {.summary = "y(c, i, head): x(c, i, head) turned by the angles of position first + i",
                .workloads = {{.name = "32x37x4",
                               .extents = {{"x", {32, 37, 4}}, {"turns", {16, 2, 64}}, {"y", {32, 37, 4}}},
                               .scalars = {{"first", 5}}}}})
KILN_GENERATOR(Scores, gpt_scores,
               {.summary = "scores(n, i) = sum over k of h(k, i) table(k, n), in float32",
                .workloads = {{.name = "96x37x128",
                               .extents = {{"h", {128, 37}}, {"table", {128, 96}}, {"scores", {96, 37}}}}}})
