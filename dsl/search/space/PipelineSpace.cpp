// The space of a pipeline: plans, and schedules of other origin, changed step by step.
#include "dsl/schedule/Canonical.h"
#include "dsl/schedule/DefaultSchedule.h"
#include "dsl/schedule/Parser.h"
#include "dsl/schedule/Print.h"
#include "dsl/search/space/Accept.h"
#include "dsl/search/space/Alternatives.h"
#include "dsl/search/space/Family.h"
#include "dsl/search/space/PlanMaker.h"
#include "dsl/search/space/Render.h"
#include "dsl/search/space/Space.h"
#include "dsl/search/space/directives/DirectiveMoves.h"
#include "dsl/search/space/moves/Moves.h"
#include "dsl/search/space/tile/TileSketch.h"
#include "dsl/support/Diagnostic.h"

#include <algorithm>
#include <deque>
#include <stdexcept>

namespace kiln::search {

namespace {

/// Changes that a mutation tries before it gives up, and those that it makes at most at once.
constexpr int mutation_tries = 24, most_steps = 3;
constexpr size_t most_seeds = 40;
constexpr int seed_rounds = 4;
constexpr int64_t most_looked_at = 4096;

/// By weight.
template<typename M>
const M *drawn(const std::vector<M> &moves, Rng &rng) {
    double total = 0;
    for (const M &m : moves) {
        total += m.weight;
    }
    double at = std::uniform_real_distribution<>(0, total)(rng);
    for (const M &m : moves) {
        if (at < m.weight) {
            return &m;
        }
        at -= m.weight;
    }
    return &moves.front();
}

/// Without what a plan or a family says of it, since it is about to be changed.
Schedule plain_text(Schedule schedule) {
    schedule.header_comments.clear();
    return schedule;
}

class PipelineSpace : public Space {
public:
    explicit PipelineSpace(const Problem &problem) : problem(problem), cx(problem) {
        try {
            for (Schedule &family : tile_families(cx)) {
                add_family(std::make_shared<const Schedule>(std::move(family)));
            }
        } catch (const Error &) {
            rejected_["tile kernels: names that the schedule language cannot write"]++;
        }
        sketches = families.size();
    }

    Candidate plain() override { return {default_schedule(problem.info, problem.target), "plain"}; }

    std::vector<Candidate> seeds() override {
        std::vector<Candidate> out;
        std::set<std::string> seen;
        auto add = [&](std::optional<Candidate> c) {
            if (c && out.size() < most_seeds && seen.insert(c->text()).second) {
                out.push_back(std::move(*c));
            }
        };
        // A few members of each family of tile kernels, turn by turn.
        Rng rng(1);
        for (int round = 0; round < seed_rounds && sketches > 0; round++) {
            for (size_t f = 0; f < sketches; f++) {
                if (out.size() < most_seeds * 3 / 4) {
                    add(member_like(families[f], round == 0, rng, "seed:" + families[f].name()));
                }
            }
        }
        size_t looked_at = 0;
        for (const Policy &policy : seed_policies(cx)) {
            if (looked_at++ >= affordable(600)) {
                break;
            }
            add(accept_plan(make_plan(cx, policy, nullptr), "seed:" + policy.name));
        }
        return out;
    }

    std::optional<Candidate> random(Rng &rng) override {
        if (sketches > 0 && rng() % 8 != 0) {
            if (auto c = member_like(families[rng() % sketches], false, rng, "random")) {
                return c;
            }
        }
        for (int i = 0; i < tries(); i++) {
            Policy policy = random_policy(cx, rng);
            if (auto c = accept_plan(make_plan(cx, policy, &rng), "random")) {
                return c;
            }
        }
        return std::nullopt;
    }

