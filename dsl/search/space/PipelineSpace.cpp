// The space of a pipeline: plans, and schedules of other origin, changed step by step.
#include "dsl/schedule/Canonical.h"
#include "dsl/schedule/DefaultSchedule.h"
#include "dsl/schedule/Parser.h"
#include "dsl/schedule/Print.h"
#include "dsl/search/space/Accept.h"
#include "dsl/search/space/PlanMaker.h"
#include "dsl/search/space/Render.h"
#include "dsl/search/space/Space.h"
#include "dsl/search/space/directives/DirectiveMoves.h"
#include "dsl/search/space/moves/Moves.h"
#include "dsl/search/space/tile/TileSketch.h"

#include <algorithm>
#include <stdexcept>

namespace kiln::search {

namespace {

/// Changes that a mutation tries before it gives up, and those that it makes at most at once.
constexpr int mutation_tries = 24, most_steps = 3;
constexpr size_t most_seeds = 40;

class PipelineSpace : public Space {
public:
    explicit PipelineSpace(const Problem &problem) : problem(problem), cx(problem) {}

    Candidate plain() override { return {default_schedule(problem.info, problem.target), "plain", {}}; }

    std::vector<Candidate> seeds() override {
        std::vector<Candidate> out;
        std::set<std::string> seen;
        auto add = [&](std::optional<Candidate> c) {
            if (c && out.size() < most_seeds && seen.insert(c->text()).second) {
                out.push_back(std::move(*c));
            }
        };
        for (const TileSketch &s : tile_sketches(cx)) {
            add(accept(s.schedule, "seed:" + s.name));
        }
        for (const Policy &policy : seed_policies(cx)) {
            add(accept_plan(make_plan(cx, policy, nullptr), "seed:" + policy.name));
        }
        return out;
    }

    std::optional<Candidate> random(Rng &rng) override {
        for (int i = 0; i < mutation_tries; i++) {
            Policy policy = random_policy(cx, rng);
            if (auto c = accept_plan(make_plan(cx, policy, &rng), "random")) {
                return c;
            }
        }
        return std::nullopt;
    }

    std::vector<Candidate> expand(const Candidate &from, size_t most) override {
        std::vector<Candidate> out;
        if (std::optional<Plan> plan = plan_of(cx, from.schedule)) {
            // Turn by turn, so that each move has its part where there are too many.
            std::vector<std::vector<Step>> steps;
            for (const Move &move : all_moves()) {
                steps.push_back(move.steps(cx, *plan));
            }
            for (size_t i = 0; out.size() < most; i++) {
                bool any = false;
                for (size_t m = 0; m < steps.size() && out.size() < most; m++) {
                    if (i < steps[m].size()) {
                        any = true;
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
        for (const DirectiveStep &step : directive_steps(problem, from.schedule)) {
            if (out.size() >= most) {
                break;
            }
            if (auto c = accept(step.apply(from.schedule), "beam:" + step.move)) {
                out.push_back(std::move(*c));
            }
        }
        return out;
    }

    std::optional<Candidate> mutate(const Candidate &from, Rng &rng) override {
        std::optional<Plan> plan = plan_of(cx, from.schedule);
        for (int i = 0; i < mutation_tries; i++) {
            std::optional<Candidate> c =
                plan && rng() % 20 != 0 ? mutate_plan(*plan, rng) : mutate_schedule(from.schedule, rng);
            if (c && !(c->schedule == from.schedule)) {
                return c;
            }
        }
        return std::nullopt;
    }

    std::optional<Candidate> cross(const Candidate &a, const Candidate &b, Rng &rng) override {
        std::optional<Plan> p = plan_of(cx, a.schedule), q = plan_of(cx, b.schedule);
        if (!p || !q) {
            return std::nullopt;
        }
        for (int i = 0; i < mutation_tries; i++) {
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

    std::optional<Candidate> accept(Schedule schedule, const std::string &origin) {
        std::string reason = reject_reason(problem, schedule);
        if (!reason.empty()) {
            rejected_[reason]++;
            return std::nullopt;
        }
        accepted_++;
        return Candidate{std::move(schedule), origin, {}};
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
            double total = 0;
            for (const Move &m : all_moves()) {
                total += m.weight;
            }
            double at = std::uniform_real_distribution<>(0, total)(rng);
            const Move *move = &all_moves().front();
            for (const Move &m : all_moves()) {
                if (at < m.weight) {
                    move = &m;
                    break;
                }
                at -= m.weight;
            }
            std::vector<Step> all = move->steps(cx, next);
            if (all.empty()) {
                continue;
            }
            all[rng() % all.size()].apply(next);
            name = move->name;
        }
        return next == plan ? std::nullopt : accept_plan(next, "mutate:" + name);
    }

    std::optional<Candidate> mutate_schedule(const Schedule &schedule, Rng &rng) {
        if (rng() % 2) {
            if (std::optional<Schedule> changed = change_number(schedule, rng)) {
                return accept(std::move(*changed), "mutate:number");
            }
        }
        std::vector<DirectiveStep> steps = directive_steps(problem, schedule);
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
