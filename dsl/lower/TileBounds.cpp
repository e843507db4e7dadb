#include "dsl/lower/TileBounds.h"

#include "dsl/lower/Rebuild.h"
#include "dsl/schedule/apply/Describe.h"
#include "dsl/support/Diagnostic.h"

#include <fmt/format.h>

#include <algorithm>

namespace kiln {

namespace {

using Halide::Expr;
using Halide::Func;
using namespace Halide::Internal;

Expr named(const std::string &name) {
    return Variable::make(Halide::Int(32), name);
}

/// Parameters by the names that the launch knows, without Halide's `$1`, and none of them bound.
class PlainNames : public IRMutator {
public:
    using IRMutator::visit;
    Expr visit(const Variable *op) override {
        if (!op->param.defined()) {
            return op;
        }
        std::string base = base_name(op->param.name());
        return Variable::make(op->type,
                              op->param.is_buffer() ? base + op->name.substr(op->param.name().size()) : base);
    }
};

class Mentions : public IRGraphVisitor {
public:
    explicit Mentions(std::set<std::string> &names) : names_(names) {}
    using IRGraphVisitor::visit;
    void visit(const Variable *op) override {
        if (op->param.defined() && op->param.is_buffer()) {
            names_.insert(base_name(op->param.name()) + op->name.substr(op->param.name().size()));
        }
        if (op->reduction_domain.defined()) {
            for (const ReductionVariable &rv : op->reduction_domain.domain()) {
                rv.min.accept(this);
                rv.extent.accept(this);
            }
        }
    }

private:
    std::set<std::string> &names_;
};

class Bounds {
public:
    Bounds(const std::set<std::string> &outside, const std::string &kernel)
        : outside_(outside), kernel_(kernel) {}

    TileBounds run(const std::vector<Func> &outputs) {
        std::vector<Function> functions;
        for (const Func &f : outputs) {
            functions.push_back(f.function());
            for (const auto &[name, function] : find_transitive_calls(f.function())) {
                env_.emplace(name, function);
            }
            env_.emplace(f.name(), f.function());
        }
        for (const Func &f : outputs) {
            std::string name = schedule_name(f.function());
            std::string view = f.outputs() == 1 ? name : name + ".0";
            for (int d = 0; d < f.dimensions(); d++) {
                need(f.name(), f.dimensions(), d, 0,
                     named(fmt::format("{}.min.{}", view, d)) + named(fmt::format("{}.extent.{}", view, d)) -
                         1);
            }
        }
        std::vector<std::string> order = topological_order(functions, env_);
        for (auto name = order.rbegin(); name != order.rend(); ++name) {
            const Function &f = env_.at(*name);
            if (!needs_.count(*name)) {
                continue;
            }
            if (outside_.count(schedule_name(f))) {
                read(schedule_name(f), needs_.at(*name));
            } else {
                follow(f);
            }
            needs_.erase(*name);
        }
        for (const auto &[image, box] : needs_) {
            read(base_name(image), box);
        }
        return std::move(out_);
    }

private:
    /// Coordinates `first` to `last` of dimension d of a Func.
    void need(const std::string &func, int dimensions, int d, const Expr &first, const Expr &last) {
        std::vector<TileRange> &ranges = needs_[func];
        ranges.resize(static_cast<size_t>(dimensions));
        TileRange &r = ranges[static_cast<size_t>(d)];
        r.first = simplify(r.first.defined() ? min(r.first, first) : first);
        r.last = simplify(r.last.defined() ? max(r.last, last) : last);
    }

    Expr value(const std::string &name, const Expr &e) {
        Expr plain = simplify(substitute_in_all_lets(PlainNames().mutate(e)));
        if (is_const(plain) || plain.as<Variable>()) {
            return plain;
        }
        std::string fresh = name; // a buffer and the Func that Halide makes of it have one name
        while (!names_.insert(fresh).second) {
            fresh += "_";
        }
        out_.values.emplace_back(fresh, plain);
        return named(fresh);
    }

    void read(const std::string &view, const std::vector<TileRange> &box) {
        std::vector<TileRange> &ranges = out_.reads[view];
        for (size_t d = 0; d < box.size(); d++) {
            ranges.push_back({value(fmt::format("{}.first.{}", view, d), box[d].first),
                              value(fmt::format("{}.last.{}", view, d), box[d].last)});
        }
    }

    void follow(const Function &f) {
        std::string name = schedule_name(f);
        const std::vector<TileRange> &needed = needs_.at(f.name());
        std::vector<Interval> box;
        for (size_t d = 0; d < needed.size(); d++) {
            box.emplace_back(value(fmt::format("{}.first.{}", name, d), needed[d].first),
                             value(fmt::format("{}.last.{}", name, d), needed[d].last));
        }
        if (f.has_extern_definition()) {
            fail(fmt::format("the extern stage `{}` cannot run inside the tile kernel of `{}`", name,
                             kernel_));
        }
        Mentions mentions(out_.mentioned);
        f.accept(&mentions);
        Scope<Interval> scope;
        for (size_t d = 0; d < box.size(); d++) {
            scope.push(f.args()[d], box[d]);
        }
        for (const Expr &e : f.values()) {
            follow(e, scope, f.name());
        }
        for (size_t u = 0; u < f.updates().size(); u++) {
            const Definition &update = f.update(static_cast<int>(u));
            Scope<Interval> inner;
            inner.set_containing_scope(&scope);
            for (const ReductionVariable &rv : update.schedule().rvars()) {
                std::string of = fmt::format("{}.{}", name, rv.var);
                Expr first = value(of + ".first", rv.min);
                inner.push(rv.var, Interval(first, value(of + ".last", rv.min + rv.extent - 1)));
            }
            for (const Expr &e : update.args()) {
                follow(e, inner, f.name());
            }
            for (const Expr &e : update.values()) {
                Expr guarded = e;
                if (!is_const_one(update.predicate())) {
                    guarded = Call::make(e.type(), Call::if_then_else, {update.predicate(), e},
                                         Call::PureIntrinsic);
                }
                follow(guarded, inner, f.name());
            }
        }
    }

    void follow(const Expr &e, const Scope<Interval> &scope, const std::string &self) {
        for (const auto &[callee, box] : boxes_required(e, scope)) {
            if (callee == self) {
                continue;
            }
            for (size_t d = 0; d < box.size(); d++) {
                if (!box[d].is_bounded()) {
                    fail(fmt::format(
                        "the tile kernel of `{}` reads dimension {} of `{}` at coordinates without "
                        "bounds",
                        kernel_, d, visible(callee)));
                }
                need(callee, static_cast<int>(box.size()), static_cast<int>(d), box[d].min, box[d].max);
            }
        }
    }

    /// An input's Func has the name of its buffer.
    std::string visible(const std::string &callee) const {
        auto it = env_.find(callee);
        return it == env_.end() ? base_name(callee) : schedule_name(it->second);
    }

    [[noreturn]] static void fail(std::string message) {
        Diagnostic d;
        d.code = "K1191";
        d.message = std::move(message);
        d.helps = {"clamp the index, so that every call can be checked before it runs"};
        throw Error(std::move(d));
    }

    const std::set<std::string> &outside_;
    std::map<std::string, Function> env_;
    const std::string &kernel_;
    std::map<std::string, std::vector<TileRange>> needs_; ///< of Funcs and buffers, by Halide's names
    std::set<std::string> names_;
    TileBounds out_;
};

} // namespace

TileBounds tile_bounds(const std::vector<Func> &outputs, const std::set<std::string> &outside,
                       const std::string &kernel) {
    return Bounds(outside, kernel).run(outputs);
}

} // namespace kiln
