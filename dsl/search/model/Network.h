/** \file
 * A small network of two hidden layers and its optimizer: all that the cost model needs of such things.
 */
#pragma once

#include "dsl/search/model/Random.h"

#include <Eigen/Core>

#include <cstdint>

namespace kiln::search {

/// inputs → first → second → 1, with x·sigmoid(x) between; the output z leaves as limit · tanh(z / limit), so that a
/// row unlike all that was trained on cannot be wrong by more than e^limit.
class Network {
public:
    static constexpr float limit = 5;

    Network() = default;
    /// Weights drawn from `seed` (He et al. 2015: variance 2 / inputs), the last layer's zero: it starts as no correction.
    Network(int inputs, int first, int second, uint64_t seed);

    int inputs() const { return inputs_; }
    int first() const { return first_; }
    int second() const { return second_; }

    /// What backward needs of a forward pass. One row of each matrix is one row of the input.
    struct Trace {
        Eigen::MatrixXf x, z1, a1, z2, a2;
        Eigen::VectorXf out;
    };
    /// Fills in `trace`, whose `out` is the result; x is rows × inputs.
    void forward(const Eigen::MatrixXf &x, Trace &trace) const;
    /// d loss / d parameters from d loss / d out.
    Eigen::VectorXf backward(const Trace &trace, const Eigen::VectorXf &d_out) const;

    /// All parameters, in a fixed order: W1, b1, W2, b2, w3, b3; matrices by columns.
    Eigen::VectorXf parameters;

    static Eigen::Index parameter_count(int inputs, int first, int second);
    /// The shape without weights; `parameters` is the caller's to set.
    static Network shaped(int inputs, int first, int second);

private:
    int inputs_ = 0, first_ = 0, second_ = 0;
};

/// Adam with decoupled weight decay (Loshchilov and Hutter 2019).
class Adam {
public:
    explicit Adam(Eigen::Index parameters);
    void step(Eigen::VectorXf &parameters, const Eigen::VectorXf &gradient, float rate, float decay);

private:
    Eigen::VectorXf mean_, square_;
    int64_t steps_ = 0;
};

} // namespace kiln::search
