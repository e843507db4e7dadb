#include "dsl/lower/Workspace.h"

#include "kiln_entry.h"

namespace kiln {

using namespace Halide;
using namespace Halide::Internal;

namespace {

Expr i64(int64_t v) {
    return Expr(v);
}

bool is_zero(const Expr &e) {
    return is_const_zero(e);
}

Expr either(const Expr &a, const Expr &b) {
    return is_zero(a) ? b : is_zero(b) ? a : max(a, b);
}

Expr both(const Expr &a, const Expr &b) {
    return is_zero(a) ? b : is_zero(b) ? a : a + b;
}

/// Whether an Expr can be evaluated before the kernel's own work: nothing is loaded, no function does anything.
class AsksOnly : public IRGraphVisitor {
public:
    bool yes = true;

private:
    using IRGraphVisitor::visit;
    void visit(const Load *op) override { yes = false; }
    void visit(const Call *op) override {
        yes &= op->is_pure() || op->name.rfind("_halide_buffer_get_", 0) == 0 ||
               op->name == Call::buffer_is_bounds_query;
        IRGraphVisitor::visit(op);
    }
};

bool asks_only(const Expr &e) {
    AsksOnly visitor;
    e.accept(&visitor);
    return visitor.yes;
}

/// How device memory for the buffer of one allocation is asked for.
class DeviceMallocs : public IRGraphVisitor {
public:
    explicit DeviceMallocs(std::string buffer) : buffer_(std::move(buffer)) {}
    bool found = false;

private:
    using IRGraphVisitor::visit;
    void visit(const Call *op) override {
        if (op->name == "halide_device_malloc" || op->name == "halide_device_and_host_malloc") {
            const Variable *v = op->args[0].as<Variable>();
            found |= v && v->name == buffer_;
        }
        IRGraphVisitor::visit(op);
    }
    std::string buffer_;
};

struct Bytes {
    Expr host = i64(0), device = i64(0);
    bool none() const { return is_zero(host) && is_zero(device); }
};

class Counter {
public:
    bool unknown = false;

    Bytes count(const Stmt &s) {
        if (!s.defined()) {
            return {};
        }
        switch (s.node_type()) {
        case IRNodeType::LetStmt:
            return count_let(*s.as<LetStmt>());
        case IRNodeType::ProducerConsumer:
            return count(s.as<ProducerConsumer>()->body);
        case IRNodeType::Atomic:
            return count(s.as<Atomic>()->body);
        case IRNodeType::Acquire:
            return count(s.as<Acquire>()->body);
        case IRNodeType::Block: {
            Bytes a = count(s.as<Block>()->first), b = count(s.as<Block>()->rest);
            return {either(a.host, b.host), either(a.device, b.device)};
        }
        case IRNodeType::Fork: {
            Bytes a = count(s.as<Fork>()->first), b = count(s.as<Fork>()->rest);
            return {both(a.host, b.host), both(a.device, b.device)};
        }
        case IRNodeType::IfThenElse:
            return count_if(*s.as<IfThenElse>());
        case IRNodeType::For:
            return count_for(*s.as<For>());
        case IRNodeType::Allocate:
            return count_allocate(*s.as<Allocate>());
        default:
            return {}; // what only stores, checks or calls
        }
    }

private:
    Expr under_let(const Expr &e, const LetStmt &let) {
        if (!expr_uses_var(e, let.name)) {
            return e;
        }
        unknown |= !asks_only(let.value);
        return Let::make(let.name, let.value, e);
    }

    Bytes count_let(const LetStmt &let) {
        Bytes b = count(let.body);
        return {under_let(b.host, let), under_let(b.device, let)};
    }

    Bytes count_if(const IfThenElse &op) {
        Bytes a = count(op.then_case), b = count(op.else_case);
        if (a.none() && b.none()) {
            return {};
        }
        if (!asks_only(op.condition)) {
            return {either(a.host, b.host), either(a.device, b.device)};
        }
        auto chosen = [&](const Expr &x, const Expr &y) {
            return is_zero(x) && is_zero(y) ? x : select(op.condition, x, y);
        };
        return {chosen(a.host, b.host), chosen(a.device, b.device)};
    }

    Bytes count_for(const For &loop) {
        // Inside a kernel there is only shared memory and that of threads.
        if (loop.for_type == ForType::GPUBlock || loop.for_type == ForType::GPUThread) {
            return {};
        }
        bool outermost = !in_parallel_;
        in_parallel_ |= loop.for_type == ForType::Parallel;
        Bytes b = count(loop.body);
        if (loop.for_type == ForType::Parallel && outermost) {
            in_parallel_ = false;
        }
        b.host = over_loop(b.host, loop, outermost);
        b.device = over_loop(b.device, loop, outermost);
        return b;
    }

