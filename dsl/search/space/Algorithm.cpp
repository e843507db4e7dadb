#include "dsl/search/space/Algorithm.h"

#include "dsl/lower/BindSizes.h"
#include "dsl/lower/Work.h"
#include "dsl/schedule/apply/Describe.h"
#include "dsl/search/space/Problem.h"
#include "dsl/support/Diagnostic.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <sstream>

namespace kiln::search {

namespace {

using namespace Halide::Internal;
using Halide::Expr;

/// An index as the nearest affine function of the stage's loops.
class ReadIndex {
public:
    ReadIndex(const std::map<std::string, std::string> &loops) : loops(loops) {}

    AccessDim run(const Expr &e) const {
        if (auto value = as_const_int(e)) {
            AccessDim out;
            out.offset = static_cast<double>(*value);
            return out;
        }
        if (const auto *v = e.as<Variable>()) {
            AccessDim out;
            if (auto it = loops.find(v->name); it != loops.end()) {
                out.terms.push_back({it->second, 1});
            }
            return out;
        }
        if (const auto *op = e.as<Add>()) {
            return sum(run(op->a), run(op->b), 1);
        }
        if (const auto *op = e.as<Sub>()) {
            return sum(run(op->a), run(op->b), -1);
        }
        if (const auto *op = e.as<Mul>()) {
            if (auto c = as_const_int(op->b)) {
                return scale(run(op->a), static_cast<double>(*c));
            }
            if (auto c = as_const_int(op->a)) {
                return scale(run(op->b), static_cast<double>(*c));
            }
            return widest(run(op->a), run(op->b));
        }
        if (const auto *op = e.as<Div>()) {
            auto c = as_const_int(op->b);
            return c && *c != 0 ? scale(run(op->a), 1.0 / static_cast<double>(*c)) : run(op->a);
        }
        if (const auto *op = e.as<Mod>()) {
            AccessDim out = run(op->a);
            if (auto c = as_const_int(op->b)) {
                out.limit = static_cast<double>(*c);
            }
            return out;
        }
        if (const auto *op = e.as<Min>()) {
            return widest(run(op->a), run(op->b));
        }
        if (const auto *op = e.as<Max>()) {
            return widest(run(op->a), run(op->b));
        }
        if (const auto *op = e.as<Select>()) {
            return widest(run(op->true_value), run(op->false_value));
        }
        if (const auto *op = e.as<Cast>()) {
            return run(op->value);
        }
        if (const auto *op = e.as<Let>()) {
            return run(substitute(op->name, op->value, op->body));
        }
        if (const auto *op = e.as<Call>()) {
            if (op->call_type == Call::Halide || op->call_type == Call::Image) {
                AccessDim out;
                out.from_data = true;
                // What the type can hold bounds it: a table of 256 for bytes.
                out.spread = op->type.bits() <= 8 ? 255 : 65535;
                return out;
            }
            AccessDim out;
            for (const Expr &arg : op->args) {
                out = widest(out, run(arg));
            }
            return out;
        }
        return {};
    }

private:
    const std::map<std::string, std::string> &loops;

    static AccessDim scale(AccessDim d, double factor) {
        for (AccessDim::Term &t : d.terms) {
            t.coefficient *= factor;
        }
        d.offset *= factor;
        d.spread *= std::abs(factor);
        d.limit *= std::abs(factor);
        return d;
    }

    static AccessDim sum(AccessDim a, const AccessDim &b, double sign) {
        for (const AccessDim::Term &t : b.terms) {
            auto same = std::find_if(a.terms.begin(), a.terms.end(),
                                     [&](const AccessDim::Term &o) { return o.loop == t.loop; });
            if (same == a.terms.end()) {
                a.terms.push_back({t.loop, sign * t.coefficient});
            } else {
                same->coefficient += sign * t.coefficient;
            }
        }
        std::erase_if(a.terms, [](const AccessDim::Term &t) { return t.coefficient == 0; });
        a.offset += sign * b.offset;
        a.spread += b.spread;
        a.limit = a.limit > 0 && b.limit > 0 ? a.limit + b.limit : 0;
        a.from_data = a.from_data || b.from_data;
        return a;
    }

