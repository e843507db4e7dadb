#include "dsl/search/model/Network.h"

#include <cmath>

namespace kiln::search {

namespace {

using Matrix = Eigen::Map<Eigen::MatrixXf>;
using ConstMatrix = Eigen::Map<const Eigen::MatrixXf>;

/// Where the parts of a flat vector of parameters begin.
struct Layout {
    Eigen::Index b1, w2, b2, w3, b3, end;
    Layout(int n, int h1, int h2)
        : b1(Eigen::Index(n) * h1), w2(b1 + h1), b2(w2 + Eigen::Index(h1) * h2), w3(b2 + h2), b3(w3 + h2),
          end(b3 + 1) {}
};

Eigen::MatrixXf sigmoid(const Eigen::MatrixXf &z) {
    return (1 + (-z.array().max(-30.f)).exp()).inverse();
}

/// The derivative of z·sigmoid(z).
Eigen::MatrixXf slope(const Eigen::MatrixXf &z) {
    Eigen::ArrayXXf s = sigmoid(z).array();
    return s * (1 + z.array() * (1 - s));
}

} // namespace

Eigen::Index Network::parameter_count(int inputs, int first, int second) {
    return Layout(inputs, first, second).end;
}

Network Network::shaped(int inputs, int first, int second) {
    Network n;
    n.inputs_ = inputs;
    n.first_ = first;
    n.second_ = second;
    n.parameters = Eigen::VectorXf::Zero(parameter_count(inputs, first, second));
    return n;
}

Network::Network(int inputs, int first, int second, uint64_t seed) {
    *this = shaped(inputs, first, second);
    Layout at(inputs, first, second);
    for (Eigen::Index i = 0; i < at.b1; i++) {
        parameters[i] = static_cast<float>(next_normal(seed) * std::sqrt(2.0 / inputs));
    }
    for (Eigen::Index i = at.w2; i < at.b2; i++) {
        parameters[i] = static_cast<float>(next_normal(seed) * std::sqrt(2.0 / first));
    }
}

void Network::forward(const Eigen::MatrixXf &x, Trace &t) const {
    Layout at(inputs_, first_, second_);
    const float *p = parameters.data();
    ConstMatrix w1(p, inputs_, first_), w2(p + at.w2, first_, second_);
    Eigen::Map<const Eigen::RowVectorXf> b1(p + at.b1, first_), b2(p + at.b2, second_);
    Eigen::Map<const Eigen::VectorXf> w3(p + at.w3, second_);
    t.x = x;
    t.z1 = (x * w1).rowwise() + b1;
    t.a1 = t.z1.array() * sigmoid(t.z1).array();
    t.z2 = (t.a1 * w2).rowwise() + b2;
    t.a2 = t.z2.array() * sigmoid(t.z2).array();
    t.out = (((t.a2 * w3).array() + p[at.b3]) / limit).tanh() * limit;
}

Eigen::VectorXf Network::backward(const Trace &t, const Eigen::VectorXf &d_out) const {
    Layout at(inputs_, first_, second_);
    const float *p = parameters.data();
    ConstMatrix w2(p + at.w2, first_, second_);
    Eigen::Map<const Eigen::VectorXf> w3(p + at.w3, second_);
    Eigen::VectorXf gradient(at.end);
    float *g = gradient.data();
    Eigen::VectorXf d3 = d_out.array() * (1 - (t.out.array() / limit).square());
    Eigen::Map<Eigen::VectorXf>(g + at.w3, second_) = t.a2.transpose() * d3;
    g[at.b3] = d3.sum();
    Eigen::MatrixXf d2 = (d3 * w3.transpose()).array() * slope(t.z2).array();
    Matrix(g + at.w2, first_, second_) = t.a1.transpose() * d2;
    Eigen::Map<Eigen::RowVectorXf>(g + at.b2, second_) = d2.colwise().sum();
    Eigen::MatrixXf d1 = (d2 * w2.transpose()).array() * slope(t.z1).array();
    Matrix(g, inputs_, first_) = t.x.transpose() * d1;
    Eigen::Map<Eigen::RowVectorXf>(g + at.b1, first_) = d1.colwise().sum();
    return gradient;
}

Adam::Adam(Eigen::Index parameters)
    : mean_(Eigen::VectorXf::Zero(parameters)), square_(Eigen::VectorXf::Zero(parameters)) {}

void Adam::step(Eigen::VectorXf &parameters, const Eigen::VectorXf &gradient, float rate, float decay) {
    constexpr float keep_mean = 0.9f, keep_square = 0.99f;
    steps_++;
    mean_ = keep_mean * mean_ + (1 - keep_mean) * gradient;
    square_ = keep_square * square_ + (1 - keep_square) * gradient.cwiseAbs2();
    float m = 1 - std::pow(keep_mean, static_cast<float>(steps_));
    float s = 1 - std::pow(keep_square, static_cast<float>(steps_));
    parameters.array() -=
        rate * ((mean_.array() / m) / ((square_.array() / s).sqrt() + 1e-8f) + decay * parameters.array());
}

} // namespace kiln::search