    /// The most that any iteration takes, times those that run at once.
    Expr over_loop(const Expr &e, const For &loop, bool outermost) {
        if (is_zero(e)) {
            return e;
        }
        Expr bound = e;
        if (expr_uses_var(e, loop.name)) {
            Scope<Interval> scope;
            scope.push(loop.name, Interval(loop.min, loop.min + loop.extent - 1));
            Interval interval = bounds_of_expr_in_scope(e, scope);
            if (!interval.has_upper_bound()) {
                unknown = true;
                return i64(0);
            }
            bound = interval.max;
        }
        if (loop.for_type == ForType::Parallel) {
            Expr at_once = loop.extent;
            if (outermost) {
                at_once = min(at_once, Call::make(Int(32), "halide_get_num_threads", {}, Call::Extern));
            }
            return bound * cast<int64_t>(max(at_once, 0));
        }
        return bound;
    }

    Bytes count_allocate(const Allocate &op) {
        Bytes inner = count(op.body);
        bool on_chip = op.memory_type == MemoryType::GPUShared || op.memory_type == MemoryType::GPUTexture ||
                       op.memory_type == MemoryType::Register || op.memory_type == MemoryType::AMXTile;
        if (on_chip) {
            return inner;
        }
        Expr elements = i64(1);
        for (const Expr &e : op.extents) {
            elements = elements * max(cast<int64_t>(e), i64(0));
            unknown |= !asks_only(e);
        }
        elements = simplify(elements);
        Expr bytes = elements * i64(op.type.bytes());
        DeviceMallocs device(op.name + ".buffer");
        op.body.accept(&device);
        Bytes own;
        if (op.new_expr.defined()) {
            // One buffer for host and device.
            own.host = bytes + i64(KILN_ALLOCATION_HEADER);
            own.device = device_bytes(bytes);
        } else {
            own.host = is_on_stack(op) ? i64(0) : host_bytes(op, bytes);
            own.device = device.found ? device_bytes(bytes) : i64(0);
        }
        return {both(inner.host, own.host), both(inner.device, own.device)};
    }

    static Expr device_bytes(const Expr &bytes) {
        return select(bytes == i64(0), i64(KILN_DEVICE_BYTES_OF_EMPTY), bytes);
    }

    static Expr host_bytes(const Allocate &op, const Expr &bytes) {
        if (is_zero(op.condition)) {
            return i64(0);
        }
        Expr whole = bytes + i64(int64_t(op.padding) * op.type.bytes() + KILN_ALLOCATION_HEADER);
        if (is_const_one(op.condition)) {
            return whole;
        }
        return asks_only(op.condition) ? select(op.condition, whole, i64(0)) : whole;
    }

    /// Small constant sizes are on the stack (Halide's CodeGen_Posix).
    static bool is_on_stack(const Allocate &op) {
        int64_t bytes = int64_t(op.constant_allocation_size()) * op.type.bytes();
        return bytes > 0 && op.memory_type != MemoryType::Heap && bytes <= 16 * 1024;
    }

    bool in_parallel_ = false;
};

std::optional<int64_t> constant_of(const Expr &e) {
    auto value = as_const_int(simplify(e));
    return value ? std::optional<int64_t>(*value) : std::nullopt;
}

} // namespace

std::optional<int64_t> Workspace::constant_host() const {
    return constant_of(host);
}

std::optional<int64_t> Workspace::constant_device() const {
    return constant_of(device);
}

bool is_deterministic(const Stmt &body) {
    class FindAtomic : public IRVisitor {
    public:
        bool found = false;

    private:
        using IRVisitor::visit;
        void visit(const Atomic *) override { found = true; }
    } finder;
    body.accept(&finder);
    return !finder.found;
}

Workspace count_workspace(const Stmt &body) {
    Counter counter;
    Bytes bytes = counter.count(body);
    return {simplify(bytes.host), simplify(bytes.device), counter.unknown};
}

void append_workspace_function(Module &module, const std::string &of, const std::string &symbol,
                               const Workspace &workspace) {
    for (const LoweredFunc &f : module.functions()) {
        if (f.name != of) {
            continue;
        }
        Expr context = Variable::make(type_of<void *>(), "__user_context");
        Expr host = workspace.unknown ? i64(-1) : workspace.host;
        Expr device = workspace.unknown ? i64(-1) : workspace.device;
        Expr note = Call::make(Int(32), "kiln_workspace_note", {context, host, device}, Call::Extern);
        module.append(LoweredFunc(symbol, f.args, Evaluate::make(note), LinkageType::ExternalPlusArgv));
        return;
    }
}

} // namespace kiln
