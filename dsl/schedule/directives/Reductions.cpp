// Reductions, specializations and what else a stage may be told.
#include "dsl/schedule/directives/Build.h"

namespace kiln {

using namespace entry;

namespace {

Directive rfactor() {
    Directive d;
    d.name = "rfactor";
    d.forms = {{loop("rvar"), new_loop("var")}, {pairs("rvar, var", ArgKind::Loop, ArgKind::NewLoop)}};
    d.expand = [](const BoundCall &b, const FreshName &) -> std::vector<DirectiveCall> {
        Node list = b.form == 1 ? b.args[0] : Node::list({Node::list({b.args[0], b.args[1]})});
        return {call("rfactor", {list})};
    };
    d.doc = "Computes partial results in a new Func that has the named loops of the RDom as dimensions, and "
            "reduces "
            "those in the update.";
    d.legal = "On an update with an associative operation, as the last call, with a name for the new Func: "
              "`part = acc.update().rfactor(ko, u);`.";
    d.before = "for ko\n  for ki\n    acc += …";
    d.after = "for u\n  for ki\n    part(u) += …\nfor ko\n  acc += part(ko)";
    d.errors = {"an update that is not associative", "a loop that is not of the RDom",
                "no name for the new Func"};
    return d;
}

Directive atomic() {
    Directive d;
    d.name = "atomic";
    d.forms = {{with_default(of_kind("override", ArgKind::Bool), Node::name("false"))}};
    d.doc = "Stores of the update are atomic, so that loops of an RDom may be parallel or vectorized.";
    d.legal = "On an update with an associative operation; `override` true takes your word for it.";
    d.errors = {"the pure definition", "an update that is not associative", "an order-dependent update"};
    return d;
}

Directive allow_race_conditions() {
    Directive d;
    d.name = "allow_race_conditions";
    d.forms = {{}};
    d.doc = "Lets loops of an RDom run in parallel although iterations may store to the same place.";
    d.legal = "Where the stores are known to be the same or apart; Kiln warns of it.";
    return d;
}

Directive specialize() {
    Directive d;
    d.name = "specialize";
    d.forms = {{of_kind("condition", ArgKind::Condition)}};
    d.doc = "Makes a copy of the stage for calls in which a condition holds; the calls after it in the chain "
            "schedule "
            "that copy.";
    d.legal = "The condition is made of scalar inputs, `y.extent(x)`, `y.min(x)` and `y.stride(x)` of input "
              "and output "
              "buffers, and constants. The first condition that holds is taken.";
    d.before = "for x";
    d.after = "if (condition)\n  for x, scheduled by what follows\nelse\n  for x";
    d.errors = {"an unknown name in the condition", "a specialization after specialize_fail"};
    return d;
}

Directive specialize_fail() {
    Directive d;
    d.name = "specialize_fail";
    d.forms = {{of_kind("message", ArgKind::Text)}};
    d.doc = "Makes a call fail with this message when none of the specializations fits.";
    d.legal = "After at least one `specialize`, as the last call; no more specializations may follow.";
    d.errors = {"no specialization before it", "calls after it"};
    return d;
}

Directive prefetch() {
    Directive d;
    d.name = "prefetch";
    d.forms = {{of_kind("func", ArgKind::Func), loop("at"), loop("from"),
                with_default(integer("offset", 0), Node::integer(1)),
                with_default(of_kind("strategy", ArgKind::Prefetch), Node::name("GuardWithIf"))}};
    d.doc = "In each iteration of `at`, prefetches what the iteration of `from` that is `offset` ahead will "
            "read of a "
            "Func or input.";
    d.legal = "On the CPU; `from` is `at` or a loop outside of it.";
    d.before = "for y\n  for x\n    out = … f …";
    d.after = "for y\n  prefetch f for y + offset\n  for x\n    out = … f …";
    d.errors = {"no such loop", "a Func that the stage does not read", "`from` inside of `at`"};
    return d;
}

Directive unscheduled() {
    Directive d;
    d.name = "unscheduled";
    d.forms = {{}};
    d.doc = "Says that a stage has no schedule on purpose, which silences the warning about it.";
    d.legal = "As the only directive of its stage.";
    d.errors = {"a stage that has other directives"};
    return d;
}

} // namespace

std::vector<Directive> reduction_directives() {
    std::vector<Directive> all = {rfactor(),    atomic(),          allow_race_conditions(),
                                  specialize(), specialize_fail(), prefetch(),
                                  unscheduled()};
    for (Directive &d : all) {
        d.family = "Reductions and specializations";
    }
    return all;
}

} // namespace kiln
