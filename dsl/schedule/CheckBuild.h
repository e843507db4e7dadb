/** \file
 * Runs a schedule's statements over the loop nest, one directive at a time. Internal to the checker.
 */
#pragma once

#include "dsl/schedule/CheckContext.h"

namespace kiln {

class NestBuilder {
public:
    explicit NestBuilder(CheckContext &context) : cx(context) {}
    void run();

private:
    CheckContext &cx;
    /// What the statement schedules now; after `specialize` the specialization.
    FuncNest *func = nullptr;
    StageNest *stage = nullptr;
    const Statement *statement = nullptr;
    /// Loops that a refused directive would have made, by stage: asking for them is no new fault.
    std::map<std::string, std::set<std::string>> missing;
    /// Where a Func got its place, storage and so on: a second, different one contradicts it.
    std::map<std::string, const DirectiveCall *> chosen;

    // CheckBuild.cpp: Funcs and stages
    void init();
    void add_func(const FuncInfo &info);
    bool select(const StageRef &ref);
    bool make_wrapper(const StageRef &ref, const std::string &key);
    void apply(const DirectiveCall &call);
    void specialize(const DirectiveCall &call);
    void check_condition(const Node &node);
    void rfactor(const DirectiveCall &call);
    void no_func(const std::string &name, Span span);
    bool known_stage(const Node &node, StageRef &ref);
    bool known_dim(const Node &node);

    // CheckLoops.cpp: loops
    bool on_stage(const DirectiveCall &call);
    Loop *loop(const Node &node);
    bool free_name(const Node &node, const std::string &freed, const std::string &freed2 = "");
    void split(const DirectiveCall &call);
    bool tail_is_legal(const DirectiveCall &call, const Loop &old);
    void fuse(const DirectiveCall &call);
    void reorder(const DirectiveCall &call);
    void rename(const DirectiveCall &call);
    void kind(const DirectiveCall &call, LoopKind kind);
    void gpu_single_thread(const DirectiveCall &call);
    void atomic(const DirectiveCall &call);
    bool unmarked(const Loop &l, const Node &node);
    bool keeps_order(const std::vector<std::string> &before, const std::vector<std::string> &after,
                     Span span);
    void lost(const std::vector<const Node *> &names);

    // CheckTile.cpp: directives of tile kernels; false: it is none
    bool tile_on_stage(const DirectiveCall &call);
    bool tile_on_func(const DirectiveCall &call);
    void gather_tile_loops();

    // CheckFuncs.cpp: directives of the Func
    void on_func(const DirectiveCall &call);
    bool first_choice(const DirectiveCall &call, const std::string &what);
    void place(const DirectiveCall &call, NestLevel &level);
};

} // namespace kiln
