#include "dsl/ops/Activations.h"

#include "dsl/support/Diagnostic.h"

#include <fmt/format.h>

#include <map>

namespace kiln::ops {

using namespace Halide;

namespace {

const std::map<std::string, Unary> &table() {
    static const std::map<std::string, Unary> activations = {
        {"identity", [](Expr x) { return x; }},
        {"relu", relu},
        {"leaky_relu", [](Expr x) { return leaky_relu(x); }},
        {"sigmoid", sigmoid},
        {"silu", silu},
        {"gelu", gelu},
        {"gelu_tanh", gelu_tanh},
        {"softplus", softplus},
        {"mish", mish},
        {"elu", [](Expr x) { return elu(x); }},
        {"hard_tanh", hard_tanh},
        {"tanh", [](Expr x) { return Halide::tanh(x); }},
    };
    return activations;
}

} // namespace

Expr relu(const Expr &x) {
    return max(x, 0.0f);
}

Expr leaky_relu(const Expr &x, float slope) {
    return select(x > 0.0f, x, x * slope);
}

Expr sigmoid(const Expr &x) {
    return 1.0f / (1.0f + exp(-x));
}

Expr silu(const Expr &x) {
    return x / (1.0f + exp(-x));
}

Expr erf(const Expr &x) {
    return Halide::erf(x);
}

Expr gelu(const Expr &x) {
    return 0.5f * x * (1.0f + ops::erf(x * 0.70710678f));
}

Expr gelu_tanh(const Expr &x) {
    return 0.5f * x * (1.0f + Halide::tanh(0.7978845608f * (x + 0.044715f * x * x * x)));
}

Expr softplus(const Expr &x) {
    return max(x, 0.0f) + log(1.0f + exp(-abs(x)));
}

Expr mish(const Expr &x) {
    return x * Halide::tanh(softplus(x));
}

Expr elu(const Expr &x, float alpha) {
    return select(x > 0.0f, x, alpha * (exp(x) - 1.0f));
}

Expr hard_tanh(const Expr &x) {
    return min(max(x, -1.0f), 1.0f);
}

Unary activation(const std::string &name) {
    auto it = table().find(name);
    if (it != table().end()) {
        return it->second;
    }
    Diagnostic d;
    d.code = "K1030";
    d.message = fmt::format("no activation `{}`", name);
    d.notes = {fmt::format("activations are {}", fmt::join(activation_names(), ", "))};
    if (std::string near = nearest(name, activation_names()); !near.empty()) {
        d.helps = {fmt::format("did you mean `{}`?", near)};
    }
    throw Error(d);
}

std::vector<std::string> activation_names() {
    std::vector<std::string> names;
    for (const auto &[name, f] : table()) {
        names.push_back(name);
    }
    return names;
}

} // namespace kiln::ops
