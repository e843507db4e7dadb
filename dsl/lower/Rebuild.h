/** \file
 * A copy of a Func graph with its Exprs and element types rewritten. Function::mutate alone cannot change
 * what a Func stores (a Func keeps its type), so every Func is defined anew, producers first: names, pure and
 * update definitions, reduction domains with their predicates, Tuples, extern stages, parameters with
 * constraints and estimates, and whatever schedule was set in C++.
 */
#pragma once

#include <Halide.h>

#include <map>
#include <set>
#include <string>
#include <vector>

namespace kiln {

/// Derive, override what changes, call rebuild() for each output and parameter, then rebuild_constraints().
/// One object serves one pipeline.
class GraphRebuild : public Halide::Internal::IRMutator {
public:
    /// The new Function of `old`; the same one at every call.
    Halide::Internal::Function rebuild(const Halide::Internal::Function &old);
    /// The same for a constant buffer that is handed to a stage.
    Halide::Buffer<> rebuild(const Halide::Buffer<> &old);
    /// The new parameter of `old`, with the buffer or value bound to it where its type stays.
    Halide::Parameter rebuild(const Halide::Parameter &old);
    /// Constraints may name any other parameter, outputs too: they are copied when all of them exist.
    void rebuild_constraints();
    /// Levels of schedules set in C++ name Funcs, whose names may have lost a `$1`: call this last.
    void rename_levels();

    /// Every new Function by name, with the old one beside it.
    struct Entry {
        Halide::Internal::Function before, after;
    };
    const std::map<std::string, Entry> &functions() const { return by_name_; }

    using IRMutator::mutate;

protected:
    /// The type in which values of `type` are stored.
    virtual Halide::Type stored(const Halide::Type &type) { return type; }
    /// The value of a stored element that the user wrote as `type`; only called where stored() differs.
    virtual Halide::Expr load(const Halide::Expr &element, const Halide::Type &type) { return element; }
    /// The element to store for a rewritten value of `type`; only called where stored() differs.
    virtual Halide::Expr store(const Halide::Expr &value, const Halide::Type &type) { return value; }
    /// A last change to each whole Expr. `in_update_of` is the Function whose update it belongs to, or
    /// undefined.
    virtual Halide::Expr finish(const Halide::Expr &e, const Halide::Internal::Function &in_update_of) {
        return e;
    }

    /// Gives `now` another definition than `old`'s; false: it gets that. What only `old` reads is left out then.
    virtual bool replace(const Halide::Internal::Function &old, Halide::Internal::Function &now) {
        return false;
    }

    using IRMutator::visit;
    Halide::Expr visit(const Halide::Internal::Call *op) override;
    Halide::Expr visit(const Halide::Internal::Variable *op) override;

private:
    Halide::Expr whole(const Halide::Expr &e);
    std::vector<Halide::Expr> stored_values(const std::vector<Halide::Expr> &values,
                                            const std::vector<Halide::Type> &types);
    void rebuild_definitions(const Halide::Internal::Function &old, Halide::Internal::Function &now);
    void rebuild_extern(const Halide::Internal::Function &old, Halide::Internal::Function &now);
    void copy_schedules(const Halide::Internal::Function &old, Halide::Internal::Function &now);
    void copy_value(const Halide::Parameter &old, Halide::Parameter &now);
    void copy_constraints(const Halide::Parameter &old, Halide::Parameter now);
    Halide::Internal::ReductionDomain rebuild(const Halide::Internal::ReductionDomain &old);

    std::map<const void *, Halide::Internal::Function> functions_;
    std::map<std::string, Entry> by_name_;
    std::map<std::string, Halide::Parameter> parameters_;
    std::vector<std::pair<Halide::Parameter, Halide::Parameter>> without_constraints_;
    std::map<std::string, Halide::Buffer<>> images_;
    std::map<Halide::Internal::ReductionDomain, Halide::Internal::ReductionDomain,
             Halide::Internal::ReductionDomain::Compare>
        domains_;
    std::map<Halide::Internal::FunctionPtr, Halide::Internal::FunctionPtr> pointers_;
    Halide::Internal::Function in_update_of_;
};

/// The name without the `$1` that Halide appends when a name is used twice in one process.
std::string base_name(const std::string &name);

} // namespace kiln
