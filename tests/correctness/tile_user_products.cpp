#include "tests/correctness/tile_user_programs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace kiln::tile {
namespace {

using namespace Halide;

const Var n("n"), m("m"), b("b"), h("h"), j("j");
const Type half = BFloat(16);

Expr f32(const Expr &e) {
    return cast<float>(e);
}
Expr bf16(const Expr &e) {
    return cast(BFloat(16), e);
}
double rounded(Type t, double v) {
    Array a(t, {1});
    a.set(0, v);
    return a.get(0);
}
double sigmoid(double v) {
    return 1 / (1 + std::exp(-v));
}
double gelu(double v) {
    return 0.5 * v * (1 + std::tanh(0.7978845608 * (v + 0.044715 * v * v * v)));
}

/// y in blocks of bn x bm, a sum `acc` in steps of 64.
std::string product_schedule(int bn, int bm, const std::string &how = "mma(wgmma)",
                             const std::string &blocks = "no, mo", const std::string &kernel = {}) {
    return fmt::format("  y.tile(n, m, no, mo, ni, mi, {}, {}).gpu_blocks({}).tile_kernel(){};\n"
                       "  acc.compute_at(y, no).store_in(Register);\n"
                       "  acc.update().split(k, ko, ki, 64).{};\n"
                       "  x.in(acc).compute_at(acc, ko).store_in(GPUShared);\n"
                       "  w.in(acc).compute_at(acc, ko).store_in(GPUShared);\n",
                       bn, bm, blocks, kernel, how);
}

struct Product {
    ImageParam x, w;
    RDom k;
    Func acc{"acc"}, y{"y"};
    explicit Product(Type t = half, int dims = 2)
        : x(t, dims, "x"), w(t, dims, "w"), k(0, x.dim(0).extent(), "k") {}
    void plain() {
        acc(n, m) = 0.0f;
        acc(n, m) += f32(x(k, m)) * f32(w(k, n));
    }
};
double dot(const Values &v, int64_t column, int64_t row) {
    return v.sum(v.extent("x", 0), [&](int64_t k) { return v("x", {k, row}) * v("w", {k, column}); });
}
Extents sizes(int rows, int columns, int depth, Extents more = {}) {
    more["x"] = {depth, rows};
    more["w"] = {depth, columns};
    if (!more.count("y")) {
        more["y"] = {columns, rows};
    }
    return more;
}

ScheduledProgram transposed(bool tx, bool tw, Type type, const std::string &how) {
    ImageParam x(type, 2, "x"), w(type, 2, "w");
    RDom k(0, x.dim(tx ? 1 : 0).extent(), "k");
    Func acc("acc"), y("y");
    acc(n, m) = 0.0f;
    acc(n, m) += f32(tx ? x(m, k) : x(k, m)) * f32(tw ? w(k, n) : w(n, k));
    y(n, m) = cast(type, acc(n, m));
    auto size = [&](int rows, int columns, int depth) {
        return Extents{{"x", tx ? std::vector<int>{rows, depth} : std::vector<int>{depth, rows}},
                       {"w", tw ? std::vector<int>{depth, columns} : std::vector<int>{columns, depth}},
                       {"y", {columns, rows}}};
    };
    return {fmt::format("gemm_{}{}_{}{}", tx ? "t" : "n", tw ? "t" : "n", type.is_bfloat() ? "bf" : "f",
                        type.bits()),
            {y},
            {x, w},
            product_schedule(64, 64, how),
            {size(64, 64, 64), size(71, 67, 73), size(1, 1, 1), size(3, 2, 0), size(0, 5, 7)},
            {{"y", each([=](const Values &v, const Index &at) {
                  return v.sum(v.extent("x", tx ? 1 : 0), [&](int64_t k) {
                      return (tx ? v("x", {at[1], k}) : v("x", {k, at[1]})) *
                             (tw ? v("w", {k, at[0]}) : v("w", {at[0], k}));
                  });
              })}}};
}

ScheduledProgram batched(bool broadcast) {
    Product p(half, 3);
    ImageParam w2(half, 2, "w");
    p.acc(n, m, b) = 0.0f;
    p.acc(n, m, b) += f32(p.x(p.k, m, b)) * f32(broadcast ? w2(p.k, n) : p.w(p.k, n, b));
    p.y(n, m, b) = bf16(p.acc(n, m, b));
    auto size = [&](int rows, int columns, int depth, int batch) {
        return Extents{
            {"x", {depth, rows, batch}},
            {"w", broadcast ? std::vector<int>{depth, columns} : std::vector<int>{depth, columns, batch}},
            {"y", {columns, rows, batch}}};
    };
    return {broadcast ? "broadcast_batch" : "batched",
            {p.y},
            {p.x, broadcast ? w2 : p.w},
            product_schedule(64, 64, "mma(wgmma)", "no, mo, b"),
            {size(64, 64, 64, 2), size(37, 41, 67, 3)},
            {{"y", each([=](const Values &v, const Index &at) {
                  return v.sum(v.extent("x", 0), [&](int64_t k) {
                      return v("x", {k, at[1], at[2]}) *
                             (broadcast ? v("w", {k, at[0]}) : v("w", {k, at[0], at[2]}));
                  });
              })}}};
}

/// Weights that a group of two heads reads.
ScheduledProgram grouped_heads() {
    ImageParam x(half, 3, "x"), w(half, 3, "w");
    RDom k(0, x.dim(0).extent(), "k");
    Func acc("acc"), y("y");
    acc(n, m, h) = 0.0f;
    acc(n, m, h) += f32(x(k, m, h)) * f32(w(k, n, h / 2));
    y(n, m, h) = bf16(acc(n, m, h));
    return {"grouped_heads",
            {y},
            {x, w},
            product_schedule(64, 64, "mma(wgmma)", "no, mo, h"),
            {{{"x", {72, 20, 4}}, {"w", {72, 40, 2}}, {"y", {40, 20, 4}}}},
            {{"y", each([](const Values &v, const Index &at) {
                  return v.sum(v.extent("x", 0), [&](int64_t k) {
                      return v("x", {k, at[1], at[2]}) * v("w", {k, at[0], at[2] / 2});
                  });
              })}}};
}

/// Weights of 8 bits with a factor and a zero point for each group of 64 along the sum.
ScheduledProgram group_scales() {
    ImageParam x(half, 2, "x"), w(UInt(8), 2, "w"), scale(half, 2, "scale"), zero(UInt(8), 2, "zero");
    RDom k(0, x.dim(0).extent(), "k");
    Func acc("acc"), y("y");
    Expr wide = (f32(w(k, n)) - f32(zero(k / 64, n))) * f32(scale(k / 64, n));
    acc(n, m) = 0.0f;
    acc(n, m) += f32(x(k, m)) * f32(bf16(wide));
    y(n, m) = bf16(acc(n, m));
    return {"group_scales",
            {y},
            {x, w, scale, zero},
            "  y.tile(n, m, no, mo, ni, mi, 64, 64).gpu_blocks(no, mo).tile_kernel().warpgroups(consumers = "
            "1, rows = n);\n"
            "  acc.compute_at(y, no).store_in(Register);\n"
            "  acc.update().split(k, ko, ki, 64).mma(wgmma);\n"
            "  x.in(acc).compute_at(acc, ko).store_in(GPUShared).copy(tma).stages(3);\n"
            "  w.in(acc).compute_at(acc, ko).store_in(GPUShared).copy(tma).stages(3);\n",
            {{{"x", {128, 64}}, {"w", {128, 64}}, {"scale", {2, 64}}, {"zero", {2, 64}}, {"y", {64, 64}}},
             {{"x", {144, 37}}, {"w", {144, 53}}, {"scale", {3, 53}}, {"zero", {3, 53}}, {"y", {53, 37}}}},
            {{"y", each([](const Values &v, const Index &at) {
                  return v.sum(v.extent("x", 0), [&](int64_t k) {
                      return v("x", {k, at[1]}) * (v("w", {k, at[0]}) - v("zero", {k / 64, at[0]})) *
                             v("scale", {k / 64, at[0]});
                  });
              })}}};
}

ScheduledProgram column_scales() {
    ImageParam x(Float(16), 2, "x"), w(Int(8), 2, "w"), scale(Float(32), 1, "scale");
    RDom k(0, x.dim(0).extent(), "k");
    Func acc("acc"), y("y");
    acc(n, m) = 0.0f;
    acc(n, m) += f32(x(k, m)) * f32(w(k, n));
    y(n, m) = cast(Float(16), acc(n, m) * scale(n));
    return {"column_scales",
            {y},
            {x, w, scale},
            "  y.tile(n, m, no, mo, ni, mi, 128, 64).gpu_blocks(no, mo).tile_kernel().warpgroups(consumers = "
            "2, rows = n);\n"
            "  acc.compute_at(y, no).store_in(Register);\n"
            "  acc.update().split(k, ko, ki, 64).mma(wgmma);\n"
            "  x.in(acc).compute_at(acc, ko).store_in(GPUShared);\n"
            "  w.in(acc).compute_at(acc, ko).store_in(GPUShared);\n",
            {sizes(64, 128, 64, {{"scale", {128}}}), sizes(23, 131, 83, {{"scale", {131}}})},
            {{"y", each([](const Values &v, const Index &at) {
                  return dot(v, at[0], at[1]) * v("scale", {at[0]});
              })}}};
}

ScheduledProgram bias_residual_gelu() {
    Product p;
    ImageParam bias(half, 1, "bias"), residual(half, 2, "residual");
    p.plain();
    Expr z = p.acc(n, m) + f32(bias(n));
    p.y(n, m) =
        bf16(0.5f * z * (1.0f + tanh(0.7978845608f * (z + 0.044715f * z * z * z))) + f32(residual(n, m)));
    return {"bias_residual_gelu",
            {p.y},
            {p.x, p.w, bias, residual},
            product_schedule(64, 128, "mma(wgmma)", "no, mo",
                             ".persistent(4).warpgroups(consumers = 2).ping_pong()") +
                "  residual.in(y).compute_at(y, no).store_in(GPUShared).copy(tma);\n",
            {sizes(128, 64, 64, {{"bias", {64}}, {"residual", {64, 128}}}),
             sizes(131, 101, 40, {{"bias", {101}}, {"residual", {101, 131}}})},
            {{"y", each([](const Values &v, const Index &at) {
                  return gelu(dot(v, at[0], at[1]) + v("bias", {at[0]})) + v("residual", at);
              })}},
            2};
}

ScheduledProgram scales_silu_clamp() {
    Product p;
    ImageParam rows(Float(32), 1, "rows"), columns(Float(32), 1, "columns");
    p.plain();
    Expr z = p.acc(n, m) * rows(m) * columns(n);
    p.y(n, m) = clamp(z / (1.0f + exp(-z)), -6.0f, 6.0f);
    return {"scales_silu_clamp",
            {p.y},
            {p.x, p.w, rows, columns},
            product_schedule(96, 64),
            {sizes(64, 96, 64, {{"rows", {64}}, {"columns", {96}}}),
             sizes(5, 97, 129, {{"rows", {5}}, {"columns", {97}}})},
            {{"y", each([](const Values &v, const Index &at) {
                  const double z = dot(v, at[0], at[1]) * v("rows", {at[1]}) * v("columns", {at[0]});
                  return std::clamp(z * sigmoid(z), -6.0, 6.0);
              })}},
            64};
}

/// Columns in pairs: the first are values, the second gates.
ScheduledProgram interleaved_gates() {
    ImageParam x(half, 2, "x"), w(half, 3, "w");
    RDom k(0, x.dim(0).extent(), "k");
    Func value("value"), gate("gate"), y("y");
    value(n, m) = 0.0f;
    value(n, m) += f32(x(k, m)) * f32(w(k, 0, n));
    gate(n, m) = 0.0f;
    gate(n, m) += f32(x(k, m)) * f32(w(k, 1, n));
    y(n, m) = bf16(value(n, m) / (1.0f + exp(-gate(n, m))));
    return {
        "interleaved_gates",
        {y},
        {x, w},
        "  y.tile(n, m, no, mo, ni, mi, 64, 64).gpu_blocks(no, mo).tile_kernel().warpgroups(consumers = 1);\n"
        "  value.compute_at(y, no).store_in(Register);\n"
        "  value.update().split(k, ko, ki, 64).mma(wgmma);\n"
        "  gate.compute_at(y, no).store_in(Register);\n"
        "  gate.update().split(k, ko, ki, 64).mma(wgmma);\n"
        "  x.in(value).compute_at(value, ko).store_in(GPUShared);\n"
        "  x.in(gate).compute_at(gate, ko).store_in(GPUShared);\n"
        "  w.in(value).compute_at(value, ko).store_in(GPUShared);\n"
        "  w.in(gate).compute_at(gate, ko).store_in(GPUShared);\n",
        {{{"x", {64, 64}}, {"w", {64, 2, 64}}, {"y", {64, 64}}},
         {{"x", {72, 37}}, {"w", {72, 2, 41}}, {"y", {41, 37}}}},
        {{"y", each([](const Values &v, const Index &at) {
              auto with = [&](int64_t part) {
                  return v.sum(v.extent("x", 0), [&](int64_t k) {
                      return v("x", {k, at[1]}) * v("w", {k, part, at[0]});
                  });
              };
              return with(0) * sigmoid(with(1));
          })}},
        2};
}

ScheduledProgram swiglu() {
    ImageParam x(Float(16), 2, "x"), wg(Float(16), 2, "wg"), wu(Float(16), 2, "wu");
    RDom k(0, x.dim(0).extent(), "k");
    Func gate("gate"), up("up"), y("y");
    gate(n, m) = 0.0f;
    gate(n, m) += f32(x(k, m)) * f32(wg(k, n));
    up(n, m) = 0.0f;
    up(n, m) += f32(x(k, m)) * f32(wu(k, n));
    y(n, m) = cast(Float(16), gate(n, m) / (1.0f + exp(-gate(n, m))) * up(n, m));
    auto size = [](int rows, int columns, int depth) {
        return Extents{
            {"x", {depth, rows}}, {"wg", {depth, columns}}, {"wu", {depth, columns}}, {"y", {columns, rows}}};
    };
    return {"swiglu_f16",
            {y},
            {x, wg, wu},
            "  y.tile(n, m, no, mo, ni, mi, 64, 128).gpu_blocks(no, mo).tile_kernel();\n"
            "  gate.compute_at(y, no).store_in(Register);\n  gate.update().split(k, ko, ki, 64).mma(wgmma);\n"
            "  up.compute_at(y, no).store_in(Register);\n  up.update().split(k, ko, ki, 64).mma(wgmma);\n"
            "  x.in(gate).compute_at(gate, ko).store_in(GPUShared);\n  x.in(up).compute_at(up, "
            "ko).store_in(GPUShared);\n"
            "  wg.in(gate).compute_at(gate, ko).store_in(GPUShared);\n  wu.in(up).compute_at(up, "
            "ko).store_in(GPUShared);\n",
            {size(128, 64, 64), size(61, 43, 72)},
            {{"y", each([](const Values &v, const Index &at) {
                  auto with = [&](const char *w) {
                      return v.sum(v.extent("x", 0), [&](int64_t k) {
                          return v("x", {k, at[1]}) * v(w, {k, at[0]});
                      });
                  };
                  const double g = with("wg");
                  return g * sigmoid(g) * with("wu");
              })}},
            2};
}

/// y = x W + (x A) B, with A of 16 columns: the adapter's inner columns stay in registers.
ScheduledProgram low_rank() {
    ImageParam x(half, 2, "x"), w(half, 2, "w"), a(half, 2, "a"), bb(half, 2, "bb");
    RDom k(0, x.dim(0).extent(), "k"), r(0, bb.dim(0).extent(), "r");
    Func acc("acc"), inner("inner"), outer("outer"), y("y");
    acc(n, m) = 0.0f;
    acc(n, m) += f32(x(k, m)) * f32(w(k, n));
    inner(j, m) = 0.0f;
    inner(j, m) += f32(x(k, m)) * f32(a(k, j));
    outer(n, m) = 0.0f;
    outer(n, m) += f32(bf16(inner(r, m))) * f32(bb(r, n));
    y(n, m) = bf16(acc(n, m) + 0.5f * outer(n, m));
    auto size = [](int rows, int columns, int depth) {
        return Extents{{"x", {depth, rows}},
                       {"w", {depth, columns}},
                       {"a", {depth, 16}},
                       {"bb", {16, columns}},
                       {"y", {columns, rows}}};
    };
    return {
        "low_rank",
        {y},
        {x, w, a, bb},
        "  y.tile(n, m, no, mo, ni, mi, 64, 64).gpu_blocks(no, mo).tile_kernel().warpgroups(consumers = 1);\n"
        "  acc.compute_at(y, no).store_in(Register);\n  acc.update().split(k, ko, ki, 64).mma(wgmma);\n"
        "  inner.compute_at(y, no).store_in(Register);\n  inner.update().split(k, ko, ki, 64).mma(wgmma);\n"
        "  outer.compute_at(y, no).store_in(Register);\n  outer.update().whole(r, 16).mma(wgmma);\n"
        "  x.in(acc).compute_at(acc, ko).store_in(GPUShared);\n  w.in(acc).compute_at(acc, "
        "ko).store_in(GPUShared);\n"
        "  x.in(inner).compute_at(inner, ko).store_in(GPUShared);\n  a.in(inner).compute_at(inner, "
        "ko).store_in(GPUShared);\n"
        "  bb.in(outer).compute_at(y, no).store_in(GPUShared);\n",
        {size(64, 64, 64), size(45, 77, 88)},
        {{"y", each([](const Values &v, const Index &at) {
              const int64_t depth = v.extent("x", 0);
              const double low = v.sum(16, [&](int64_t r) {
                  const double in = v.sum(depth, [&](int64_t k) {
                      return v("x", {k, at[1]}) * v("a", {k, r});
                  });
                  return rounded(half, in) * v("bb", {r, at[0]});
              });
              return dot(v, at[0], at[1]) + 0.5 * low;
          })}},
        1};
}

/// Three outputs: the product, and of each row the sum of squares and the largest magnitude.
ScheduledProgram product_with_row_reductions() {
    Product p;
    RDom r(0, p.w.dim(1).extent(), "r");
    Func squares("squares"), top("top");
    p.plain();
    p.y(n, m) = bf16(p.acc(n, m));
    squares(m) = 0.0f;
    squares(m) += p.acc(r, m) * p.acc(r, m);
    top(m) = 0.0f;
    top(m) = max(top(m), abs(p.acc(r, m)));
    auto size = [](int rows, int columns, int depth) {
        return sizes(rows, columns, depth, {{"squares", {rows}}, {"top", {rows}}});
    };
    return {"row_reductions",
            {p.y, squares, top},
            {p.x, p.w},
            "  y.whole(n, 128).split(m, mo, mi, 64).gpu_blocks(mo).tile_kernel().warpgroups(consumers = 1);\n"
            "  squares.split(m, mo, mi, 64).gpu_blocks(mo).tile_kernel(y);\n  squares.update().split(m, mo, "
            "mi, 64).gpu_blocks(mo).whole(r, 128);\n"
            "  top.split(m, mo, mi, 64).gpu_blocks(mo).tile_kernel(y);\n  top.update().split(m, mo, mi, "
            "64).gpu_blocks(mo).whole(r, 128);\n"
            "  acc.compute_at(y, mo).store_in(Register);\n  acc.update().split(k, ko, ki, 64).mma(wgmma);\n"
            "  x.in(acc).compute_at(acc, ko).store_in(GPUShared);\n  w.in(acc).compute_at(acc, "
            "ko).store_in(GPUShared);\n",
            {size(64, 128, 64), size(43, 101, 72)},
            {{"y", each([](const Values &v, const Index &at) { return dot(v, at[0], at[1]); })},
             {"squares", each([](const Values &v, const Index &at) {
                  return v.sum(v.extent("w", 1), [&](int64_t c) { return std::pow(dot(v, c, at[0]), 2); });
              })},
             {"top", each([](const Values &v, const Index &at) {
                  return v.most(v.extent("w", 1), [&](int64_t c) { return std::fabs(dot(v, c, at[0])); });
              })}}};
}

/// Its own transpose as the output, with a bias for each row.
ScheduledProgram transposed_output() {
    Product p;
    ImageParam bias(Float(32), 1, "bias");
    p.plain();
    p.y(m, n) = bf16(p.acc(n, m) + bias(m));
    return {"transposed_output",
            {p.y},
            {p.x, p.w, bias},
            "  y.tile(m, n, mo, no, mi, ni, 64, 64).gpu_blocks(mo, no).tile_kernel();\n"
            "  acc.compute_at(y, mo).store_in(Register);\n  acc.update().split(k, ko, ki, 64).mma(wgmma);\n"
            "  x.in(acc).compute_at(acc, ko).store_in(GPUShared);\n  w.in(acc).compute_at(acc, "
            "ko).store_in(GPUShared);\n",
            {sizes(64, 64, 64, {{"bias", {64}}}), sizes(37, 59, 70, {{"bias", {37}}, {"y", {37, 59}}})},
            {{"y", each([](const Values &v, const Index &at) {
                  return dot(v, at[1], at[0]) + v("bias", {at[0]});
              })}}};
}

/// Row softmax of a product with a mask of bytes and a temperature, at most 128 columns.
ScheduledProgram masked_scores() {
    Product p;
    ImageParam mask(UInt(8), 2, "mask");
    RDom r(0, p.w.dim(1).extent(), "r");
    Func score("score"), top("top"), e("e"), total("total");
    p.plain();
    score(n, m) = select(mask(n, m) != 0, p.acc(n, m) * 0.125f, -1e30f);
    top(m) = Float(32).min();
    top(m) = max(top(m), score(r, m));
    e(n, m) = exp(score(n, m) - top(m));
    total(m) = 0.0f;
    total(m) += e(r, m);
    p.y(n, m) = bf16(e(n, m) / total(m));
    auto size = [](int rows, int columns, int depth) {
        return sizes(rows, columns, depth, {{"mask", {columns, rows}}});
    };
    return {"masked_scores",
            {p.y},
            {p.x, p.w, mask},
            "  y.whole(n, 128).split(m, mo, mi, 64).gpu_blocks(mo).tile_kernel().warpgroups(consumers = 1);\n"
            "  acc.compute_at(y, mo).store_in(Register);\n  acc.update().split(k, ko, ki, 64).mma(wgmma);\n"
            "  score.compute_at(y, mo).store_in(Register);\n  e.compute_at(y, mo).store_in(Register);\n"
            "  top.compute_at(y, mo).store_in(Register);\n  top.update().whole(r, 128);\n"
            "  total.compute_at(y, mo).store_in(Register);\n  total.update().whole(r, 128);\n"
            "  x.in(acc).compute_at(acc, ko).store_in(GPUShared);\n  w.in(acc).compute_at(acc, "
            "ko).store_in(GPUShared);\n",
            {size(64, 128, 64), size(39, 83, 72)},
            {{"y",
              [](const Values &v, const Index &at, int64_t n) {
                  std::vector<double> s;
                  for (int64_t c = 0; c < n; c++) {
                      s.push_back(v("mask", {c, at[0]}) != 0 ? dot(v, c, at[0]) * 0.125 : -1e30);
                  }
                  const double top = *std::max_element(s.begin(), s.end());
                  double all = 0;
                  for (double &z : s) {
                      all += z = std::exp(z - top);
                  }
                  for (double &z : s) {
                      z /= all;
                  }
                  return s;
              }}},
            2};
}

/// Sums of the columns of a product in blocks of 64 rows, beside it.
ScheduledProgram product_with_column_sums() {
    Product p;
    Var mb("mb");
    RDom r(0, 64, "r");
    Func sums("sums");
    p.plain();
    p.y(n, m) = bf16(max(p.acc(n, m), 0.0f));
    sums(n, mb) = 0.0f;
    sums(n, mb) += p.acc(n, mb * 64 + r);
    return {
        "column_sums_of_product",
        {p.y, sums},
        {p.x, p.w},
        product_schedule(64, 64) + "  sums.split(n, no, ni, 64).rename(mb, mo).reorder(ni, no, "
                                   "mo).gpu_blocks(no, mo).tile_kernel(y);\n",
        {sizes(128, 64, 64, {{"sums", {64, 2}}}), sizes(128, 75, 40, {{"sums", {75, 2}}})},
        {{"y", each([](const Values &v, const Index &at) { return std::max(0.0, dot(v, at[0], at[1])); })},
         {"sums", each([](const Values &v, const Index &at) {
              return v.sum(64, [&](int64_t r) { return dot(v, at[0], at[1] * 64 + r); });
          })}}};
}

} // namespace

std::vector<ScheduledProgram> user_products() {
    std::vector<ScheduledProgram> all;
    for (int t = 0; t < 4; t++) {
        all.push_back(transposed(t / 2 != 0, t % 2 != 0, t % 2 ? half : Float(16), "mma(wgmma)"));
    }
    all.push_back(transposed(false, true, Float(32), "mma(wgmma, tf32)"));
    all.back().name = "gemm_tf32";
    all.push_back(transposed(false, false, Float(32), "mma(fma)"));
    for (auto make : {grouped_heads, group_scales, column_scales, bias_residual_gelu, scales_silu_clamp,
                      interleaved_gates, swiglu, low_rank, product_with_row_reductions, transposed_output,
                      masked_scores, product_with_column_sums}) {
        all.push_back(make());
    }
    all.push_back(batched(false));
    all.push_back(batched(true));
    return all;
}

} // namespace kiln::tile
