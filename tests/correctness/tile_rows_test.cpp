// The schedules of schedules/ for rows (softmax, norms), as variants.txt takes them: emulated on the shortest and on ragged rows
// of each, those of up to 8193 elements interpreted too, against formulas in double.
#include "dsl/lower/LibraryRequest.h"
#include "dsl/ops/Norms.h"
#include "dsl/ops/Numeric.h"
#include "dsl/ops/Softmax.h"
#include "dsl/tile/emit/Emit.h"
#include "tests/correctness/tile_scheduled.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace kiln::tile {
namespace {

using namespace Halide;

constexpr float eps = 1e-5f;

/// As generators/ has them; `form` is softmax, rms_norm or layer_norm.
ScheduledProgram rows(const std::string &form, bool add, Type type) {
    ScheduledProgram p;
    ImageParam x(type, 2, "x"), gamma(type, 1, "gamma"), beta(type, 1, "beta"), residual(type, 2, "residual");
    Func y("y"), sum("x_plus_residual");
    p.inputs = {x};
    if (form == "softmax") {
        ops::Softmax s = ops::softmax(x, x.dim(0).extent(), {.prefix = "", .log = false, .scale = 1.0f});
        y(s.vars) = ops::to_type(type, s.result(s.vars));
        p.wanted["y"] = [](const Values &v, const Index &at, int64_t n) {
            std::vector<double> e;
            double top = v.most(n, [&](int64_t j) { return v("x", {j, at[0]}); }), all = 0;
            for (int64_t j = 0; j < n; j++) {
                e.push_back(std::exp(v("x", {j, at[0]}) - top));
                all += e.back();
            }
            for (double &value : e) {
                value /= all;
            }
            return e;
        };
    } else {
        const bool centered = form == "layer_norm";
        ops::NormOptions options;
        options.gamma = gamma;
        options.eps = eps;
        options.h_type = type;
        p.inputs.push_back(gamma);
        if (centered) {
            options.beta = beta;
            p.inputs.push_back(beta);
        }
        if (add) {
            options.residual = residual;
            p.inputs.push_back(residual);
        }
        ops::Norm norm = centered ? ops::layer_norm(x, x.dim(0).extent(), options)
                                  : ops::rms_norm(x, x.dim(0).extent(), options);
        y(norm.vars) = ops::to_type(type, norm.result(norm.vars));
        auto h = [add](const Values &v, const Index &at) {
            return v("x", at) + (add ? v("residual", at) : 0.0);
        };
        p.wanted["y"] = [=](const Values &v, const Index &at, int64_t n) {
            std::vector<double> row;
            for (int64_t j = 0; j < n; j++) {
                row.push_back(h(v, {j, at[0]}));
            }
            auto mean_of = [&](const std::function<double(double)> &f) {
                return v.sum(n, [&](int64_t j) { return f(row[static_cast<size_t>(j)]); }) / double(n);
            };
            const double mean = centered ? mean_of([](double z) { return z; }) : 0.0;
            const double sq = mean_of([&](double z) { return (z - mean) * (z - mean); });
            for (int64_t j = 0; j < n; j++) {
                double &z = row[static_cast<size_t>(j)];
                z = (z - mean) / std::sqrt(sq + double(eps)) * v("gamma", {j}) +
                    (centered ? v("beta", {j}) : 0.0);
            }
            return row;
        };
        if (add) {
            sum(norm.vars) = ops::to_type(type, norm.h(norm.vars));
            p.wanted["x_plus_residual"] = each(h);
        }
    }
    p.outputs = {y};
    if (sum.defined()) {
        p.outputs.push_back(sum);
    }
    p.ulps = 2;
    return p;
}

Extents sizes(const ScheduledProgram &p, int columns, int count) {
    Extents e;
    for (const ImageParam &i : p.inputs) {
        e[i.name()] = i.dimensions() == 1 ? std::vector<int>{columns} : std::vector<int>{columns, count};
    }
    for (const auto &[name, formula] : p.wanted) {
        e[name] = {columns, count};
    }
    return e;
}

struct Form {
    std::string name;
    bool add;
    Type type;
};

std::vector<Form> forms() {
    return {{"softmax", false, BFloat(16)},    {"softmax", false, Float(32)},
            {"rms_norm", false, Float(16)},    {"rms_norm", true, BFloat(16)},
            {"layer_norm", false, BFloat(16)}, {"layer_norm", true, Float(32)}};
}

/// What a library has for each length, the longest rows last.
std::vector<ScheduledProgram> ladder(const Form &f) {
    const std::vector<std::string> folder = {KILN_SOURCE_DIR "/schedules"};
    std::map<std::string, std::string> params = {{"type", f.type.is_bfloat()    ? "bfloat16"
                                                          : f.type.bits() == 16 ? "float16"
                                                                                : "float32"}};
    if (f.add) {
        params["add"] = "true";
    }
    std::vector<ScheduledProgram> all;
    int at_most = 0;
    for (const VariantRequest &v :
         choose_schedules(f.name, kiln::Target::parse("cuda sm_90a"), folder, params)) {
        ScheduledProgram p = rows(f.name, f.add, f.type);
        const int shortest = std::min(at_most + 1, 65537);
        const bool longest =
            v.conditions.empty() || v.conditions.at(0).what != VariantCondition::What::ExtentAtMost;
        at_most = longest ? 131072 : static_cast<int>(v.conditions.at(0).value);
        p.name = fmt::format("{}{}_{}_{}{}", f.name, f.add ? "_add" : "", at_most,
                             f.type.is_bfloat() ? "bf" : "f", f.type.bits());
        p.schedule = v.schedule_text;
        for (const auto &[knob, value] : v.knobs) {
            p.knobs[knob] = value;
        }
        // Rows over a cluster take the interpreter long: the schedule is one for all of their lengths.
        p.sizes = {sizes(p, shortest, at_most <= 2048 ? 2 : 1)};
        p.sizes.push_back(sizes(p, shortest + 7, 1)); // whole vectors, and some behind the end
        if (at_most <= 2048) {
            p.sizes.push_back(sizes(p, at_most, 2));
            p.sizes.push_back(sizes(p, at_most - 5, 1));
        }
        if (f.type == Float(32)) { // a fraction of what tolerance() allows a sum of n terms, (n + 2) 2^-23
            p.ulps = 64 + std::max(shortest, at_most <= 2048 ? at_most : 0) / 8;
        }
        all.push_back(std::move(p));
    }
    return all;
}

TEST(TileRows, EachLengthIsRight) {
    std::vector<ScheduledProgram> all;
    std::vector<EmittedKernel> kernels;
    for (const Form &form : forms()) {
        const std::vector<ScheduledProgram> lengths = ladder(form);
        EXPECT_GE(lengths.size(), 8u) << form.name;
        for (const ScheduledProgram &p : lengths) {
            const Kernel k = scheduled_kernel(p);
            if (p.sizes[0].at("x")[0] <= 8193) {
                EXPECT_EQ(interpreted(p, k), "") << p.name;
            }
            kernels.push_back(emit_emulated(k));
            all.push_back(p);
        }
    }
    Emulation emulation;
    ASSERT_EQ(emulation.compile(std::move(kernels)), "");
    for (size_t i = 0; i < all.size(); i++) {
        for (const Extents &size : all[i].sizes) {
            EXPECT_EQ(emulated(emulation, i, all[i], size, 7), "") << all[i].name;
        }
    }
}

} // namespace
} // namespace kiln::tile
