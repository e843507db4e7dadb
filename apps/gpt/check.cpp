#include "check.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>

namespace gpt {

namespace {

struct Reference {
    int32_t vocabulary;
    std::vector<int32_t> tokens, follows; ///< `follows`: the best continuation, character by character
    /// A row of `vocabulary` a token: the scores, and for each the sum of the sizes of its terms.
    std::vector<double> scores, sizes;
};

template<typename T>
std::vector<T> take(std::ifstream &in, size_t count) {
    std::vector<T> values(count);
    in.read(reinterpret_cast<char *>(values.data()), std::streamsize(count * sizeof(T)));
    return values;
}

Reference read(const std::string &file) {
    std::ifstream in(file, std::ios::binary);
    Reference r;
    if (std::string(take<char>(in, 8).data(), in ? 8 : 0) != "KILNREF1") {
        throw Error("`" + file + "` is no reference (reference.py writes them)");
    }
    const std::vector<int32_t> counts = take<int32_t>(in, 3);
    const size_t rows = size_t(counts[0]), all = rows * size_t(counts[2]);
    r.vocabulary = counts[2];
    r.tokens = take<int32_t>(in, rows);
    r.follows = take<int32_t>(in, size_t(counts[1]));
    r.scores = take<double>(in, all);
    for (float size : take<float>(in, all)) {
        r.sizes.push_back(size);
    }
    if (!in) {
        throw Error("`" + file + "` ends too early");
    }
    return r;
}

/// How far a right score may be from the exact one: dsl/check/Tolerance.h for its own sum of `width` terms, and for the
/// terms: a number passes `depth` roundings on its way through the layers, each by u at most and each by chance, so that
/// together they come to the square root of their number.
double tolerance(const Shape &s, kiln_type type, double score, double size) {
    const double u = type == KILN_BFLOAT16 ? 0x1p-8 : 0x1p-24;
    const int depth = 8 * s.layers + 2;
    return 0x1p-24 * std::abs(score) + (s.width + 2) * 0x1p-23 * size + std::sqrt(depth) * u * size;
}

} // namespace

bool check(Model &model, kiln_type type, const std::string &reference_file) {
    const Reference want = read(reference_file);
    const size_t v = size_t(model.shape().vocabulary), all = want.tokens.size(), alone = 16, together = 3;
    if (want.vocabulary != model.shape().vocabulary || all <= alone + together) {
        throw Error("`" + reference_file + "` belongs to another model");
    }
    std::vector<float> scores;
    auto append = [&](size_t from, size_t count) {
        auto at = want.tokens.begin() + std::ptrdiff_t(from);
        std::vector<float> more = model.append({at, at + std::ptrdiff_t(count)}, true);
        scores.insert(scores.end(), more.begin(), more.end());
    };
    model.restart();
    append(0, all - alone - together);
    append(all - alone - together, together);
    for (size_t i = all - alone; i < all; i++) {
        append(i, 1);
    }

    double worst = 0, worst_error = 0;
    size_t wrong = 0;
    for (size_t i = 0; i < scores.size(); i++) {
        double error = std::abs(scores[i] - want.scores[i]);
        double share = error / tolerance(model.shape(), type, want.scores[i], want.sizes[i]);
        wrong += !(share <= 1); // NaN too
        worst = std::max(worst, share);
        worst_error = std::max(worst_error, error);
    }

    std::vector<int32_t> follows;
    std::vector<float> last(scores.end() - std::ptrdiff_t(v), scores.end());
    while (follows.size() < want.follows.size()) {
        follows.push_back(int32_t(std::max_element(last.begin(), last.end()) - last.begin()));
        last = model.append({follows.back()});
    }
    const bool same = follows == want.follows;
    std::printf(
        "%zu scores of %zu characters: %zu wrong, the worst off by %.2g, %.2g of its tolerance; the %zu "
        "characters that follow %s\n",
        scores.size(), all, wrong, worst_error, worst, follows.size(), same ? "are PyTorch's" : "are others");
    if (!same) {
        std::printf("  here: %s\n  PyTorch: %s\n", text_of(follows).c_str(), text_of(want.follows).c_str());
    }
    return wrong == 0 && (same || type == KILN_BFLOAT16);
}

} // namespace gpt
