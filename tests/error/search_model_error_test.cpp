// What the cost model says of files and data that it cannot use.
#include "dsl/search/model/Evaluate.h"
#include "dsl/search/model/Samples.h"
#include "dsl/search/model/Weights.h"
#include "dsl/support/Diagnostic.h"
#include "dsl/support/Files.h"
#include "tests/correctness/search_model_data.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>

namespace kiln::search {
namespace {

std::string message_of(const std::function<void()> &work) {
    try {
        work();
    } catch (const Error &e) {
        return render_all(e.diagnostics, "");
    }
    return "no error";
}

std::string written(const std::filesystem::path &path, const std::string &text) {
    std::ofstream(path) << text;
    return path.string();
}

/// `text` with the first `from` replaced.
std::string replaced(std::string text, const std::string &from, const std::string &to) {
    size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
}

const std::string help =
    "   = help: train them again from samples of this version: `kiln model train DATA --output FILE`\n"
    "   = help: or leave the file out: Kiln carries weights of its own\n";

TEST(SearchModelError, NoFileOfWeights) {
    TemporaryFolder folder;
    std::string path = written(folder.path() / "w.json", "{\"a\": 1}");
    EXPECT_EQ(message_of([&] { Model::load(path); }),
              "error[K1350]: this is no file of a cost model's weights\n  --> " + path +
                  "\n   = note: such a file is JSON and starts with `\"kiln_weights\"`\n" + help +
                  "\n1 error, 0 warnings\n");
}

TEST(SearchModelError, WeightsOfAnotherVersion) {
    TemporaryFolder folder;
    std::string text =
        replaced(weights_text(Model::analytic().data()), "\"kiln_weights\":1", "\"kiln_weights\":7");
    std::string path = written(folder.path() / "w.json", text);
    EXPECT_EQ(message_of([&] { Model::load(path); }),
              "error[K1351]: weights of version 7, this Kiln reads version 1\n  --> " + path +
                  "\n   = note: what the numbers mean may differ\n" + help + "\n1 error, 0 warnings\n");
}

TEST(SearchModelError, WeightsForOtherFeatures) {
    TemporaryFolder folder;
    std::string text = replaced(weights_text(Model::analytic().data()), "\"features\":[]",
                                "\"features\":[\"points\",\"float_add\"]");
    std::string path = written(folder.path() / "w.json", text);
    EXPECT_EQ(message_of([&] { Model::load(path); }),
              "error[K1351]: these weights need a feature `float_add`, which does not exist\n  --> " + path +
                  "\n   = note: there is a feature `float_adds`\n" + help + "\n1 error, 0 warnings\n");
}

TEST(SearchModelError, WeightsCutShort) {
    TemporaryFolder folder;
    std::string text = replaced(weights_text(Model::analytic().data()), "\"members\":[]",
                                "\"members\":[{\"first\":2,\"second\":2,\"parameters\":[1,2]}]");
    std::string path = written(folder.path() / "w.json", text);
    EXPECT_EQ(message_of([&] { Model::load(path); }),
              "error[K1350]: a network of these weights has the wrong number of parameters\n  --> " + path +
                  "\n   = note: 2 parameters for 3 inputs and layers of 2 and 2, which take 17\n" + help +
                  "\n1 error, 0 warnings\n");
}

TEST(SearchModelError, SamplesOfOtherFeatures) {
    TemporaryFolder folder;
    std::string path = written(folder.path() / "d.jsonl",
                               "{\"kiln_samples\":1,\"features\":[\"points\",\"lines_of_text\"]}\n");
    std::string message = message_of([&] { read_samples({path}); });
    EXPECT_EQ(
        message,
        fmt::format("error[K1352]: these samples have a feature `lines_of_text`, which does not exist here\n"
                    " --> {}:1:1\n"
                    "  = note: 2 features there, {} here\n"
                    "  = help: samples go with the features of the Kiln that wrote them: `kiln model "
                    "features TIMINGS --output SAMPLES`\n\n1 error, 0 warnings\n",
                    path, feature_names().size()));
}

TEST(SearchModelError, SampleWithoutATime) {
    TemporaryFolder folder;
    std::filesystem::path path = folder.path() / "d.jsonl";
    std::vector<Sample> samples = testing::made_samples(1, 1, 1);
    samples[1].ms = 0;
    write_samples(path, std::span(samples).first(2));
    EXPECT_EQ(message_of([&] { read_samples({path}); }),
              fmt::format("error[K1352]: a sample's time must be above 0 ms, this one says 0\n --> {}:3:1\n"
                          "  = note: of `operation 1/0 size 1`\n"
                          "  = help: samples go with the features of the Kiln that wrote them: `kiln model "
                          "features TIMINGS --output SAMPLES`\n\n1 error, 0 warnings\n",
                          path.string()));
}

TEST(SearchModelError, TooFewSamples) {
    EXPECT_EQ(message_of([&] { train(testing::made_samples(2, 4, 1), {}); }),
              "error[K1353]: too few samples to train a cost model\n"
              "   = note: 24 samples of 6 problems; at least 30 of 3 are needed\n"
              "   = help: collect more: `kiln model collect --output DATA`\n\n1 error, 0 warnings\n");
}

TEST(SearchModelError, NothingToHoldOut) {
    EXPECT_EQ(
        message_of([&] { evaluate(testing::made_samples(2, 8, 1), HoldOut::Device, 5, {}); }),
        "error[K1359]: nothing to hold out by device\n"
        "   = note: the samples are of 1 device\n"
        "   = help: give samples of more, or hold out something else: `--hold-out operation|shape|device`\n\n"
        "1 error, 0 warnings\n");
    EXPECT_EQ(message_of([&] { hold_out_of("colour"); }),
              "error[K1358]: there is no way to hold out by `colour`\n"
              "   = help: hold out by `operation`, `shape` or `device`\n\n1 error, 0 warnings\n");
}

} // namespace
} // namespace kiln::search
