#include "dsl/search/model/Residual.h"

#include <Eigen/Cholesky>

#include <cmath>

namespace kiln::search {

void Residual::add(ResidualPoint point, double residual) {
    if (points_.size() == most) {
        points_.erase(points_.begin());
        residuals_.erase(residuals_.begin());
    }
    points_.push_back(std::move(point));
    residuals_.push_back(residual);
}

double Residual::common(const ResidualPoint &a, const ResidualPoint &b) const {
    if (a.device != b.device) {
        return 0;
    }
    return correlation_.device + (a.problem == b.problem ? correlation_.problem : 0);
}

double Residual::near(const ResidualPoint &a, const ResidualPoint &b) const {
    if (a.device != b.device || a.problem != b.problem) {
        return 0;
    }
    double distance = a.embedding.size() ? (a.embedding - b.embedding).squaredNorm() : 0;
    return std::sqrt(a.variance * b.variance) * correlation_.together *
           std::exp(-distance / (2 * correlation_.length * correlation_.length));
}

void Residual::solve() {
    auto n = static_cast<Eigen::Index>(points_.size());
    Eigen::MatrixXd k(n, n);
    for (Eigen::Index i = 0; i < n; i++) {
        for (Eigen::Index j = 0; j < i; j++) {
            k(i, j) = k(j, i) = common(points_[i], points_[j]) + near(points_[i], points_[j]);
        }
        k(i, i) = common(points_[i], points_[i]) + points_[i].variance + correlation_.noise;
    }
    Eigen::LLT<Eigen::MatrixXd> llt(k);
    factor_ = llt.matrixL();
    weights_ = llt.solve(Eigen::Map<const Eigen::VectorXd>(residuals_.data(), n));
}

Residual::Posterior Residual::at(const ResidualPoint &point) const {
    Posterior p;
    p.between = point.variance;
    p.variance = common(point, point) + point.variance;
    auto n = static_cast<Eigen::Index>(points_.size());
    if (n == 0) {
        return p;
    }
    Eigen::VectorXd k(n), close(n);
    for (Eigen::Index i = 0; i < n; i++) {
        close[i] = near(points_[i], point);
        k[i] = common(points_[i], point) + close[i];
    }
    p.mean = k.dot(weights_);
    factor_.triangularView<Eigen::Lower>().solveInPlace(k);
    factor_.triangularView<Eigen::Lower>().solveInPlace(close);
    p.variance = std::max(p.variance - k.squaredNorm(), 0.0);
    p.between = std::max(p.between - close.squaredNorm(), 0.0);
    return p;
}

} // namespace kiln::search
