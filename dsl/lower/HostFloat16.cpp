#include "dsl/lower/HostFloat16.h"

#include "dsl/lower/LegalizeStorage.h"

namespace kiln {

using namespace Halide;
using namespace Halide::Internal;

namespace {

class ConvertOnHost : public IRMutator {
    using IRMutator::visit;

    Stmt visit(const For *op) override {
        if (op->for_type == ForType::GPUBlock || op->for_type == ForType::GPUThread) {
            return op;
        }
        return IRMutator::visit(op);
    }

    Expr visit(const Cast *op) override {
        const Type f16 = Float(16, op->type.lanes()), f32 = Float(32, op->type.lanes());
        if (op->type == f16 && op->value.type() == f32) {
            return reinterpret(f16, bits_from_float(mutate(op->value), Float(16)));
        }
        if (op->type == f32 && op->value.type() == f16) {
            return float_from_bits(reinterpret(UInt(16, op->type.lanes()), mutate(op->value)), Float(16));
        }
        return IRMutator::visit(op);
    }
};

} // namespace

IRMutator *convert_float16_on_host() {
    return new ConvertOnHost;
}

} // namespace kiln
