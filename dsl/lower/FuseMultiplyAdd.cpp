#include "dsl/lower/FuseMultiplyAdd.h"

namespace kiln {

using namespace Halide;
using namespace Halide::Internal;

namespace {

class FuseMultiplyAdd : public IRMutator {
    using IRMutator::visit;

    Stmt visit(const For *op) override {
        const bool outside = in_opencl_;
        in_opencl_ = in_opencl_ || op->device_api == DeviceAPI::OpenCL;
        Stmt result = IRMutator::visit(op);
        in_opencl_ = outside;
        return result;
    }

    Expr visit(const Add *op) override {
        if (!in_opencl_ || op->type.element_of() != Float(32)) {
            return IRMutator::visit(op);
        }
        Expr a = mutate(op->a), b = mutate(op->b);
        if (const Mul *product = b.as<Mul>()) {
            return fma(product, a);
        }
        if (const Mul *product = a.as<Mul>()) {
            return fma(product, b);
        }
        return Add::make(a, b);
    }

    static Expr fma(const Mul *product, const Expr &sum) {
        return Call::make(sum.type(), "fma", {product->a, product->b, sum}, Call::PureExtern);
    }

    bool in_opencl_ = false;
};

} // namespace

IRMutator *fuse_multiply_add() {
    return new FuseMultiplyAdd;
}

} // namespace kiln
