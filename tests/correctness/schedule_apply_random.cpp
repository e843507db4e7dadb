#include "tests/correctness/schedule_apply_random.h"

#include "dsl/schedule/Canonical.h"
#include "dsl/schedule/CheckSchedule.h"
#include "dsl/schedule/Parser.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace kiln::test {

namespace {

class Writer {
public:
    Writer(const PipelineInfo &pipeline, const Target &target, unsigned seed)
        : pipeline(pipeline), target(target), limits(limits_of(target)), random(seed) {
        accept(""); // the nest to start from
    }

    RandomSchedule run(int attempts) {
        for (int i = 0; i < attempts; i++) {
            std::string directive;
            std::string line = statement(directive);
            if (line.empty()) {
                continue;
            }
            result.tried[directive]++;
            if (accept(line)) {
                body += "  " + line + "\n";
                result.kept[directive]++;
            }
        }
        result.text = whole("");
        return result;
    }

private:
    const PipelineInfo &pipeline;
    const Target &target;
    DeviceLimits limits;
    std::mt19937 random;
    RandomSchedule result;
    std::string body;
    LoopNest nest;
    int fresh = 0;

    std::string whole(const std::string &line) const {
        return fmt::format("schedule random {{\n  op {}\n  target {}\n{}  {}\n}}\n", pipeline.generator,
                           target.str(), body, line);
    }

    bool accept(const std::string &line) {
        ParseResult parsed = parse_schedules(whole(line), "random.sched");
        if (!parsed.ok() || parsed.schedules.empty()) {
            throw std::logic_error("the test wrote what does not parse: " + line +
                                   render_all(parsed.diagnostics, *parsed.source));
        }
        CanonicalResult canonical = canonicalize(parsed.schedules[0]);
        if (has_errors(canonical.diagnostics)) {
            return false;
        }
        ScheduleAnalysis analysis =
            analyse_schedule(canonical.schedule, pipeline, target, limits, canonical.damaged);
        for (const Diagnostic &d : analysis.diagnostics) {
            if (d.severity == Severity::Error || d.code == "K0220" || d.code == "K0211") {
                return false;
            }
        }
        nest = std::move(analysis.nest);
        return true;
    }

    int below(int n) { return n <= 0 ? 0 : static_cast<int>(random() % static_cast<unsigned>(n)); }

    template<typename T>
    const T &pick(const std::vector<T> &values) {
        return values[static_cast<size_t>(below(static_cast<int>(values.size())))];
    }

    std::string name(const char *base) { return fmt::format("{}{}", base, fresh++); }

    std::string tail() {
        static const std::vector<std::string> tails = {"",
                                                       "",
                                                       "",
                                                       "GuardWithIf",
                                                       "RoundUp",
                                                       "Predicate",
                                                       "ShiftInwards",
                                                       "PredicateLoads",
                                                       "PredicateStores",
                                                       "RoundUpAndBlend",
                                                       "ShiftInwardsAndBlend"};
        std::string t = pick(tails);
        return t.empty() ? "" : ", " + t;
    }

    /// A statement on a random stage; "" where the choice makes no sense.
    std::string statement(std::string &directive) {
        std::vector<const FuncNest *> funcs;
        for (const FuncNest &f : nest.funcs) {
            if (!f.is_input && !f.stages.empty()) {
                funcs.push_back(&f);
            }
        }
        const FuncNest &f = *pick(funcs);
        const StageNest &stage = f.stages[static_cast<size_t>(below(static_cast<int>(f.stages.size())))];
        int special = below(12);
        std::string where = stage.update < 0 ? f.name : fmt::format("{}.update({})", f.name, stage.update);
        const StageNest *target_stage = &stage;
        if (special == 0 && !pipeline.outputs.empty()) {
            const FuncInfo *out = pipeline.find(pipeline.outputs[0]);
            where += fmt::format(".specialize({}.extent({}) >= {})", out->name, out->args[0], 1 + below(40));
            directive = "specialize+";
        }
        std::vector<std::string> loops = target_stage->loop_names();
        if (below(3) == 0) {
            return func_directive(f, directive);
        }
        std::string call = loops.empty() ? "" : loop_directive(stage, loops, directive);
        return call.empty() ? "" : where + call + ";";
    }

