#include "dsl/tile/build/Depends.h"

namespace kiln::tile {

using namespace Halide::Internal;

namespace {

class Finder : public IRVisitor {
public:
    Finder(Dependence &depends, const std::string &var) : depends_(depends), var_(var) {}
    bool found = false;

private:
    using IRVisitor::visit;
    void visit(const Variable *op) override { found |= op->name == var_; }
    void visit(const Call *op) override {
        if (op->call_type != Call::Halide) {
            IRVisitor::visit(op);
            return;
        }
        for (size_t d = 0; d < op->args.size() && !found; d++) {
            found =
                expr_uses_var(op->args[d], var_) && depends_.on(Function(op->func), op->value_index, int(d));
        }
    }
    Dependence &depends_;
    const std::string &var_;
};

} // namespace

bool Dependence::on(const Function &f, int c, int d) {
    const Question q{f.name(), c, d};
    if (auto it = known_.find(q); it != known_.end()) {
        return it->second;
    }
    if (!f.has_pure_definition() && !f.has_update_definition()) {
        return true; // an extern stage or an input
    }
    if (!asking_.insert(q).second) {
        return false; // a Func that reads itself depends on what its other terms do
    }
    Finder finder(*this, f.args()[d]);
    auto look = [&](const Definition &definition) {
        substitute_in_all_lets(definition.values()[c]).accept(&finder);
        for (const Halide::Expr &p : definition.split_predicate()) {
            substitute_in_all_lets(p).accept(&finder);
        }
    };
    look(f.definition());
    for (const Definition &u : f.updates()) {
        look(u);
    }
    asking_.erase(q);
    // An answer that rests on a question still open is not final, unless it is yes.
    if (finder.found || asking_.empty()) {
        known_[q] = finder.found;
    }
    return finder.found;
}

} // namespace kiln::tile
