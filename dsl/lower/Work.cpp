#include "dsl/lower/Work.h"

#include "dsl/lower/BindSizes.h"
#include "dsl/schedule/apply/Describe.h"
#include "dsl/support/Diagnostic.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <sstream>

namespace kiln {

namespace {

using namespace Halide;
using namespace Halide::Internal;

struct Range {
    int64_t min = 0, max = -1;
    int64_t extent() const { return std::max<int64_t>(0, max - min + 1); }
    void include(const Range &other) {
        if (other.extent() == 0) {
            return;
        }
        *this = extent() == 0 ? other : Range{std::min(min, other.min), std::max(max, other.max)};
    }
};
using Region = std::vector<Range>;

/// Counts operations outside of indices, each node once, and collects the calls with the indices' calls too.
class CountOps : public IRGraphVisitor {
public:
    OpCounts counts;
    std::vector<const Call *> calls;

protected:
    using IRGraphVisitor::visit;
    template<class Op>
    void binary(const Op *op, double OpCounts::*kind) {
        if (op->type.is_float() || op->a.type().is_float()) {
            counts.*kind += 1;
        }
        IRGraphVisitor::visit(op);
    }
    void visit(const Add *op) override { binary(op, &OpCounts::add); }
    void visit(const Sub *op) override { binary(op, &OpCounts::add); }
    void visit(const Mul *op) override { binary(op, &OpCounts::multiply); }
    void visit(const Div *op) override { binary(op, &OpCounts::divide); }
    void visit(const Min *op) override { binary(op, &OpCounts::compare); }
    void visit(const Max *op) override { binary(op, &OpCounts::compare); }
    void visit(const EQ *op) override { binary(op, &OpCounts::compare); }
    void visit(const NE *op) override { binary(op, &OpCounts::compare); }
    void visit(const LT *op) override { binary(op, &OpCounts::compare); }
    void visit(const LE *op) override { binary(op, &OpCounts::compare); }
    void visit(const GT *op) override { binary(op, &OpCounts::compare); }
    void visit(const GE *op) override { binary(op, &OpCounts::compare); }
    void visit(const Select *op) override {
        counts.compare += op->type.is_float();
        IRGraphVisitor::visit(op);
    }
    void visit(const Call *op) override {
        if (op->call_type == Call::Halide || op->call_type == Call::Image) {
            calls.push_back(op);
        } else if (op->type.is_float() && (op->is_pure() || op->is_extern())) {
            counts.special += 1;
        }
        IRGraphVisitor::visit(op);
    }
};

class Counter {
public:
    Counter(const std::vector<Func> &outputs, const Workload &workload)
        : workload_(workload), bind_(workload.extents, workload.scalars) {
        for (const Func &output : outputs) {
            for (const auto &[name, function] : find_transitive_calls(output.function())) {
                environment_.emplace(name, function);
            }
            environment_.emplace(output.name(), output.function());
            require_output(output.function());
        }
        for (const Func &output : outputs) {
            visit_order(output.function());
        }
    }

    Work count() {
        Work work;
        // Consumers first: a region is known when all its readers have said what they need.
        for (auto it = order_.rbegin(); it != order_.rend(); ++it) {
            count_function(*it, work);
        }
        std::reverse(work.stages.begin(), work.stages.end());
        for (const Function &function : order_) {
            work.regions.push_back(region_work(function));
        }
        return work;
    }

private:
    static bool is_input(const Function &f) {
        // What Halide makes of an input buffer: a Func of one call to the image.
        if (!f.has_pure_definition() || f.has_update_definition() || f.values().size() != 1) {
            return false;
        }
        const Call *call = f.values()[0].as<Call>();
        return call && call->call_type == Call::Image;
    }

    void visit_order(const Function &f) {
        if (!seen_.insert(f.name()).second) {
            return;
        }
        for (const auto &[name, callee] : find_direct_calls(f)) {
            if (name != f.name()) {
                visit_order(callee);
            }
        }
        order_.push_back(f);
    }

