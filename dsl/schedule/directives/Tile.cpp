// Tile kernels: a Func and all that is computed inside its blocks become one kernel for tensor cores.
#include "dsl/schedule/directives/Build.h"

#include <fmt/format.h>

namespace kiln {

using namespace entry;

namespace {

Param word(std::string name, std::vector<std::string> words) {
    Param p = of_kind(std::move(name), ArgKind::Word);
    p.words = std::move(words);
    return p;
}

Param at_most(Param p, int64_t most) {
    p.most = most;
    return p;
}

Param integer_or(std::string name, int64_t value, int64_t least = 1) {
    return with_default(integer(std::move(name), least), Node::integer(value));
}

Directive entry_of(const char *name, std::vector<Form> forms, const char *doc, const char *legal,
                   std::vector<std::string> errors) {
    Directive d;
    d.name = name;
    d.forms = std::move(forms);
    d.doc = doc;
    d.legal = legal;
    d.errors = std::move(errors);
    return d;
}

Directive on_kernel(const char *name, std::vector<Form> forms, const char *doc, const char *legal,
                    std::vector<std::string> errors = {}) {
    Directive d = entry_of(name, std::move(forms), doc, legal, std::move(errors));
    d.level = Directive::Level::Func;
    d.errors.insert(d.errors.begin(), "a Func that is no `tile_kernel`");
    return d;
}

Directive on_copy(const char *name, std::vector<Form> forms, const char *doc, const char *legal,
                  std::vector<std::string> errors = {}) {
    Directive d = entry_of(name, std::move(forms), doc, legal, std::move(errors));
    d.level = Directive::Level::Func;
    d.errors.insert(d.errors.begin(), "anything but a wrapper in GPUShared inside a tile kernel");
    return d;
}

Directive tile_kernel() {
    Directive d = entry_of(
        "tile_kernel", {{}, {of_kind("with", ArgKind::Func)}},
        "Makes one kernel of the Func and of all that is computed inside its block loops; with a "
        "Func: computes this output "
        "in the kernel of that one.",
        "On targets cuda and opencl, on a Func with block loops, each split off by a constant; its other "
        "loops are the tile. Inside, "
        "accumulators are stored in Register at the block loop, wrappers of inputs in GPUShared at "
        "the loop that fills them, "
        "and no loop has threads.",
        {"no block loop", "thread loops inside", "a Func that is computed inside another kernel",
         "what no kernel can be made of: the message names the definition"});
    d.level = Directive::Level::Func;
    d.before = "gpu_block mo\n  gpu_block no\n    for mi\n      for ni";
    d.after = "gpu_block mo\n  gpu_block no\n    tile mi, ni";
    return d;
}

Directive mma() {
    return entry_of(
        "mma",
        {{word("kind", {"wgmma", "mma_sync", "fma"}),
          with_default(word("precision", {"exact", "tf32"}), Node::name("exact"))}},
        "Says how a sum of products is multiplied: by wgmma (sm_90a), by mma.sync (sm_80), or by "
        "multiply-adds. "
        "Its loops inside the tile become innermost; what the RVar was split into stays around them.",
        "On an update inside a tile kernel that is a sum over one RVar of a product of two operands. wgmma: "
        "16-bit "
        "floats of one type, or float32 with tf32; 64 rows for each consumer, columns a multiple of 8 up to "
        "256. "
        "Left out: wgmma where the operands are 16-bit floats, else fma.",
        {"an update that is no such sum", "operands of other types",
         "rows that are no multiple of 64 for each "
         "consumer",
         "columns that are no multiple of 8, or more than 256", "wgmma on another target than sm_90a"});
}

Directive pipeline_stage() {
    return entry_of(
        "pipeline_stage", {{at_most(integer("stage", 0), 1)}},
        "Puts a product into stage 1 of its loop's pipeline: it runs under stage 0 of the next iteration.",
        "On a product in a loop of a tile kernel that carries its result. Left out: stage 0.",
        {"no product", "a loop without another product"});
}

Directive whole() {
    return entry_of("whole", {{loop(), integer("size")}},
                    "Lets one tile span a whole dimension: the loop runs at most `size` times, what lies "
                    "past its end is left "
                    "out of sums and stores. A call with a longer one is refused.",
                    "Inside a tile kernel, on a Var of its output or an RVar that is not split.",
                    {"no such loop", "a loop that is split"});
}

Directive split_reduce() {
    return entry_of("split_reduce", {{at_most(integer("parts", 2), 64)}},
                    "Deals the loop around a sum to `parts` blocks. Each stores what its share comes to in a "
                    "workspace of the launch; "
                    "the last to end adds up all shares in the order of the loop, so that results repeat bit "
                    "for bit, and does what "
                    "follows the sum.",
                    "Inside a tile kernel, on an update whose RVar is split by a constant: a sum of "
                    "products, any sum, product, "
                    "maximum or minimum, or the update of a Tuple that reads one value of an iteration for "
                    "each component and is "
                    "associative so, as a running maximum with the sum against it. Several sums of one "
                    "kernel take as many parts. "
                    "Not with `dynamic` or `cluster`. Left out: one block runs the whole loop.",
                    {"no loop of the block's own around the tile",
                     "a loop behind it that copies into shared memory",
                     "an update that is not associative: with an example"});
}

Directive lag() {
    return entry_of(
        "lag", {{at_most(integer("bits", 1), 64)}},
        "Lets a running maximum stay behind the true one by up to 2^bits in what is taken relative to it: "
        "what is carried is rescaled only where it would fall further behind, and most iterations "
        "rescale nothing.",
        "On an update inside a tile kernel that carries a maximum and what is taken relative to it, as "
        "a blocked softmax does. Outputs are the same but for rounding: sums grow by up to 2^bits. Left "
        "out: everything is rescaled in every iteration.",
        {"an update that carries no such maximum"});
}

Directive copy() {
    return on_copy(
        "copy", {{word("kind", {"tma", "cp_async", "plain"})}},
        "Says how the wrapped buffer comes into shared memory: by the TMA, by cp.async, or by loads and "
        "stores.",
        "tma: target sm_90a, every stride but dimension 0's and the base a multiple of 16 bytes, at most 5 "
        "dimensions, "
        "blocks of at most 256 along each. Left out: tma on sm_90a, cp_async on sm_80, else plain.",
        {"tma on another target than sm_90a", "a block of more than 256 along a dimension"});
}

Directive swizzle() {
    Directive d = on_copy(
        "swizzle", {{integer("bytes", 0)}},
        "Spreads the rows of the tile over the banks of shared memory: 16-byte chunks are exchanged inside "
        "spans of 128, 64 or 32 bytes; 0 leaves them in place.",
        "The tile's extent along dimension 0 must fill whole spans. Left out: 128.",
        {"a span of another size"});
    d.conflict = [](const BoundCall &b) -> std::string {
        const int64_t v = b.args[0].int_value;
        return v == 0 || v == 32 || v == 64 || v == 128
                   ? ""
                   : fmt::format("a swizzle of {} bytes; there are 0, 32, 64 and 128", v);
    };
    return d;
}

Directive stages() {
    return on_copy("stages", {{at_most(integer("count"), 16)}},
                   "Gives the ring of the wrapper `count` slots: so many iterations are loaded ahead.",
                   "The slots of all rings must fit in shared memory. Left out: as many as fit, at most 8.",
                   {"more shared memory than the device has: with both numbers"});
}

Directive multicast() {
    return on_copy(
        "multicast", {{}},
        "Loads what several blocks of a cluster read the same once: each loads an equal part of the rows "
        "into all of them.",
        "With `cluster` on the kernel, copy(tma) and a producer. Blocks along a loop that the copy does not "
        "depend on read the same; their number divides the rows of the tile, and they run their loops "
        "equally often.",
        {"no cluster", "a copy that each block reads elsewhere", "rows that the blocks do not divide",
         "loops whose bounds depend on the block"});
}

Directive cluster() {
    return on_kernel(
        "cluster", {{at_most(integer("x"), 16), at_most(integer_or("y", 1), 16)}},
        "Launches blocks in clusters of x neighbours along the first block loop times y along the second, "
        "which share the copies that are marked `multicast`. Clusters at the end are filled up with blocks "
        "that store nothing.",
        "Target sm_90a; x · y at most what the device allows; not with `dynamic`.",
        {"more blocks than a cluster may have", "y without a second block loop", "`dynamic`"});
}

Directive spread() {
    return on_kernel(
        "spread", {{dim("var"), at_most(integer("blocks", 2), 16)}},
        "Spreads the tile over the `blocks` blocks of a cluster: each holds an equal part of its dimension "
        "`var`, and what is reduced along it meets in the shared memory of all of them.",
        "Target sm_90a, on a Var that one tile spans (`whole`), in a kernel without products.",
        {"more blocks than a cluster may have", "a Var that is split into blocks",
         "an extent that the blocks do not divide", "`cluster`, `dynamic` or a product beside it"});
}

Directive persistent() {
    return on_kernel("persistent", {{integer_or("group", 8)}},
                     "Launches as many blocks as run at once, each of which takes tile after tile, in groups "
                     "of `group` along the "
                     "second block loop.",
                     "On a tile kernel. Left out: one block a tile.");
}

Directive warpgroups() {
    return on_kernel(
        "warpgroups",
        {{at_most(integer_or("consumers", 2), 7), at_most(integer_or("producers", 1, 0), 1),
          with_default(dim("rows"), Node::name("Auto"))}},
        "Divides the block into warpgroups of 128 threads: `consumers` compute, `producers` issue the "
        "copies. The tile's rows, "
        "those of `rows`, are dealt to the consumers.",
        "`rows` is a Var of the output whose axis is in one operand of each product. Auto: the last Var "
        "whose tile does not "
        "span the whole dimension. Left out: 2 consumers, and a producer where something is copied.",
        {"more threads than a block may have", "rows that the consumers do not divide"});
}

Directive registers() {
    Directive d = on_kernel(
        "registers", {{at_most(integer("consumer", 24), 240), at_most(integer_or("producer", 40, 24), 240)}},
        "Registers of a thread that computes and of one that copies (setmaxnreg); without a producer the "
        "most that a "
        "thread may take, so that more blocks share a multiprocessor.",
        "Multiples of 8; together at most the registers of a multiprocessor. Left out: 232 and 40 with two "
        "consumers, 160 and "
        "32 with three.",
        {"no multiple of 8", "more registers than there are: with both numbers",
         "fewer than the accumulators need"});
    d.conflict = [](const BoundCall &b) -> std::string {
        for (size_t i = 0; i < 2; i++) {
            if (b.args[i].int_value % 8 != 0) {
                return fmt::format("{} registers; setmaxnreg takes multiples of 8", b.args[i].int_value);
            }
        }
        return "";
    };
    return d;
}

Directive ping_pong() {
    return on_kernel(
        "ping_pong", {{with_default(word("what", {"tiles", "products"}), Node::name("tiles"))}},
        "Lets the consumers take turns. tiles: they take whole tiles, one stores while the other multiplies. "
        "products: they share each tile, and one issues the products of an iteration while the others "
        "compute "
        "what comes between products.",
        "tiles: with two consumers; each holds a whole tile. products: with a product of pipeline_stage(1). "
        "Left out: the consumers share each tile and go as they come.",
        {"tiles with another number of consumers than 2", "products where no product has pipeline_stage(1)"});
}

Directive epilogue() {
    return on_kernel(
        "epilogue", {{word("kind", {"staged", "direct"})}},
        "Says how outputs of 16 bits leave: staged in shared memory, from where the TMA takes them, or "
        "element by element "
        "straight from registers, which takes outputs of any base and strides.",
        "On a tile kernel. Left out: staged, where the kernel has a product by wgmma and a producer.");
}

Directive dynamic() {
    return on_kernel("dynamic", {{}},
                     "Hands tiles out by a counter, not by turns: for tiles of unequal work.",
                     "With `persistent`.", {"no `persistent`"});
}

Directive launch_ahead() {
    return on_kernel(
        "launch_ahead", {{}},
        "Starts the kernel while the one before it on the stream still ends, and waits before it reads "
        "(programmatic dependent launch).",
        "Target sm_90a.");
}

Directive slow_warp() {
    Directive d = on_kernel(
        "slow_warp", {{integer("warp", 0)}},
        "Lets one warp sleep for a microsecond before it waits, loads, stores or gives back, so that a "
        "barrier or fence that is missing shows in the results: a test of the compiler, which changes no "
        "result of a kernel that is right.",
        "Warps are counted through the block, the consumers' first. Left out: none sleeps.");
    return d;
}

} // namespace

std::vector<Directive> tile_directives() {
    std::vector<Directive> all = {tile_kernel(), mma(),     pipeline_stage(), whole(),      split_reduce(),
                                  lag(),         copy(),    swizzle(),        stages(),     multicast(),
                                  cluster(),     spread(),  persistent(),     warpgroups(), registers(),
                                  ping_pong(),   dynamic(), launch_ahead(),   epilogue(),   slow_warp()};
    for (Directive &d : all) {
        d.family = "Tile kernels";
    }
    return all;
}

} // namespace kiln
