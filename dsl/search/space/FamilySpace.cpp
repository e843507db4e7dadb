// A family of schedules: only the values of its knobs vary.
#include "dsl/schedule/Canonical.h"
#include "dsl/schedule/DefaultSchedule.h"
#include "dsl/search/space/Family.h"
#include "dsl/search/space/Space.h"
#include "dsl/support/Diagnostic.h"

#include <fmt/format.h>

#include <set>

namespace kiln::search {

namespace {

constexpr int tries = 32;
constexpr int64_t most_seeds = 64, most_looked_at = 100000;

class FamilySpace : public Space {
public:
    FamilySpace(const Problem &problem, const Schedule &schedule)
        : problem(problem), family(problem, std::make_shared<const Schedule>(schedule)) {
        bool any = false;
        for (int64_t i = 0; i < std::min(family.size(), most_looked_at) && !any; i++) {
            any = member(family.at(i), "family").has_value();
        }
        if (!any) {
            Diagnostic d;
            d.code = "K1303";
            d.message = fmt::format("no member of the family `{}` is legal here", schedule.name);
            d.file = schedule.file;
            d.span = schedule.name_span;
            for (const auto &[reason, count] : rejected_) {
                d.notes.push_back(fmt::format("{} of {}: {}", count, family.size(), reason));
            }
            d.helps.push_back("`kiln schedule check` says more of each");
            throw Error(std::move(d));
        }
    }

    Candidate plain() override { return {default_schedule(problem.info, problem.target), "plain"}; }

    std::vector<Candidate> seeds() override {
        std::vector<Candidate> out;
        int64_t step = std::max<int64_t>(1, family.size() / most_seeds);
        for (int64_t i = 0; i < family.size() && static_cast<int64_t>(out.size()) < most_seeds; i += step) {
            if (auto c = member(family.at(i), "family:" + family.name())) {
                out.push_back(std::move(*c));
            }
        }
        return out;
    }

    std::vector<Candidate> expand(const Candidate &from, size_t most) override {
        std::vector<Candidate> out;
        KnobValues values = values_of(from);
        for (const Family::Domain &d : family.domains()) {
            for (const std::string &value : d.values) {
                KnobValues next = values;
                if (next[d.knob] == value || out.size() >= most) {
                    continue;
                }
                next[d.knob] = value;
                if (auto c = member(next, "beam:knob")) {
                    out.push_back(std::move(*c));
                }
            }
        }
        return out;
    }

    std::optional<Candidate> mutate(const Candidate &from, Rng &rng) override {
        KnobValues values = values_of(from);
        for (int i = 0; i < tries; i++) {
            KnobValues next = family.neighbour(values, rng);
            if (next == values) {
                continue;
            }
            if (auto c = member(next, "mutate:knob")) {
                return c;
            }
        }
        return std::nullopt;
    }

    std::optional<Candidate> cross(const Candidate &a, const Candidate &b, Rng &rng) override {
        KnobValues p = values_of(a), q = values_of(b);
        for (int i = 0; i < tries; i++) {
            KnobValues next = family.crossed(p, q, rng);
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
            if (auto c = member(family.random(rng), "random")) {
                return c;
            }
        }
        return std::nullopt;
    }

    std::optional<Candidate> adopt(const Schedule &schedule, const std::string &origin) override {
        if (schedule == family.schedule()) {
            return member({}, origin);
        }
        if (auto values = family.values_of(schedule)) {
            return member(*values, origin);
        }
        const Schedule wanted = canonicalize(schedule).schedule;
        for (int64_t i = 0; i < std::min<int64_t>(family.size(), 4096); i++) {
            KnobValues values = family.at(i);
            if (canonicalize(family.schedule(), values).schedule.statements == wanted.statements) {
                return member(values, origin);
            }
        }
        return std::nullopt;
    }

private:
    const Problem &problem;
    Family family;

    /// Of a member; of anything else, those of the first.
    KnobValues values_of(const Candidate &c) const {
        return family.values_of(c.schedule).value_or(family.at(0));
    }

    std::optional<Candidate> member(const KnobValues &values, const std::string &origin) {
        std::string reason;
        std::optional<Candidate> c = family.member(values, origin, reason);
        c ? accepted_++ : rejected_[reason]++;
        return c;
    }
};

} // namespace

std::unique_ptr<Space> family_space(const Problem &problem, const Schedule &family) {
    return std::make_unique<FamilySpace>(problem, family);
}

} // namespace kiln::search
