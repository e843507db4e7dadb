// Kernels: what may nest in what, how much a block may use, and what runs where.
#include "dsl/schedule/CheckContext.h"
#include "dsl/schedule/TileGroup.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace kiln {

namespace {

using Chain = std::vector<LoopNest::Enclosing>;

bool is_thread(LoopKind kind) {
    return kind == LoopKind::GpuThread || kind == LoopKind::GpuLane;
}

class Gpu {
public:
    explicit Gpu(CheckContext &context) : cx(context) {}

    void run() {
        for (const FuncNest &f : cx.nest.funcs) {
            if (f.is_input || is_folded_in(f)) {
                continue;
            }
            for (const StageNest &stage : f.stages) {
                std::vector<const StageNest *> variants = {&stage};
                for (const StageNest &special : stage.specializations) {
                    variants.push_back(&special);
                }
                for (const StageNest *variant : variants) {
                    for (const Chain &place : cx.places_of(f)) {
                        nesting(f, *variant, place);
                    }
                    counts(f, *variant);
                }
            }
            memory(f);
            if (cx.target.backend != Backend::Cpu) {
                on_host(f);
            }
        }
        shared_memory();
    }

private:
    CheckContext &cx;

    Diagnostic &once(const char *code, std::string message, Span span, std::string label = "") {
        // A specialization repeats the faults of its stage; the copy is dropped at the end by overwriting it.
        auto same = std::find_if(cx.diagnostics.begin(), cx.diagnostics.end(),
                                 [&](const Diagnostic &d) { return d.code == code && d.span == span; });
        if (same != cx.diagnostics.end()) {
            cx.diagnostics.erase(same);
        }
        return cx.report(code, std::move(message), span, std::move(label));
    }

    void nesting(const FuncNest &f, const StageNest &stage, const Chain &around) {
        const LoopNest::Enclosing *block = nullptr, *thread = nullptr;
        for (const LoopNest::Enclosing &e : around) {
            block = e.loop().kind == LoopKind::GpuBlock ? &e : block;
            thread = is_thread(e.loop().kind) ? &e : thread;
        }
        const Loop *own_block = nullptr, *own_thread = nullptr, *between = nullptr;
        for (size_t i = stage.loops.size(); i-- > 0;) {
            const Loop &l = stage.loops[i];
            if (l.kind == LoopKind::GpuBlock) {
                if (block) {
                    once("K0404",
                         fmt::format("block loop `{}` would lie inside the kernel of `{}`", l.name,
                                     block->func->name),
                         l.kind_by, fmt::format("`{}` is computed at {}", f.name, f.compute.str()))
                        .helps.push_back(fmt::format("spread `{}` over threads only, or compute `{}` at root",
                                                     l.name, f.name));
                } else if (own_thread) {
                    once("K0416",
                         fmt::format("block loop `{}` is inside thread loop `{}`", l.name, own_thread->name),
                         l.kind_by,
                         fmt::format("loops of `{}`, inner first: {}", stage.name(),
                                     fmt::join(stage.loop_names(), ", ")))
                        .helps.push_back(fmt::format("reorder so that `{}` is outside all threads", l.name));
                } else if (own_block && between) {
                    once("K0416",
                         fmt::format("loop `{}` lies between block loops `{}` and `{}`", between->name,
                                     own_block->name, l.name),
                         l.kind_by,
                         fmt::format("loops of `{}`, inner first: {}", stage.name(),
                                     fmt::join(stage.loop_names(), ", ")))
                        .helps.push_back(
                            fmt::format("reorder so that `{}` is inside or outside both", between->name));
                }
                own_block = &l;
                between = nullptr;
            } else if (is_thread(l.kind)) {
                if (!block && !own_block) {
                    once("K0403", fmt::format("thread loop `{}` is in no block", l.name), l.kind_by)
                        .helps.push_back(
                            stage.loops.size() > 1
                                ? "mark a loop outside it with `gpu_blocks`, or use `gpu_tile`"
                                : fmt::format("split it: `gpu_tile({0}, {0}b, {0}t, 256)`", l.name));
                } else if (thread) {
                    once("K0414",
                         fmt::format("thread loop `{}` would lie inside a thread of `{}`", l.name,
                                     thread->func->name),
                         l.kind_by, fmt::format("`{}` is computed at {}", f.name, f.compute.str()))
                        .helps.push_back(fmt::format("leave `{}` serial, or compute `{}` at the block loop",
                                                     l.name, f.name));
                }
                own_thread = &l;
            } else if (l.kind == LoopKind::Parallel && (block || own_block)) {
                once("K0402", fmt::format("`{}` cannot be parallel inside a kernel", l.name), l.kind_by,
                     "`parallel` means threads of the CPU")
                    .helps.push_back("use `gpu_threads`");
            } else if (own_block && !between) {
                between = &l;
            }
        }
    }

