// Splitting, ordering and marking loops.
#include "dsl/schedule/directives/Build.h"

#include <fmt/format.h>

#include <set>

namespace kiln {

using namespace entry;

namespace entry {

std::vector<DirectiveCall> tile_calls(const std::vector<Node> &previous, const std::vector<Node> &outers,
                                      const std::vector<Node> &inners, const std::vector<Node> &factors,
                                      const std::vector<Node> &tails) {
    std::vector<DirectiveCall> out;
    std::vector<Node> order = inners;
    order.insert(order.end(), outers.begin(), outers.end());
    for (size_t i = 0; i < previous.size(); i++) {
        out.push_back(call("split", {previous[i], outers[i], inners[i], factors[i], tails[i]}));
    }
    out.push_back(call("reorder", std::move(order)));
    return out;
}

} // namespace entry

namespace {

/// vectorize(x, 8): split, then the mark on the inner loop, or for parallel on the outer one.
auto split_and_mark(const char *name, const char *suffix, bool marks_inner) {
    return [=](const BoundCall &bound, const FreshName &fresh) -> std::vector<DirectiveCall> {
        const Node &x = bound.args[0];
        if (bound.form == 0) {
            return {call(name, {x})};
        }
        Node inner = Node::name(fresh(x.text, suffix));
        return {call("split", {x, x, inner, bound.args[1], bound.args[2]}),
                call(name, {marks_inner ? inner : x})};
    };
}

std::string repeated(const std::vector<Node> &names, const char *what) {
    std::set<std::string> seen;
    for (const Node &n : names) {
        if (!seen.insert(n.text).second) {
            return fmt::format("the {} `{}` is named twice", what, n.text);
        }
    }
    return "";
}

Directive split() {
    Directive d;
    d.name = "split";
    d.forms = {{loop("old"), new_loop("outer"), new_loop("inner"), integer("factor"), tail()}};
    d.doc = "Splits a loop into an outer loop and an inner one of `factor` iterations.";
    d.legal =
        "On any loop of the stage that is not vectorized or unrolled yet. `outer` or `inner` may be the old "
        "name. "
        "`tail` says what happens where `factor` does not divide the extent; on a loop of an RDom it must be "
        "GuardWithIf, Predicate or Auto.";
    d.before = "for x in [0, n)";
    d.after = "for xo in [0, ceil(n / factor))\n  for xi in [0, factor)";
    d.errors = {"no such loop", "a new name that a loop of the stage has", "a tail that changes the result"};
    d.conflict = [](const BoundCall &b) {
        return b.args[1].text == b.args[2].text
                   ? fmt::format("the outer and the inner loop are both named `{}`", b.args[1].text)
                   : "";
    };
    return d;
}

Directive fuse() {
    Directive d;
    d.name = "fuse";
    d.forms = {{loop("inner"), loop("outer"), new_loop("fused")}};
    d.doc = "Makes one loop of two that stand directly inside each other.";
    d.legal = "`inner` must be directly inside `outer`, and both loops of an RDom or neither.";
    d.before = "for y in [0, m)\n  for x in [0, n)";
    d.after = "for f in [0, m * n)";
    d.errors = {"no such loop", "loops that are not neighbours"};
    d.conflict = [](const BoundCall &b) {
        return b.args[0].text == b.args[1].text
                   ? fmt::format("`{}` cannot be fused with itself", b.args[0].text)
                   : "";
    };
    return d;
}

Directive reorder() {
    Directive d;
    d.name = "reorder";
    d.forms = {{rest(loop("loops"), 2)}};
    d.doc = "Nests the named loops in this order, innermost first; loops not named keep their places.";
    d.legal = "Loops of an RDom may change their order only where the update allows it.";
    d.before = "for y\n  for x";
    d.after = "for x\n  for y";
    d.errors = {"no such loop", "a loop named twice", "an order that changes the result"};
    d.conflict = [](const BoundCall &b) { return repeated(b.args[0].args, "loop"); };
    return d;
}

Directive rename() {
    Directive d;
    d.name = "rename";
    d.forms = {{loop("old"), new_loop("name")}};
    d.doc = "Gives a loop another name.";
    d.legal = "On any loop of the stage.";
    d.before = "for x";
    d.after = "for name";
    d.errors = {"no such loop", "a name that a loop of the stage has"};
    return d;
}

Directive serial() {
    Directive d;
    d.name = "serial";
    d.forms = {{loop()}};
    d.doc = "Runs the loop's iterations one after another, which is what a loop does unless it is marked.";
    d.legal = "On any loop of the stage.";
    d.errors = {"no such loop"};
    return d;
}

Directive parallel() {
    Directive d;
    d.name = "parallel";
    d.forms = {{loop()}, {loop(), integer("task"), tail()}};
    d.expand = split_and_mark("parallel", "t", false);
    d.doc = "Runs the loop's iterations on the thread pool; with `task`, that many consecutive ones are one "
            "task.";
    d.legal = "On the CPU, on a loop whose iterations are independent: a Var, or an RVar under `atomic`.";
    d.before = "for y in [0, n)";
    d.after = "parallel y in [0, ceil(n / task))\n  for yt in [0, task)";
    d.errors = {"no such loop", "a loop that carries a reduction", "a tail that stores twice"};
    return d;
}

Directive vectorize() {
    Directive d;
    d.name = "vectorize";
    d.forms = {{loop()}, {loop(), integer("factor"), tail()}};
    d.expand = split_and_mark("vectorize", "v", true);
    d.doc = "Turns the loop into vector instructions; with `factor`, splits it first and vectorizes the "
            "inner part.";
    d.legal = "On a loop of constant extent that holds no other vectorized loop's producer; over an RVar "
              "only under "
              "`atomic`.";
    d.before = "for x in [0, n)";
    d.after = "for x in [0, ceil(n / factor))\n  vectorized xv in [0, factor)";
    d.errors = {"no such loop", "an extent that is not constant", "an RVar without `atomic`"};
    return d;
}

Directive unroll() {
    Directive d;
    d.name = "unroll";
    d.forms = {{loop()}, {loop(), integer("factor"), tail()}};
    d.expand = split_and_mark("unroll", "u", true);
    d.doc = "Writes the loop's iterations out; with `factor`, splits it first and unrolls the inner part.";
    d.legal = "On a loop of constant extent.";
    d.before = "for x in [0, n)";
    d.after = "for x in [0, ceil(n / factor))\n  unrolled xu in [0, factor)";
    d.errors = {"no such loop", "an extent that is not constant"};
    return d;
}

Directive tile() {
    Directive d;
    d.name = "tile";
    d.forms = {{loop("x"), loop("y"), new_loop("xo"), new_loop("yo"), new_loop("xi"), new_loop("yi"),
                integer("xfactor"), integer("yfactor"), tail()},
               {loop("x"), loop("y"), new_loop("xi"), new_loop("yi"), integer("xfactor"), integer("yfactor"),
                tail()},
               {list(loop("previous")), list(new_loop("outers")), list(new_loop("inners")),
                list(integer("factors")), tail()},
               {list(loop("previous")), list(new_loop("outers")), list(new_loop("inners")),
                list(integer("factors")), list(of_kind("tails", ArgKind::Tail))},
               {list(loop("previous")), list(new_loop("inners")), list(integer("factors")), tail()}};
    d.conflict = [](const BoundCall &b) -> std::string {
        for (const Node &arg : b.args) {
            if (arg.kind == Node::Kind::List && arg.args.size() != b.args[0].args.size()) {
                return fmt::format("the lists have {} and {} entries, one for each dimension is needed",
                                   b.args[0].args.size(), arg.args.size());
            }
        }
        return b.args[0].kind == Node::Kind::List && b.args[0].args.size() < 2
                   ? "a tile has at least two dimensions"
                   : "";
    };
    d.expand = [](const BoundCall &b, const FreshName &) {
        const std::vector<Node> &a = b.args;
        switch (b.form) {
        case 0:
            return tile_calls({a[0], a[1]}, {a[2], a[3]}, {a[4], a[5]}, {a[6], a[7]}, {a[8], a[8]});
        case 1:
            return tile_calls({a[0], a[1]}, {a[0], a[1]}, {a[2], a[3]}, {a[4], a[5]}, {a[6], a[6]});
        case 2:
            return tile_calls(a[0].args, a[1].args, a[2].args, a[3].args,
                              std::vector<Node>(a[0].args.size(), a[4]));
        case 3:
            return tile_calls(a[0].args, a[1].args, a[2].args, a[3].args, a[4].args);
        default:
            return tile_calls(a[0].args, a[0].args, a[1].args, a[2].args,
                              std::vector<Node>(a[0].args.size(), a[3]));
        }
    };
    d.doc = "Splits several loops and nests the inner parts inside the outer ones.";
    d.legal = "As `split` and `reorder`.";
    d.before = "for y\n  for x";
    d.after = "for yo\n  for xo\n    for yi in [0, yfactor)\n      for xi in [0, xfactor)";
    d.errors = {"as split and reorder", "lists of different lengths"};
    return d;
}

Directive partition() {
    Directive d;
    d.name = "partition";
    d.forms = {{loop(), of_kind("policy", ArgKind::Partition)}};
    d.doc = "Says whether Halide may cut the loop into a steady part without boundary tests and its ends.";
    d.legal = "On any loop of the stage.";
    d.errors = {"no such loop", "`Always` on a loop that cannot be cut"};
    return d;
}

Directive partition_each(const char *name, const char *policy, const char *doc) {
    Directive d;
    d.name = name;
    d.forms = {{rest(loop("loops"))}};
    d.expand = [=](const BoundCall &b, const FreshName &) {
        std::vector<DirectiveCall> out;
        for (const Node &l : b.args[0].args) {
            out.push_back(call("partition", {l, Node::name(policy)}));
        }
        return out;
    };
    d.doc = doc;
    d.legal = "On any loops of the stage.";
    d.errors = {"no such loop"};
    return d;
}

Directive partition_all(const char *name, const char *doc) {
    Directive d;
    d.name = name;
    d.forms = {{}};
    d.doc = doc;
    d.legal = "Counts for the loops that the stage has at this point.";
    return d;
}

} // namespace

std::vector<Directive> loop_directives() {
    std::vector<Directive> all = {
        split(),
        fuse(),
        reorder(),
        tile(),
        rename(),
        serial(),
        parallel(),
        vectorize(),
        unroll(),
        partition(),
        partition_each("never_partition", "Never",
                       "Cuts none of these loops into a steady part and its ends."),
        partition_each("always_partition", "Always",
                       "Cuts each of these loops, also inside the ends of outer ones."),
        partition_all("never_partition_all", "`never_partition` for all loops of the stage."),
        partition_all("always_partition_all", "`always_partition` for all loops of the stage."),
    };
    for (Directive &d : all) {
        d.family = "Loops";
    }
    return all;
}

} // namespace kiln
