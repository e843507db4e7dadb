/** \file
 * What the networks get wrong, learned from the trials at hand: a Gaussian process over the logarithm of measured /
 * predicted (Rasmussen and Williams 2006, chapter 2). No training: a Cholesky factor of the trials.
 */
#pragma once

#include <Eigen/Core>

#include <optional>
#include <string>
#include <vector>

namespace kiln::search {

/// The covariance of two candidates' errors in log(ms):
///   device (same device) + problem (same problem and device)
///   + sqrt(v v') · (together · exp(−distance² / (2 length²)) + (1 − together) [same candidate]) (same problem and device)
/// with v = between + per_variance · the ensemble's variance. Fitted by Train on samples that the networks had not seen.
struct Correlation {
    double device = 0.1, problem = 0.3;
    double between = 0.1, per_variance = 0;
    double together = 0.8;
    double length = 1;
    double noise = 4e-4; ///< of a measured time
    double scale = 1;    ///< of sigma, so that 90 % of the intervals hold
};

/// What the process must know of a candidate.
struct ResidualPoint {
    std::string problem, device;
    Eigen::VectorXf embedding; ///< candidates that the networks treat alike lie close
    double variance = 0;       ///< between + per_variance · the ensemble's variance
};

class Residual {
public:
    Residual() = default;
    explicit Residual(Correlation correlation) : correlation_(correlation) {}

    struct Posterior {
        double mean = 0;     ///< of log(measured / predicted)
        double variance = 0; ///< of it, without noise
        double between = 0;  ///< the part of the variance that is not common to all candidates of the problem
    };
    /// Keeps the newest `most` points.
    void add(ResidualPoint point, double residual);
    /// To be called after add() and before at().
    void solve();
    Posterior at(const ResidualPoint &point) const;

    size_t size() const { return points_.size(); }
    const Correlation &correlation() const { return correlation_; }
    static constexpr size_t most = 1000;

private:
    Correlation correlation_;
    std::vector<ResidualPoint> points_;
    std::vector<double> residuals_;
    Eigen::MatrixXd factor_; ///< lower Cholesky factor of the points' covariance
    Eigen::VectorXd weights_;

    double common(const ResidualPoint &a, const ResidualPoint &b) const;
    double near(const ResidualPoint &a, const ResidualPoint &b) const;
};

} // namespace kiln::search
