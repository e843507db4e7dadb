// Calls of Halide's that a schedule cannot make, each with the reason.
#include "dsl/schedule/Directive.h"

namespace kiln {

std::vector<Directive> refused_directives() {
    struct Entry {
        const char *name, *why, *instead;
    };
    static const Entry entries[] = {
        {"hexagon", "Hexagon is no target of Kiln", "write a schedule for `cpu`, `cuda` or `opencl`"},
        {"memoize", "a kernel keeps nothing between two calls",
         "cache the result in the application, or take the Func out as an output of its own"},
        {"copy_to_device", "Kiln's runtime copies buffers to the device where a kernel needs them",
         "leave it out"},
        {"copy_to_host", "Kiln's runtime copies buffers to the host where a kernel needs them",
         "leave it out"},
        {"set_estimate", "shapes for the search come from the generator's workloads, not from its schedule",
         "name a workload in KILN_GENERATOR, or promise the size with `bound`"},
        {"set_estimates", "shapes for the search come from the generator's workloads, not from its schedule",
         "name a workload in KILN_GENERATOR, or promise the size with `bound`"},
        {"clone_in", "each Func of a pipeline has one definition in Kiln's model",
         "use the wrapper `f.in(consumer)`, or define the Func twice in the algorithm"},
        {"trace_loads", "a shipped library has no tracing", "look at values with `kiln check`"},
        {"trace_stores", "a shipped library has no tracing", "look at values with `kiln check`"},
        {"trace_realizations", "a shipped library has no tracing", "look at values with `kiln check`"},
        {"add_trace_tag", "a shipped library has no tracing", "look at values with `kiln check`"},
        {"no_profiling", "a shipped library has no profiler in it", "leave it out"},
        {"in", "a wrapper is chosen before the directives", "write `x.in(consumer).directive(…);`"},
        {"update", "a stage is chosen before the directives", "write `x.update().directive(…);`"},
    };
    std::vector<Directive> out;
    for (const Entry &e : entries) {
        Directive d;
        d.name = e.name;
        d.family = "Not taken";
        d.refused = e.why;
        d.instead = e.instead;
        out.push_back(std::move(d));
    }
    return out;
}

} // namespace kiln