    static AccessDim widest(AccessDim a, const AccessDim &b) {
        for (const AccessDim::Term &t : b.terms) {
            auto same = std::find_if(a.terms.begin(), a.terms.end(),
                                     [&](const AccessDim::Term &o) { return o.loop == t.loop; });
            if (same == a.terms.end()) {
                a.terms.push_back(t);
            } else if (std::abs(t.coefficient) > std::abs(same->coefficient)) {
                same->coefficient = t.coefficient;
            }
        }
        a.offset = a.terms.empty() ? 0 : a.offset;
        a.spread = std::max(a.spread, b.spread);
        a.limit = std::max(a.limit, b.limit);
        a.from_data = a.from_data || b.from_data;
        return a;
    }
};

/// Operations outside of indices, each node once, and the calls of Funcs, those inside indices too.
class CountExpr : public IRGraphVisitor {
public:
    OpCount ops;
    std::vector<const Call *> calls;

protected:
    using IRGraphVisitor::visit;

    template<class Op>
    void binary(const Op *op, double OpCount::*kind) {
        (op->a.type().is_float() ? ops.*kind : ops.ints) += 1;
        IRGraphVisitor::visit(op);
    }
    template<class Op>
    void compare(const Op *op) {
        ops.compares += 1;
        IRGraphVisitor::visit(op);
    }
    void visit(const Add *op) override { binary(op, &OpCount::adds); }
    void visit(const Sub *op) override { binary(op, &OpCount::adds); }
    void visit(const Mul *op) override { binary(op, &OpCount::muls); }
    void visit(const Div *op) override { binary(op, &OpCount::divs); }
    void visit(const Mod *op) override { binary(op, &OpCount::divs); }
    void visit(const Min *op) override { compare(op); }
    void visit(const Max *op) override { compare(op); }
    void visit(const EQ *op) override { compare(op); }
    void visit(const NE *op) override { compare(op); }
    void visit(const LT *op) override { compare(op); }
    void visit(const LE *op) override { compare(op); }
    void visit(const GT *op) override { compare(op); }
    void visit(const GE *op) override { compare(op); }
    void visit(const Select *op) override { compare(op); }
    void visit(const Cast *op) override {
        ops.casts += 1;
        IRGraphVisitor::visit(op);
    }
    void visit(const Call *op) override {
        if (op->call_type == Call::Halide || op->call_type == Call::Image) {
            calls.push_back(op);
            for (const Expr &arg : op->args) {
                CountExpr index; // its arithmetic is the address's, its reads are the kernel's
                arg.accept(&index);
                calls.insert(calls.end(), index.calls.begin(), index.calls.end());
            }
            return;
        }
        bool transparent = op->is_intrinsic(Call::likely) || op->is_intrinsic(Call::likely_if_innermost) ||
                           op->is_intrinsic(Call::promise_clamped) ||
                           op->is_intrinsic(Call::unsafe_promise_clamped);
        if (!transparent && op->type.is_float() && (op->is_pure() || op->is_extern())) {
            bool root = op->name.starts_with("sqrt") || op->name.find("inverse") != std::string::npos;
            if (root) {
                ops.divs += 1;
            } else {
                ops.specials += 1;
                ops.special_cost += op->name.starts_with("exp")   ? 12
                                    : op->name.starts_with("log") ? 14
                                    : op->name.starts_with("pow") ? 30
                                    : op->name.starts_with("abs") || op->name.starts_with("floor") ||
                                            op->name.starts_with("round")
                                        ? 1
                                        : 20;
            }
        } else if (!transparent) {
            ops.ints += 1;
        }
        IRGraphVisitor::visit(op);
    }
};

bool same_args(const Call &a, const Call &b) {
    for (size_t i = 0; i < a.args.size(); i++) {
        if (!equal(a.args[i], b.args[i])) {
            return false;
        }
    }
    return a.args.size() == b.args.size();
}

class Reader {
public:
    explicit Reader(Problem &problem)
        : problem(problem), bind(problem.extents, problem.scalars), funcs(funcs_of(problem.outputs)) {}

