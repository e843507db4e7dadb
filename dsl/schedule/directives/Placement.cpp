// Where a Func is computed and where its storage lives.
#include "dsl/schedule/directives/Build.h"

namespace kiln {

using namespace entry;

namespace {

Directive at_level(const char *name, const char *doc, const char *legal) {
    Directive d;
    d.name = name;
    d.forms = {{stage("consumer"), loop("loop")}};
    d.doc = doc;
    d.legal = legal;
    return d;
}

Directive plain(const char *name, const char *doc, const char *legal) {
    Directive d;
    d.name = name;
    d.forms = {{}};
    d.doc = doc;
    d.legal = legal;
    return d;
}

Directive compute_root() {
    Directive d =
        plain("compute_root", "Computes all of the Func that is needed, before anything that reads it.",
              "On any Func but an input.");
    d.before = "for y\n  for x\n    out = … f …";
    d.after = "for y\n  for x\n    f = …\nfor y\n  for x\n    out = … f …";
    d.errors = {"an input, which is computed outside"};
    return d;
}

Directive compute_inline() {
    Directive d =
        plain("compute_inline", "Computes the Func's values where they are read, which is the default.",
              "On a Func without updates that is no output.");
    d.errors = {"an output", "a Func with updates", "an extern Func"};
    return d;
}

Directive compute_at() {
    Directive d =
        at_level("compute_at", "Computes what the consumer needs of the Func in each iteration of a loop.",
                 "On a Func that is no output. All of its readers must be inside that loop. The level may "
                 "name a stage, `compute_at(acc.update(), ko)`, or be `outermost`.");
    d.before = "for y\n  for x\n    out = … f …";
    d.after = "for y\n  f for this y = …\n  for x\n    out = … f …";
    d.errors = {"an output", "no such loop in the consumer", "a reader outside of the loop",
                "a loop that is vectorized or unrolled"};
    return d;
}

Directive compute_with() {
    Directive d;
    d.name = "compute_with";
    d.forms = {
        {stage("other"), loop("loop"), with_default(of_kind("align", ArgKind::Align), Node::name("Auto"))},
        {stage("other"), loop("loop"), pairs("loop, align", ArgKind::Loop, ArgKind::Align)}};
    d.expand = [](const BoundCall &b, const FreshName &) -> std::vector<DirectiveCall> {
        Node aligns = b.form == 1 ? b.args[2] : Node::list({Node::list({b.args[1], b.args[2]})});
        return {call("compute_with", {b.args[0], b.args[1], aligns})};
    };
    d.doc = "Runs this stage's loops together with another's, from the outermost down to the named one.";
    d.legal = "Both stages are computed at the same place, neither reads the other, and their loops down to "
              "the named "
              "one have the same names and marks.";
    d.before = "for y\n  for x\n    f = …\nfor y\n  for x\n    g = …";
    d.after = "for y\n  for x\n    f = …\n  for x\n    g = …";
    d.errors = {"one reads the other", "different places", "different loops"};
    return d;
}

Directive store_at() {
    Directive d =
        at_level("store_at", "Allocates the Func's storage at a loop outside of the one that computes it.",
                 "With `compute_at` further inside the same consumer.");
    d.before = "for y\n  for x\n    allocate f, f = …";
    d.after = "for y\n  allocate f\n  for x\n    f = what is new";
    d.errors = {"a level inside of where it is computed", "a parallel loop between the two levels"};
    return d;
}

Directive hoist_storage() {
    Directive d = at_level(
        "hoist_storage", "Moves the allocation, and nothing else, to an outer loop, so that it is made once.",
        "At or outside of the Func's store level.");
    d.errors = {"a level inside of where it is stored"};
    return d;
}

Directive ring_buffer() {
    Directive d;
    d.name = "ring_buffer";
    d.forms = {{integer("extent")}};
    d.doc = "Keeps this many copies of the Func's storage and takes them in turn, so that an `async` "
            "producer may run "
            "ahead of its consumer.";
    d.legal = "With `hoist_storage` outside of the Func's store level, mostly with `async`.";
    d.errors = {"no hoist_storage"};
    return d;
}

} // namespace

std::vector<Directive> placement_directives() {
    std::vector<Directive> all = {
        compute_root(),
        compute_inline(),
        compute_at(),
        compute_with(),
        plain("store_root", "Allocates the Func's storage outside of all loops.", "With `compute_at`."),
        store_at(),
        plain("hoist_storage_root", "Moves the allocation outside of all loops.", "With `compute_at`."),
        hoist_storage(),
        plain("async", "Computes the Func on a thread of its own, ahead of its consumer.",
              "On the CPU, on a Func whose storage lives outside of where it is computed or that has a "
              "ring_buffer."),
        ring_buffer(),
    };
    for (Directive &d : all) {
        d.family = "Placement";
        d.level = d.name == "compute_with" ? Directive::Level::Stage : Directive::Level::Func;
    }
    return all;
}

} // namespace kiln
