#include "dsl/lower/WidenAccesses.h"

#include <algorithm>
#include <set>

namespace kiln {

using namespace Halide;
using namespace Halide::Internal;

namespace {

/// Calls `learn(variable, modulus)` for each `variable % modulus == 0` that a condition says.
template<typename F>
void multiples_in(const Expr &condition, F learn) {
    if (const And *both = condition.as<And>()) {
        multiples_in(both->a, learn);
        multiples_in(both->b, learn);
    } else if (const Call *call = condition.as<Call>();
               call && (call->is_intrinsic(Call::likely) || call->is_intrinsic(Call::likely_if_innermost))) {
        multiples_in(call->args[0], learn);
    } else if (const EQ *equal = condition.as<EQ>(); equal && is_const_zero(equal->b)) {
        const Mod *mod = equal->a.as<Mod>();
        const Variable *variable = mod ? mod->a.as<Variable>() : nullptr;
        auto modulus = mod ? as_const_int(mod->b) : std::nullopt;
        if (variable && modulus) {
            learn(variable->name, *modulus);
        }
    }
}

class WidenAccesses : public IRMutator {
public:
    WidenAccesses(std::map<std::string, int> *alignment, DeviceAPI where)
        : alignment_(*alignment), where_(where), in_kernel_(where == DeviceAPI::Host) {}

private:
    using IRMutator::visit;

    template<typename LetOrLetStmt>
    auto visit_let(const LetOrLetStmt *op) {
        Expr value = mutate(op->value);
        const bool counts = op->value.type() == Int(32) || op->value.type() == Int(64);
        ScopedBinding<ModulusRemainder> bind(counts, known_, op->name,
                                             counts ? modulus_of(op->value) : ModulusRemainder());
        conditions_[op->name] = op->value;
        return LetOrLetStmt::make(op->name, value, mutate(op->body));
    }
    Expr visit(const Let *op) override { return visit_let(op); }
    Stmt visit(const LetStmt *op) override { return visit_let(op); }

    Stmt visit(const IfThenElse *op) override {
        Expr condition = op->condition;
        if (const Variable *named = condition.as<Variable>(); named && conditions_.count(named->name)) {
            condition = conditions_[named->name];
        }
        std::vector<std::string> learnt;
        multiples_in(condition, [&](const std::string &name, int64_t modulus) {
            known_.push(name, ModulusRemainder(modulus, 0));
            learnt.push_back(name);
        });
        Stmt then_case = mutate(op->then_case);
        for (const std::string &name : learnt) {
            known_.pop(name);
        }
        return IfThenElse::make(mutate(op->condition), then_case, mutate(op->else_case));
    }

    Stmt visit(const For *op) override {
        const bool outside = in_kernel_;
        in_kernel_ = in_kernel_ || (op->device_api == where_ && op->for_type == ForType::GPUBlock);
        Stmt result = IRMutator::visit(op);
        in_kernel_ = outside;
        return result;
    }

    Stmt visit(const Allocate *op) override {
        if (!in_kernel_) {
            return IRMutator::visit(op);
        }
        on_chip_.insert(op->name);
        Stmt result = IRMutator::visit(op);
        on_chip_.erase(op->name);
        return result;
    }

    Expr visit(const Load *op) override {
        const int bytes = chunk_of(op->name, op->type, op->index, op->predicate);
        if (bytes == 0) {
            return IRMutator::visit(op);
        }
        note(op->name, op->param.defined() || op->image.defined(), bytes);
        const int elements = bytes / op->type.bytes();
        Expr base = mutate(op->index.as<Ramp>()->base);
        std::vector<Expr> parts;
        for (int at = 0; at < op->type.lanes(); at += elements) {
            Expr index = simplify((base + at) / elements);
            Expr whole = Load::make(UInt(8 * bytes), op->name, index, op->image, op->param, const_true(),
                                    ModulusRemainder());
            parts.push_back(reinterpret(op->type.with_lanes(elements), whole));
        }
        return parts.size() == 1 ? parts[0] : Shuffle::make_concat(parts);
    }

    Stmt visit(const Store *op) override {
        const int bytes = chunk_of(op->name, op->value.type(), op->index, op->predicate);
        if (bytes == 0) {
            return IRMutator::visit(op);
        }
        note(op->name, op->param.defined(), bytes);
        const int elements = bytes / op->value.type().bytes(), lanes = op->value.type().lanes();
        Expr base = mutate(op->index.as<Ramp>()->base), value = mutate(op->value);
        const std::string name = unique_name('w');
        Expr bound = lanes == elements ? value : Variable::make(value.type(), name);
        Stmt all;
        for (int at = 0; at < lanes; at += elements) {
            Expr part = lanes == elements ? bound : Shuffle::make_slice(bound, at, 1, elements);
            Stmt store =
                Store::make(op->name, reinterpret(UInt(8 * bytes), part), simplify((base + at) / elements),
                            op->param, const_true(), ModulusRemainder());
            all = all.defined() ? Block::make(all, store) : store;
        }
        return lanes == elements ? all : LetStmt::make(name, value, all);
    }

    /// Bytes that an access takes at a time, or 0 where it stays as it is.
    int chunk_of(const std::string &buffer, const Type &type, const Expr &index, const Expr &predicate) {
        const Ramp *ramp = index.as<Ramp>();
        if (!in_kernel_ || on_chip_.count(buffer) || !ramp || !is_const_one(ramp->stride) ||
            !is_const_one(predicate) || type.is_handle() || type.is_bool()) {
            return 0;
        }
        const ModulusRemainder place = modulus_of(ramp->base);
        for (int bytes : {16, 8, 4}) {
            const int elements = bytes / type.bytes();
            if (elements > 1 && type.lanes() % elements == 0 && place.modulus % elements == 0 &&
                place.remainder % elements == 0) {
                return bytes;
            }
        }
        return 0;
    }

    /// As Halide's modulus_remainder, which stops at the conversion to 64 bits that every index has here.
    ModulusRemainder modulus_of(const Expr &e) {
        if (const Cast *cast = e.as<Cast>(); cast && cast->value.type() == Int(32) && e.type() == Int(64)) {
            return modulus_of(cast->value);
        }
        if (const Add *op = e.as<Add>()) {
            return modulus_of(op->a) + modulus_of(op->b);
        }
        if (const Sub *op = e.as<Sub>()) {
            return modulus_of(op->a) - modulus_of(op->b);
        }
        if (const Mul *op = e.as<Mul>()) {
            return modulus_of(op->a) * modulus_of(op->b);
        }
        return modulus_remainder(e, known_);
    }

    void note(const std::string &buffer, bool is_argument, int bytes) {
        if (is_argument) {
            int &least = alignment_[buffer];
            least = std::max(least, bytes);
        }
    }

    std::map<std::string, int> &alignment_;
    Scope<ModulusRemainder> known_;
    std::map<std::string, Expr> conditions_;
    std::set<std::string> on_chip_; ///< shared memory and registers of the kernel
    DeviceAPI where_;
    bool in_kernel_;
};

} // namespace

IRMutator *widen_accesses(std::map<std::string, int> *alignment, DeviceAPI where) {
    return new WidenAccesses(alignment, where);
}

} // namespace kiln
