#include "dsl/search/space/Family.h"

#include "dsl/schedule/Canonical.h"
#include "dsl/search/space/Accept.h"
#include "dsl/search/space/Alternatives.h"
#include "dsl/support/Diagnostic.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

namespace kiln::search {

namespace {

constexpr int64_t most_told_apart = int64_t(1) << 40;

std::string mark_of(const std::string &family) {
    return fmt::format("member of {}:", family);
}

} // namespace

Family::Family(const Problem &problem, std::shared_ptr<const Schedule> family)
    : problem_(problem), family_(std::move(family)) {
    for (const Knob &knob : family_->knobs) {
        Domain d{knob.name, knob.names};
        for (int64_t v : knob.values) {
            d.values.push_back(std::to_string(v));
        }
        // What the problem says of its algorithm is settled.
        auto given = problem.parameters.find(knob.name);
        if (given != problem.parameters.end()) {
            d.values = {given->second};
        }
        size_ = size_ > most_told_apart / static_cast<int64_t>(d.values.size())
                    ? most_told_apart
                    : size_ * static_cast<int64_t>(d.values.size());
        domains_.push_back(std::move(d));
    }
}

KnobValues Family::at(int64_t index) const {
    KnobValues out;
    for (const Domain &d : domains_) {
        auto n = static_cast<int64_t>(d.values.size());
        out[d.knob] = d.values[static_cast<size_t>(index % n)];
        index /= n;
    }
    return out;
}

KnobValues Family::random(Rng &rng) const {
    KnobValues out;
    for (const Domain &d : domains_) {
        out[d.knob] = d.values[rng() % d.values.size()];
    }
    return out;
}

KnobValues Family::neighbour(const KnobValues &values, Rng &rng) const {
    KnobValues out = values;
    std::vector<const Domain *> open;
    for (const Domain &d : domains_) {
        if (d.values.size() > 1) {
            open.push_back(&d);
        }
    }
    if (open.empty()) {
        return out;
    }
    const Domain &d = *open[rng() % open.size()];
    // Neighbours by size: domains name the best first.
    std::vector<std::string> sorted = d.values;
    std::sort(sorted.begin(), sorted.end(), [](const std::string &a, const std::string &b) {
        return a.size() != b.size() ? a.size() < b.size() : a < b;
    });
    auto at = std::find(sorted.begin(), sorted.end(), out[d.knob]);
    if (at != sorted.end() && rng() % 4 != 0) {
        bool up = at == sorted.begin() || (at + 1 != sorted.end() && rng() % 2);
        out[d.knob] = up ? *(at + 1) : *(at - 1);
    } else {
        out[d.knob] = sorted[rng() % sorted.size()];
    }
    return out;
}

KnobValues Family::crossed(const KnobValues &one, const KnobValues &other, Rng &rng) const {
    KnobValues out = one;
    for (auto &[knob, value] : out) {
        value = rng() % 2 ? other.at(knob) : value;
    }
    return out;
}

Schedule Family::filled_in(const KnobValues &values) const {
    Schedule out = canonicalize(*family_, values).schedule;
    out.name = family_->name;
    out.header_comments.clear();
    std::string mark = mark_of(family_->name);
    for (const Knob &knob : family_->knobs) {
        const std::string &value = values.at(knob.name);
        mark += fmt::format(" {}={}", knob.name, value);
        if (is_parameter(problem_, knob.name)) {
            Knob one = knob;
            one.comments = {};
            one.values.clear(), one.names.clear();
            if (knob.names.empty()) {
                one.values = {std::stoll(value)};
                one.domain = Node::list({Node::integer(one.values[0])});
            } else {
                one.names = {value};
                one.domain = Node::list({Node::name(value)});
            }
            out.knobs.push_back(std::move(one));
        }
    }
    out.header_comments = {std::move(mark)};
    return out;
}

std::optional<Candidate> Family::member(const KnobValues &some, const std::string &origin,
                                        std::string &reason) const {
    KnobValues values = at(0);
    for (const auto &[knob, value] : some) {
        auto known = values.find(knob);
        if (known != values.end() && !problem_.parameters.count(knob)) {
            known->second = value;
        }
    }
    reason = reject_reason(problem_, *family_, values);
    if (!reason.empty()) {
        return std::nullopt;
    }
    Candidate c;
    c.schedule = filled_in(values);
    c.origin = origin;
    for (const Knob &knob : c.schedule.knobs) {
        c.knobs[knob.name] = values.at(knob.name);
    }
    c.family = family_;
    return c;
}

std::optional<KnobValues> Family::values_of(const Schedule &schedule) const {
    const std::string mark = mark_of(family_->name);
    for (std::string line : schedule.header_comments) {
        line.erase(0, line.find_first_not_of(' '));
        if (!line.starts_with(mark)) {
            continue;
        }
        KnobValues values = at(0);
        std::istringstream words(line.substr(mark.size()));
        for (std::string word; words >> word;) {
            size_t equals = word.find('=');
            if (equals == std::string::npos || !values.count(word.substr(0, equals))) {
                return std::nullopt;
            }
            values[word.substr(0, equals)] = word.substr(equals + 1);
        }
        return filled_in(values).statements == schedule.statements ? std::optional(values) : std::nullopt;
    }
    return std::nullopt;
}

} // namespace kiln::search
