// Mapping loops to blocks, threads and lanes of a GPU.
#include "dsl/schedule/directives/Build.h"

namespace kiln {

using namespace entry;

namespace {

std::vector<DirectiveCall> joined(std::vector<DirectiveCall> a, std::vector<DirectiveCall> b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
}

std::vector<Node> slice(const std::vector<Node> &nodes, size_t first, size_t count) {
    return {nodes.begin() + static_cast<std::ptrdiff_t>(first),
            nodes.begin() + static_cast<std::ptrdiff_t>(first + count)};
}

Directive mark(const char *name, const char *doc, const char *legal) {
    Directive d;
    d.name = name;
    d.forms = {{rest(loop("loops"), 1, 3)}};
    d.expand = [name = d.name](const BoundCall &b, const FreshName &) {
        return for_each_loop(name, b.args[0].args);
    };
    d.doc = doc;
    d.legal = legal;
    return d;
}

Directive gpu_blocks() {
    Directive d = mark("gpu_blocks", "Maps up to three loops to the blocks of a grid.",
                       "On targets cuda and opencl, on the outermost loops of the stage.");
    d.before = "for y\n  for x";
    d.after = "gpu_block y\n  gpu_block x";
    d.errors = {"no such loop", "more than three block loops in one nest", "block loops inside block loops",
                "a serial loop outside of a block loop's neighbours"};
    return d;
}

Directive gpu_threads() {
    Directive d =
        mark("gpu_threads", "Maps up to three loops to the threads of a block.",
             "On targets cuda and opencl, inside block loops of the stage or of the stage it is computed in; "
             "the extents multiply to the device's limit at most.");
    d.before = "for yi\n  for xi";
    d.after = "gpu_thread yi\n  gpu_thread xi";
    d.errors = {"no such loop", "no block loop around", "more threads than the device allows",
                "a loop that carries a reduction"};
    return d;
}

Directive gpu_lanes() {
    Directive d;
    d.name = "gpu_lanes";
    d.forms = {{loop()}};
    d.doc = "Maps a loop to the lanes of a warp, which run in lockstep and may exchange registers.";
    d.legal = "On target cuda, on a loop of at most 32 iterations inside block loops.";
    d.before = "for xi in [0, 32)";
    d.after = "gpu_lane xi in [0, 32)";
    d.errors = {"no such loop", "an extent above 32", "a target that has no lanes"};
    return d;
}

Directive gpu_single_thread() {
    Directive d;
    d.name = "gpu_single_thread";
    d.forms = {{}};
    d.doc =
        "Runs the stage on the device in one block of one thread, which keeps a small stage's data there.";
    d.legal = "On targets cuda and opencl, on a stage that has no GPU loops.";
    d.after = "gpu_block (1)\n  gpu_thread (1)\n    the loops of the stage";
    d.errors = {"a stage that has GPU loops"};
    return d;
}

Directive gpu() {
    Directive d;
    d.name = "gpu";
    d.forms = {{loop("bx"), loop("tx")},
               {loop("bx"), loop("by"), loop("tx"), loop("ty")},
               {loop("bx"), loop("by"), loop("bz"), loop("tx"), loop("ty"), loop("tz")}};
    d.expand = [](const BoundCall &b, const FreshName &) {
        size_t n = b.args.size() / 2;
        return joined(for_each_loop("gpu_blocks", slice(b.args, 0, n)),
                      for_each_loop("gpu_threads", slice(b.args, n, n)));
    };
    d.doc = "Maps the first half of the loops to blocks and the second to threads.";
    d.legal = "As `gpu_blocks` and `gpu_threads`.";
    d.errors = {"as gpu_blocks and gpu_threads"};
    return d;
}

/// Dimensions of each form of gpu_tile, and whether it names the outer loops.
struct TileForm {
    size_t dimensions;
    bool names_outer;
};
const TileForm tile_forms[] = {{1, true}, {1, false}, {2, true}, {2, false}, {3, true}, {3, false}};

Directive gpu_tile() {
    Directive d;
    d.name = "gpu_tile";
    const char *axes[] = {"x", "y", "z"};
    for (const TileForm &form : tile_forms) {
        Form params;
        auto add = [&](const char *prefix, const char *suffix, Param (*make)(std::string)) {
            for (size_t i = 0; i < form.dimensions; i++) {
                params.push_back(make(std::string(prefix) + axes[i] + suffix));
            }
        };
        add("", "", loop);
        if (form.names_outer) {
            add("b", "", new_loop);
        }
        add("t", "", new_loop);
        add("", "_size", [](std::string name) { return integer(std::move(name)); });
        params.push_back(tail());
        d.forms.push_back(std::move(params));
    }
    d.expand = [](const BoundCall &b, const FreshName &) {
        const TileForm &form = tile_forms[b.form];
        size_t n = form.dimensions, groups = form.names_outer ? 2 : 1;
        std::vector<Node> previous = slice(b.args, 0, n);
        std::vector<Node> outers = form.names_outer ? slice(b.args, n, n) : previous;
        std::vector<Node> inners = slice(b.args, groups * n, n);
        std::vector<Node> factors = slice(b.args, (groups + 1) * n, n);
        std::vector<DirectiveCall> out =
            tile_calls(previous, outers, inners, factors, std::vector<Node>(n, b.args.back()));
        if (n == 1) {
            out.pop_back(); // one split leaves the order as it should be
        }
        return joined(std::move(out),
                      joined(for_each_loop("gpu_blocks", outers), for_each_loop("gpu_threads", inners)));
    };
    d.doc = "Tiles one to three loops and maps the tiles to blocks and their insides to threads.";
    d.legal = "As `split`, `gpu_blocks` and `gpu_threads`.";
    d.before = "for y\n  for x";
    d.after =
        "gpu_block by\n  gpu_block bx\n    gpu_thread ty in [0, y_size)\n      gpu_thread tx in [0, x_size)";
    d.errors = {"as split, gpu_blocks and gpu_threads"};
    return d;
}

} // namespace

std::vector<Directive> gpu_directives() {
    std::vector<Directive> all = {gpu_blocks(), gpu_threads(),       gpu_lanes(),
                                  gpu(),        gpu_single_thread(), gpu_tile()};
    for (Directive &d : all) {
        d.family = "GPU";
    }
    return all;
}

} // namespace kiln
