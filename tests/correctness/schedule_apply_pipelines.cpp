#include "tests/correctness/schedule_apply_pipelines.h"

#include <stdexcept>

namespace kiln::test {

namespace {

using namespace Halide;

/// A value from coordinates that differs between neighbours: no schedule can be right by accident.
Expr mix(const Expr &a, const Expr &b) {
    return (a * 37 + b * 101 + a * b * 7) % 251 - 99;
}

std::vector<Func> pointwise() {
    Var x("x"), y("y");
    Func in("in"), a("a"), b("b"), out("out");
    in(x, y) = mix(x, y);
    a(x, y) = in(x, y) * 3 + 1;
    b(x, y) = max(a(x, y), 0) + x;
    out(x, y) = b(x, y) * 2 - y;
    return {out};
}

std::vector<Func> stencils() {
    Var x("x"), y("y");
    Func in("in"), bx("bx"), by("by"), out("out");
    in(x, y) = mix(x, y);
    bx(x, y) = in(x - 1, y) + in(x, y) + in(x + 1, y);
    by(x, y) = bx(x, y - 1) + bx(x, y) * 2 + bx(x, y + 1);
    out(x, y) = by(x, y) - in(x + 2, y);
    return {out};
}

std::vector<Func> matmul() {
    Var n("n"), m("m");
    Func a("a"), b("b"), acc("acc"), y("y");
    RDom k(0, 11, "k");
    a(n, m) = mix(n, m + 3);
    b(n, m) = mix(n + 5, m);
    acc(n, m) = 0;
    acc(n, m) += a(k, m) * b(n, k);
    y(n, m) = max(acc(n, m), -1000) + n;
    return {y};
}

std::vector<Func> softmax_like() {
    Var x("x"), y("y");
    Func in("in"), mx("mx"), e("e"), sum("sum"), out("out");
    RDom r(0, 13, "r");
    in(x, y) = mix(x, y);
    mx(y) = -1000;
    mx(y) = max(mx(y), in(r, y));
    e(x, y) = mx(y) - in(x, y) + 1;
    sum(y) = 0;
    sum(y) += e(r, y);
    out(x, y) = e(x, y) * 1000 / sum(y);
    return {out};
}

std::vector<Func> tuple_reduction() {
    Var x("x"), y("y");
    Func in("in"), best("best"), out("out");
    RDom r(0, 9, "r");
    in(x, y) = mix(x, y);
    best(y) = Tuple(-1000, 0);
    Expr better = in(r, y) > best(y)[0];
    best(y) = Tuple(select(better, in(r, y), best(y)[0]), select(better, Expr(r), best(y)[1]));
    out(x, y) = best(y)[0] * 10 + best(y)[1] + x;
    return {out};
}

std::vector<Func> two_outputs() {
    Var x("x"), y("y");
    Func in("in"), shared("shared"), low("low"), high("high");
    RDom r(0, 6, 0, 3, "r");
    in(x, y) = mix(x, y);
    shared(x, y) = in(x, y) + in(x, y + 1);
    low(x, y) = shared(x, y) - 5;
    high(x, y) = x;
    high(x, y) += shared(x + r.x, y) * in(x, y + r.y);
    return {low, high};
}

/// Reads an input buffer and a scalar.
std::vector<Func> brighten() {
    Var x("x"), y("y");
    ImageParam img(Int(32), 2, "img");
    Param<int> gain("gain");
    Func big("big"), out("out");
    big(x, y) = img(x, y) * gain;
    out(x, y) = big(x, y) + big(x + 1, y);
    return {out};
}

/// The order of its reduction decides the result.
std::vector<Func> ordered() {
    Var x("x");
    Func in("in"), hash("hash"), last("last"), out("out");
    RDom r(0, 5, 0, 4, "r");
    in(x) = mix(x, 3);
    hash(x) = 1;
    hash(x) = hash(x) * 31 + in(x + r.x + r.y);
    last() = 0;
    last() = in(r.x + r.y);
    out(x) = hash(x) + last();
    return {out};
}

/// An output of one size, and an extern stage before it.
std::vector<Func> fixed_size() {
    Var x("x"), y("y");
    Func in("in"), sorted("sorted"), out("out");
    in(x, y) = mix(x, y);
    sorted.define_extern("sort_rows", {in}, Int(32), {x, y});
    out(x, y) = sorted(x, y);
    out.output_buffer().dim(0).set_bounds(0, 64);
    return {out};
}

std::vector<TestPipeline> other_pipelines() {
    return {
        {"brighten", brighten, {37, 11}}, {"ordered", ordered, {21}}, {"fixed_size", fixed_size, {64, 5}}};
}

} // namespace

std::vector<TestPipeline> small_pipelines() {
    return {{"pointwise", pointwise, {37, 11}},
            {"stencils", stencils, {37, 11}},
            {"matmul", matmul, {19, 13}},
            {"softmax_like", softmax_like, {13, 9}},
            {"tuple_reduction", tuple_reduction, {7, 21}},
            {"two_outputs", two_outputs, {23, 10}}};
}

const TestPipeline &small_pipeline(const std::string &name) {
    static const std::vector<TestPipeline> small = small_pipelines(), other = other_pipelines();
    for (const std::vector<TestPipeline> *list : {&small, &other}) {
        for (const TestPipeline &p : *list) {
            if (p.name == name) {
                return p;
            }
        }
    }
    throw std::out_of_range(name);
}

std::vector<int32_t> run(const std::vector<Func> &outputs, const std::vector<int> &sizes, bool opencl) {
    // The least that every x86-64 has: these tests are about order, not speed.
    Halide::Target target("x86-64-linux-sse41-jit");
    if (opencl) {
        target.set_feature(Halide::Target::OpenCL);
    }
    Pipeline pipeline(outputs);
    std::vector<Buffer<int32_t>> buffers;
    for (size_t i = 0; i < outputs.size(); i++) {
        buffers.emplace_back(sizes);
        buffers.back().fill(-123456789);
    }
    // A Realization takes the buffers in the order of the outputs.
    std::vector<Buffer<void>> untyped(buffers.begin(), buffers.end());
    pipeline.realize(Realization(untyped), target);
    std::vector<int32_t> values;
    for (Buffer<int32_t> &buffer : buffers) {
        buffer.copy_to_host();
        buffer.for_each_value([&](int32_t v) { values.push_back(v); });
    }
    return values;
}

} // namespace kiln::test
