/** \file
 * The one model of the loops that a schedule makes: for each stage its loops after every directive so far, where each
 * loop came from, and for each Func where it is computed and stored. Checker, `explain`, features and search read it.
 * It knows nothing of Halide and finds no faults: it is built by analyse_schedule (CheckSchedule.h), which does.
 */
#pragma once

#include "dsl/schedule/PipelineInfo.h"
#include "dsl/schedule/Schedule.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace kiln {

enum class LoopKind { Serial, Parallel, Vectorized, Unrolled, GpuBlock, GpuThread, GpuLane };

/// As `explain` prints it: "serial", "gpu_block".
const char *loop_kind_name(LoopKind kind);
bool is_gpu_loop(LoopKind kind);

struct Loop {
    std::string name;
    LoopKind kind = LoopKind::Serial;
    bool is_rvar = false;
    bool is_pure = true;           ///< iterations may run in any order
    std::optional<int64_t> extent; ///< where it is a constant
    std::string extent_text;       ///< otherwise what it is: `ceil(extent(x) / 8)`
    Span made_by;                  ///< the directive that made the loop; line 0: the algorithm
    Span kind_by;                  ///< the directive that gave its kind; line 0: none
    bool kind_inherited =
        false; ///< a split of a marked loop marks both parts, until they get marks of their own
};

/// One change of a stage's loops.
struct LoopStep {
    enum class Kind {
        Split,  ///< `old` into `outer` and `inner` by `factor`
        Fuse,   ///< `inner` and `outer` into `old`
        Rename, ///< `old` into `inner`
        Rfactor ///< `old` moved into the Func `outer`
    };
    Kind kind = Kind::Split;
    std::string old, outer, inner;
    std::optional<int64_t> factor; ///< where it is a constant
    std::string factor_text;
    std::string tail; ///< Split: "GuardWithIf", …; "" where the schedule gives none
    Span span;
};

/// One definition of a Func, or one specialization of it.
struct StageNest {
    std::string func;
    int update = -1;                     ///< -1: the pure definition
    std::vector<std::string> conditions; ///< of the specializations that lead here, outermost first
    std::vector<Loop> loops;             ///< innermost first
    std::vector<DimInfo> dims;           ///< the loops that the algorithm gives, innermost first
    std::vector<LoopStep> steps;         ///< in order
    std::vector<ReadInfo> reads;
    bool is_associative = false, is_commutative = false;
    bool atomic = false, override_associativity = false, race_conditions_allowed = false;
    /// Directives of the family "Tile kernels" on this stage, by name; `whole` by `whole k`.
    std::map<std::string, DirectiveCall> tile;
    bool touched = false; ///< a directive changed its loops, or `unscheduled` says that none shall
    std::vector<StageNest> specializations;

    std::string name() const; ///< `acc`, `acc.update(1)`
    const Loop *find(const std::string &loop) const;
    Loop *find(const std::string &loop);
    std::vector<std::string> loop_names() const;
    /// The step that made `loop` disappear, or null.
    const LoopStep *consumer_of(const std::string &loop) const;
    /// The step that made `loop`, or null where the algorithm did.
    const LoopStep *producer_of(const std::string &loop) const;
    /// The steps that `loop` came through, the last first, each with the name it made on the way to `loop`.
    std::vector<std::pair<const LoopStep *, std::string>> ancestry(const std::string &loop) const;
    /// The algorithm's loops that `loop` iterates over; with `before`, as of that step of `steps`.
    std::vector<std::string> roots_of(const std::string &loop, const LoopStep *before = nullptr) const;
    int index_of(const std::string &loop) const; ///< -1 where there is none

    /// The names must exist and be free, respectively: analyse_schedule sees to that.
    void split(const std::string &old, const std::string &outer, const std::string &inner,
               std::optional<int64_t> factor, const std::string &factor_text, const std::string &tail,
               Span span);
    void fuse(const std::string &inner, const std::string &outer, const std::string &fused, Span span);
    void rename(const std::string &old, const std::string &fresh, Span span);
    void reorder(const std::vector<std::string> &innermost_first);

    /// How many values of the algorithm's loop `dim` one iteration of the loop at index `level` covers; level
    /// loops.size(): of the whole stage. Empty where it is not a constant.
    std::optional<int64_t> extent_inside(const std::string &dim, int level) const;
    /// Works out the extents of all loops again from those of `dims`.
    void refresh_extents();
};

/// In a NestLevel: no stage was named.
constexpr int any_stage = -2;

/// A place in the loop nest: where a Func is computed or its storage lives.
struct NestLevel {
    enum class Kind { Inlined, Root, At };
    Kind kind = Kind::Inlined;
    std::string func; ///< At
    int update = -1;  ///< At: the stage of `func` whose loop is meant
    std::string loop; ///< At
    Span span;        ///< the directive that chose it; line 0: the default
    std::string str() const;
    bool same_place(const NestLevel &other) const;
};

struct FuncNest {
    std::string name; ///< wrappers: `x.in(acc)`
    const FuncInfo *info =
        nullptr; ///< of the wrapped Func, for a wrapper; of the reduced one for an rfactor's result
    bool is_output = false, is_input = false, is_extern = false, is_wrapper = false;
    std::vector<std::string> args;             ///< storage dimensions
    std::vector<std::string> callers, callees; ///< as they are with the wrappers in place
    std::vector<StageNest> stages;
    NestLevel compute, store, hoist;
    std::string memory = "Auto";
    Span memory_span;
    Span async_span; ///< line 0: not async
    struct Amount {
        std::string dim;
        std::optional<int64_t> value;
        Span span;
    };
    std::vector<Amount> folds, bounds, storage_bounds;
    std::vector<Amount> storage_alignments;
    std::map<std::string, DirectiveCall>
        tile; ///< directives of the family "Tile kernels" on the Func, by name
    std::optional<int64_t> ring_buffer;
    Span ring_span;
    Span made_by; ///< wrappers and rfactor's results

    bool is_inlined() const { return compute.kind == NestLevel::Kind::Inlined; }
    /// Elements along each of `args` that are stored at once; empty entries: no constant.
    std::vector<std::optional<int64_t>> stored_extents;
    /// Elements along each of `args` that one iteration of the place it is computed at needs.
    std::vector<std::optional<int64_t>> needed_extents;
    /// Bytes of the storage, all Tuple values, where the extents are constants.
    std::optional<int64_t> stored_bytes() const;
};

struct LoopNest {
    std::vector<FuncNest> funcs; ///< producers first
    const FuncNest *find(const std::string &name) const;
    FuncNest *find(const std::string &name);
    std::vector<std::string> names() const;
    /// Stage `update` of `func`, or null.
    const StageNest *stage(const std::string &func, int update) const;

    /// A loop that encloses a place: the stage it belongs to and its index there.
    struct Enclosing {
        const FuncNest *func = nullptr;
        const StageNest *stage = nullptr;
        int index = 0;
        const Loop &loop() const { return stage->loops[index]; }
    };
    /// All loops around `level`, outermost first, through the levels of the Funcs they belong to.
    std::vector<Enclosing> enclosing(const NestLevel &level) const;
    /// The loops in which `func` computes, then its own of `stage`, outermost first.
    std::vector<Enclosing> around_body(const FuncNest &func, const StageNest &stage) const;

    /// Works out the extents of Funcs computed inside others from what those read.
    void infer_extents();

    /// The loop nest as text, one loop a line, producers inside the loops that they are computed at.
    std::string str() const;
};

} // namespace kiln