    std::vector<Candidate> expand(const Candidate &from, size_t most) override {
        most = std::min(most, affordable(1500));
        std::vector<Candidate> out;
        if (std::optional<Plan> plan = plan_of(cx, from.schedule)) {
            // Turn by turn, so that each move has its part where there are too many.
            std::vector<std::vector<Step>> steps;
            for (const Move &move : all_moves()) {
                steps.push_back(move.steps(cx, *plan));
            }
            size_t tried = 0, most_tried = 4 * most;
            for (size_t i = 0; out.size() < most && tried < most_tried; i++) {
                bool any = false;
                for (size_t m = 0; m < steps.size() && out.size() < most; m++) {
                    if (i < steps[m].size() && tried < most_tried) {
                        any = true;
                        tried++;
                        Plan next = *plan;
                        steps[m][i].apply(next);
                        if (auto c = accept_plan(next, std::string("beam:") + all_moves()[m].name)) {
                            out.push_back(std::move(*c));
                        }
                    }
                }
                if (!any) {
                    break;
                }
            }
            return out;
        }
        KnobValues values;
        if (const Family *family = family_of(from, values)) {
            for (const Family::Domain &d : family->domains()) {
                for (const std::string &value : d.values) {
                    KnobValues next = values;
                    next[d.knob] = value;
                    if (next != values && out.size() < most) {
                        if (auto c = member(*family, next, "beam:knob")) {
                            out.push_back(std::move(*c));
                        }
                    }
                }
            }
        }
        const Problem &form = problem_of_schedule(problem, from.schedule, from.knobs);
        for (const DirectiveMove &move : directive_moves()) {
            size_t share = out.size() + std::max<size_t>(8, most / directive_moves().size());
            if (move.weight < 0.5) {
                continue; // thousands of steps, of which few pay
            }
            for (const DirectiveStep &step : directive_steps(form, from.schedule, move)) {
                if (out.size() >= std::min(most, share)) {
                    break;
                }
                if (auto c = accept(step.apply(plain_text(from.schedule)), "beam:" + step.move)) {
                    out.push_back(std::move(*c));
                }
            }
        }
        return out;
    }

    std::optional<Candidate> mutate(const Candidate &from, Rng &rng) override {
        KnobValues values;
        if (const Family *family = family_of(from, values); family && rng() % 5 != 0) {
            for (int i = 0; i < tries(); i++) {
                KnobValues next = family->neighbour(values, rng);
                if (rng() % 3 == 0) {
                    next = family->neighbour(next, rng);
                }
                std::optional<Candidate> c =
                    next == values ? std::nullopt : member(*family, next, "mutate:knob");
                if (c) {
                    return c;
                }
            }
        }
        std::optional<Plan> plan = plan_of(cx, from.schedule);
        for (int i = 0; i < tries(); i++) {
            std::optional<Candidate> c =
                plan && rng() % 20 != 0 ? mutate_plan(*plan, rng) : mutate_schedule(from, rng);
            if (c && !(c->schedule == from.schedule)) {
                return c;
            }
        }
        return std::nullopt;
    }

    std::optional<Candidate> cross(const Candidate &a, const Candidate &b, Rng &rng) override {
        KnobValues one, other;
        const Family *family = family_of(a, one);
        if (family && family == family_of(b, other)) {
            for (int i = 0; i < tries(); i++) {
                KnobValues next = family->crossed(one, other, rng);
                if (next != one && next != other) {
                    if (auto c = member(*family, next, "cross")) {
                        return c;
                    }
                }
            }
            return std::nullopt;
        }
        std::optional<Plan> p = plan_of(cx, a.schedule), q = plan_of(cx, b.schedule);
        if (!p || !q) {
            return std::nullopt;
        }
        for (int i = 0; i < tries(); i++) {
            Plan child = *p;
            // A Func, with those computed inside it, comes from one parent.
            for (auto &[func, f] : child.funcs) {
                if (rng() % 2) {
                    f = q->funcs.at(func);
                }
            }
            child.wraps = rng() % 2 ? p->wraps : q->wraps;
            if (child == *p || child == *q) {
                continue;
            }
            if (auto c = accept_plan(child, "cross")) {
                return c;
            }
        }
        return std::nullopt;
    }

    std::optional<Candidate> adopt(const Schedule &schedule, const std::string &origin) override {
        for (const Family &family : families) {
            if (auto values = family.values_of(schedule)) {
                return member(family, *values, origin);
            }
        }
        if (!schedule.knobs.empty()) {
            Family &family = add_family(std::make_shared<const Schedule>(schedule));
            for (int64_t i = 0; i < std::min(family.size(), most_looked_at); i++) {
                if (auto c = member(family, family.at(i), origin)) {
                    return c;
                }
            }
            return std::nullopt;
        }
        CanonicalResult canonical = canonicalize(schedule);
        if (has_errors(canonical.diagnostics)) {
            rejected_["adopted: faults in the schedule"]++;
            return std::nullopt;
        }
        // In full, without knobs and macros, under its own name; a plan stays with it.
        Schedule full = plan_of(cx, schedule) ? schedule : canonical.schedule;
        return accept(full, origin);
    }

private:
    const Problem &problem;
    PlanContext cx;
    std::deque<Family> families; ///< of tile kernels, then those that were adopted
    size_t sketches = 0;