    void counts(const FuncNest &f, const StageNest &stage) {
        std::vector<const Loop *> blocks, threads; // innermost first: x, y, z
        const Loop *lanes = nullptr;
        for (const Loop &l : stage.loops) {
            if (l.kind == LoopKind::GpuBlock) {
                blocks.push_back(&l);
            } else if (is_thread(l.kind)) {
                threads.push_back(&l);
                if (l.kind == LoopKind::GpuLane) {
                    if (lanes) {
                        once("K0412", fmt::format("a second loop over lanes, `{}`", l.name), l.kind_by,
                             fmt::format("`{}` is the first", lanes->name))
                            .helps.push_back("use `gpu_threads` for all but one");
                    }
                    lanes = &l;
                }
            }
        }
        for (const auto &[loops, word, directive] :
             {std::tuple(&blocks, "block", "gpu_blocks"), std::tuple(&threads, "thread", "gpu_threads")}) {
            if (loops->size() > 3) {
                std::vector<std::string> names;
                for (const Loop *l : *loops) {
                    names.push_back(l->name);
                }
                once("K0405",
                     fmt::format("{} {} loops in `{}`, a GPU has 3 dimensions", loops->size(), word,
                                 stage.name()),
                     loops->back()->kind_by, fmt::format("they are {}", names_text(names)))
                    .helps.push_back(fmt::format("fuse some of them before `{}`", directive));
            }
        }
        if (lanes && cx.target.backend == Backend::OpenCL) {
            once("K0412", "`gpu_lanes` needs warp shuffles, which `opencl` has not", lanes->kind_by)
                .helps.push_back("use `gpu_threads`");
        } else if (lanes && lanes->extent && cx.limits.lanes > 1 && *lanes->extent > cx.limits.lanes) {
            once("K0412",
                 fmt::format("{} lanes in `{}`, a warp has {}", *lanes->extent, lanes->name, cx.limits.lanes),
                 lanes->kind_by)
                .helps.push_back(fmt::format("split by {} or less", cx.limits.lanes));
        }
        int64_t product = 1;
        std::vector<std::string> factors;
        for (const Loop *l : threads) {
            if (l->extent) {
                product = std::min<int64_t>(product * std::min<int64_t>(*l->extent, INT32_MAX), INT32_MAX);
                factors.push_back(fmt::format("{} {}", l->name, *l->extent));
            }
        }
        if (cx.limits.threads > 0 && product > cx.limits.threads) {
            once("K0406",
                 fmt::format("a block of `{}` has {} threads, the device allows {}", stage.name(), product,
                             cx.limits.threads),
                 threads.back()->kind_by, fmt::format("{}", fmt::join(factors, ", ")))
                .helps.push_back("use smaller tiles, or leave one of the loops serial inside a thread");
            return;
        }
        for (size_t i = 0; i < threads.size() && i < 3; i++) {
            int64_t most = cx.limits.block_extent[i];
            if (most > 0 && threads[i]->extent && *threads[i]->extent > most) {
                once("K0406",
                     fmt::format("`{}` has {} threads along {}, the device allows {}", threads[i]->name,
                                 *threads[i]->extent, "xyz"[i], most),
                     threads[i]->kind_by, "the innermost thread loop is x")
                    .helps.push_back("reorder, or use smaller tiles");
            }
        }
    }

