#include "dsl/tile/ir/EachCall.h"

namespace kiln::tile {

using namespace Halide::Internal;

namespace {

class Visitor : public IRGraphVisitor {
public:
    explicit Visitor(const std::function<void(const Call &)> &f) : f_(f) {}

private:
    using IRGraphVisitor::visit;
    void visit(const Call *op) override {
        f_(*op);
        IRGraphVisitor::visit(op);
    }
    const std::function<void(const Call &)> &f_;
};

} // namespace

void each_call(const Halide::Expr &e, const std::function<void(const Call &)> &f) {
    Visitor v(f);
    e.accept(&v);
}

} // namespace kiln::tile
