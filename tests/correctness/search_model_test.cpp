// The cost model on samples whose law is known: it learns the law, knows how sure it is, and is the same every time.
#include "dsl/search/model/Evaluate.h"
#include "dsl/search/model/Loss.h"
#include "dsl/search/model/Metrics.h"
#include "dsl/search/model/ModelData.h"
#include "dsl/search/model/Samples.h"
#include "dsl/search/model/Train.h"
#include "dsl/search/model/Weights.h"
#include "dsl/support/Files.h"
#include "tests/correctness/search_model_data.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace kiln::search {
namespace {

using testing::features_of;
using testing::made_samples;

TrainOptions quick() {
    TrainOptions o;
    o.members = 6;
    o.first = 24;
    o.second = 8;
    o.epochs = 50;
    o.threads = 2;
    o.description = "made up";
    o.command = "none";
    return o;
}

/// Trained once for all tests that only look.
const Trained &trained() {
    static const Trained t = train(made_samples(12, 24, 1), quick());
    return t;
}

const std::vector<Sample> &unseen() {
    static const std::vector<Sample> s = made_samples(10, 24, 2);
    return s;
}

TEST(SearchModel, NetworkGradientIsTheLimitOfDifferences) {
    Network n(5, 4, 3, 7);
    uint64_t state = 3;
    for (float &p : n.parameters) {
        p = static_cast<float>(0.5 * next_normal(state));
    }
    Eigen::MatrixXf x(6, 5);
    for (Eigen::Index i = 0; i < x.size(); i++) {
        x.data()[i] = static_cast<float>(next_normal(state));
    }
    Eigen::VectorXf pull(6);
    pull << 1, -2, 0.5, 0.1, -0.3, 2;
    Network::Trace trace;
    n.forward(x, trace);
    Eigen::VectorXf gradient = n.backward(trace, pull);
    for (Eigen::Index i = 0; i < n.parameters.size(); i++) {
        float kept = n.parameters[i], h = 1e-2f;
        n.parameters[i] = kept + h;
        n.forward(x, trace);
        float above = trace.out.dot(pull);
        n.parameters[i] = kept - h;
        n.forward(x, trace);
        float below = trace.out.dot(pull);
        n.parameters[i] = kept;
        EXPECT_NEAR(gradient[i], (above - below) / (2 * h), 2e-3) << "parameter " << i;
    }
}

TEST(SearchModel, LossGradientIsTheLimitOfDifferences) {
    Eigen::VectorXf s(5), y(5), gradient, unused;
    s << 0.1f, 2.f, -0.7f, 0.4f, 1.1f;
    y << 0.3f, 1.2f, -0.5f, 2.9f, 1.0f;
    for (LossWeights w :
         {LossWeights{1, 0, 0}, LossWeights{0, 1, 0}, LossWeights{0, 0, 1}, LossWeights{1, 0.5f, 0.1f}}) {
        loss_of_problem(s, y, w, gradient);
        for (Eigen::Index i = 0; i < s.size(); i++) {
            Eigen::VectorXf above = s, below = s;
            above[i] += 1e-2f;
            below[i] -= 1e-2f;
            float slope =
                (loss_of_problem(above, y, w, unused) - loss_of_problem(below, y, w, unused)) / 2e-2f;
            EXPECT_NEAR(gradient[i], slope, 5e-3) << "candidate " << i;
        }
    }
}

TEST(SearchModel, LossIsSmallestInTheRightOrder) {
    Eigen::VectorXf y(3), right(3), wrong(3), gradient;
    y << 0, 1, 2;
    right << -1, 1, 3;
    wrong << 1, -1, 3;
    LossWeights rank{1, 0, 0};
    EXPECT_LT(loss_of_problem(right, y, rank, gradient), loss_of_problem(wrong, y, rank, gradient));
}

TEST(SearchModel, TreesFindSteps) {
    uint64_t state = 9;
    Eigen::MatrixXf x(600, 3);
    Eigen::VectorXf y(600), weight = Eigen::VectorXf::Ones(600);
    auto law = [](float a, float b) { return (a > 0.3f ? 1.f : 0.f) + (a > 0.3f && b < 0 ? 0.5f : 0.f); };
    for (Eigen::Index i = 0; i < x.rows(); i++) {
        for (Eigen::Index c = 0; c < 3; c++) {
            x(i, c) = static_cast<float>(2 * next_uniform(state) - 1);
        }
        y[i] = law(x(i, 0), x(i, 1));
    }
    TreeOptions options;
    Trees trees = Trees::fit(x, y, weight, options, 1);
    Eigen::MatrixXf probe(4, 3);
    probe << 0.8f, 0.5f, 0, 0.8f, -0.5f, 0, -0.5f, 0.5f, 0, -0.5f, -0.5f, 0;
    Eigen::VectorXf got = trees.predict(probe);
    for (Eigen::Index i = 0; i < 4; i++) {
        EXPECT_NEAR(got[i], law(probe(i, 0), probe(i, 1)), 0.1) << i;
    }
    // The same again, and as it was after text.
    EXPECT_EQ(to_json(trees).dump(), to_json(Trees::fit(x, y, weight, options, 1)).dump());
    nlohmann::json text = nlohmann::json::parse(to_json(trees).dump());
    EXPECT_TRUE(trees_from_json(text, 3).predict(probe).isApprox(got, 1e-4f));
    EXPECT_THROW(trees_from_json(text, 1), std::runtime_error);
    text["left"][0] = 0;
    EXPECT_THROW(trees_from_json(text, 3), std::runtime_error);
}

TEST(SearchModel, LearnsWhatTheRooflineMisses) {
    std::vector<Features> f = features_of(unseen());
    Metrics roofline = metrics_of(unseen(), Model::analytic().predict(f));
    Metrics learned = metrics_of(unseen(), trained().model.predict(f));
    EXPECT_LT(roofline.pairwise, 0.85);
    EXPECT_GT(learned.pairwise, 0.93);
    EXPECT_LT(learned.top1, 1.15);
    EXPECT_LT(learned.top5, roofline.top5);
    EXPECT_LT(learned.median_factor, 1.3);
}

TEST(SearchModel, IntervalsHoldOnOperationsThatWereNotSeen) {
    Metrics m = metrics_of(unseen(), trained().model.predict(features_of(unseen())));
    EXPECT_GT(m.within_90, 0.80);
    EXPECT_LT(m.within_90, 0.99);
    EXPECT_GT(m.within_50, 0.35);
    EXPECT_LT(m.within_50, 0.80);
}

TEST(SearchModel, HeldOutPredictionsAreOfMembersThatHadNotSeenThem) {
    std::vector<Sample> samples = made_samples(12, 24, 1);
    // Times without any law: who had seen them could know them, who had not cannot.
    uint64_t state = 5;
    for (Sample &s : samples) {
        s.ms = std::exp(2 * next_normal(state));
    }
    Trained t = train(samples, quick());
    EXPECT_NEAR(metrics_of(samples, t.held_out).pairwise, 0.5, 0.05);
}

TEST(SearchModel, SameSeedSameWeightsWhateverTheThreads) {
    std::vector<Sample> samples = made_samples(4, 10, 3);
    TrainOptions o = quick();
    o.epochs = 8;
    std::string two = weights_text(train(samples, o).model.data());
    o.threads = 1;
    EXPECT_EQ(two, weights_text(train(samples, o).model.data()));
    o.seed = 2;
    EXPECT_NE(two, weights_text(train(samples, o).model.data()));
}

TEST(SearchModel, ResumesWhereItWasInterrupted) {
    std::vector<Sample> samples = made_samples(4, 10, 3);
    TemporaryFolder folder;
    TrainOptions o = quick();
    o.epochs = 8;
    o.threads = 1;
    std::string whole = weights_text(train(samples, o).model.data());
    o.checkpoint = folder.path() / "unfinished.json";
    struct Interrupt {};
    o.progress = [](size_t done, size_t, const std::string &) {
        if (done == 4) {
            throw Interrupt();
        }
    };
    EXPECT_THROW(train(samples, o), Interrupt);
    ASSERT_TRUE(std::filesystem::exists(o.checkpoint));
    std::vector<size_t> seen;
    std::vector<std::string> said;
    o.progress = [&](size_t done, size_t all, const std::string &what) {
        seen.push_back(done);
        said.push_back(what);
        EXPECT_EQ(all, 6u);
    };
    EXPECT_EQ(whole, weights_text(train(samples, o).model.data()));
    EXPECT_EQ(seen, (std::vector<size_t>{4, 5, 6}));
    EXPECT_EQ(said.at(0), "4 members taken from " + o.checkpoint.string());
    EXPECT_FALSE(std::filesystem::exists(o.checkpoint));
}

TEST(SearchModel, StoredAndReadBackPredictsTheSame) {
    TemporaryFolder folder;
    trained().model.save(folder.path() / "w.json");
    Model read = Model::load(folder.path() / "w.json");
    EXPECT_EQ(read.fingerprint(), trained().model.fingerprint());
    EXPECT_EQ(read.data_description(), "made up");
    std::vector<Features> f = features_of(unseen());
    std::vector<Prediction> a = trained().model.predict(f), b = read.predict(f);
    for (size_t i = 0; i < a.size(); i++) {
        ASSERT_FLOAT_EQ(static_cast<float>(a[i].ms), static_cast<float>(b[i].ms));
        ASSERT_FLOAT_EQ(static_cast<float>(a[i].sigma), static_cast<float>(b[i].sigma));
    }
    EXPECT_NE(read.fingerprint(), Model::analytic().fingerprint());
}

TEST(SearchModel, TrialsOfAProblemCorrectItsOtherCandidates) {
    // A problem that is three times slower than any that was seen, and whose wide vectors are the slow ones.
    std::vector<Sample> problem(unseen().begin(), unseen().begin() + 24);
    for (Sample &s : problem) {
        s.ms *= 3 * (s.features.rows[0][Feature::lanes] > 4 ? 1.5 : 1);
    }
    std::vector<Sample> tried(problem.begin(), problem.begin() + 16),
        rest(problem.begin() + 16, problem.end());
    Model model = trained().model;
    std::vector<Prediction> before = model.predict(features_of(rest));
    model.learn(tried);
    EXPECT_EQ(model.learned(), 16u);
    std::vector<Prediction> after = model.predict(features_of(rest));
    double error_before = 0, error_after = 0;
    for (size_t i = 0; i < rest.size(); i++) {
        error_before += std::fabs(std::log(rest[i].ms / before[i].ms)) / rest.size();
        error_after += std::fabs(std::log(rest[i].ms / after[i].ms)) / rest.size();
        EXPECT_LT(after[i].sigma, before[i].sigma);
    }
    EXPECT_GT(error_before, 0.9);
    EXPECT_LT(error_after, 0.3);
    // What was tried is known well, and a copy made before has learned nothing.
    std::vector<Prediction> known = model.predict(features_of(tried));
    for (size_t i = 0; i < tried.size(); i++) {
        EXPECT_LT(known[i].spread, after[0].spread * 1.01);
    }
    EXPECT_EQ(trained().model.learned(), 0u);
}

TEST(SearchModel, TrialsOfAnotherProblemMoveOnlyTheDevice) {
    std::vector<Sample> slow(unseen().begin(), unseen().begin() + 24);
    for (Sample &s : slow) {
        s.ms *= 4;
        s.device = "slow";
    }
    Model model = trained().model;
    Features f = unseen()[100].features;
    double before = model.predict(f).ms;
    model.learn(slow);
    double same_problem = model.predict(f).ms;
    model.focus("another", "slow");
    double same_device = model.predict(f).ms;
    model.focus("another", "other");
    double elsewhere = model.predict(f).ms;
    EXPECT_DOUBLE_EQ(elsewhere, before);
    EXPECT_GT(same_device, 1.2 * before);
    EXPECT_GT(same_problem, same_device);
}

TEST(SearchModel, NumbersOutOfAllBoundsGiveATime) {
    for (float wild : {0.f, -1e30f, 1e30f, 3e38f}) {
        Features f;
        f.rows.resize(2);
        for (FeatureRow &row : f.rows) {
            std::fill(row.values.begin(), row.values.end(), wild);
            row.estimate_ms = 1;
        }
        Prediction p = trained().model.predict(f);
        EXPECT_TRUE(std::isfinite(p.ms) && p.ms > 0) << wild;
        EXPECT_TRUE(std::isfinite(p.sigma) && p.sigma > 0) << wild;
    }
    EXPECT_GT(trained().model.predict(Features{}).ms, 0);
}

TEST(SearchModel, SamplesAreReadAsTheyWereWritten) {
    TemporaryFolder folder;
    std::filesystem::path path = folder.path() / "data.jsonl";
    std::vector<Sample> some(unseen().begin(), unseen().begin() + 5);
    write_samples(path, some);
    std::vector<Sample> read = read_samples({path});
    ASSERT_EQ(read.size(), 5u);
    for (size_t i = 0; i < 5; i++) {
        EXPECT_EQ(read[i].problem, some[i].problem);
        EXPECT_EQ(read[i].operation, some[i].operation);
        EXPECT_NEAR(read[i].ms, some[i].ms, 1e-5 * some[i].ms);
        ASSERT_EQ(read[i].features.rows.size(), some[i].features.rows.size());
        EXPECT_NEAR(read[i].features.rows[0][Feature::points], some[i].features.rows[0][Feature::points],
                    1e-5 * some[i].features.rows[0][Feature::points]);
    }
}

TEST(SearchModel, MetricsOfASmallCaseByHand) {
    std::vector<Sample> samples(8);
    std::vector<Prediction> predictions(8);
    double ms[8] = {1, 1.05, 2, 3, 4, 5, 6, 7}, said[8] = {2, 3, 1, 4, 5, 6, 7, 8};
    for (int i = 0; i < 8; i++) {
        samples[i].problem = "p";
        samples[i].ms = ms[i];
        predictions[i] = {said[i], std::fabs(std::log(ms[i] / said[i])) / (i < 6 ? 1 : 4), 0};
    }
    Metrics m = metrics_of(samples, predictions);
    // 28 pairs, one of which (1, 1.05) is too close; two are wrong: (1, 2) and (1.05, 2).
    EXPECT_EQ(m.pairs, 27u);
    EXPECT_NEAR(m.pairwise, 25.0 / 27, 1e-12);
    EXPECT_NEAR(m.top1, 2, 1e-12);
    EXPECT_NEAR(m.top5, 1, 1e-12);
    EXPECT_NEAR(m.within_90, 6.0 / 8, 1e-12);
    EXPECT_NEAR(m.within_50, 0, 1e-12);
    // One draw of eight: the geometric mean of all.
    double logs = 0;
    for (double t : ms) {
        logs += std::log(t) / 8;
    }
    EXPECT_NEAR(metrics_of_chance(samples).top1, std::exp(logs), 1e-12);
    EXPECT_NEAR(metrics_of_chance(samples).top16, 1, 1e-12);
}

TEST(SearchModel, EvaluationHoldsOutWhatItSays) {
    std::vector<Sample> samples = made_samples(6, 20, 4);
    for (size_t i = 0; i < samples.size(); i++) {
        samples[i].device = i % 2 ? "one" : "other";
    }
    for (HoldOut mode : {HoldOut::Operation, HoldOut::Shape, HoldOut::Device}) {
        std::vector<int> part = parts_of(samples, mode, 3, 1);
        EXPECT_EQ(*std::max_element(part.begin(), part.end()) + 1, mode == HoldOut::Device ? 2 : 3);
        for (size_t i = 0; i < samples.size(); i++) {
            for (size_t j = 0; j < samples.size(); j++) {
                bool together = mode == HoldOut::Operation ? samples[i].operation == samples[j].operation
                                : mode == HoldOut::Shape   ? samples[i].problem == samples[j].problem
                                                           : samples[i].device == samples[j].device;
                ASSERT_TRUE(!together || part[i] == part[j]) << hold_out_name(mode);
            }
        }
    }
    TrainOptions o = quick();
    o.epochs = 20;
    Evaluation e = evaluate(samples, HoldOut::Operation, 3, o);
    EXPECT_EQ(e.parts, 3);
    EXPECT_EQ(e.analytic.pairs, e.model.pairs);
    EXPECT_GT(e.model.pairwise, 0.75);
    EXPECT_GE(e.searched16, 1);
    EXPECT_LE(e.searched16, e.model.top1);
    // The roofline's own figures, without any evaluation around it.
    EXPECT_DOUBLE_EQ(e.analytic.pairwise,
                     metrics_of(samples, Model::analytic().predict(features_of(samples))).pairwise);
}

TEST(SearchModel, ShippedWeightsFitTheFeatures) {
    Model shipped = Model::shipped();
    EXPECT_FALSE(shipped.data_description().empty());
    Prediction p = shipped.predict(unseen()[0].features);
    EXPECT_TRUE(std::isfinite(p.ms) && p.ms > 0);
    EXPECT_GT(p.sigma, 0);
}

} // namespace
} // namespace kiln::search
