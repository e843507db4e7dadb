#include "dsl/search/model/Inputs.h"

#include <algorithm>
#include <cmath>

namespace kiln::search {

namespace {

constexpr int extra_columns = 3;
/// No kernel takes less, ms: keeps logarithms finite where a stage computes nothing.
constexpr double least_ms = 1e-9;

float compressed(double v) {
    return static_cast<float>(std::copysign(std::log1p(std::fabs(v)), v));
}

} // namespace

int input_count(std::span<const int> features) {
    return static_cast<int>(features.size()) + extra_columns;
}

Inputs inputs_of(std::span<const Features *const> candidates, std::span<const int> columns) {
    Inputs in;
    int rows = 0;
    for (const Features *f : candidates) {
        in.begin.push_back(rows);
        rows += static_cast<int>(f->rows.size());
    }
    in.begin.push_back(rows);
    int features = static_cast<int>(columns.size());
    in.x = Eigen::MatrixXf::Zero(rows, input_count(columns));
    in.log_estimate = Eigen::VectorXf::Zero(rows);
    int r = 0;
    for (const Features *f : candidates) {
        double total = 0;
        for (const FeatureRow &row : f->rows) {
            total += std::max(row.estimate_ms, least_ms);
        }
        for (const FeatureRow &row : f->rows) {
            double ms = std::max(row.estimate_ms, least_ms);
            for (int c = 0; c < features; c++) {
                in.x(r, c) = compressed(row.values[columns[c]]);
            }
            in.log_estimate[r] = static_cast<float>(std::log(ms));
            in.x(r, features) = in.log_estimate[r];
            in.x(r, features + 1) = static_cast<float>(ms / total);
            in.x(r, features + 2) = compressed(static_cast<double>(f->rows.size()));
            r++;
        }
    }
    return in;
}

Scaling scaling_of(const Inputs &inputs) {
    Scaling s;
    s.mean = inputs.x.colwise().mean().transpose();
    Eigen::VectorXf variance =
        (inputs.x.rowwise() - s.mean.transpose()).array().square().colwise().mean().transpose();
    s.inverse_deviation = variance.unaryExpr([](float v) { return v > 1e-8f ? 1 / std::sqrt(v) : 0.f; });
    return s;
}

void apply(const Scaling &s, Inputs &inputs) {
    inputs.x = ((inputs.x.rowwise() - s.mean.transpose()).array().rowwise() *
                s.inverse_deviation.transpose().array())
                   .max(-Scaling::clip)
                   .min(Scaling::clip);
}

int pooled_count(int inputs) {
    return 3 * inputs + 3;
}

Eigen::MatrixXf pool_rows(const Inputs &in) {
    auto columns = static_cast<int>(in.x.cols());
    Eigen::MatrixXf out = Eigen::MatrixXf::Zero(in.candidates(), pooled_count(columns));
    for (int c = 0; c < in.candidates(); c++) {
        int from = in.begin[c], n = in.begin[c + 1] - from;
        if (n == 0) {
            continue;
        }
        const auto rows = in.x.middleRows(from, n);
        Eigen::Index largest = 0;
        float top = in.log_estimate.segment(from, n).maxCoeff(&largest);
        double total = 0;
        for (int r = 0; r < n; r++) {
            total += std::exp(static_cast<double>(in.log_estimate[from + r] - top));
        }
        for (int i = 0; i < columns; i++) {
            double sum = 0;
            for (int r = 0; r < n; r++) {
                sum += std::copysign(std::expm1(std::fabs(static_cast<double>(rows(r, i)))), rows(r, i));
            }
            out(c, i) = compressed(sum);
        }
        out.row(c).segment(columns, columns) = rows.colwise().maxCoeff();
        out.row(c).segment(2 * columns, columns) = rows.row(largest);
        out(c, 3 * columns) = top + static_cast<float>(std::log(total));
        out(c, 3 * columns + 1) = static_cast<float>(n);
        out(c, 3 * columns + 2) = static_cast<float>(1 / total);
    }
    return out;
}

Inputs select(const Inputs &inputs, std::span<const int> candidates) {
    Inputs out;
    int rows = 0;
    for (int c : candidates) {
        out.begin.push_back(rows);
        rows += inputs.begin[c + 1] - inputs.begin[c];
    }
    out.begin.push_back(rows);
    out.x.resize(rows, inputs.x.cols());
    out.log_estimate.resize(rows);
    for (size_t i = 0; i < candidates.size(); i++) {
        int from = inputs.begin[candidates[i]], n = out.begin[i + 1] - out.begin[i];
        out.x.middleRows(out.begin[i], n) = inputs.x.middleRows(from, n);
        out.log_estimate.segment(out.begin[i], n) = inputs.log_estimate.segment(from, n);
    }
    return out;
}

Sums sum_rows(const Inputs &inputs, const Eigen::VectorXf &correction) {
    Sums sums;
    sums.log_ms.resize(inputs.candidates());
    sums.share.resize(inputs.x.rows());
    for (int c = 0; c < inputs.candidates(); c++) {
        int from = inputs.begin[c], n = inputs.begin[c + 1] - from;
        if (n == 0) {
            sums.log_ms[c] = static_cast<float>(std::log(least_ms));
            continue;
        }
        Eigen::ArrayXf terms = inputs.log_estimate.segment(from, n) + correction.segment(from, n);
        float top = terms.maxCoeff();
        Eigen::ArrayXf powers = (terms - top).exp();
        float sum = powers.sum();
        sums.log_ms[c] = top + std::log(sum);
        sums.share.segment(from, n) = powers / sum;
    }
    return sums;
}

} // namespace kiln::search