    /// Candidates that may be looked at in one go where each takes as long as the pipeline has Funcs: `all` for one.
    size_t affordable(size_t all) const {
        return std::max<size_t>(8, all / std::max<size_t>(1, cx.funcs.size()));
    }

    int tries() const { return static_cast<int>(std::min<size_t>(mutation_tries, affordable(300))); }

    Family &add_family(std::shared_ptr<const Schedule> family) {
        return families.emplace_back(problem, std::move(family));
    }

    /// The family that a candidate is a member of, and its values there; null where it is of none.
    const Family *family_of(const Candidate &c, KnobValues &values) {
        for (const Family &family : families) {
            if (auto known = family.values_of(c.schedule)) {
                values = std::move(*known);
                return &family;
            }
        }
        if (!c.family) {
            return nullptr;
        }
        const Family &family = add_family(c.family);
        std::optional<KnobValues> known = family.values_of(c.schedule);
        values = known.value_or(KnobValues());
        return known ? &family : nullptr;
    }

    std::optional<Candidate> member(const Family &family, const KnobValues &values,
                                    const std::string &origin) {
        std::string reason;
        std::optional<Candidate> c = family.member(values, origin, reason);
        c ? accepted_++ : rejected_[reason]++;
        return c;
    }

    /// Its first member, or any.
    std::optional<Candidate> member_like(const Family &family, bool first, Rng &rng,
                                         const std::string &origin) {
        for (int i = 0; i < tries(); i++) {
            if (auto c = member(family, first && i == 0 ? family.at(0) : family.random(rng), origin)) {
                return c;
            }
        }
        return std::nullopt;
    }

    std::optional<Candidate> accept(Schedule schedule, const std::string &origin) {
        std::string reason = reject_reason(problem, schedule);
        if (!reason.empty()) {
            rejected_[reason]++;
            return std::nullopt;
        }
        accepted_++;
        Candidate c{std::move(schedule), origin};
        std::vector<Diagnostic> none;
        c.knobs = complete_knobs(c.schedule, {}, none);
        return c;
    }

    std::optional<Candidate> accept_plan(const Plan &plan, const std::string &origin) {
        std::string text;
        try {
            text = render_plan(cx, plan, "found");
        } catch (const std::invalid_argument &e) {
            rejected_[std::string("plan: ") + e.what()]++;
            return std::nullopt;
        }
        ParseResult parsed = parse_schedules(std::move(text), "candidate");
        if (!parsed.ok() || parsed.schedules.empty()) {
            rejected_["plan: names that the schedule language cannot write"]++;
            return std::nullopt;
        }
        return accept(std::move(parsed.schedules[0]), origin);
    }

    std::optional<Candidate> mutate_plan(const Plan &plan, Rng &rng) {
        Plan next = plan;
        std::string name;
        int steps = 1 + static_cast<int>(rng() % most_steps);
        for (int i = 0; i < steps; i++) {
            const Move *move = drawn(all_moves(), rng);
            std::vector<Step> all = move->steps(cx, next);
            if (all.empty()) {
                continue;
            }
            all[rng() % all.size()].apply(next);
            name = move->name;
        }
        return next == plan ? std::nullopt : accept_plan(next, "mutate:" + name);
    }

    std::optional<Candidate> mutate_schedule(const Candidate &from, Rng &rng) {
        Schedule schedule = plain_text(from.schedule);
        if (rng() % 2) {
            if (std::optional<Schedule> changed = change_number(schedule, rng)) {
                return accept(std::move(*changed), "mutate:number");
            }
        }
        // One Func at a time: of a large schedule all steps are tens of thousands.
        const Problem &form = problem_of_schedule(problem, schedule, from.knobs);
        const std::string &func = schedule.statements.empty() || rng() % 3 == 0
                                      ? form.info.funcs[rng() % form.info.funcs.size()].name
                                      : schedule.statements[rng() % schedule.statements.size()].stage.func;
        std::vector<DirectiveStep> steps =
            directive_steps(form, schedule, *drawn(directive_moves(), rng), func);
        if (steps.empty()) {
            return std::nullopt;
        }
        const DirectiveStep &step = steps[rng() % steps.size()];
        return accept(step.apply(schedule), "mutate:" + step.move);
    }
};

} // namespace

std::string Candidate::text() const {
    return print_text(schedule);
}

std::unique_ptr<Space> pipeline_space(const Problem &problem) {
    return std::make_unique<PipelineSpace>(problem);
}

} // namespace kiln::search