    void run() {
        auto algorithm = std::make_shared<Algorithm>();
        problem.sized = problem.info;
        for (FuncInfo &info : problem.sized.funcs) {
            FuncAlgorithm f;
            f.name = info.name;
            f.types = info.types;
            f.bytes = static_cast<double>(info.bytes_per_element());
            const Function &function = funcs.at(info.name).function();
            for (size_t s = 0; s < info.stages.size(); s++) {
                const Definition &definition =
                    s == 0 ? function.definition() : function.update(static_cast<int>(s) - 1);
                f.stages.push_back(info.is_extern ? StageAlgorithm()
                                                  : read_stage(function, definition, info.stages[s], info));
            }
            algorithm->index[f.name] = algorithm->funcs.size();
            algorithm->funcs.push_back(std::move(f));
        }
        regions(*algorithm);
        problem.algorithm = algorithm;
    }

private:
    Problem &problem;
    BindSizes bind;
    FuncMap funcs;

    Expr bound(const Expr &e) { return simplify(bind.mutate(e)); }

    StageAlgorithm read_stage(const Function &f, const Definition &definition, StageInfo &stage,
                              const FuncInfo &info) {
        StageAlgorithm out;
        std::map<std::string, std::string> loops;
        const std::vector<ReductionVariable> &domain = definition.schedule().rvars();
        for (const ReductionVariable &rv : domain) {
            loops[rv.var] = schedule_name_of_rvar(rv.var, domain);
        }
        for (DimInfo &d : stage.dims) {
            if (!d.is_rvar) {
                loops[d.name] = d.name;
            }
            size_dim(d, domain, info);
        }
        CountExpr count;
        std::vector<Expr> keep; // the calls that are looked at live in these
        for (const Expr &value : definition.values()) {
            keep.push_back(bound(value));
            keep.back().accept(&count);
        }
        for (const Expr &arg : definition.args()) {
            keep.push_back(bound(arg));
            CountExpr index;
            keep.back().accept(&index);
            count.calls.insert(count.calls.end(), index.calls.begin(), index.calls.end());
        }
        out.ops = count.ops;
        ReadIndex read(loops);
        std::vector<const Call *> seen; // a value that is read twice at one place is loaded and computed once
        for (const Call *call : count.calls) {
            bool again = std::any_of(seen.begin(), seen.end(), [&](const Call *o) {
                return o == call ||
                       (o->name == call->name && o->value_index == call->value_index && same_args(*o, *call));
            });
            seen.push_back(call);
            if (again || call->call_type != Call::Halide || !call->func.defined()) {
                continue;
            }
            Function callee(call->func);
            if (callee.same_as(f)) {
                out.reads_itself = true;
                continue;
            }
            Access access;
            access.func = schedule_name(callee);
            for (const Expr &arg : call->args) {
                access.dims.push_back(read.run(arg));
            }
            out.reads.push_back(std::move(access));
        }
        for (const Expr &arg : definition.args()) {
            out.write.push_back(read.run(bound(arg)));
        }
        return out;
    }

    void size_dim(DimInfo &d, const std::vector<ReductionVariable> &domain, const FuncInfo &info) {
        if (d.is_rvar) {
            for (const ReductionVariable &rv : domain) {
                if (schedule_name_of_rvar(rv.var, domain) != d.name) {
                    continue;
                }
                if (auto extent = as_const_int(bound(rv.extent))) {
                    d.extent = *extent;
                    d.extent_text = std::to_string(*extent);
                }
                if (auto min = as_const_int(bound(rv.min))) {
                    d.min = *min;
                }
            }
            return;
        }
        auto extents = problem.extents.find(info.name);
        if (!info.is_output && !info.is_input) {
            return;
        }
        for (size_t a = 0; a < info.args.size(); a++) {
            if (info.args[a] == d.name && extents != problem.extents.end() && a < extents->second.size()) {
                d.extent = extents->second[a];
                d.min = 0;
                d.extent_text = std::to_string(*d.extent);
            }
        }
    }