    void require_output(const Function &f) {
        std::string name = schedule_name(f);
        auto extents = workload_.extents.find(name);
        if (extents == workload_.extents.end()) {
            extents = workload_.extents.find(name + ".0"); // a Tuple
        }
        if (extents == workload_.extents.end() ||
            extents->second.size() != static_cast<size_t>(f.dimensions())) {
            Diagnostic d;
            d.code = "K0805";
            d.message = fmt::format("workload `{}` has no extents of the {}-dimensional output `{}`",
                                    workload_.name, f.dimensions(), name);
            throw Error(std::move(d));
        }
        Region &region = regions_[f.name()];
        for (int64_t extent : extents->second) {
            region.push_back({0, extent - 1});
        }
        outputs_.insert(f.name());
    }

    Expr bound(const Expr &e) { return simplify(bind_.mutate(e)); }

    void count_function(const Function &f, Work &work) {
        if (is_input(f)) {
            return;
        }
        Region region = regions_[f.name()]; // a copy: updates read more of it
        region.resize(f.dimensions());
        double points = 1;
        for (const Range &range : region) {
            points *= static_cast<double>(range.extent());
        }
        for (int update = static_cast<int>(f.updates().size()) - 1; update >= -1; update--) {
            const Definition &definition = update < 0 ? f.definition() : f.update(update);
            Scope<Interval> scope;
            for (int d = 0; d < f.dimensions(); d++) {
                scope.push(f.args()[d],
                           Interval(make_const(Int(32), region[d].min), make_const(Int(32), region[d].max)));
            }
            StageWork stage;
            stage.func = schedule_name(f);
            stage.update = update;
            stage.points = points;
            if (update >= 0) {
                stage.points = update_points(f, definition, region, scope, stage.estimated);
            }
            CountOps ops;
            for (const Expr &value : definition.values()) {
                Expr now = bound(value);
                now.accept(&ops);
                keep_.push_back(now);
            }
            for (const Expr &arg : definition.args()) {
                CountOps index; // its arithmetic is not the kernel's, its reads are
                arg.accept(&index);
                ops.calls.insert(ops.calls.end(), index.calls.begin(), index.calls.end());
            }
            stage.each = ops.counts;
            if (points > 0) {
                read(f, ops.calls, scope, work);
            }
            work.stages.push_back(std::move(stage));
        }
    }

    double update_points(const Function &f, const Definition &definition, const Region &region,
                         Scope<Interval> &scope, bool &estimated) {
        double points = 1;
        // Only the pure Vars that the left side still has are loops of an update.
        for (int d = 0; d < f.dimensions(); d++) {
            const Variable *var = definition.args()[d].as<Variable>();
            if (var && var->name == f.args()[d]) {
                points *= static_cast<double>(region[d].extent());
            }
        }
        std::vector<std::pair<std::string, Range>> rvars;
        for (const ReductionVariable &rvar : definition.schedule().rvars()) {
            Expr min = bound(rvar.min), extent = bound(rvar.extent);
            auto low = as_const_int(min), count = as_const_int(extent);
            if (!low || !count) {
                open_region(f, rvar.var);
            }
            scope.push(rvar.var, Interval(min, simplify(min + extent - 1)));
            points *= static_cast<double>(std::max<int64_t>(0, *count));
            rvars.push_back({rvar.var, {*low, *low + *count - 1}});
        }
        Expr predicate = bound(definition.predicate());
        if (!is_const_one(predicate) && points > 0) {
            estimated = true;
            for (int d = 0; d < f.dimensions(); d++) {
                rvars.push_back({f.args()[d], region[d]});
            }
            points *= fraction(predicate, rvars);
        }
        return points;
    }

    /// The share of random points at which the condition holds.
    static double fraction(const Expr &predicate, const std::vector<std::pair<std::string, Range>> &ranges) {
        constexpr int samples = 400;
        uint64_t state = 0x9e3779b97f4a7c15;
        int held = 0, decided = 0;
        for (int s = 0; s < samples; s++) {
            std::map<std::string, Expr> point;
            for (const auto &[name, range] : ranges) {
                state = state * 6364136223846793005 + 1442695040888963407;
                point[name] = make_const(
                    Int(32),
                    range.min + static_cast<int64_t>((state >> 33) % std::max<int64_t>(1, range.extent())));
            }
            Expr value = simplify(substitute(point, predicate));
            decided += is_const_one(value) || is_const_zero(value);
            held += is_const_one(value);
        }
        return decided == 0 ? 1 : static_cast<double>(held) / decided;
    }

