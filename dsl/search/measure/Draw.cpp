#include "dsl/search/measure/Draw.h"

#include "dsl/check/Groups.h"
#include "dsl/search/measure/Scan.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

namespace kiln::search {

namespace {

double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

constexpr int64_t most_points = 4096;
constexpr size_t least_points = 64, run = 16;

std::vector<int64_t> extents_of(kiln::Problem &problem, int i) {
    const halide_buffer_t *b = problem.buffer(i);
    std::vector<int64_t> extents;
    for (int d = 0; d < b->dimensions; d++) {
        extents.push_back(b->dim[d].extent);
    }
    return extents;
}

/// sample_points gives edges first and then random ones; where time ends early there should be some of both.
std::vector<std::vector<int>> mixed_points(const std::vector<int64_t> &extents, uint64_t seed) {
    std::vector<std::vector<int>> points = sample_points(extents, most_points, seed), mixed;
    size_t runs = (points.size() + run - 1) / run;
    auto add = [&](size_t r) {
        for (size_t i = r * run; i < std::min(points.size(), (r + 1) * run); i++) {
            mixed.push_back(points[i]);
        }
    };
    for (size_t low = 0, high = runs; low < high;) {
        add(low++);
        if (low < high) {
            add(--high);
        }
    }
    return mixed;
}

} // namespace

Draw::Side::Side(const MeasureSetup &setup)
    : algorithm(setup.generator, setup.params, Halide::Target(setup.target.halide())),
      problem(std::make_unique<kiln::Problem>(algorithm.arguments, setup.workload)) {
    for (int i = 0; i < problem->count(); i++) {
        const KernelArgument &a = problem->argument(i);
        if (a.kind == KernelArgument::Kind::Output) {
            expected.push_back({i, a.output, a.value_index, {}, {}});
        }
    }
}

Draw::Draw(const MeasureSetup &setup)
    : setup_(setup), first_(setup), timed_(setup),
      theirs_(std::make_unique<kiln::Problem>(timed_.algorithm.arguments, setup.workload)) {
    first_.inputs = "whole numbers as inputs";
    timed_.inputs = "random inputs";
}

uint64_t Draw::fill(uint64_t seed) {
    if (uses_left_ > 0) {
        uses_left_--;
        for (kiln::Problem *p : {first_.problem.get(), timed_.problem.get(), theirs_.get()}) {
            p->restore();
        }
        return seed_;
    }
    double start = now();
    seed_ = seed;
    first_.problem->fill(Fill::Integers, seed_);
    timed_.problem->fill(Fill::Random, seed_ + 1);
    theirs_->fill(Fill::Random, seed_ + 1);
    compute_reference(first_, *first_.problem);
    // The candidate's own inputs could be changed by it.
    compute_reference(timed_, *theirs_);
    // So dear a draw serves several trials.
    uses_left_ = std::min(15, static_cast<int>((now() - start) / (2 * setup_.limits.reference_s)));
    return seed_;
}

void Draw::compute_reference(Side &side, kiln::Problem &inputs) {
    Evaluator &evaluator = side.algorithm.evaluator();
    evaluator.forget();
    inputs.bind(evaluator);
    double budget =
        setup_.limits.reference_s / static_cast<double>(std::max<size_t>(side.expected.size(), 1));
    for (Expected &e : side.expected) {
        e.points.clear();
        e.values.clear();
        double end = now() + budget;
        for (std::vector<int> &point : mixed_points(extents_of(*side.problem, e.argument), seed_)) {
            if (e.points.size() >= least_points && now() > end) {
                break;
            }
            e.values.push_back(evaluator.at(e.output, e.value_index, point));
            e.points.push_back(std::move(point));
        }
    }
}

Diagnostic Draw::wrong(Side &side, int argument, const Comparison &comparison) {
    kiln::Problem &p = *side.problem;
    return wrong_result(p.argument(argument).name, comparison, p.argument(argument).type,
                        p.is_untouched(argument, comparison.first_wrong), side.inputs, seed_);
}

void Draw::judge_points(Side &side, const Expected &e, Verdict &verdict, double &widest) {
    kiln::Problem &p = *side.problem;
    const Halide::Type &type = p.argument(e.argument).type;
    Comparison c;
    for (size_t i = 0; i < e.points.size(); i++) {
        Value got = p.got(e.argument, e.points[i]);
        Judgement j = kiln::judge(got, e.values[i], type);
        c.checked++;
        if (j.is_open) {
            continue;
        }
        widest = std::max(widest, j.bound);
        if (j.bound > 0 && j.error * verdict.bound >= verdict.error * j.bound) {
            verdict.error = j.error;
            verdict.bound = j.bound;
        }
        if (!j.is_right && c.wrong++ == 0) {
            c.first_wrong = e.points[i];
            c.got = got;
            c.expected = e.values[i];
        }
    }
    verdict.checked += c.checked;
    if (c.wrong > 0) {
        verdict.fault = wrong(side, e.argument, c);
    }
}

void Draw::judge_whole(Side &side, const Expected &e, kiln::Problem *against, double widest,
                       Verdict &verdict) {
    const Halide::Type &type = side.problem->argument(e.argument).type;
    ScanRequest scan;
    scan.ours = side.problem->buffer(e.argument);
    scan.theirs = against ? against->buffer(e.argument) : nullptr;
    // Both may be off by their bound, and bounds differ from element to element: what is further is looked at closely.
    scan.distance = 4 * widest;
    scan.seed = seed_;
    ScanResult found = scan_outputs(scan);
    verdict.checked += found.scanned;
    Comparison c;
    c.checked = found.scanned;
    double end = now() + 1;
    for (const std::vector<int> &point : found.suspects) {
        if (now() > end) {
            break;
        }
        Value expected = side.algorithm.evaluator().at(e.output, e.value_index, point);
        Value got = side.problem->got(e.argument, point);
        Judgement j = kiln::judge(got, expected, type);
        if (!j.is_right && !j.is_open && c.wrong++ == 0) {
            c.first_wrong = point;
            c.got = got;
            c.expected = expected;
        }
    }
    if (c.wrong > 0) {
        c.wrong = std::max(c.wrong, found.suspicious);
        verdict.fault = wrong(side, e.argument, c);
    }
}

Verdict Draw::judge(Side &side, kiln::Problem *against) {
    Verdict verdict;
    verdict.fault = side.problem->find_damage();
    for (const Expected &e : side.expected) {
        double widest = 0;
        if (!verdict.fault) {
            judge_points(side, e, verdict, widest);
        }
        if (!verdict.fault) {
            judge_whole(side, e, against, widest, verdict);
        }
    }
    return verdict;
}

Verdict Draw::judge_first() {
    return judge(first_, nullptr);
}

Verdict Draw::judge_timed(bool has_incumbent) {
    return judge(timed_, has_incumbent ? theirs_.get() : nullptr);
}

} // namespace kiln::search
