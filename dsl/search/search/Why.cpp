#include "dsl/search/search/Why.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <vector>

namespace kiln::search {

namespace {

struct Term {
    Feature feature;
    const char *name, *binds;
};

constexpr std::array<Term, 6> terms = {
    {{Feature::ms_compute, "arithmetic", "arithmetic"},
     {Feature::ms_first, "registers and L1", "loads and stores to the first level"},
     {Feature::ms_second, "L2", "traffic of the second level"},
     {Feature::ms_third, "L3", "traffic of the last cache"},
     {Feature::ms_memory, "memory", "memory"},
     {Feature::ms_overhead, "overhead", "launches, tasks and branches"}}};

const Term &largest(const FeatureRow &row) {
    return *std::max_element(terms.begin(), terms.end(),
                             [&](const Term &a, const Term &b) { return row[a.feature] < row[b.feature]; });
}

std::vector<const FeatureRow *> by_time(const Features &features) {
    std::vector<const FeatureRow *> rows;
    for (const FeatureRow &row : features.rows) {
        rows.push_back(&row);
    }
    std::stable_sort(rows.begin(), rows.end(), [](const FeatureRow *a, const FeatureRow *b) {
        return a->estimate_ms > b->estimate_ms;
    });
    return rows;
}

} // namespace

std::string explain_terms(const Features &features) {
    double all = estimate_ms(features);
    std::string out;
    size_t shown = 0;
    for (const FeatureRow *row : by_time(features)) {
        if (shown++ == 6) {
            out += fmt::format("  and {} more\n", features.rows.size() - 6);
            break;
        }
        out += fmt::format("  {:<24} {:>5.1f} %  bound by {}:", row->stage,
                           all > 0 ? 100 * row->estimate_ms / all : 0, largest(*row).binds);
        for (const Term &t : terms) {
            if ((*row)[t.feature] > 0.005 * row->estimate_ms) {
                out += fmt::format(" {} {:.3g} ms,", t.name, (*row)[t.feature]);
            }
        }
        out.back() = '\n';
    }
    return out;
}

std::string explain_gain(const Features &plain, const Features &best) {
    std::string out;
    auto shrunk = [&](const char *what, double before, double after) {
        if (before > 1.2 * after && before > 0) {
            out += after > 0 ? fmt::format("  {} {:.3g} times less\n", what, before / after)
                             : fmt::format("  {} gone\n", what);
        }
    };
    auto grown = [&](const char *what, double before, double after) {
        if (after > 1.2 * before && after > 0) {
            out += fmt::format("  {} {:.3g} instead of {:.3g}\n", what, after, before);
        }
    };
    shrunk("evaluations:", plain.total(Feature::points), best.total(Feature::points));
    shrunk("instructions of arithmetic:", plain.total(Feature::arithmetic_instructions),
           best.total(Feature::arithmetic_instructions));
    shrunk("bytes between registers and the first level:", plain.total(Feature::bytes_register),
           best.total(Feature::bytes_register));
    shrunk("bytes into the second level:", plain.total(Feature::bytes_second),
           best.total(Feature::bytes_second));
    shrunk("bytes from memory:", plain.total(Feature::bytes_memory), best.total(Feature::bytes_memory));
    shrunk("launches:", plain.total(Feature::launches), best.total(Feature::launches));
    grown("lanes of a vector:", plain.largest(Feature::lanes), best.largest(Feature::lanes));
    grown("independent sums:", plain.largest(Feature::chains), best.largest(Feature::chains));
    grown("cores at work:", plain.largest(Feature::cores_used), best.largest(Feature::cores_used));
    grown("flops by matrix instructions:", plain.total(Feature::mma_flops), best.total(Feature::mma_flops));
    return out;
}

nlohmann::json terms_json(const Features &features) {
    nlohmann::json list = nlohmann::json::array();
    for (const FeatureRow *row : by_time(features)) {
        nlohmann::json one = {
            {"stage", row->stage}, {"estimate_ms", row->estimate_ms}, {"bound_by", largest(*row).name}};
        for (const Term &t : terms) {
            one["ms"][t.name] = (*row)[t.feature];
        }
        list.push_back(std::move(one));
    }
    return list;
}

} // namespace kiln::search
