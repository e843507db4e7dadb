// What the marks on loops need when all loops are known: constant extents, lanes, independent iterations, tails that
// stay inside the buffers.
#include "dsl/schedule/CheckContext.h"
#include "dsl/schedule/TileGroup.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

namespace kiln {

namespace {

/// LLVM takes minutes for longer vectors and more copies.
constexpr int64_t longest_vector = 1024, most_copies = 16384;
/// Products of one AMX instruction, which is one vector to Halide: 16 by 16 sums of 32.
constexpr int64_t longest_in_tiles = 16 * 16 * 32;

class LoopKinds {
public:
    explicit LoopKinds(CheckContext &context) : cx(context) {}

    void run() {
        for (const FuncNest &f : cx.nest.funcs) {
            if (f.is_input || f.is_extern || is_folded_in(f)) {
                continue;
            }
            for (const StageNest &stage : f.stages) {
                with_specializations(f, stage);
            }
            unscheduled_updates(f);
        }
    }

private:
    CheckContext &cx;

    void with_specializations(const FuncNest &f, const StageNest &stage) {
        constant_extents(f, stage);
        lanes(f, stage);
        masks(f, stage);
        copies(stage);
        blends(stage);
        order_dependence(f, stage);
        overruns(f, stage);
        for (const StageNest &special : stage.specializations) {
            with_specializations(f, special);
        }
    }

    /// One stage reads it, along each dimension at one affine index: then the inference knows all that there is to know.
    static bool same_indices(const StageNest &stage, const std::string &func) {
        const ReadInfo *first = nullptr;
        for (const ReadInfo &read : stage.reads) {
            if (read.func != func) {
                continue;
            }
            for (size_t d = 0; d < read.indices.size(); d++) {
                if (!read.indices[d].is_affine ||
                    (first && first->indices[d].terms != read.indices[d].terms)) {
                    return false;
                }
            }
            first = first ? first : &read;
        }
        return true;
    }

    bool read_plainly(const FuncNest &f) const {
        int readers = 0;
        for (const std::string &caller : f.callers) {
            const FuncNest *c = cx.nest.find(caller);
            for (const StageNest &stage : c ? c->stages : std::vector<StageNest>()) {
                bool reads = std::any_of(stage.reads.begin(), stage.reads.end(),
                                         [&](const ReadInfo &r) { return r.func == f.name; });
                if (reads && (!same_indices(stage, f.name) || c->name != f.compute.func)) {
                    return false;
                }
                readers += reads;
            }
        }
        return readers == 1;
    }

    /// Halide may still find a constant where Kiln cannot, for Funcs whose size comes from their readers.
    bool extent_is_certain(const FuncNest &f, const StageNest &stage, const Loop &l) const {
        if (f.is_output || f.compute.kind == NestLevel::Kind::Root) {
            return true;
        }
        if (f.compute.kind == NestLevel::Kind::At && read_plainly(f)) {
            return true;
        }
        for (const std::string &root : stage.roots_of(l.name)) {
            for (const DimInfo &d : stage.dims) {
                if (d.name == root && !d.is_rvar) {
                    return false;
                }
            }
        }
        return true;
    }

    void constant_extents(const FuncNest &f, const StageNest &stage) {
        for (const Loop &l : stage.loops) {
            bool needs =
                l.kind == LoopKind::Vectorized || l.kind == LoopKind::Unrolled || l.kind == LoopKind::GpuLane;
            if (!needs || l.extent || !extent_is_certain(f, stage, l) || repeated(stage, l)) {
                continue;
            }
            bool vector = l.kind == LoopKind::Vectorized;
            const char *word = vector                         ? "vectorized"
                               : l.kind == LoopKind::Unrolled ? "unrolled"
                                                              : "spread over lanes";
            Diagnostic &d =
                cx.report(vector ? "K0213" : "K0214",
                          fmt::format("`{}` cannot be {}: its extent is not a constant", l.name, word),
                          l.kind_by, fmt::format("it runs {} times", l.extent_text));
            d.helps.push_back(fmt::format("give a factor: `{}({}, 8)`",
                                          vector                         ? "vectorize"
                                          : l.kind == LoopKind::Unrolled ? "unroll"
                                                                         : "split",
                                          l.name));
        }
    }

    /// A specialization repeats what its stage has; one message is enough.
    bool repeated(const StageNest &stage, const Loop &l) const {
        if (stage.conditions.empty()) {
            return false;
        }
        return std::any_of(cx.diagnostics.begin(), cx.diagnostics.end(), [&](const Diagnostic &d) {
            return d.span == l.kind_by && (d.code == "K0213" || d.code == "K0214" || d.code == "K0215");
        });
    }