    /// Where the storage of `f` lives in a kernel: 0 outside any, 1 in a block, 2 in a thread.
    int depth(const NestLevel &level) const {
        int depth = 0;
        const StageNest *host =
            level.kind == NestLevel::Kind::At ? cx.nest.stage(level.func, level.update) : nullptr;
        if (!host || host->index_of(level.loop) < 0) {
            return 0;
        }
        Chain around = cx.places_of(*cx.nest.find(level.func)).front();
        for (int i = static_cast<int>(host->loops.size()); i-- > host->index_of(level.loop);) {
            around.push_back({cx.nest.find(level.func), host, i});
        }
        for (const LoopNest::Enclosing &e : around) {
            depth = std::max(depth, e.loop().kind == LoopKind::GpuBlock ? 1
                                    : is_thread(e.loop().kind)          ? 2
                                                                        : 0);
        }
        return depth;
    }

    void memory(const FuncNest &f) {
        if (f.memory == "GPUShared") {
            if (cx.target.backend == Backend::Cpu) {
                cx.report("K0401",
                          fmt::format("`GPUShared` needs a GPU, the target is `{}`", cx.target.str()),
                          f.memory_span)
                    .helps.push_back("use `Stack` or `Heap`");
            } else if (depth(f.store) != 1) {
                cx.report("K0410",
                          fmt::format("`{}` cannot be in shared memory: it is stored {}", f.name,
                                      depth(f.store) == 0 ? "outside any block" : "inside one thread"),
                          f.memory_span, fmt::format("stored at {}", f.store.str()))
                    .helps.push_back("compute it at a block loop of a kernel that reads it");
            }
        }
        if (f.memory == "AMXTile" && !(cx.target.backend == Backend::Cpu && cx.target.feature == "amx")) {
            cx.report("K0401", fmt::format("`AMXTile` needs AMX, the target is `{}`", cx.target.str()),
                      f.memory_span)
                .helps.push_back("write `target cpu amx`, or use `Stack`");
        }
        bool private_memory = f.memory == "Register" || f.memory == "Stack";
        if (private_memory && cx.target.backend != Backend::Cpu && depth(f.store) == 1) {
            neighbours(f);
        }
    }

    /// Registers belong to one thread: a reader must be the thread that wrote.
    void neighbours(const FuncNest &f) {
        std::set<std::string> spread; // dimensions that lie along threads
        for (const StageNest &stage : f.stages) {
            for (const Loop &l : stage.loops) {
                if (is_thread(l.kind)) {
                    for (const std::string &root : stage.roots_of(l.name)) {
                        spread.insert(root);
                    }
                }
            }
        }
        for (const std::string &caller : f.callers) {
            const FuncNest *c = cx.nest.find(caller);
            for (const StageNest &stage : c ? c->stages : std::vector<StageNest>()) {
                std::set<std::string> reader_spread;
                for (const Loop &l : stage.loops) {
                    if (is_thread(l.kind)) {
                        for (const std::string &root : stage.roots_of(l.name)) {
                            reader_spread.insert(root);
                        }
                    }
                }
                for (const ReadInfo &read : stage.reads) {
                    if (read.func != f.name) {
                        continue;
                    }
                    for (size_t d = 0; d < read.indices.size() && d < f.args.size(); d++) {
                        const IndexInfo &index = read.indices[d];
                        bool own = index.is_affine && index.offset == 0 && index.terms.size() == 1 &&
                                   index.terms[0].coefficient == 1 &&
                                   (is_folded_in(*c) || reader_spread.count(index.terms[0].loop));
                        if (!spread.count(f.args[d]) || own) {
                            continue;
                        }
                        Diagnostic &diag = cx.report(
                            "K0409",
                            fmt::format("`{}` reads values of `{}` that other threads hold in `{}`",
                                        stage.name(), f.name, f.memory),
                            f.memory_span,
                            fmt::format("`{}` is spread over threads along `{}`", f.name, f.args[d]));
                        diag.notes.push_back(fmt::format("registers and stack belong to one thread"));
                        diag.helps.push_back(
                            "use `store_in(GPUShared)`, or compute it inside the thread that reads it");
                        return;
                    }
                }
            }
        }
    }