    void read(const Function &f, const std::vector<const Call *> &calls, const Scope<Interval> &scope,
              Work &work) {
        std::map<std::string, Region> needed;
        for (const Call *call : calls) {
            if (call->call_type != Call::Halide || call->name == f.name()) {
                continue;
            }
            Region &region = needed[call->name];
            region.resize(call->args.size());
            for (size_t d = 0; d < call->args.size(); d++) {
                Interval interval = bounds_of_expr_in_scope(bound(call->args[d]), scope);
                Range range = whole_or(interval, call->name, d);
                region[d].include(range);
            }
        }
        for (const auto &[name, region] : needed) {
            Region &all = regions_[name];
            all.resize(region.size());
            for (size_t d = 0; d < region.size(); d++) {
                all[d].include(region[d]);
            }
            auto callee = environment_.find(name);
            if (callee != environment_.end()) {
                double bytes = box_bytes(callee->second, region);
                double &known = work.reads[{schedule_name(f), schedule_name(callee->second)}];
                known = std::max(known, bytes);
            }
        }
    }

    Range whole_or(const Interval &interval, const std::string &name, size_t d) {
        if (interval.is_bounded()) {
            auto low = as_const_int(bound(interval.min)), high = as_const_int(bound(interval.max));
            if (low && high) {
                return {*low, *high};
            }
        }
        return whole_dimension(name, d);
    }

    /// An index that depends on data may be anywhere in an input buffer.
    Range whole_dimension(const std::string &name, size_t d) {
        auto callee = environment_.find(name);
        if (callee != environment_.end() && is_input(callee->second)) {
            auto extents = workload_.extents.find(schedule_name(callee->second));
            if (extents != workload_.extents.end() && d < extents->second.size()) {
                return {0, extents->second[d] - 1};
            }
        }
        open_region(callee->second, std::to_string(d));
    }

    [[noreturn]] void open_region(const Function &f, const std::string &dimension) {
        Diagnostic d;
        d.code = "K0715";
        d.message =
            fmt::format("the sizes of workload `{}` do not tell how much of `{}` is needed along `{}`",
                        workload_.name, schedule_name(f), dimension);
        d.helps.push_back("give it extents of all buffers and values of all scalars, and clamp indices that "
                          "depend on data");
        throw Error(std::move(d));
    }

    static double box_bytes(const Function &f, const Region &region) {
        double elements = 1, bytes = 0;
        for (const Range &range : region) {
            elements *= static_cast<double>(range.extent());
        }
        for (const Type &type : f.output_types()) {
            bytes += type.bytes();
        }
        return elements * bytes;
    }

    RegionWork region_work(const Function &f) {
        RegionWork out;
        out.func = schedule_name(f);
        out.is_input = is_input(f);
        out.is_output = outputs_.count(f.name()) > 0;
        for (const Type &type : f.output_types()) {
            std::ostringstream text;
            text << type;
            out.types.push_back(text.str());
        }
        Region region = regions_[f.name()];
        region.resize(f.dimensions());
        for (const Range &range : region) {
            out.mins.push_back(range.min);
            out.extents.push_back(range.extent());
        }
        out.bytes = box_bytes(f, region);
        return out;
    }

    const Workload &workload_;
    BindSizes bind_;
    std::map<std::string, Function> environment_;
    std::vector<Function> order_; ///< producers first
    std::set<std::string> seen_, outputs_;
    std::map<std::string, Region> regions_;
    std::vector<Expr> keep_; ///< the calls that are remembered live in these
};

} // namespace

double Work::flops() const {
    double sum = 0;
    for (const StageWork &stage : stages) {
        sum += stage.points * stage.each.flops();
    }
    return sum;
}

double Work::bytes() const {
    double sum = 0;
    for (const RegionWork &region : regions) {
        sum += region.is_input || region.is_output ? region.bytes : 0;
    }
    return sum;
}

const RegionWork *Work::find(const std::string &func) const {
    auto it =
        std::find_if(regions.begin(), regions.end(), [&](const RegionWork &r) { return r.func == func; });
    return it == regions.end() ? nullptr : &*it;
}

Work count_work(const std::vector<Halide::Func> &outputs, const Workload &workload) {
    return Counter(outputs, workload).count();
}

} // namespace kiln