    bool on_gpu(const FuncNest &f, const StageNest &stage) {
        auto is_block = [](const Loop &l) { return l.kind == LoopKind::GpuBlock; };
        if (std::any_of(stage.loops.begin(), stage.loops.end(), is_block)) {
            return true;
        }
        for (const CheckContext::Chain &place : cx.places_of(f)) {
            if (std::any_of(place.begin(), place.end(), [&](const auto &e) { return is_block(e.loop()); })) {
                return true;
            }
        }
        return false;
    }

    /// OpenCL C has no vectors with a mask.
    void masks(const FuncNest &f, const StageNest &stage) {
        if (cx.target.backend != Backend::OpenCL || !on_gpu(f, stage)) {
            return;
        }
        for (const Loop &l : stage.loops) {
            const LoopStep *step = l.kind == LoopKind::Vectorized ? stage.producer_of(l.name) : nullptr;
            if (step && step->kind == LoopStep::Kind::Split && step->tail.starts_with("Predicate")) {
                cx.report("K0422",
                          fmt::format("`{}` on a vectorized loop does not exist on `opencl`", step->tail),
                          step->span, fmt::format("`{}` is vectorized on {}", l.name, where(l.kind_by)))
                    .helps.push_back("use `GuardWithIf`");
            }
        }
    }

    void lanes(const FuncNest &f, const StageNest &stage) {
        int64_t product = 1;
        const Loop *last = nullptr;
        for (const Loop &l : stage.loops) {
            if (l.kind == LoopKind::Vectorized && l.extent) {
                product = std::min<int64_t>(product * std::min<int64_t>(*l.extent, INT32_MAX), INT32_MAX);
                last = &l;
            }
        }
        if (!last || repeated(stage, *last)) {
            return;
        }
        bool limited = cx.limits.vector_lanes > 0 && on_gpu(f, stage);
        int64_t most = limited                 ? cx.limits.vector_lanes
                       : f.memory == "AMXTile" ? longest_in_tiles
                                               : longest_vector;
        bool odd = limited && cx.target.backend == Backend::OpenCL && product <= most && product != 3 &&
                   (product & (product - 1)) != 0;
        if (product <= most && !odd) {
            return;
        }
        Diagnostic &d =
            cx.report("K0215",
                      limited ? fmt::format("a vector of {} lanes, `{}` has {}", product, cx.target.str(),
                                            odd ? "2, 3, 4, 8 and 16" : fmt::format("at most {}", most))
                              : fmt::format("a vector of {} lanes, Kiln takes at most {}", product, most),
                      last->kind_by);
        d.helps.push_back(fmt::format("vectorize by {}", odd ? 4 : limited ? most : int64_t(16)));
    }

    void copies(const StageNest &stage) {
        int64_t product = 1;
        const Loop *last = nullptr;
        for (const Loop &l : stage.loops) {
            if (l.kind == LoopKind::Unrolled && l.extent) {
                product = std::min<int64_t>(product * std::min<int64_t>(*l.extent, INT32_MAX), INT32_MAX);
                last = &l;
            }
        }
        if (last && product > most_copies && !repeated(stage, *last)) {
            cx.report("K0214",
                      fmt::format("unrolling makes {} copies of the body, Kiln takes at most {}", product,
                                  most_copies),
                      last->kind_by)
                .helps.push_back(fmt::format("unroll by a factor: `unroll({}, 4)`", last->name));
        }
    }

    void blends(const StageNest &stage) {
        for (const LoopStep &step : stage.steps) {
            if (step.kind != LoopStep::Kind::Split || !step.tail.ends_with("AndBlend")) {
                continue;
            }
            std::vector<std::string> roots = stage.roots_of(step.old, &step);
            for (const Loop &l : stage.loops) {
                bool parallel = l.kind == LoopKind::Parallel || is_gpu_loop(l.kind);
                std::vector<std::string> own = stage.roots_of(l.name);
                bool shared = std::any_of(own.begin(), own.end(), [&](const std::string &root) {
                    return std::find(roots.begin(), roots.end(), root) != roots.end();
                });
                if (parallel && shared) {
                    cx.report("K0204",
                              fmt::format("`{}` reads and writes elements that another iteration of `{}` has",
                                          step.tail, l.name),
                              step.span,
                              fmt::format("`{}` is {} since {}", l.name, loop_kind_name(l.kind),
                                          where(l.kind_by)))
                        .helps.push_back("use `GuardWithIf`");
                    break;
                }
            }
        }
    }

