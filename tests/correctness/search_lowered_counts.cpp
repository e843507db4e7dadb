#include "tests/correctness/search_lowered_counts.h"

#include <cmath>
#include <set>
#include <sstream>

namespace kiln::test {

namespace {

using namespace Halide;
using namespace Halide::Internal;

class Count : public IRVisitor {
public:
    LoweredCounts counts;
    explicit Count(int register_bytes) : register_bytes(register_bytes) {}

protected:
    using IRVisitor::visit;

    Expr known(const Expr &e) {
        Expr v = e;
        for (int i = 0; i < 4 && !as_const_int(v); i++) {
            v = simplify(substitute(values, v));
        }
        return v;
    }

    void visit(const For *op) override {
        Expr extent = known(op->extent);
        double n = 1;
        if (auto c = as_const_int(extent)) {
            n = static_cast<double>(*c);
        } else {
            counts.unknown++;
        }
        Expr middle = simplify(known(op->min) + static_cast<int>(n / 2));
        if (op->for_type == ForType::Parallel) {
            counts.tasks += times * n;
        }
        if (op->for_type == ForType::Serial || op->for_type == ForType::Parallel) {
            counts.iterations += times * n;
        }
        std::set<std::string> outer;
        outer.swap(seen);
        loops.push_back({op->name, n});
        auto old = values.find(op->name) == values.end() ? Expr() : values[op->name];
        values[op->name] = middle;
        times *= n;
        op->body.accept(this);
        times = n > 0 ? times / n : 0;
        loops.pop_back();
        if (old.defined()) {
            values[op->name] = old;
        } else {
            values.erase(op->name);
        }
        seen.swap(outer);
    }

    void visit(const LetStmt *op) override {
        op->value.accept(this);
        values[op->name] = known(op->value);
        lets[op->name] = op->value;
        op->body.accept(this);
        lets.erase(op->name);
        values.erase(op->name);
    }

    void visit(const IfThenElse *op) override {
        op->condition.accept(this);
        Expr c = known(op->condition);
        if (is_const_zero(c)) {
            if (op->else_case.defined()) {
                op->else_case.accept(this);
            }
            return;
        }
        op->then_case.accept(this);
        if (!is_const_one(c) && op->else_case.defined()) {
            op->else_case.accept(this);
        }
    }

    void visit(const Allocate *op) override {
        double bytes = op->type.bytes();
        for (const Expr &e : op->extents) {
            if (auto c = as_const_int(known(e))) {
                bytes *= static_cast<double>(*c);
            }
        }
        counts.allocated += bytes;
        op->body.accept(this);
    }

    template<typename T>
    void operation(const T *op, double LoweredCounts::*kind) {
        if (op->type.is_float()) {
            counts.*kind += times * op->type.lanes();
        }
        IRVisitor::visit(op);
    }
    void visit(const Add *op) override { operation(op, &LoweredCounts::adds); }
    void visit(const Sub *op) override { operation(op, &LoweredCounts::adds); }
    void visit(const Mul *op) override { operation(op, &LoweredCounts::muls); }
    void visit(const Div *op) override { operation(op, &LoweredCounts::divs); }
    void visit(const Min *op) override { operation(op, &LoweredCounts::compares); }
    void visit(const Max *op) override { operation(op, &LoweredCounts::compares); }
    void visit(const Call *op) override {
        if (op->type.is_float() && op->call_type == Call::PureExtern) {
            counts.specials += times * op->type.lanes();
        }
        IRVisitor::visit(op);
    }

    bool depends(const Expr &e, const std::string &loop) {
        class Names : public IRVisitor {
        public:
            std::set<std::string> names;
            using IRVisitor::visit;
            void visit(const Variable *op) override { names.insert(op->name); }
        } found;
        e.accept(&found);
        for (const std::string &name : found.names) {
            auto let = lets.find(name);
            if (name == loop || (let != lets.end() && depends(let->second, loop))) {
                return true;
            }
        }
        return false;
    }

    /// How often an access happens once compilers have kept in registers what the innermost loop does not move.
    double times_of(const Expr &index) {
        bool held = !loops.empty() && !depends(index, loops.back().first);
        return held ? times / std::max(1.0, loops.back().second) : times;
    }

    /// Lanes side by side, all the same, or neither.
    enum class Lanes { One, Adjacent, Apart };
    static Lanes lanes_of(const Expr &index) {
        if (index.type().lanes() == 1 || index.as<Broadcast>()) {
            return Lanes::One;
        }
        const Ramp *r = index.as<Ramp>();
        return r && is_const_one(r->stride) ? Lanes::Adjacent : Lanes::Apart;
    }
    static bool is_data(const std::string &name, const Type &type) {
        return !type.is_handle() && name.find(".buffer") == std::string::npos;
    }

    void visit(const Load *op) override {
        IRVisitor::visit(op);
        std::ostringstream address;
        address << op->name << "[" << known(op->index) << "]" << op->type;
        if (!is_data(op->name, op->type) || !seen.insert(address.str()).second) {
            return;
        }
        double width = op->type.lanes(), bytes = op->type.bytes() * width, n = times_of(op->index);
        switch (lanes_of(op->index)) {
        case Lanes::One:
            counts.scalar_loads += n;
            bytes = op->type.element_of().bytes();
            break;
        case Lanes::Adjacent:
            counts.vector_loads += n * std::ceil(bytes / register_bytes);
            break;
        case Lanes::Apart:
            counts.gathers += n * width;
            break;
        }
        counts.loaded_bytes += n * bytes;
    }

    void visit(const Store *op) override {
        IRVisitor::visit(op);
        Type t = op->value.type();
        double width = t.lanes(), bytes = t.bytes() * width, n = times_of(op->index);
        counts.widest = std::max(counts.widest, width);
        switch (lanes_of(op->index)) {
        case Lanes::One:
            counts.scalar_stores += n;
            break;
        case Lanes::Adjacent:
            counts.vector_stores += n * std::ceil(bytes / register_bytes);
            break;
        case Lanes::Apart:
            counts.scatters += n * width;
            break;
        }
        counts.stored_bytes += n * bytes;
        counts.stored_elements[op->name] += n * width;
        // What was stored may be loaded again as another value.
        std::string prefix = op->name + "[";
        std::erase_if(seen, [&](const std::string &a) { return a.starts_with(prefix); });
    }

private:
    int register_bytes;
    double times = 1;
    std::map<std::string, Expr> values, lets;
    std::vector<std::pair<std::string, double>> loops; ///< around, with their extents
    std::set<std::string> seen;                        ///< loads of this straight piece of code
};

} // namespace

LoweredCounts count_lowered(const std::vector<Halide::Func> &outputs, const Target &target,
                            int register_bytes) {
    Pipeline pipeline(outputs);
    Halide::Target halide("x86-64-linux-sse41-avx-f16c-fma-avx2-no_runtime-no_bounds_query-no_asserts");
    Module module = pipeline.compile_to_module(pipeline.infer_arguments(), "counted", halide);
    Count count(register_bytes);
    module.get_conceptual_stmt().accept(&count); // before parallel loops become functions of their own
    return count.counts;
}

} // namespace kiln::test
