#include "tests/correctness/tile_user_programs.h"

#include <algorithm>
#include <cmath>

namespace kiln::tile {
namespace {

using namespace Halide;

const Var n("n"), m("m"), j("j"), i("i");
const Type half = BFloat(16);

Expr f32(const Expr &e) {
    return cast<float>(e);
}
Expr bf16(const Expr &e) {
    return cast(BFloat(16), e);
}

/// A row of x with its maximum and sum of exponentials.
struct Exponentials {
    RDom r;
    Func top{"top"}, total{"total"};
    Exponentials(const std::function<Expr(const Expr &)> &score, const Expr &extent) : r(0, extent, "r") {
        top(i) = Float(32).min();
        top(i) = max(top(i), score(r));
        total(i) = 0.0f;
        total(i) += exp(score(r) - top(i));
    }
};
const char *const row_of_exponentials =
    "  top.compute_at(y, io).store_in(Register);\n  top.update().whole(r, 1024);\n"
    "  total.compute_at(y, io).store_in(Register);\n  total.update().whole(r, 1024);\n";

double log_sum_exp(int64_t n, const std::function<double(int64_t)> &f) {
    const double top = Values::most(n, f);
    return top + std::log(Values::sum(n, [&](int64_t c) { return std::exp(f(c) - top); }));
}

/// softmax(x · 1/√8, where the mask lets it).
ScheduledProgram masked_softmax() {
    ImageParam x(half, 2, "x"), mask(UInt(8), 2, "mask");
    auto score = [&](const Expr &c) { return select(mask(c, i) != 0, f32(x(c, i)) * 0.35355339f, -1e30f); };
    Exponentials e(score, x.dim(0).extent());
    Func y("y");
    y(j, i) = bf16(exp(score(j) - e.top(i)) / e.total(i));
    return {"masked_softmax",
            {y},
            {x, mask},
            std::string("  y.split(i, io, ii, 2).whole(j, "
                        "1024).gpu_blocks(io).tile_kernel().warpgroups(consumers = 1, producers = 0);\n"
                        "  x.in().compute_at(y, io).store_in(Register);\n  mask.in().compute_at(y, "
                        "io).store_in(Register);\n") +
                row_of_exponentials,
            {{{"x", {1024, 2}}, {"mask", {1024, 2}}, {"y", {1024, 2}}},
             {{"x", {677, 3}}, {"mask", {677, 3}}, {"y", {677, 3}}}},
            {{"y",
              [](const Values &v, const Index &at, int64_t n) {
                  auto s = [&](int64_t c) {
                      return v("mask", {c, at[0]}) != 0 ? v("x", {c, at[0]}) * 0.35355339 : -1e30;
                  };
                  const double all = log_sum_exp(n, s);
                  std::vector<double> row;
                  for (int64_t c = 0; c < n; c++) {
                      row.push_back(std::exp(s(c) - all));
                  }
                  return row;
              }}},
            2};
}

ScheduledProgram log_softmax() {
    ImageParam x(Float(32), 2, "x");
    auto score = [&](const Expr &c) { return x(c, i); };
    Exponentials e(score, x.dim(0).extent());
    Func y("y");
    y(j, i) = x(j, i) - e.top(i) - log(e.total(i));
    return {"log_softmax_rows",
            {y},
            {x},
            std::string("  y.split(i, io, ii, 4).whole(j, "
                        "1024).gpu_blocks(io).tile_kernel().warpgroups(consumers = 2, producers = 0);\n"
                        "  x.in().compute_at(y, io).store_in(Register);\n") +
                row_of_exponentials,
            {{{"x", {1024, 4}}, {"y", {1024, 4}}},
             {{"x", {331, 7}}, {"y", {331, 7}}},
             {{"x", {1, 1}}, {"y", {1, 1}}}},
            {{"y",
              [](const Values &v, const Index &at, int64_t n) {
                  auto s = [&](int64_t c) { return v("x", {c, at[0]}); };
                  const double all = log_sum_exp(n, s);
                  std::vector<double> row;
                  for (int64_t c = 0; c < n; c++) {
                      row.push_back(s(c) - all);
                  }
                  return row;
              }}},
            8};
}

/// -log softmax(x)[target] of each row: a gather, and an output of one dimension.
ScheduledProgram cross_entropy() {
    ImageParam x(half, 2, "x"), target(Int(32), 1, "target");
    auto score = [&](const Expr &c) { return f32(x(c, i)); };
    Exponentials e(score, x.dim(0).extent());
    Func y("y");
    y(i) = e.top(i) + log(e.total(i)) - f32(x(clamp(target(i), 0, x.dim(0).extent() - 1), i));
    return {"cross_entropy",
            {y},
            {x, target},
            std::string("  y.split(i, io, ii, 4).gpu_blocks(io).tile_kernel().warpgroups(consumers = 1, "
                        "producers = 0);\n") +
                row_of_exponentials,
            {{{"x", {1024, 4}}, {"target", {4}}, {"y", {4}}}, {{"x", {517, 6}}, {"target", {6}}, {"y", {6}}}},
            {{"y", each([](const Values &v, const Index &at) {
                  const int64_t n = v.extent("x", 0);
                  const int64_t t = std::clamp<int64_t>(int64_t(v("target", at)), 0, n - 1);
                  return log_sum_exp(n, [&](int64_t c) { return v("x", {c, at[0]}); }) - v("x", {t, at[0]});
              })}},
            8};
}

/// What layer_norm gives to gamma and beta: two sums down the columns.
ScheduledProgram norm_backward() {
    ImageParam x(half, 2, "x"), dy(half, 2, "dy"), mean(Float(32), 1, "mean"), inv(Float(32), 1, "inv");
    RDom r(0, x.dim(1).extent(), "r");
    Func sums("sums"), dgamma("dgamma"), dbeta("dbeta");
    Expr d = f32(dy(j, r));
    sums(j) = Tuple(0.0f, 0.0f);
    sums(j) = Tuple(sums(j)[0] + d * (f32(x(j, r)) - mean(r)) * inv(r), sums(j)[1] + d);
    dgamma(j) = sums(j)[0];
    dbeta(j) = sums(j)[1];
    auto size = [](int columns, int rows) {
        return Extents{{"x", {columns, rows}}, {"dy", {columns, rows}}, {"mean", {rows}},
                       {"inv", {rows}},        {"dgamma", {columns}},   {"dbeta", {columns}}};
    };
    return {"norm_backward",
            {dgamma, dbeta},
            {x, dy, mean, inv},
            "  dgamma.split(j, jo, ji, 128).gpu_blocks(jo).tile_kernel().warpgroups(consumers = 1, producers "
            "= 0);\n"
            "  dbeta.split(j, jo, ji, 128).gpu_blocks(jo).tile_kernel(dgamma);\n"
            "  sums.compute_at(dgamma, jo).store_in(Register);\n  sums.update().split(r, ro, ri, 32);\n",
            {size(128, 64), size(203, 71), size(7, 0)},
            {{"dgamma", each([](const Values &v, const Index &at) {
                  return v.sum(v.extent("x", 1), [&](int64_t r) {
                      return v("dy", {at[0], r}) * (v("x", {at[0], r}) - v("mean", {r})) * v("inv", {r});
                  });
              })},
             {"dbeta", each([](const Values &v, const Index &at) {
                  return v.sum(v.extent("x", 1), [&](int64_t r) { return v("dy", {at[0], r}); });
              })}}};
}

/// h = x + residual, its RMS norm, and that in 8 bits with a factor for each row.
ScheduledProgram quantized_norm() {
    ImageParam x(half, 2, "x"), residual(half, 2, "residual"), gamma(half, 1, "gamma");
    Expr extent = x.dim(0).extent();
    RDom r(0, extent, "r");
    Func h("h"), sq("sq"), z("z"), top("top"), q("q"), scale("scale"), sum("sum");
    h(j, i) = f32(bf16(f32(x(j, i)) + f32(residual(j, i))));
    sq(i) = 0.0f;
    sq(i) += h(r, i) * h(r, i);
    z(j, i) = h(j, i) / sqrt(sq(i) / f32(extent) + 1e-5f) * f32(gamma(j));
    top(i) = 0.0f;
    top(i) = max(top(i), abs(z(r, i)));
    q(j, i) = cast<int8_t>(round(z(j, i) * 120.3f / max(top(i), 1e-20f)));
    scale(i) = top(i) / 120.3f;
    sum(j, i) = bf16(h(j, i));
    auto size = [](int columns, int rows) {
        return Extents{{"x", {columns, rows}}, {"residual", {columns, rows}},
                       {"gamma", {columns}},   {"q", {columns, rows}},
                       {"scale", {rows}},      {"sum", {columns, rows}}};
    };
    auto row = [](const Values &v, int64_t at) {
        const int64_t n = v.extent("x", 0);
        std::vector<double> z;
        double sq = 0, top = 0;
        for (int64_t c = 0; c < n; c++) {
            z.push_back(v("x", {c, at}) + v("residual", {c, at}));
            sq += z.back() * z.back();
        }
        for (int64_t c = 0; c < n; c++) {
            double &e = z[size_t(c)];
            e = e / std::sqrt(sq / double(n) + 1e-5) * v("gamma", {c});
            top = std::max(top, std::fabs(e));
        }
        return std::pair(z, top);
    };
    return {"quantized_norm",
            {q, scale, sum},
            {x, residual, gamma},
            "  q.split(i, io, ii, 1).whole(j, 1024).gpu_blocks(io).tile_kernel().warpgroups(consumers = 1, "
            "producers = 0).registers(64);\n"
            "  scale.split(i, io, ii, 1).gpu_blocks(io).tile_kernel(q);\n"
            "  sum.split(i, io, ii, 1).whole(j, 1024).gpu_blocks(io).tile_kernel(q);\n"
            "  h.compute_at(q, io).store_in(Register);\n"
            "  sq.compute_at(q, io).store_in(Register);\n  sq.update().whole(r, 1024);\n"
            "  top.compute_at(q, io).store_in(Register);\n  top.update().whole(r, 1024);\n",
            {size(1024, 2), size(333, 3)},
            {{"q",
              [=](const Values &v, const Index &at, int64_t) {
                  auto [z, top] = row(v, at[0]);
                  for (double &e : z) {
                      e = std::nearbyint(e * 120.3 / std::max(top, 1e-20));
                  }
                  return z;
              }},
             {"scale", each([=](const Values &v, const Index &at) { return row(v, at[0]).second / 120.3; })},
             {"sum", each([](const Values &v, const Index &at) { return v("x", at) + v("residual", at); })}},
            8};
}

/// The largest of each row, and the first place where it stands.
ScheduledProgram row_argmax() {
    ImageParam x(half, 2, "x");
    RDom r(0, x.dim(0).extent(), "r");
    Func top("top"), place("place");
    top(i) = Float(32).min();
    top(i) = max(top(i), f32(x(r, i)));
    place(i) = 1 << 30;
    place(i) = min(place(i), select(f32(x(r, i)) == top(i), r, 1 << 30));
    return {
        "row_argmax",
        {place, top},
        {x},
        "  place.split(i, io, ii, 4).gpu_blocks(io).tile_kernel().warpgroups(consumers = 1, producers = 0);\n"
        "  place.update().split(i, io, ii, 4).gpu_blocks(io).whole(r, 1024);\n"
        "  top.split(i, io, ii, 4).gpu_blocks(io).tile_kernel(place);\n"
        "  top.update().split(i, io, ii, 4).gpu_blocks(io).whole(r, 1024);\n"
        "  x.in().compute_at(place, io).store_in(Register);\n",
        {{{"x", {1024, 4}}, {"place", {4}}, {"top", {4}}}, {{"x", {101, 9}}, {"place", {9}}, {"top", {9}}}},
        {{"place", each([](const Values &v, const Index &at) {
              int64_t best = 0;
              for (int64_t c = 1; c < v.extent("x", 0); c++) {
                  best = v("x", {c, at[0]}) > v("x", {best, at[0]}) ? c : best;
              }
              return double(best);
          })},
         {"top", each([](const Values &v, const Index &at) {
              return v.most(v.extent("x", 0), [&](int64_t c) { return v("x", {c, at[0]}); });
          })}}};
}

/// Sums of blocks of 32, and of each row the largest of them.
ScheduledProgram two_levels() {
    ImageParam x(Float(32), 2, "x");
    Var jb("jb");
    RDom r(0, 32, "r"), s(0, 32, "s");
    Func part("part"), y("y");
    part(jb, i) = 0.0f;
    part(jb, i) += x(jb * 32 + r, i);
    y(i) = Float(32).min();
    y(i) = max(y(i), part(s, i));
    return {"two_levels",
            {y},
            {x},
            "  y.split(i, io, ii, 1).gpu_blocks(io).tile_kernel().warpgroups(consumers = 1, producers = 0);\n"
            "  y.update().split(i, io, ii, 1).gpu_blocks(io).whole(s, 32);\n"
            "  part.compute_at(y, io).store_in(Register);\n  part.update().whole(r, 32);\n",
            {{{"x", {1024, 2}}, {"y", {2}}}, {{"x", {1024, 5}}, {"y", {5}}}},
            {{"y", each([](const Values &v, const Index &at) {
                  return v.most(32, [&](int64_t b) {
                      return v.sum(32, [&](int64_t r) { return v("x", {b * 32 + r, at[0]}); });
                  });
              })}}};
}

/// Rows longer than a tile: the maximum and the sum are carried from part to part.
ScheduledProgram long_rows() {
    ImageParam x(half, 2, "x");
    RDom r(0, x.dim(0).extent(), "r");
    Func top("top"), y("y");
    top(i) = Float(32).min();
    top(i) = max(top(i), f32(x(r, i)));
    y(i) = 0.0f;
    y(i) += exp(f32(x(r, i)) - top(i));
    return {"long_rows",
            {y},
            {x},
            "  y.split(i, io, ii, 4).gpu_blocks(io).tile_kernel().warpgroups(consumers = 1, producers = 0);\n"
            "  y.update().split(i, io, ii, 4).split(r, ro, ri, 256).reorder(ri, ii, ro, io).gpu_blocks(io);\n"
            "  top.compute_at(y, io).store_in(Register);\n  top.update().split(r, ro, ri, 256);\n",
            {{{"x", {1024, 4}}, {"y", {4}}}, {{"x", {701, 5}}, {"y", {5}}}},
            {{"y", each([](const Values &v, const Index &at) {
                  auto z = [&](int64_t c) { return v("x", {c, at[0]}); };
                  const double top = v.most(v.extent("x", 0), z);
                  return v.sum(v.extent("x", 0), [&](int64_t c) { return std::exp(z(c) - top); });
              })}},
            8};
}

/// Every second element of a row, by its mean and the mean of its squares.
ScheduledProgram every_second() {
    ImageParam x(half, 2, "x");
    Expr extent = x.dim(0).extent() / 2;
    RDom r(0, extent, "r");
    Func total("total"), squares("squares"), y("y");
    auto at = [&](const Expr &c) { return f32(x(2 * c, i)); };
    total(i) = 0.0f;
    total(i) += at(r);
    squares(i) = 0.0f;
    squares(i) += at(r) * at(r);
    Expr mean = total(i) / f32(extent);
    y(j, i) = bf16((at(j) - mean) / sqrt(squares(i) / f32(extent) - mean * mean + 1e-5f));
    return {"every_second",
            {y},
            {x},
            "  y.split(i, io, ii, 1).whole(j, 512).gpu_blocks(io).tile_kernel().warpgroups(consumers = 1, "
            "producers = 0);\n"
            "  total.compute_at(y, io).store_in(Register);\n  total.update().whole(r, 512);\n"
            "  squares.compute_at(y, io).store_in(Register);\n  squares.update().whole(r, 512);\n",
            {{{"x", {1024, 2}}, {"y", {512, 2}}}, {{"x", {302, 3}}, {"y", {151, 3}}}},
            {{"y",
              [](const Values &v, const Index &at, int64_t n) {
                  auto z = [&](int64_t c) { return v("x", {2 * c, at[0]}); };
                  const double mean = v.sum(n, z) / double(n);
                  const double sq = v.sum(n, [&](int64_t c) { return z(c) * z(c); }) / double(n);
                  std::vector<double> row;
                  for (int64_t c = 0; c < n; c++) {
                      row.push_back((z(c) - mean) / std::sqrt(sq - mean * mean + 1e-5));
                  }
                  return row;
              }}},
            2};
}

} // namespace

std::vector<ScheduledProgram> user_rows() {
    return {masked_softmax(), log_softmax(), cross_entropy(), norm_backward(), quantized_norm(),
            row_argmax(),     two_levels(),  long_rows(),     every_second()};
}

} // namespace kiln::tile