    void order_dependence(const FuncNest &f, const StageNest &stage) {
        bool proven = stage.is_associative && stage.is_commutative;
        for (const Loop &l : stage.loops) {
            bool at_once = l.kind != LoopKind::Serial && l.kind != LoopKind::Unrolled;
            if (l.is_pure || !at_once || (proven && stage.atomic)) {
                continue;
            }
            Diagnostic &d =
                cx.warn("K0211", fmt::format("the result of `{}` may differ from run to run", stage.name()),
                        l.kind_by,
                        proven ? fmt::format("iterations of `{}` may overwrite each other's sums", l.name)
                               : fmt::format("iterations of `{}` depend on each other", l.name));
            if (f.info && static_cast<size_t>(stage.update + 1) < f.info->stages.size()) {
                d.notes.push_back("the definition is `" + f.info->stages[stage.update + 1].source + "`");
            }
            d.helps.push_back(proven
                                  ? "use `atomic()` in place of `allow_race_conditions()`"
                                  : "leave the loop serial unless the iterations write different elements");
            return;
        }
    }

    /// Reads an input directly, or through Funcs that are inlined, with an index that is not clamped.
    bool reads_input(const StageNest &stage, std::set<std::string> &seen) const {
        for (const ReadInfo &read : stage.reads) {
            const FuncNest *g = cx.nest.find(read.func);
            bool plain = std::all_of(read.indices.begin(), read.indices.end(),
                                     [](const IndexInfo &i) { return i.is_affine; });
            if (!g || !plain) {
                continue;
            }
            if (g->is_input) {
                return true;
            }
            if (is_folded_in(*g) && seen.insert(g->name).second && !g->stages.empty() &&
                reads_input(g->stages[0], seen)) {
                return true;
            }
        }
        return false;
    }

    void overruns(const FuncNest &f, const StageNest &stage) {
        if (!stage.conditions.empty()) {
            return; // conditions may exclude such sizes
        }
        std::map<std::string, std::optional<int64_t>> extents;
        for (const DimInfo &d : stage.dims) {
            extents[d.name] = d.extent;
        }
        for (const LoopStep &step : stage.steps) {
            if (step.kind != LoopStep::Kind::Split) {
                continue;
            }
            std::optional<int64_t> old = extents[step.old];
            bool divides = false;
            if (old.has_value() && step.factor.has_value()) {
                divides = old.value() % step.factor.value() == 0;
            }
            extents[step.inner] = step.factor;
            extents[step.outer] =
                old && step.factor ? std::optional((*old + *step.factor - 1) / *step.factor) : std::nullopt;
            bool over = step.tail == "RoundUp" || step.tail == "ShiftInwards" ||
                        step.tail == "PredicateLoads" || step.tail == "PredicateStores" ||
                        step.tail.ends_with("AndBlend");
            if (!over || divides) {
                continue;
            }
            std::set<std::string> seen;
            bool writes = f.is_output && step.tail != "PredicateStores";
            bool reads = step.tail != "PredicateLoads" && reads_input(stage, seen);
            if (!writes && !reads) {
                continue;
            }
            const char *need = step.tail.starts_with("ShiftInwards") ? "at least" : "a multiple of";
            Diagnostic &d = cx.warn(
                "K0220",
                writes ? fmt::format("`{}` works only where the extent of `{}` is {} {}", step.tail, step.old,
                                     need, step.factor_text)
                       : fmt::format("`{}` reads outside the inputs of `{}` unless the extent of `{}` "
                                     "is {} {}",
                                     step.tail, f.name, step.old, need, step.factor_text),
                step.span, "other sizes are refused when the kernel is called");
            d.helps.push_back("use `GuardWithIf` (the default), or specialize on the extent");
        }
    }

    void unscheduled_updates(const FuncNest &f) {
        bool any =
            std::any_of(f.stages.begin(), f.stages.end(), [](const StageNest &s) { return s.touched; });
        for (const StageNest &stage : f.stages) {
            if (!any || stage.touched || in_tile_kernel(cx.nest, f) || stage.update < 0 ||
                stage.loops.empty()) {
                continue;
            }
            auto call = cx.first_call.find(f.name);
            Diagnostic &d =
                cx.warn("K0219",
                        fmt::format("`{}` has no schedule although other definitions of `{}` have",
                                    stage.name(), f.name),
                        call == cx.first_call.end() ? Span() : call->second->span,
                        "this schedules only one of its definitions");
            d.helps.push_back(
                fmt::format("schedule it, or write `{}.unscheduled()` if that is meant", stage.name()));
        }
    }
};

} // namespace

void check_loop_kinds(CheckContext &context) {
    LoopKinds(context).run();
}

} // namespace kiln
