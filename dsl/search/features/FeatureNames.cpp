#include "dsl/search/features/Features.h"

#include <algorithm>

namespace kiln::search {

const std::vector<std::string> &feature_names() {
    static const std::vector<std::string> names = {
#define KILN_FEATURE(NAME, UNIT, DOC) #NAME,
#include "dsl/search/features/FeatureNames.def"
#undef KILN_FEATURE
    };
    return names;
}

const std::vector<std::string> &feature_units() {
    static const std::vector<std::string> units = {
#define KILN_FEATURE(NAME, UNIT, DOC) UNIT,
#include "dsl/search/features/FeatureNames.def"
#undef KILN_FEATURE
    };
    return units;
}

const std::vector<std::string> &feature_docs() {
    static const std::vector<std::string> docs = {
#define KILN_FEATURE(NAME, UNIT, DOC) DOC,
#include "dsl/search/features/FeatureNames.def"
#undef KILN_FEATURE
    };
    return docs;
}

FeatureRow::FeatureRow() : values(feature_names().size(), 0.0f) {}

double Features::total(Feature f) const {
    double sum = 0;
    for (const FeatureRow &row : rows) {
        sum += row[f];
    }
    return sum;
}

double Features::largest(Feature f) const {
    double most = 0;
    for (const FeatureRow &row : rows) {
        most = std::max<double>(most, row[f]);
    }
    return most;
}

const FeatureRow *Features::find(const std::string &stage) const {
    for (const FeatureRow &row : rows) {
        if (row.stage == stage) {
            return &row;
        }
    }
    return nullptr;
}

double estimate_ms(const Features &features) {
    double sum = 0;
    for (const FeatureRow &row : features.rows) {
        sum += row.estimate_ms;
    }
    return sum;
}

} // namespace kiln::search
