// How a Func's storage is laid out, and what is known of its bounds.
#include "dsl/schedule/directives/Build.h"

#include <fmt/format.h>

#include <set>

namespace kiln {

using namespace entry;

namespace {

Directive store_in() {
    Directive d;
    d.name = "store_in";
    d.forms = {{of_kind("memory", ArgKind::Memory)}};
    d.doc =
        "Chooses the kind of memory: Heap, Stack, Register, on a GPU GPUShared, on `cpu amx` AMXTile: a sum "
        "of products in one tile register of AMX, at most 16 by 16 numbers.";
    d.legal = "On a Func that is computed (not inlined). Stack and Register need a constant size; GPUShared "
              "a level "
              "inside a block loop; Register a level inside the thread loops. AMXTile: the sum of a product "
              "by pairs (dsl/ops/Contraction.h), vectorized whole; see schedules/gemm/cpu_amx_bf16.sched.";
    d.errors = {"GPUShared outside of a block", "Register at block level", "more than the device has",
                "memory that no target of Kiln has: GPUTexture, LockedCache, VTCM"};
    return d;
}

Directive fold_storage() {
    Directive d;
    d.name = "fold_storage";
    d.forms = {
        {dim(), integer("extent"), with_default(of_kind("forward", ArgKind::Bool), Node::name("true"))}};
    d.doc = "Stores a dimension in a circular buffer of `extent` entries.";
    d.legal = "With a store level outside of the compute level. `extent` must cover what one iteration of "
              "the consumer "
              "reads. `forward` false: the consumer goes downwards.";
    d.before = "f: n rows";
    d.after = "f: extent rows, row y at y % extent";
    d.errors = {"no such dimension", "an extent that is too small"};
    return d;
}

Directive with_integer(const char *name, const char *what, const char *doc, const char *legal,
                       std::vector<std::string> errors) {
    Directive d;
    d.name = name;
    d.forms = {{dim(), integer(what)}};
    d.doc = doc;
    d.legal = legal;
    d.errors = std::move(errors);
    return d;
}

Directive reorder_storage() {
    Directive d;
    d.name = "reorder_storage";
    d.forms = {{rest(dim("dims"), 2)}};
    d.doc = "Stores the dimensions in this order, innermost (adjacent in memory) first.";
    d.legal = "On a Func that is computed and no output.";
    d.before = "f(x, y): x adjacent";
    d.after = "reorder_storage(y, x): y adjacent";
    d.errors = {"no such dimension", "a dimension named twice"};
    d.conflict = [](const BoundCall &b) -> std::string {
        std::set<std::string> seen;
        for (const Node &n : b.args[0].args) {
            if (!seen.insert(n.text).second) {
                return fmt::format("the dimension `{}` is named twice", n.text);
            }
        }
        return "";
    };
    return d;
}

Directive bound() {
    Directive d;
    d.name = "bound";
    Param min = integer("min");
    min.least = INT32_MIN;
    d.forms = {{dim(), min, integer("extent")}};
    d.doc = "Promises that exactly this range of the dimension is needed, which makes the loop's extent "
            "constant.";
    d.legal = "On any Func; on an output a call of another size is refused when it is made.";
    d.errors = {"no such dimension", "a range that is smaller than what is read"};
    return d;
}

Directive align_bounds() {
    Directive d;
    d.name = "align_bounds";
    d.forms = {{dim(), integer("modulus"), with_default(integer("remainder", 0), Node::integer(0))}};
    d.doc = "Computes more than is needed, so that the range starts at `remainder` and has an extent of 0, "
            "both modulo "
            "`modulus`.";
    d.legal = "On a Func that is no output.";
    d.errors = {"no such dimension"};
    d.conflict = [](const BoundCall &b) {
        return b.args[2].int_value >= b.args[1].int_value
                   ? fmt::format("the remainder {} is not below the modulus {}", b.args[2].int_value,
                                 b.args[1].int_value)
                   : "";
    };
    return d;
}

} // namespace

std::vector<Directive> storage_directives() {
    std::vector<Directive> all = {
        store_in(),
        fold_storage(),
        with_integer("align_storage", "alignment",
                     "Pads a dimension's stored extent to a multiple of `alignment`.",
                     "On a Func that is computed and no output.", {"no such dimension"}),
        with_integer("bound_storage", "extent", "Gives a dimension's storage this many entries, a constant.",
                     "On a Func that is computed; smaller than what is needed is an error at run time.",
                     {"no such dimension", "an extent that is too small"}),
        reorder_storage(),
        bound(),
        with_integer("bound_extent", "extent",
                     "Promises the extent of the dimension that is needed, not its start.", "As `bound`.",
                     {"no such dimension", "an extent that is too small"}),
        align_bounds(),
        with_integer("align_extent", "modulus",
                     "Computes more than is needed, so that the extent is a multiple of `modulus`.",
                     "On a Func that is no output.", {"no such dimension"}),
    };
    for (Directive &d : all) {
        d.family = "Storage and bounds";
        d.level = Directive::Level::Func;
    }
    return all;
}

} // namespace kiln