    /// How much of each Func is needed, and how often its definitions run, at root.
    void regions(Algorithm &algorithm) {
        Workload workload;
        workload.name = problem.name();
        workload.extents = problem.extents;
        workload.scalars = problem.scalars;
        std::optional<Work> work;
        try {
            work = count_work(problem.outputs, workload);
        } catch (const Error &) {
            // An index from data without a bound: what follows from the affine parts has to do.
        } catch (const Halide::Error &) {
        }
        for (size_t i = algorithm.funcs.size(); i-- > 0;) {
            FuncAlgorithm &f = algorithm.funcs[i];
            FuncInfo &info = problem.sized.funcs[i];
            const RegionWork *region = work ? work->find(f.name) : nullptr;
            f.extents = region ? region->extents : needed(algorithm, f, info);
            for (size_t s = 0; s < f.stages.size(); s++) {
                points(f, s, info, work);
            }
        }
    }

    std::vector<int64_t> needed(const Algorithm &algorithm, const FuncAlgorithm &f, const FuncInfo &info) {
        if (auto it = problem.extents.find(f.name); it != problem.extents.end()) {
            return it->second;
        }
        std::vector<double> most(info.args.size(), 1);
        for (const std::string &caller : info.callers) {
            const FuncAlgorithm *c = algorithm.find(caller);
            const FuncInfo *ci = problem.sized.find(caller);
            for (size_t s = 0; c && ci && s < c->stages.size(); s++) {
                auto extent = [&](const std::string &loop) {
                    for (const DimInfo &d : ci->stages[s].dims) {
                        if (d.name == loop && d.extent) {
                            return static_cast<double>(*d.extent);
                        }
                    }
                    auto arg = std::find(ci->args.begin(), ci->args.end(), loop);
                    size_t at = static_cast<size_t>(arg - ci->args.begin());
                    return at < c->extents.size() ? static_cast<double>(c->extents[at]) : 1.0;
                };
                for (const Access &read : c->stages[s].reads) {
                    for (size_t d = 0; read.func == f.name && d < most.size() && d < read.dims.size(); d++) {
                        most[d] = std::max(most[d], std::ceil(read.dims[d].elements(extent)));
                    }
                }
            }
        }
        std::vector<int64_t> out;
        for (double m : most) {
            out.push_back(static_cast<int64_t>(std::min(m, 1e9)));
        }
        return out;
    }

    static void points(FuncAlgorithm &f, size_t s, FuncInfo &info, const std::optional<Work> &work) {
        StageAlgorithm &stage = f.stages[s];
        double box = 1;
        for (DimInfo &d : info.stages[s].dims) {
            auto arg = std::find(info.args.begin(), info.args.end(), d.name);
            size_t at = static_cast<size_t>(arg - info.args.begin());
            double extent = d.extent ? static_cast<double>(*d.extent) : 1;
            if (!d.is_rvar && at < f.extents.size()) {
                extent = static_cast<double>(f.extents[at]);
            }
            box *= extent;
        }
        stage.points = box;
        if (!work) {
            return;
        }
        for (const StageWork &w : work->stages) {
            if (w.func == f.name && w.update == static_cast<int>(s) - 1) {
                stage.points = w.points;
                stage.share = w.estimated && box > 0 ? std::min(1.0, w.points / box) : 1;
            }
        }
    }
};

} // namespace

OpCount &OpCount::operator+=(const OpCount &o) {
    adds += o.adds, muls += o.muls, divs += o.divs, specials += o.specials;
    compares += o.compares, ints += o.ints, casts += o.casts, special_cost += o.special_cost;
    return *this;
}

OpCount OpCount::scaled(double f) const {
    OpCount o = *this;
    o.adds *= f, o.muls *= f, o.divs *= f, o.specials *= f;
    o.compares *= f, o.ints *= f, o.casts *= f, o.special_cost *= f;
    return o;
}

double AccessDim::coefficient(const std::string &loop) const {
    double sum = 0;
    for (const Term &t : terms) {
        sum += t.loop == loop ? t.coefficient : 0;
    }
    return sum;
}

const FuncAlgorithm *Algorithm::find(const std::string &func) const {
    auto it = index.find(func);
    return it == index.end() ? nullptr : &funcs[it->second];
}

void read_algorithm(Problem &problem) {
    Reader(problem).run();
}

} // namespace kiln::search
