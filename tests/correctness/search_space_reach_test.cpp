// Every schedule written by hand can be reached by the moves of the space: step by step from nothing, each step proposed by a
// move and legal; those with tile kernels are also members of families that follow from the algorithm alone.
#include "dsl/generator/Load.h"
#include "dsl/schedule/Canonical.h"
#include "dsl/schedule/CheckSchedule.h"
#include "dsl/schedule/Parser.h"
#include "dsl/schedule/Print.h"
#include "dsl/schedule/TargetPattern.h"
#include "dsl/search/space/Accept.h"
#include "dsl/search/space/Alternatives.h"
#include "dsl/search/space/Context.h"
#include "dsl/search/space/Family.h"
#include "dsl/search/space/directives/DirectiveMoves.h"
#include "dsl/search/space/tile/TileSketch.h"
#include "dsl/support/Files.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <iostream>

namespace kiln::search {
namespace {

namespace fs = std::filesystem;
const fs::path folder = KILN_SOURCE_DIR "/schedules";

/// Hand schedules that a search must not find by itself, and why.
const std::map<std::string, std::string> not_searched = {
    {"gemm/cuda_sm_90a_tf32", "rounds what it multiplies to 10 bits: that is for people to allow"},
    {"gemm/cuda_sm_90a_tf32_wide", "the same"},
};

/// Gaps of the space or of this test: to be closed, not to grow.
const std::map<std::string, std::string> not_reached_yet = {
    {"attention/cuda_sm_90a_decode",
     "no family of carried loops makes it: few queries, keys shared by several blocks"},
    {"attention/cuda_sm_90a_held",
     "problem_of_hand does not ask for lengths, without which there is no v_held"},
    {"gemm/opencl_tile", "the space makes tile kernels for CUDA alone"},
};

struct HandSchedule {
    std::string name; ///< `gemm/cpu_avx2`
    Schedule schedule;
    Target target;
};

std::vector<HandSchedule> hand_schedules() {
    load_generators({});
    std::vector<HandSchedule> out;
    for (const auto &entry : fs::recursive_directory_iterator(folder)) {
        if (entry.path().extension() != ".sched") {
            continue;
        }
        std::string text = read_text_file(entry.path(), "schedule");
        ParseResult parsed = parse_schedules(text, entry.path());
        EXPECT_TRUE(parsed.ok()) << entry.path();
        std::string stem = entry.path().stem();
        for (Schedule &s : parsed.schedules) {
            Target target = target_of(*s.target);
            out.push_back({entry.path().parent_path().filename() / stem, std::move(s), target});
        }
    }
    std::sort(out.begin(), out.end(), [](const auto &a, const auto &b) { return a.name < b.name; });
    return out;
}

bool has_tile_kernel(const HandSchedule &hand) {
    const std::vector<Statement> &all = hand.schedule.statements;
    return std::any_of(all.begin(), all.end(), [](const Statement &s) {
        return std::any_of(s.calls.begin(), s.calls.end(),
                           [](const DirectiveCall &c) { return c.name == "tile_kernel"; });
    });
}

/// The problem that a hand schedule is for: its generator with the type and outputs that its name tells, at a size that all
/// knobs fit.
Problem problem_of_hand(const HandSchedule &hand) {
    const std::string &op = hand.schedule.op;
    std::map<std::string, std::string> params;
    auto named = [&](const char *part) { return hand.name.find(part) != std::string::npos; };
    if (named("_add")) {
        params["add"] = "true";
    }
    if (named("_lse")) {
        params["lse"] = "true";
    }
    bool tile = hand.target.backend == Backend::Cuda && hand.target.level() >= 80 && op != "chain_relu" &&
                op != "gelu_residual" && op != "swiglu";
    bool small_type = (tile && !named("f32")) || named("16bit") || named("bf16");
    if (named("tf32")) {
        params["transpose_w"] = "true";
        small_type = false;
    }
    if (small_type) {
        params["type"] = "bfloat16";
    }
    if (named("pairs")) {
        params["pairs"] = "on";
    }
    int64_t d = named("_d256") ? 256 : named("_d64") ? 64 : 128;
    Workload w;
    w.name = "hand";
    const int64_t n = 4096;
    auto set = [&](const char *buffer, std::vector<int64_t> extents) {
        w.extents[buffer] = std::move(extents);
    };
    if (op == "attention") {
        set("q", {d, 2048, 8, 2}), set("k", {d, 2048, 8, 2}), set("v", {d, 2048, 8, 2}),
            set("y", {d, 2048, 8, 2});
        set("log_sum_exp_out", {2048, 8, 2});
    } else if (op == "gemm" || op == "gated_product") {
        for (const char *b : {"x", "w", "wg", "wu", "y"}) {
            set(b, {n, n});
        }
    } else if (op == "chain_relu" || op == "gelu_residual" || op == "swiglu") {
        const GeneratorInfo *info = find_generator_info(op);
        for (const Workload &known : info->workloads) {
            w.extents = known.bench ? known.extents : w.extents;
        }
    } else {
        int64_t columns = n;
        for (const Knob &knob : hand.schedule.knobs) {
            columns = knob.name == "columns" ? knob.values.at(0) : columns;
        }
        for (const char *b : {"x", "y", "residual", "x_plus_residual"}) {
            set(b, {columns, n});
        }
        set("gamma", {columns}), set("beta", {columns});
        w.scalars["eps"] = 1e-5;
    }
    return problem_of(op, params, w, hand.target, nominal_device(hand.target));
}

/// The values of the first legal member.
std::optional<KnobValues> first_legal(const Problem &problem, const HandSchedule &hand, std::string &reason) {
    Family family(problem, std::make_shared<const Schedule>(hand.schedule));
    for (int64_t i = 0; i < std::min<int64_t>(family.size(), 512); i++) {
        KnobValues values = family.at(i);
        std::string why = reject_reason(problem, hand.schedule, values);
        if (why.empty()) {
            return values;
        }
        reason = reason.empty() ? why : reason;
    }
    return std::nullopt;
}

/// Equal but for the names that the step gives to loops it makes.
bool same_step(const DirectiveStep &proposed, const DirectiveStep &wanted) {
    if (!(proposed.stage == wanted.stage) || proposed.condition != wanted.condition || proposed.remove ||
        proposed.call.name != wanted.call.name || proposed.binding.empty() != wanted.binding.empty()) {
        return false;
    }
    const std::vector<Node> &a = proposed.call.args, &b = wanted.call.args;
    const std::string &name = wanted.call.name;
    if (name == "rfactor") {
        return true; // of one RVar: which is told by the names that are left
    }
    for (size_t i = 0; i < std::max(a.size(), b.size()); i++) {
        bool made = (name == "split" && (i == 1 || i == 2)) || (name == "fuse" && i == 2) ||
                    (name == "rename" && i == 1);
        if (i >= a.size() || i >= b.size() || (!made && !(a[i] == b[i]))) {
            return false;
        }
    }
    return true;
}

/// The directives of a canonical schedule, one by one.
std::vector<DirectiveStep> directives_of(const Schedule &canonical) {
    std::vector<DirectiveStep> out;
    for (const Statement &s : canonical.statements) {
        std::string condition;
        for (const DirectiveCall &call : s.calls) {
            if (call.name == "specialize") {
                condition = print_node(call.args[0]);
            }
            DirectiveStep step;
            step.stage = s.stage;
            step.condition = call.name == "specialize" ? "" : condition;
            step.call = call;
            step.binding = call.name == "rfactor" ? s.binding : "";
            bool again =
                call.name == "specialize" && std::any_of(out.begin(), out.end(), [&](const DirectiveStep &o) {
                    return o.stage == step.stage && o.call == call;
                });
            if (!again) {
                out.push_back(std::move(step));
            }
        }
    }
    return out;
}

/// Splits a reorder of many loops into exchanges of neighbours: what the moves do.
const DirectiveMove *move_for(const std::string &call) {
    for (const DirectiveMove &m : directive_moves()) {
        const std::string name = m.name;
        auto is = [&](std::initializer_list<const char *> all) {
            return std::find(all.begin(), all.end(), call) != all.end();
        };
        bool mine = name == "loops"   ? is({"split", "fuse", "reorder", "rename"})
                    : name == "kinds" ? is({"vectorize", "unroll", "parallel", "serial", "gpu_blocks",
                                            "gpu_threads", "gpu_lanes", "gpu_single_thread", "unscheduled"})
                    : name == "places"
                        ? is({"compute_root", "compute_at", "compute_inline", "store_at", "store_root"})
                    : name == "storage"    ? is({"store_in", "bound_extent", "bound_storage", "align_storage",
                                                 "fold_storage", "reorder_storage"})
                    : name == "reductions" ? is({"rfactor", "atomic"})
                    : name == "ahead"      ? is({"prefetch", "async"})
                    : name == "specializations" ? is({"specialize"})
                    : name == "tile kernels"
                        ? is({"tile_kernel", "mma", "copy", "swizzle", "stages", "multicast", "cluster",
                              "spread", "persistent", "warpgroups", "registers", "ping_pong", "dynamic",
                              "launch_ahead", "epilogue", "pipeline_stage", "whole", "split_reduce"})
                        : false;
        if (mine) {
            return &m;
        }
    }
    return nullptr;
}

/// `a && b && c` is reached part by part: `a`, then `a && b`; what was on the way is removed again.
std::vector<Node> parts_of(const Node &condition) {
    if (condition.kind != Node::Kind::Binary || condition.text != "&&") {
        return {condition};
    }
    std::vector<Node> out = parts_of(condition.args[0]);
    out.push_back(condition);
    return out;
}

/// Whether a move proposes `wanted` on `schedule`.
bool is_proposed(const Problem &problem, const Schedule &schedule, const DirectiveStep &wanted) {
    if (wanted.call.name == "specialize" && parts_of(wanted.call.args[0]).size() > 1) {
        Schedule at = schedule;
        for (const Node &part : parts_of(wanted.call.args[0])) {
            DirectiveStep step = wanted;
            step.call.args = {part};
            std::vector<DirectiveStep> steps =
                directive_steps(problem, at, *move_for("specialize"), wanted.stage.func);
            bool found = std::any_of(steps.begin(), steps.end(),
                                     [&](const DirectiveStep &s) { return same_step(s, step); });
            if (!found) {
                return false;
            }
            at = step.apply(schedule);
        }
        return true;
    }
    const DirectiveMove *move = move_for(wanted.call.name);
    if (!move) {
        return false;
    }
    std::vector<DirectiveStep> steps = directive_steps(problem, schedule, *move, wanted.stage.func);
    return std::any_of(steps.begin(), steps.end(),
                       [&](const DirectiveStep &s) { return same_step(s, wanted); });
}

/// Loops of a stage or of one of its specializations, innermost first.
std::vector<std::string> loops_of(const Problem &problem, const Schedule &schedule,
                                  const DirectiveStep &step) {
    CanonicalResult canonical = canonicalize(schedule);
    LoopNest nest =
        analyse_schedule(canonical.schedule, problem.info, problem.target, problem.device.limits).nest;
    StageRef func = step.stage;
    func.update = -1;
    const StageNest *stage = nest.stage(func.str(), step.stage.update);
    for (const StageNest &special : stage ? stage->specializations : std::vector<StageNest>()) {
        if (!special.conditions.empty() && special.conditions[0] == step.condition) {
            return special.loop_names();
        }
    }
    return stage ? stage->loop_names() : std::vector<std::string>();
}

/// A reorder by exchanges of neighbours, each proposed and legal.
bool reordered(const Problem &problem, Schedule &schedule, const DirectiveStep &wanted) {
    std::vector<std::string> order;
    for (const Node &arg : wanted.call.args) {
        order.push_back(arg.text);
    }
    for (int rounds = 0; rounds < 200; rounds++) {
        std::vector<std::string> loops = loops_of(problem, schedule, wanted);
        size_t at = loops.size();
        for (size_t i = 0; i + 1 < loops.size() && at == loops.size(); i++) {
            // Loops that the reorder does not name keep their places: others move past them.
            size_t j = i + 1;
            auto rank = [&](const std::string &l) {
                return std::find(order.begin(), order.end(), l) - order.begin();
            };
            size_t mine = static_cast<size_t>(rank(loops[i])), next = static_cast<size_t>(rank(loops[j]));
            if (mine < order.size() && next < order.size() && mine > next) {
                at = i;
            }
        }
        if (at == loops.size()) {
            return !loops.empty();
        }
        DirectiveStep step = wanted;
        step.call.args = {Node::name(loops[at + 1]), Node::name(loops[at])};
        Schedule next = step.apply(schedule);
        if (!is_proposed(problem, schedule, step) || !reject_reason(problem, next).empty()) {
            return false;
        }
        schedule = std::move(next);
    }
    return false;
}

/// Says what holds anyway: the order in which a Func's dimensions are stored.
bool is_as_before(const Problem &problem, const DirectiveStep &wanted) {
    const FuncInfo *f = wanted.stage.is_wrapper ? nullptr : problem.info.find(wanted.stage.func);
    if (wanted.call.name != "reorder_storage" || !f || wanted.call.args.size() != f->args.size()) {
        return false;
    }
    for (size_t i = 0; i < f->args.size(); i++) {
        if (wanted.call.args[i].text != f->args[i]) {
            return false;
        }
    }
    return true;
}

struct Reached {
    size_t of = 0, steps = 0;
    std::string stuck;
};

Reached replay(const Problem &problem, const Schedule &hand) {
    Reached out;
    std::vector<DirectiveStep> left = directives_of(hand);
    out.of = left.size();
    Schedule at;
    at.name = hand.name, at.op = hand.op, at.target = hand.target;
    while (!left.empty()) {
        bool moved = false;
        std::string why;
        for (size_t i = 0; i < left.size() && !moved; i++) {
            // The order of one stage's directives means something.
            bool first =
                std::none_of(left.begin(), left.begin() + static_cast<long>(i), [&](const DirectiveStep &o) {
                    return o.stage == left[i].stage &&
                           (o.condition == left[i].condition || o.call.name == "specialize");
                });
            if (!first) {
                continue;
            }
            if (is_as_before(problem, left[i])) {
                moved = true;
            } else if (left[i].call.name == "reorder") {
                moved = reordered(problem, at, left[i]);
            } else {
                Schedule next = left[i].apply(at);
                std::string reason = reject_reason(problem, next);
                if (reason.empty() && is_proposed(problem, at, left[i])) {
                    at = std::move(next);
                    moved = true;
                } else if (why.size() < 600) {
                    why += "\n    " + left[i].stage.str() + "." + print_call(left[i].call) + ": " +
                           (reason.empty() ? "not proposed" : reason);
                }
            }
            if (moved) {
                left.erase(left.begin() + static_cast<long>(i));
                out.steps++;
            }
        }
        if (!moved) {
            out.stuck = why;
            return out;
        }
    }
    return out;
}

TEST(SearchSpaceReach, EveryHandScheduleStepByStep) {
    size_t steps = 0;
    for (const HandSchedule &hand : hand_schedules()) {
        if (not_searched.count(hand.name) || has_tile_kernel(hand)) {
            continue;
        }
        SCOPED_TRACE(hand.name);
        Problem problem = problem_of_hand(hand);
        std::string reason;
        std::optional<KnobValues> values = first_legal(problem, hand, reason);
        ASSERT_TRUE(values) << reason;
        const Problem &form = problem_of_schedule(problem, hand.schedule, *values);
        Reached r = replay(form, canonicalize(hand.schedule, *values).schedule);
        EXPECT_EQ(r.stuck, "") << r.steps << " of " << r.of;
        steps += r.steps;
    }
    std::cerr << steps << " steps\n";
}

/// Statements as text, in any order: what the schedules say.
std::multiset<std::string> said(const Schedule &canonical) {
    std::multiset<std::string> out;
    for (const Statement &s : canonical.statements) {
        std::string chain;
        for (const DirectiveCall &c : s.calls) {
            chain += "." + print_call(c);
        }
        // Statements of one stage follow each other.
        out.insert(s.stage.str() + chain);
    }
    return out;
}

/// One statement for each stage.
Schedule joined(const Schedule &canonical) {
    Schedule out = canonical;
    out.statements.clear();
    for (const Statement &s : canonical.statements) {
        auto same = std::find_if(out.statements.begin(), out.statements.end(),
                                 [&](const Statement &o) { return o.stage == s.stage; });
        if (same == out.statements.end()) {
            out.statements.push_back(s);
        } else {
            same->calls.insert(same->calls.end(), s.calls.begin(), s.calls.end());
        }
    }
    return out;
}

/// One directive without arguments fewer.
bool is_one_step_away(const Schedule &member, const Schedule &wanted) {
    for (size_t i = 0; i < member.statements.size(); i++) {
        for (size_t c = 0; c < member.statements[i].calls.size(); c++) {
            if (member.statements[i].calls[c].args.empty()) {
                Schedule less = member;
                std::vector<DirectiveCall> &calls = less.statements[i].calls;
                calls.erase(calls.begin() + static_cast<long>(c));
                if (said(less) == said(wanted)) {
                    return true;
                }
            }
        }
    }
    return false;
}

TEST(SearchSpaceReach, TileKernelsFollowFromTheAlgorithm) {
    int families = 0;
    for (const HandSchedule &hand : hand_schedules()) {
        if (!has_tile_kernel(hand) || not_searched.count(hand.name) || not_reached_yet.count(hand.name)) {
            continue;
        }
        SCOPED_TRACE(hand.name);
        Problem problem = problem_of_hand(hand);
        // The same form of the algorithm as the hand schedule's.
        std::string reason;
        std::optional<KnobValues> values = first_legal(problem, hand, reason);
        ASSERT_TRUE(values) << reason;
        const Problem &form = problem_of_schedule(problem, hand.schedule, *values);
        PlanContext cx(form);
        std::vector<Schedule> sketches = tile_families(cx);
        ASSERT_FALSE(sketches.empty());
        Schedule wanted = joined(canonicalize(hand.schedule, *values).schedule);
        bool found = false;
        std::string near;
        for (const Schedule &sketch : sketches) {
            Family family(form, std::make_shared<const Schedule>(sketch));
            // Its knobs by the values that occur: try all members of small families, else those of the hand's values.
            for (int64_t i = 0; i < std::min<int64_t>(family.size(), 60000) && !found; i++) {
                KnobValues v = family.at(i);
                bool plausible = true;
                for (const auto &[knob, value] : *values) {
                    plausible = plausible && (!v.count(knob) || v[knob] == value);
                }
                if (plausible) {
                    Schedule member = joined(canonicalize(sketch, v).schedule);
                    found = said(member) == said(wanted) || is_one_step_away(member, wanted);
                    if (near.empty()) {
                        near = print_text(member);
                    }
                }
            }
        }
        EXPECT_TRUE(found) << print_text(wanted) << "\nnot among families such as\n" << near;
        families += found;
    }
    EXPECT_GT(families, 15);
}

} // namespace
} // namespace kiln::search
