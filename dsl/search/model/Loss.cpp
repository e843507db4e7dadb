#include "dsl/search/model/Loss.h"

#include <algorithm>
#include <cmath>

namespace kiln::search {

namespace {

constexpr float sharpness = 4;

float huber(float e, float &slope) {
    slope = std::clamp(2 * e, -2.f, 2.f);
    return std::fabs(e) <= 1 ? e * e : 2 * std::fabs(e) - 1;
}

float rank_loss(const Eigen::VectorXf &s, const Eigen::VectorXf &y, Eigen::VectorXf &gradient) {
    float best = y.minCoeff(), loss = 0, total = 0;
    gradient.setZero(s.size());
    for (Eigen::Index i = 0; i < s.size(); i++) {
        float fast = 0.1f + std::exp((best - y[i]) / 2);
        for (Eigen::Index j = 0; j < s.size(); j++) {
            if (!(y[i] < y[j])) {
                continue;
            }
            float w = std::min(1.f, (y[j] - y[i]) / std::log(2.f)) * fast;
            float margin = sharpness * (s[j] - s[i]);
            loss += w * (std::max(-margin, 0.f) + std::log1p(std::exp(-std::fabs(margin))));
            float pull = w * sharpness / (1 + std::exp(margin));
            gradient[i] += pull;
            gradient[j] -= pull;
            total += w;
        }
    }
    if (total > 0) {
        gradient /= total;
        loss /= total;
    }
    return loss;
}

} // namespace

float loss_of_problem(const Eigen::VectorXf &s, const Eigen::VectorXf &y, const LossWeights &weights,
                      Eigen::VectorXf &gradient) {
    auto n = static_cast<float>(s.size());
    float loss = weights.rank * rank_loss(s, y, gradient);
    gradient *= weights.rank;
    float offset = s.mean() - y.mean();
    Eigen::VectorXf shape(s.size());
    for (Eigen::Index i = 0; i < s.size(); i++) {
        float slope = 0;
        loss += weights.shape * huber(s[i] - y[i] - offset, slope) / n;
        shape[i] = weights.shape * slope / n;
        loss += weights.time * huber(s[i] - y[i], slope) / n;
        gradient[i] += weights.time * slope / n;
    }
    gradient.array() += shape.array() - shape.mean();
    return loss;
}

} // namespace kiln::search
