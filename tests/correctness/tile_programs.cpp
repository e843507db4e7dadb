#include "tests/correctness/tile_programs.h"

#include <stdexcept>

namespace kiln::tile {

namespace {

using namespace Halide;

const Type bf16_type = BFloat(16);

Expr f32(const Expr &e) {
    return cast<float>(e);
}
Expr bf16(const Expr &e) {
    return cast(BFloat(16), e);
}
Expr gelu(const Expr &x) {
    return 0.5f * x * (1.0f + tanh(x * (0.7978845608f + 0.0356774081f * x * x)));
}
Expr silu(const Expr &x) {
    return x / (1.0f + exp(-x));
}
Expr minus_inf() {
    return Float(32).min();
}

struct Vars {
    Var n{"n"}, m{"m"}, b{"b"}, nb{"nb"}, j{"j"}, i{"i"}, d{"d"}, t{"t"}, h{"h"};
};
const Vars v;

/// y in blocks of bm x bn by 64 along the sums named.
TilePlan matrix_plan(const std::vector<std::string> &sums, int bm = 128, int bn = 64) {
    TilePlan plan;
    plan.kernel = "y";
    plan.blocks = {{"n", "no", bn}, {"m", "mo", bm}};
    plan.grid = {"mo", "no"};
    plan.rows = "m";
    plan.consumers = 2;
    for (const std::string &sum : sums) {
        plan.split[sum]["k"] = 64;
        plan.products[sum] = {};
    }
    plan.copies["x"] = {};
    plan.copies["w"] = {};
    return plan;
}

/// Extents of y = x w for the given layouts.
Extents matrix_extents(int m, int n, int k, bool transpose_x = false, bool transpose_w = true) {
    Extents e;
    e["x"] = transpose_x ? std::vector<int>{m, k} : std::vector<int>{k, m};
    e["w"] = transpose_w ? std::vector<int>{k, n} : std::vector<int>{n, k};
    e["y"] = {n, m};
    return e;
}

/// acc(n, m) = Σ_k x(k, m) w(k, n), each operand as it is or transposed.
Func product(const std::string &name, const ImageParam &x, const ImageParam &w, bool transpose_x = false,
             bool transpose_w = true) {
    RDom k(0, x.dim(transpose_x ? 1 : 0).extent(), "k");
    Func acc(name);
    Expr a = transpose_x ? x(v.m, k) : x(k, v.m);
    Expr b = transpose_w ? w(k, v.n) : w(v.n, k);
    acc(v.n, v.m) = 0.0f;
    acc(v.n, v.m) += f32(a) * f32(b);
    return acc;
}

Program gemm(const std::string &name, bool transpose_x, bool transpose_w, Type type = bf16_type) {
    ImageParam x(type, 2, "x"), w(type, 2, "w");
    Func acc = product("acc", x, w, transpose_x, transpose_w), y("y");
    y(v.n, v.m) = cast(type, acc(v.n, v.m));
    TilePlan plan = matrix_plan({"acc"});
    if (type == Float(32)) {
        plan.products["acc"].kind = MmaKind::Fma;
    }
    return {name,
            {y},
            plan,
            {x, w},
            {matrix_extents(256, 128, 128, transpose_x, transpose_w),
             matrix_extents(131, 72, 72, transpose_x, transpose_w)}};
}

Program gemm_bias_gelu() {
    ImageParam x(bf16_type, 2, "x"), w(bf16_type, 2, "w"), bias(bf16_type, 1, "bias");
    Func acc = product("acc", x, w), y("y");
    y(v.n, v.m) = bf16(gelu(acc(v.n, v.m) + f32(bias(v.n))));
    Program p{"gemm_bias_gelu",
              {y},
              matrix_plan({"acc"}),
              {x, w, bias},
              {matrix_extents(256, 128, 128), matrix_extents(131, 72, 72)}};
    for (Extents &e : p.sizes) {
        e["bias"] = {e["y"][0]};
    }
    return p;
}

/// The residual comes through shared memory.
Program gemm_residual() {
    ImageParam x(bf16_type, 2, "x"), w(bf16_type, 2, "w"), res(bf16_type, 2, "res");
    Func acc = product("acc", x, w), y("y");
    y(v.n, v.m) = bf16(max(acc(v.n, v.m), 0.0f) + f32(res(v.n, v.m)));
    Program p{"gemm_residual",
              {y},
              matrix_plan({"acc"}),
              {x, w, res},
              {matrix_extents(256, 128, 128), matrix_extents(131, 72, 72)}};
    p.plan.copies["res"] = {CopyKind::Tma, 128, 1, false, false, {}};
    for (Extents &e : p.sizes) {
        e["res"] = e["y"];
    }
    return p;
}

/// A second output: the maximum of each row of a block of columns.
Program gemm_row_max() {
    const int bn = 64;
    ImageParam x(bf16_type, 2, "x"), w(bf16_type, 2, "w");
    Func acc = product("acc", x, w), s("s"), y("y"), row_max("row_max");
    RDom r(0, bn, "r");
    s(v.n, v.m) = gelu(acc(v.n, v.m));
    y(v.n, v.m) = bf16(s(v.n, v.m));
    row_max(v.nb, v.m) = minus_inf();
    row_max(v.nb, v.m) = max(row_max(v.nb, v.m), s(v.nb * bn + r, v.m));
    Program p{"gemm_row_max",
              {y, row_max},
              matrix_plan({"acc"}, 128, bn),
              {x, w},
              {matrix_extents(256, 128, 128), matrix_extents(131, 192, 72)}};
    p.plan.blocks.push_back({"nb", "no", 1});
    p.plan.tiles = {"s"};
    for (Extents &e : p.sizes) {
        e["row_max"] = {(e["y"][0] + bn - 1) / bn, e["y"][1]};
    }
    return p;
}

Program swiglu() {
    ImageParam x(bf16_type, 2, "x"), wg(bf16_type, 2, "wg"), wu(bf16_type, 2, "wu");
    Func gate = product("gate", x, wg), up = product("up", x, wu), y("y");
    y(v.n, v.m) = bf16(silu(gate(v.n, v.m)) * up(v.n, v.m));
    TilePlan plan = matrix_plan({"gate", "up"});
    plan.copies = {{"x", {}}, {"wg", {}}, {"wu", {}}};
    Program p{"swiglu", {y}, plan, {x, wg, wu}, {}};
    for (Extents e : {matrix_extents(256, 128, 128), matrix_extents(131, 72, 72)}) {
        e["wg"] = e["wu"] = e["w"];
        e.erase("w");
        p.sizes.push_back(e);
    }
    return p;
}

/// Strided batches of both operands and the output.
Program gemm_batched() {
    ImageParam x(bf16_type, 3, "x"), w(bf16_type, 3, "w");
    RDom k(0, x.dim(0).extent(), "k");
    Func acc("acc"), y("y");
    acc(v.n, v.m, v.b) = 0.0f;
    acc(v.n, v.m, v.b) += f32(x(k, v.m, v.b)) * f32(w(v.n, k, v.b));
    y(v.n, v.m, v.b) = bf16(acc(v.n, v.m, v.b));
    Program p{"gemm_batched", {y}, matrix_plan({"acc"}), {x, w}, {}};
    p.plan.blocks.push_back({"b", "bo", 1});
    p.plan.grid.push_back("bo");
    for (Extents e :
         {matrix_extents(128, 64, 128, false, false), matrix_extents(131, 72, 72, false, false)}) {
        for (auto &[name, extents] : e) {
            extents.push_back(2);
        }
        p.sizes.push_back(e);
    }
    return p;
}

/// rms_norm(x) w in one pass over x: the same tile feeds the product and the sum of squares.
Program gemm_rms() {
    ImageParam x(bf16_type, 2, "x"), w(bf16_type, 2, "w");
    Expr extent = x.dim(0).extent();
    RDom k(0, extent, "k");
    Func acc = product("acc", x, w), sq("sq"), y("y");
    sq(v.m) = 0.0f;
    sq(v.m) += f32(x(k, v.m)) * f32(x(k, v.m));
    y(v.n, v.m) = bf16(acc(v.n, v.m) / sqrt(sq(v.m) / f32(extent) + 1e-5f));
    Program p{"gemm_rms",
              {y},
              matrix_plan({"acc"}),
              {x, w},
              {matrix_extents(256, 128, 128), matrix_extents(131, 72, 72)}};
    p.plan.split["sq"]["k"] = 64;
    return p;
}

/// Weights of 8 bits with a scale for each group of 64 along k, widened between shared memory and the product. The
/// weights are the row operand, which may lie in registers.
Program gemm_int8_weights() {
    ImageParam x(bf16_type, 2, "x"), w(Int(8), 2, "w"), scale(bf16_type, 2, "scale");
    RDom k(0, x.dim(0).extent(), "k");
    Var kk("kk");
    Func wide("wide"), acc("acc"), y("y");
    wide(kk, v.n) = bf16(f32(w(kk, v.n)) * f32(scale(kk / 64, v.n)));
    acc(v.n, v.m) = 0.0f;
    acc(v.n, v.m) += f32(x(k, v.m)) * f32(wide(k, v.n));
    y(v.n, v.m) = bf16(acc(v.n, v.m));
    Program p{"gemm_int8_weights",
              {y},
              matrix_plan({"acc"}, 64, 128),
              {x, w, scale},
              {matrix_extents(128, 256, 128), matrix_extents(72, 144, 192)}};
    p.plan.rows = "n";
    p.plan.tiles = {"wide"};
    for (Extents &e : p.sizes) {
        e["scale"] = {(e["w"][0] + 63) / 64, e["w"][1]};
    }
    return p;
}

/// y = relu(x w1) w2, with the middle kept on the chip: blocks of 64 of its columns at a time.
Program product_of_product() {
    ImageParam x(bf16_type, 2, "x"), w1(bf16_type, 2, "w1"), w2(bf16_type, 2, "w2");
    RDom k(0, x.dim(0).extent(), "k"), r(0, w1.dim(1).extent(), "r");
    Func mid("mid"), hidden("hidden"), acc("acc"), y("y");
    mid(v.j, v.m) = 0.0f;
    mid(v.j, v.m) += f32(x(k, v.m)) * f32(w1(k, v.j));
    hidden(v.j, v.m) = bf16(max(mid(v.j, v.m), 0.0f));
    acc(v.n, v.m) = 0.0f;
    acc(v.n, v.m) += f32(hidden(r, v.m)) * f32(w2(v.n, r));
    y(v.n, v.m) = bf16(acc(v.n, v.m));
    Program p{"product_of_product", {y}, matrix_plan({"mid"}), {x, w1, w2}, {}};
    p.plan.split["acc"]["r"] = 64;
    p.plan.products["acc"] = {};
    p.plan.tiles = {"hidden"};
    p.plan.copies = {{"x", {}}, {"w1", {}}, {"w2", {}}};
    auto extents = [](int m, int n, int k, int j) {
        return Extents{{"x", {k, m}}, {"w1", {k, j}}, {"w2", {n, j}}, {"y", {n, m}}};
    };
    p.sizes = {extents(128, 64, 128, 128), extents(131, 72, 72, 80)};
    return p;
}

/// A product whose epilogue sums whole rows: the block spans all columns.
Program gemm_row_softmax() {
    ImageParam x(bf16_type, 2, "x"), w(bf16_type, 2, "w");
    Func acc = product("acc", x, w), top("top"), e("e"), total("total"), y("y");
    RDom r(0, w.dim(1).extent(), "r");
    top(v.m) = minus_inf();
    top(v.m) = max(top(v.m), acc(r, v.m));
    e(v.n, v.m) = exp(acc(v.n, v.m) - top(v.m));
    total(v.m) = 0.0f;
    total(v.m) += e(r, v.m);
    y(v.n, v.m) = bf16(e(v.n, v.m) / total(v.m));
    Program p{"gemm_row_softmax",
              {y},
              matrix_plan({"acc"}, 128, 128),
              {x, w},
              {matrix_extents(256, 128, 128), matrix_extents(131, 72, 72)}};
    p.plan.blocks = {{"n", "", 128}, {"m", "mo", 128}};
    p.plan.grid = {"mo"};
    p.plan.whole = {{"top", {{"r", 128}}}, {"total", {{"r", 128}}}};
    p.plan.tiles = {"e"};
    return p;
}

/// Rows of at most 1024, 16 in a block.
TilePlan row_plan(const std::vector<std::string> &sums, const std::set<std::string> &tiles) {
    TilePlan plan;
    plan.kernel = "y";
    plan.blocks = {{"n", "", 1024}, {"m", "mo", 16}};
    plan.grid = {"mo"};
    plan.rows = "m";
    plan.consumers = 4;
    plan.producers = 0;
    plan.tiles = tiles;
    for (const std::string &sum : sums) {
        plan.whole[sum]["r"] = 1024;
    }
    return plan;
}

Program row_softmax() {
    ImageParam x(bf16_type, 2, "x");
    RDom r(0, x.dim(0).extent(), "r");
    Func wide("wide"), top("top"), e("e"), total("total"), y("y");
    wide(v.n, v.m) = f32(x(v.n, v.m));
    top(v.m) = minus_inf();
    top(v.m) = max(top(v.m), wide(r, v.m));
    e(v.n, v.m) = exp(wide(v.n, v.m) - top(v.m));
    total(v.m) = 0.0f;
    total(v.m) += e(r, v.m);
    y(v.n, v.m) = bf16(e(v.n, v.m) / total(v.m));
    return {"row_softmax",
            {y},
            row_plan({"top", "total"}, {"wide", "e"}),
            {x},
            {{{"x", {1024, 32}}, {"y", {1024, 32}}}, {{"x", {777, 19}}, {"y", {777, 19}}}}};
}

Program layer_norm() {
    ImageParam x(bf16_type, 2, "x"), gamma(bf16_type, 1, "gamma"), beta(bf16_type, 1, "beta");
    Expr extent = x.dim(0).extent();
    RDom r(0, extent, "r");
    Func wide("wide"), total("total"), mean("mean"), sq("sq"), y("y");
    wide(v.n, v.m) = f32(x(v.n, v.m));
    total(v.m) = 0.0f;
    total(v.m) += wide(r, v.m);
    mean(v.m) = total(v.m) / f32(extent);
    Expr off = wide(r, v.m) - mean(v.m);
    sq(v.m) = 0.0f;
    sq(v.m) += off * off;
    y(v.n, v.m) = bf16((wide(v.n, v.m) - mean(v.m)) / sqrt(sq(v.m) / f32(extent) + 1e-5f) * f32(gamma(v.n)) +
                       f32(beta(v.n)));
    auto extents = [](int n, int m) {
        return Extents{{"x", {n, m}}, {"gamma", {n}}, {"beta", {n}}, {"y", {n, m}}};
    };
    return {"layer_norm",
            {y},
            row_plan({"total", "sq"}, {"wide", "mean"}),
            {x, gamma, beta},
            {extents(1024, 32), extents(777, 19)}};
}

/// rms_norm of x + residual, which is a second output.
Program add_rms_norm() {
    ImageParam x(bf16_type, 2, "x"), res(bf16_type, 2, "res"), gamma(bf16_type, 1, "gamma");
    Expr extent = x.dim(0).extent();
    RDom r(0, extent, "r");
    Func h("h"), sq("sq"), sum("sum"), y("y");
    h(v.n, v.m) = f32(x(v.n, v.m)) + f32(res(v.n, v.m));
    sum(v.n, v.m) = bf16(h(v.n, v.m));
    sq(v.m) = 0.0f;
    sq(v.m) += h(r, v.m) * h(r, v.m);
    y(v.n, v.m) = bf16(h(v.n, v.m) / sqrt(sq(v.m) / f32(extent) + 1e-5f) * f32(gamma(v.n)));
    auto extents = [](int n, int m) {
        return Extents{{"x", {n, m}}, {"res", {n, m}}, {"gamma", {n}}, {"y", {n, m}}, {"sum", {n, m}}};
    };
    return {"add_rms_norm",
            {y, sum},
            row_plan({"sq"}, {"h"}),
            {x, res, gamma},
            {extents(1024, 32), extents(777, 19)}};
}

/// Sums over the outer dimension.
Program column_sums() {
    ImageParam x(bf16_type, 2, "x");
    RDom r(0, x.dim(1).extent(), "r");
    Func y("y");
    y(v.n) = 0.0f;
    y(v.n) += f32(x(v.n, r));
    TilePlan plan;
    plan.kernel = "y";
    plan.blocks = {{"n", "no", 256}};
    plan.grid = {"no"};
    plan.split["y"]["r"] = 32;
    plan.producers = 0;
    plan.consumers = 2;
    return {
        "column_sums", {y}, plan, {x}, {{{"x", {512, 128}}, {"y", {512}}}, {{"x", {300, 45}}, {"y", {300}}}}};
}

TilePlan attention_plan(const std::string &kernel, int rows, int width) {
    TilePlan plan;
    plan.kernel = kernel;
    plan.blocks = {{"d", "", width}, {"i", "io", rows}, {"h", "ho", 1}};
    plan.grid = {"ho", "io"};
    plan.rows = "i";
    plan.consumers = rows / 64;
    plan.split["o"]["rt"] = 1;
    plan.tiles = {"score", "p"};
    plan.products = {{"s", {}}, {"pv", {MmaKind::Wgmma, 1, false, {}}}};
    plan.copies = {{"q", {CopyKind::Tma, 128, 1, false, false, {}}}, {"key", {}}, {"value", {}}};
    return plan;
}

Expr causal(Expr i, Expr j) {
    return j <= i;
}
Expr window(Expr i, Expr j) {
    return j <= i && i - j < 70;
}
Expr softcap(Expr score, Expr, Expr) {
    return 2.0f * tanh(score * 0.5f);
}

Expr distance(Expr score, Expr i, Expr j) {
    return score - cast<float>(abs(i - j)) * 0.03125f;
}

} // namespace

Program attention_program(const AttentionForm &form) {
    const int block = form.block, width = form.width;
    ImageParam q(bf16_type, 3, "q"), key(bf16_type, 3, "key"), value(bf16_type, 3, "value");
    Expr keys = key.dim(1).extent(), kh = form.group == 1 ? Expr(v.h) : v.h / form.group;
    RDom rd(0, width, "rd"), r(0, block, "r"), rt(0, (keys + block - 1) / block, "rt");
    Func s("s"), score("score"), top("top"), p("p"), total("total"), pv("pv"), o("o"), y("y"), lse("lse");
    auto safe = [](const Expr &m) { return select(m == minus_inf(), 0.0f, m); };
    s(v.j, v.i, v.h) = 0.0f;
    s(v.j, v.i, v.h) += f32(q(rd, v.i, v.h)) * f32(key(rd, v.j, kh));
    Expr scaled = s(v.j, v.i, v.h) * 0.125f;
    scaled = form.change ? form.change(scaled, v.i, v.j) : scaled;
    Expr seen = form.mask ? form.mask(v.i, v.j) && v.j < keys : v.j < keys;
    score(v.j, v.i, v.h) = select(seen, scaled, minus_inf());
    top(v.t, v.i, v.h) = minus_inf();
    top(v.t, v.i, v.h) = max(top(v.t, v.i, v.h), score(v.t * block + r, v.i, v.h));
    p(v.j, v.t, v.i, v.h) = exp(score(v.t * block + v.j, v.i, v.h) - safe(top(v.t, v.i, v.h)));
    total(v.t, v.i, v.h) = 0.0f;
    total(v.t, v.i, v.h) += p(r, v.t, v.i, v.h);
    pv(v.d, v.t, v.i, v.h) = 0.0f;
    pv(v.d, v.t, v.i, v.h) += f32(bf16(p(r, v.t, v.i, v.h))) * f32(value(v.d, v.t * block + r, kh));
    o(v.d, v.i, v.h) = Tuple(minus_inf(), 0.0f, 0.0f);
    Expr was = o(v.d, v.i, v.h)[0], here = top(rt, v.i, v.h), now = max(was, here);
    Expr old_scale = exp(was - safe(now)), scale = exp(here - safe(now));
    o(v.d, v.i, v.h) = Tuple(now, o(v.d, v.i, v.h)[1] * old_scale + total(rt, v.i, v.h) * scale,
                             o(v.d, v.i, v.h)[2] * old_scale + pv(v.d, rt, v.i, v.h) * scale);
    Expr l = o(v.d, v.i, v.h)[1], l0 = o(0, v.i, v.h)[1];
    y(v.d, v.i, v.h) = bf16(select(l > 0.0f, o(v.d, v.i, v.h)[2] / l, 0.0f));
    lse(v.i, v.h) = select(l0 > 0.0f, o(0, v.i, v.h)[0] + log(l0), minus_inf());

    auto extents = [&](int queries, int key_count, int heads) {
        Extents e{{"q", {width, queries, heads}},
                  {"key", {width, key_count, heads / form.group}},
                  {"value", {width, key_count, heads / form.group}},
                  {"y", {width, queries, heads}}};
        if (form.with_lse) {
            e["lse"] = {queries, heads};
        }
        return e;
    };
    std::vector<Func> outputs{y};
    if (form.with_lse) {
        outputs.push_back(lse);
    }
    return {form.name,
            outputs,
            attention_plan("y", form.rows, width),
            {q, key, value},
            {extents(256, 256, form.group), extents(150, 150, 2)}};
}

Program sigmoid_attention() {
    const int block = 64, width = 64;
    ImageParam q(bf16_type, 3, "q"), key(bf16_type, 3, "key"), value(bf16_type, 3, "value");
    Expr keys = key.dim(1).extent();
    RDom rd(0, width, "rd"), r(0, block, "r"), rt(0, (keys + block - 1) / block, "rt");
    Func s("s"), p("p"), pv("pv"), o("o"), y("y");
    s(v.j, v.i, v.h) = 0.0f;
    s(v.j, v.i, v.h) += f32(q(rd, v.i, v.h)) * f32(key(rd, v.j, v.h));
    p(v.j, v.i, v.h) =
        select(v.j <= v.i && v.j < keys, 1.0f / (1.0f + exp(s(v.j, v.i, v.h) * -0.125f)), 0.0f);
    pv(v.d, v.t, v.i, v.h) = 0.0f;
    pv(v.d, v.t, v.i, v.h) += f32(bf16(p(v.t * block + r, v.i, v.h))) * f32(value(v.d, v.t * block + r, v.h));
    o(v.d, v.i, v.h) = 0.0f;
    o(v.d, v.i, v.h) += pv(v.d, rt, v.i, v.h);
    y(v.d, v.i, v.h) = bf16(o(v.d, v.i, v.h));
    TilePlan plan = attention_plan("y", 128, width);
    plan.tiles = {"p"};
    auto extents = [](int queries, int heads) {
        return Extents{{"q", {64, queries, heads}},
                       {"key", {64, queries, heads}},
                       {"value", {64, queries, heads}},
                       {"y", {64, queries, heads}}};
    };
    return {"sigmoid_attention", {y}, plan, {q, key, value}, {extents(256, 1), extents(150, 1)}};
}

std::vector<Program> tile_programs() {
    return {
        gemm("gemm_nt", false, true),
        gemm("gemm_nn", false, false),
        gemm("gemm_tn", true, false),
        gemm("gemm_tt", true, true),
        gemm("gemm_f16", false, true, Float(16)),
        gemm("gemm_f32", false, true, Float(32)),
        gemm_bias_gelu(),
        gemm_residual(),
        gemm_row_max(),
        swiglu(),
        gemm_batched(),
        gemm_rms(),
        gemm_int8_weights(),
        product_of_product(),
        gemm_row_softmax(),
        row_softmax(),
        layer_norm(),
        add_rms_norm(),
        column_sums(),
        attention_program({.mask = causal}),
        attention_program({.name = "attention_full"}),
        attention_program(
            {.name = "attention_window", .group = 2, .with_lse = false, .mask = window, .change = softcap}),
        attention_program(
            {.name = "attention_distance", .with_lse = false, .mask = causal, .change = distance}),
        sigmoid_attention()};
}

Program tile_program(const std::string &name) {
    for (Program &p : tile_programs()) {
        if (p.name == name) {
            return p;
        }
    }
    throw std::out_of_range("no tile program " + name);
}

} // namespace kiln::tile