    std::string loop_directive(const StageNest &stage, const std::vector<std::string> &loops,
                               std::string &directive) {
        const std::string &l = pick(loops);
        auto named = [&](const char *what) { directive += what; };
        bool gpu = target.backend != Backend::Cpu;
        switch (below(gpu ? 15 : 12)) {
        case 0:
        case 1:
            named("split");
            return fmt::format(".split({}, {}, {}, {}{})", l, below(3) ? name("o") : l, name("i"),
                               2 + below(7), tail());
        case 2: {
            named("fuse");
            const std::string &other = pick(loops);
            return fmt::format(".fuse({}, {}, {})", l, other, name("f"));
        }
        case 3:
        case 4: {
            named("reorder");
            if (loops.size() < 2) {
                return "";
            }
            std::vector<std::string> order = loops;
            std::shuffle(order.begin(), order.end(), random);
            order.resize(2 + static_cast<size_t>(below(static_cast<int>(order.size()) - 1)));
            return fmt::format(".reorder({})", fmt::join(order, ", "));
        }
        case 5:
            named("parallel");
            return fmt::format(".parallel({})", l);
        case 6:
        case 7:
            named("vectorize");
            return below(3) ? fmt::format(".vectorize({}, {}{})", l, 2 << below(3), tail())
                            : fmt::format(".vectorize({})", l);
        case 8:
            named("unroll");
            return below(2) ? fmt::format(".unroll({}, {})", l, 2 + below(3)) : fmt::format(".unroll({})", l);
        case 9:
            named("atomic");
            return stage.update < 0 ? "" : fmt::format(".atomic().vectorize({}, 4)", l);
        case 10:
            named("rename");
            return fmt::format(".rename({}, {})", l, name("r"));
        case 11:
            named("partition");
            return fmt::format(".partition({}, Never)", l);
        default: {
            named("gpu_tile");
            if (loops.size() >= 2 && below(2)) {
                const std::string &other = pick(loops);
                return fmt::format(".gpu_tile({}, {}, {}, {}, {}, {}, {}, {})", l, other, name("b"),
                                   name("b"), name("t"), name("t"), 1 + below(8), 1 + below(4));
            }
            return fmt::format(".gpu_tile({}, {}, {}, {})", l, name("b"), name("t"), 1 + below(16));
        }
        }
    }

    std::string place() {
        std::vector<const FuncNest *> hosts;
        for (const FuncNest &f : nest.funcs) {
            if (!f.is_input && !f.stages.empty()) {
                hosts.push_back(&f);
            }
        }
        const FuncNest &host = *pick(hosts);
        std::vector<std::string> loops;
        for (const StageNest &s : host.stages) {
            for (const Loop &l : s.loops) {
                loops.push_back(l.name);
            }
        }
        return loops.empty() ? "" : fmt::format("{}, {}", host.name, pick(loops));
    }

    std::string func_directive(const FuncNest &f, std::string &directive) {
        auto say = [&](const char *what, std::string text) {
            directive = what;
            return f.name + "." + text + ";";
        };
        std::string at = place();
        std::string dim = f.args.empty() ? "" : pick(f.args);
        switch (below(16)) {
        case 0:
        case 1:
            return say("compute_root", "compute_root()");
        case 2:
        case 3:
        case 4:
        case 5:
            return at.empty() ? "" : say("compute_at", fmt::format("compute_at({})", at));
        case 6:
            return at.empty() ? "" : say("store_at", fmt::format("store_at({})", at));
        case 7:
            return say("store_root", "store_root()");
        case 8:
            return at.empty() ? "" : say("hoist_storage", fmt::format("hoist_storage({})", at));
        case 9:
            return say("store_in", below(2) ? "store_in(Heap)" : "store_in(Stack)");
        case 10:
            return dim.empty() ? ""
                               : say("fold_storage", fmt::format("fold_storage({}, {})", dim, 1 << below(5)));
        case 11:
            return say("async", "async()");
        case 12:
            return dim.empty()
                       ? ""
                       : say("align_storage", fmt::format("align_storage({}, {})", dim, 2 + below(7)));
        case 13: {
            if (f.args.size() < 2) {
                return "";
            }
            std::vector<std::string> order = f.args;
            std::shuffle(order.begin(), order.end(), random);
            return f.is_output
                       ? ""
                       : say("reorder_storage", fmt::format("reorder_storage({})", fmt::join(order, ", ")));
        }
        case 14: {
            if (f.is_wrapper || f.callers.empty()) {
                return "";
            }
            directive = "in";
            const std::string &caller = pick(f.callers);
            const FuncNest *c = nest.find(caller);
            return !c || c->is_wrapper ? "" : fmt::format("{}.in({}).compute_root();", f.name, caller);
        }
        default: {
            // rfactor of a reduction's loop
            directive = "rfactor";
            for (const StageNest &stage : f.stages) {
                for (const Loop &l : stage.loops) {
                    if (stage.update >= 0 && l.is_rvar) {
                        return fmt::format("{} = {}.update({}).rfactor({}, {});", name("part"), f.name,
                                           stage.update, l.name, name("u"));
                    }
                }
            }
            return "";
        }
        }
    }
};

} // namespace

RandomSchedule random_schedule(const PipelineInfo &pipeline, const Target &target, unsigned seed,
                               int attempts) {
    return Writer(pipeline, target, seed).run(attempts);
}

} // namespace kiln::test
