// A family of schedules: only the values of its knobs vary.
#include "dsl/schedule/Canonical.h"
#include "dsl/schedule/DefaultSchedule.h"
#include "dsl/search/space/Accept.h"
#include "dsl/search/space/Space.h"
#include "dsl/support/Diagnostic.h"

#include <fmt/format.h>

#include <set>

namespace kiln::search {

namespace {

constexpr int tries = 32;
constexpr int64_t most_seeds = 64;

class FamilySpace : public Space {
public:
    FamilySpace(const Problem &problem, const Schedule &family) : problem(problem), family(family) {
        for (const Knob &knob : family.knobs) {
            std::vector<std::string> values = knob.names;
            for (int64_t v : knob.values) {
                values.push_back(std::to_string(v));
            }
            domains.emplace_back(knob.name, std::move(values));
        }
        // The whole family where it is small; the first legal member otherwise.
        for (int64_t i = 0; i < size() && !any; i++) {
            any = member(values_at(i), "family").has_value();
        }
        if (!any) {
            Diagnostic d;
            d.code = "K1303";
            d.message = fmt::format("no member of the family `{}` is legal here", family.name);
            d.file = family.file;
            d.span = family.name_span;
            for (const auto &[reason, count] : rejected_) {
                d.notes.push_back(fmt::format("{} of {}: {}", count, size(), reason));
            }
            d.helps.push_back("`kiln schedule check` says more of each");
            throw Error(std::move(d));
        }
    }

    Candidate plain() override { return {default_schedule(problem.info, problem.target), "plain", {}}; }

    std::vector<Candidate> seeds() override {
        std::vector<Candidate> out;
        int64_t step = std::max<int64_t>(1, size() / most_seeds);
        for (int64_t i = 0; i < size(); i += step) {
            if (auto c = member(values_at(i), "family:" + family.name)) {
                out.push_back(std::move(*c));
            }
        }
        return out;
    }

    std::vector<Candidate> expand(const Candidate &from, size_t most) override {
        std::vector<Candidate> out;
        for (const auto &[knob, values] : domains) {
            for (const std::string &value : values) {
                KnobValues next = complete(from.knobs);
                if (next[knob] == value || out.size() >= most) {
                    continue;
                }
                next[knob] = value;
                if (auto c = member(next, "beam:knob")) {
                    out.push_back(std::move(*c));
                }
            }
        }
        return out;
    }

    std::optional<Candidate> mutate(const Candidate &from, Rng &rng) override {
        for (int i = 0; i < tries && !domains.empty(); i++) {
            KnobValues next = complete(from.knobs);
            const auto &[knob, values] = domains[rng() % domains.size()];
            const std::string &value = values[rng() % values.size()];
            if (next[knob] == value) {
                continue;
            }
            next[knob] = value;
            if (auto c = member(next, "mutate:knob")) {
                return c;
            }
        }
        return std::nullopt;
    }

    std::optional<Candidate> cross(const Candidate &a, const Candidate &b, Rng &rng) override {
        for (int i = 0; i < tries; i++) {
            KnobValues p = complete(a.knobs), q = complete(b.knobs), next = p;
            for (auto &[knob, value] : next) {
                value = rng() % 2 ? q[knob] : value;
            }
            if (next == p || next == q) {
                continue;
            }
            if (auto c = member(next, "cross")) {
                return c;
            }
        }
        return std::nullopt;
    }

    std::optional<Candidate> random(Rng &rng) override {
        for (int i = 0; i < tries; i++) {
            KnobValues values;
            for (const auto &[knob, domain] : domains) {
                values[knob] = domain[rng() % domain.size()];
            }
            if (auto c = member(values, "random")) {
                return c;
            }
        }
        return std::nullopt;
    }

    std::optional<Candidate> adopt(const Schedule &schedule, const std::string &origin) override {
        // A member, or the family itself with its first values.
        if (schedule == family) {
            return member({}, origin);
        }
        for (int64_t i = 0; i < std::min<int64_t>(size(), 4096); i++) {
            auto c = member(values_at(i), origin);
            if (c && canonicalize(c->schedule).schedule == canonicalize(schedule).schedule) {
                return c;
            }
        }
        return std::nullopt;
    }

private:
    const Problem &problem;
    const Schedule family;
    std::vector<std::pair<std::string, std::vector<std::string>>> domains;
    bool any = false;

    int64_t size() const { return std::min<int64_t>(family_size(family), 100000); }

    /// Counted with the first knob fastest: index 0 is what the file names first.
    KnobValues values_at(int64_t index) const {
        KnobValues out;
        for (const auto &[knob, values] : domains) {
            auto n = static_cast<int64_t>(values.size());
            out[knob] = values[static_cast<size_t>(index % n)];
            index /= n;
        }
        return out;
    }

    KnobValues complete(const KnobValues &some) const {
        std::vector<Diagnostic> ignored;
        return complete_knobs(family, some, ignored);
    }

    std::optional<Candidate> member(const KnobValues &some, const std::string &origin) {
        KnobValues values = complete(some);
        std::string reason = reject_reason(problem, family, values);
        if (!reason.empty()) {
            rejected_[reason]++;
            return std::nullopt;
        }
        accepted_++;
        Schedule schedule = canonical(family, values);
        schedule.name = family.name;
        return Candidate{std::move(schedule), origin, values};
    }
};

} // namespace

std::unique_ptr<Space> family_space(const Problem &problem, const Schedule &family) {
    return std::make_unique<FamilySpace>(problem, family);
}

} // namespace kiln::search