    /// Bytes of shared memory that `f` takes in its block, 0 where it takes none.
    int64_t shared_bytes(const FuncNest &f) const {
        bool shared = f.memory == "GPUShared" || f.memory == "Auto";
        if (f.is_input || f.is_output || is_folded_in(f) || f.is_inlined() || !shared ||
            depth(f.store) != 1) {
            return 0;
        }
        return f.stored_bytes().value_or(0);
    }

    void shared_memory() {
        int64_t limit = cx.limits.shared_bytes;
        if (cx.target.backend == Backend::Cpu || limit <= 0) {
            return;
        }
        for (const FuncNest &f : cx.nest.funcs) {
            int64_t bytes = shared_bytes(f);
            if (bytes == 0 || in_tile_kernel(cx.nest, f)) { // check_tile knows their rings
                continue;
            }
            // While f is computed, what it reads in the same block is alive too.
            int64_t together = bytes;
            std::vector<std::string> with = {f.name};
            for (const std::string &callee : f.callees) {
                const FuncNest *g = cx.nest.find(callee);
                int64_t more = g && bytes <= limit && shared_bytes(*g) <= limit ? shared_bytes(*g) : 0;
                if (more > 0) {
                    together += more;
                    with.push_back(callee);
                }
            }
            if (together <= limit) {
                continue;
            }
            std::vector<std::string> extents;
            for (const std::optional<int64_t> &extent : f.stored_extents) {
                extents.push_back(std::to_string(extent.value_or(0)));
            }
            Diagnostic &d =
                cx.report("K0408",
                          fmt::format("a block needs {} bytes of shared memory for {}, the device has {}",
                                      together, names_text(with), limit),
                          f.memory_span.line > 0 ? f.memory_span : f.compute.span,
                          fmt::format("`{}` holds {} elements of {} bytes", f.name, fmt::join(extents, " x "),
                                      f.info ? f.info->bytes_per_element() : 0));
            d.helps.push_back("use smaller tiles, or `store_in(Heap)`");
        }
    }

    /// A Func without a kernel on a GPU target runs on the host, with copies both ways.
    void on_host(const FuncNest &f) {
        if (f.compute.kind != NestLevel::Kind::Root || f.is_extern || in_tile_kernel(cx.nest, f)) {
            return;
        }
        for (const StageNest &stage : f.stages) {
            bool kernel = std::any_of(stage.loops.begin(), stage.loops.end(),
                                      [](const Loop &l) { return is_gpu_loop(l.kind); });
            for (const StageNest &special : stage.specializations) {
                kernel = kernel || std::any_of(special.loops.begin(), special.loops.end(),
                                               [](const Loop &l) { return is_gpu_loop(l.kind); });
            }
            if (kernel || stage.loops.empty()) {
                continue;
            }
            auto call = cx.first_call.find(f.name);
            Diagnostic &d =
                cx.warn("K0421", fmt::format("`{}` runs on the host: it has no `gpu_blocks`", stage.name()),
                        call == cx.first_call.end() ? cx.schedule.name_span : call->second->span,
                        fmt::format("the target is `{}`", cx.target.str()));
            d.helps.push_back(fmt::format(
                "give `{}` block and thread loops, with `gpu_tile` or `gpu_single_thread`", stage.name()));
            return;
        }
    }
};

} // namespace

void check_gpu(CheckContext &context) {
    Gpu(context).run();
}

} // namespace kiln
