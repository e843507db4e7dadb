// Local Laplacian filtering: an image's contrast changed level by level of its pyramid.
#include "bench/pipelines/pipelines.h"

namespace {

using namespace Halide;
namespace bench = kiln::bench;

class LocalLaplacian : public Generator<LocalLaplacian> {
public:
    GeneratorParam<int> pyramid_levels{"pyramid_levels", 8, 1, 10};
    GeneratorParam<int> intensities{"intensities", 8, 2, 16};
    Input<Buffer<uint16_t, 3>> input{"input"};
    Output<Buffer<uint16_t, 3>> output{"output"};
    Var x{"x"}, y{"y"}, c{"c"}, k{"k"};

    void generate() {
        const int J = pyramid_levels, K = intensities;
        const float alpha = 1.0f / static_cast<float>(K - 1), beta = 1.0f;
        Func remap("remap"), floating("floating"), gray("gray"), color("color");
        Expr fx = cast<float>(x) / 256.0f;
        remap(x) = alpha * fx * exp(-fx * fx / 2.0f);
        Func padded = BoundaryConditions::repeat_edge(input);
        floating(x, y, c) = padded(x, y, c) / 65535.0f;
        gray(x, y) = 0.299f * floating(x, y, 0) + 0.587f * floating(x, y, 1) + 0.114f * floating(x, y, 2);

        // The processed Gaussian pyramid, one image for each of K intensities, and its Laplacian.
        std::vector<Func> processed(J), laplacian(J), guide(J), blended(J), result(J);
        for (int j = 0; j < J; j++) {
            std::string n = std::to_string(j);
            processed[j] = Func("processed_" + n);
            laplacian[j] = Func("laplacian_" + n);
            guide[j] = Func("guide_" + n);
            blended[j] = Func("blended_" + n);
            result[j] = Func("result_" + n);
        }
        Expr level = k * (1.0f / static_cast<float>(K - 1));
        Expr index = clamp(cast<int>(gray(x, y) * static_cast<float>(K - 1) * 256.0f), 0, (K - 1) * 256);
        processed[0](x, y, k) = beta * (gray(x, y) - level) + level + remap(index - 256 * k);
        guide[0](x, y) = gray(x, y);
        for (int j = 1; j < J; j++) {
            processed[j](x, y, k) = down(processed[j - 1], "processed_" + std::to_string(j), x, y, {k});
            guide[j](x, y) = down(guide[j - 1], "guide_" + std::to_string(j), x, y, {});
        }
        laplacian[J - 1](x, y, k) = processed[J - 1](x, y, k);
        for (int j = J - 2; j >= 0; j--) {
            laplacian[j](x, y, k) =
                processed[j](x, y, k) - up(processed[j + 1], "laplacian_" + std::to_string(j), x, y, {k});
        }
        for (int j = 0; j < J; j++) {
            Expr at = guide[j](x, y) * static_cast<float>(K - 1);
            Expr low = clamp(cast<int>(at), 0, K - 2);
            Expr part = at - low;
            blended[j](x, y) = (1.0f - part) * laplacian[j](x, y, low) + part * laplacian[j](x, y, low + 1);
        }
        result[J - 1](x, y) = blended[J - 1](x, y);
        for (int j = J - 2; j >= 0; j--) {
            result[j](x, y) = up(result[j + 1], "result_" + std::to_string(j), x, y, {}) + blended[j](x, y);
        }
        constexpr float eps = 0.01f;
        color(x, y, c) = result[0](x, y) * (floating(x, y, c) + eps) / (gray(x, y) + eps);
        output(x, y, c) = cast<uint16_t>(clamp(color(x, y, c), 0.0f, 1.0f) * 65535.0f);
        bench::sizes(input, {1536, 2560, 3});
        bench::sizes(output, {1536, 2560, 3});
        input.dim(2).set_extent(3);
        output.dim(2).set_extent(3);
        bench::extent_of(output, 0, input, 0);
        bench::extent_of(output, 1, input, 1);
    }

private:
    static std::vector<Expr> at(Expr ex, Expr ey, const std::vector<Expr> &rest) {
        std::vector<Expr> args = {std::move(ex), std::move(ey)};
        args.insert(args.end(), rest.begin(), rest.end());
        return args;
    }
    static std::vector<Var> vars(Var vx, Var vy, const std::vector<Expr> &rest) {
        std::vector<Var> out = {std::move(vx), std::move(vy)};
        for (const Expr &e : rest) {
            out.emplace_back(e.as<Internal::Variable>()->name);
        }
        return out;
    }

    /// Half the size, by 1 3 3 1 in both directions.
    static Expr down(const Func &f, const std::string &name, Var vx, Var vy, const std::vector<Expr> &rest) {
        Func across("across_" + name);
        across(vars(vx, vy, rest)) =
            (f(at(2 * vx - 1, vy, rest)) + 3.0f * (f(at(2 * vx, vy, rest)) + f(at(2 * vx + 1, vy, rest))) +
             f(at(2 * vx + 2, vy, rest))) /
            8.0f;
        return (across(at(vx, 2 * vy - 1, rest)) +
                3.0f * (across(at(vx, 2 * vy, rest)) + across(at(vx, 2 * vy + 1, rest))) +
                across(at(vx, 2 * vy + 2, rest))) /
               8.0f;
    }

    /// Twice the size, by linear interpolation.
    static Expr up(const Func &f, const std::string &name, Var vx, Var vy, const std::vector<Expr> &rest) {
        Func along("along_" + name);
        along(vars(vx, vy, rest)) =
            0.25f * f(at((vx / 2) - 1 + 2 * (vx % 2), vy, rest)) + 0.75f * f(at(vx / 2, vy, rest));
        return 0.25f * along(at(vx, (vy / 2) - 1 + 2 * (vy % 2), rest)) + 0.75f * along(at(vx, vy / 2, rest));
    }
};

kiln::Workload image(const char *name, int64_t w, int64_t h, std::map<std::string, std::string> params,
                     bool timed) {
    return {name, {{"input", {w, h, 3}}, {"output", {w, h, 3}}}, {}, std::move(params), timed};
}

} // namespace

KILN_GENERATOR(LocalLaplacian, local_laplacian,
               {.summary = "local Laplacian filtering of an image of three channels",
                .interface_ = "- `output(x, y, c)` from `color`, of `result_0`\n"
                              "- level j: `guide_j(x, y)`, `processed_j(x, y, k)`, `laplacian_j(x, y, k)`, "
                              "`blended_j(x, y)`, `result_j(x, y)`\n"
                              "- `across_…`, `along_…`: the first pass of each resampling",
                .workloads = {image("9x5", 9, 5, {{"pyramid_levels", "2"}}, false),
                              image("67x33", 67, 33, {{"pyramid_levels", "3"}}, false),
                              image("1536x2560", 1536, 2560, {}, true)},
                .params = {{"pyramid_levels", "levels of the pyramid"},
                           {"intensities", "images that the pyramid is made for"}}})
