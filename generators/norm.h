/** \file
 * The generators layer_norm and rms_norm but for their formula: arguments, constraints, names, workloads.
 */
#pragma once

#include "dsl/ops/Norms.h"
#include "generators/common.h"

namespace kiln::generators {

/// Derived::formula(x, extent, options) gives the ops::Norm.
template<typename Derived>
class NormGenerator : public Halide::Generator<Derived> {
protected:
    using Base = Halide::Generator<Derived>;
    template<typename T>
    using Input = typename Base::template Input<T>;
    template<typename T>
    using Output = typename Base::template Output<T>;
    template<typename T>
    using Param = Halide::GeneratorParam<T>;

public:
    Param<Halide::Type> type{"type", Halide::Float(32)};
    Param<bool> add{"add", false};
    Input<Halide::Buffer<void, 2>> x{"x"};
    Input<Halide::Buffer<void, 1>> gamma{"gamma"};
    Input<float> eps{"eps"};
    Output<Halide::Buffer<void, 2>> y{"y"};

    void configure() {
        x.set_type(type);
        gamma.set_type(type);
        y.set_type(type);
        if (Derived::has_beta) {
            beta_ = Base::template add_input<Halide::Buffer<>>("beta", type, 1);
        }
        if (add) {
            residual_ = Base::template add_input<Halide::Buffer<>>("residual", type, 2);
            sum_ = Base::template add_output<Halide::Buffer<>>("x_plus_residual", type, 2);
        }
    }

    void generate() {
        ops::NormOptions options;
        options.gamma = gamma;
        options.eps = eps;
        options.h_type = type;
        if (beta_) {
            options.beta = *beta_;
            begin_at_zero(*beta_);
            same_extent(*beta_, 0, x, 0);
        }
        if (residual_) {
            options.residual = *residual_;
            begin_at_zero(*residual_, *sum_);
            same_shape(*residual_, x);
            same_shape(*sum_, x);
        }
        ops::Norm norm = Derived::formula(x, x.dim(0).extent(), options);
        y(norm.vars) = ops::to_type(type, norm.result(norm.vars));
        if (sum_) {
            (*sum_)(norm.vars) = ops::to_type(type, norm.h(norm.vars));
        }
        begin_at_zero(x, gamma, y);
        same_shape(y, x);
        same_extent(gamma, 0, x, 0);
    }

private:
    Input<Halide::Buffer<>> *beta_ = nullptr;
    Input<Halide::Buffer<>> *residual_ = nullptr;
    Output<Halide::Buffer<>> *sum_ = nullptr;
};

inline Workload norm_rows(const char *name, int64_t n, int64_t m, bool beta, const char *type, bool add,
                          bool bench) {
    Workload w{
        name, {{"x", {n, m}}, {"gamma", {n}}, {"y", {n, m}}}, {{"eps", 1e-5}}, {{"type", type}}, bench};
    if (beta) {
        w.extents["beta"] = {n};
    }
    if (add) {
        w.extents["residual"] = w.extents["x_plus_residual"] = {n, m};
        w.params["add"] = "true";
    }
    return w;
}

inline std::vector<Workload> norm_workloads(bool beta) {
    return {norm_rows("1x1", 1, 1, beta, "float32", false, false),
            norm_rows("5x67", 67, 5, beta, "float32", false, false),
            norm_rows("5x67 add", 67, 5, beta, "float32", true, false),
            norm_rows("33x1001 bf16", 1001, 33, beta, "bfloat16", false, false),
            norm_rows("33x1001 f16 add", 1001, 33, beta, "float16", true, false),
            norm_rows("4096x4096", 4096, 4096, beta, "float32", false, true),
            norm_rows("4096x4096 add", 4096, 4096, beta, "float32", true, true),
            norm_rows("8192x4096 bf16", 4096, 8192, beta, "bfloat16", false, true)};
}

inline const std::pair<const std::string, std::string> add_param = {
    "add", "normalize x + residual, and give that sum as the output x_plus_residual"};

} // namespace kiln::generators
