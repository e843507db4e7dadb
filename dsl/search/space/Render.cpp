#include "dsl/search/space/Render.h"

#include "dsl/schedule/Parser.h"
#include "dsl/search/space/RenderStage.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>

namespace kiln::search {

namespace {

constexpr const char *plan_mark = "plan ";

class Renderer {
public:
    Renderer(const PlanContext &cx, const Plan &plan) : cx(cx), plan(plan) {}

    std::string run() {
        // Consumers first: the loops that a Func is computed in are made before.
        std::vector<std::string> order(cx.funcs.rbegin(), cx.funcs.rend());
        for (const std::string &func : order) {
            render_func(func);
        }
        for (const WrapPlan &w : plan.wraps) {
            render_wrap(w);
        }
        return body;
    }

private:
    const PlanContext &cx;
    const Plan &plan;
    std::string body;
    std::map<std::string, std::vector<StageLoops>> loops; ///< by Func and stage

    /// Which stage of the host the readers of `func` stand in.
    int stage_in(const std::string &host, const std::string &func) {
        int found = -1;
        for (const std::string &reader : cx.readers(plan, func)) {
            std::vector<int> stages;
            if (reader == host) {
                stages = cx.reading_stages(plan, reader, func);
            } else {
                std::string at = reader;
                for (size_t depth = 0; depth < plan.funcs.size() && plan.funcs.at(at).place.host != host;
                     depth++) {
                    at = plan.funcs.at(at).place.host;
                    if (at.empty()) {
                        break;
                    }
                }
                if (at.empty() || plan.funcs.at(at).place.where != Where::At) {
                    throw std::invalid_argument("a reader outside of the loops that a Func is computed in");
                }
                stages = {stage_in(host, at)};
            }
            for (int s : stages) {
                if (found >= 0 && found != s) {
                    throw std::invalid_argument("readers in two stages of the Func that it is computed in");
                }
                found = s;
            }
        }
        if (found < 0) {
            throw std::invalid_argument("no reader in the loops that a Func is computed in");
        }
        return found;
    }

    std::string at_text(const PlanPlace &place, int stage, const char *directive) {
        auto it = loops.find(place.host);
        if (it == loops.end() || stage >= static_cast<int>(it->second.size())) {
            throw std::invalid_argument("a Func computed inside one that has no loops");
        }
        const StageLoops &in = it->second[static_cast<size_t>(stage)];
        std::string loop = in.innermost_at(place.level);
        if (loop.empty()) {
            // The host is so small that it is one tile: what is computed in that tile is computed where the host is.
            const FuncPlan &h = plan.funcs.at(place.host);
            if (h.place.where != Where::At) {
                return directive == std::string("compute_at") ? ".compute_root()" : ".store_root()";
            }
            return at_text(h.place, stage_in(h.place.host, place.host), directive);
        }
        std::string host = stage == 0 ? place.host : fmt::format("{}.update({})", place.host, stage - 1);
        return fmt::format(".{}({}, {})", directive, host, loop);
    }

    void render_func(const std::string &func) {
        const FuncPlan &f = plan.funcs.at(func);
        const FuncInfo &info = cx.info(func);
        if (info.is_extern) {
            body += info.is_output ? "" : fmt::format("  {}.compute_root();\n", func);
            return;
        }
        if (f.place.where == Where::Inline) {
            return;
        }
        std::string head, place;
        bool is_further_out = false;
        if (!info.is_output && f.place.where == Where::Root) {
            head = place = ".compute_root()";
        } else if (f.place.where == Where::At) {
            int stage = stage_in(f.place.host, func);
            head = place = at_text(f.place, stage, "compute_at");
            // Further out than planned, it computes more than a tile of its host needs.
            is_further_out = place.find(fmt::format("({},", f.place.host)) == std::string::npos &&
                             place.find(fmt::format("({}.update(", f.place.host)) == std::string::npos;
            if (f.store && f.store->where == Where::Root) {
                head += ".store_root()";
            } else if (f.store) {
                head += at_text(*f.store, stage, "store_at");
            }
            if (cx.is_gpu && f.place.level == Task) {
                head += ".store_in(GPUShared)";
            }
        }
        if (!f.storage.empty() && info.args.size() > 1 && !info.is_output) {
            std::vector<std::string> dims;
            for (int d : f.storage) {
                dims.push_back(info.args[static_cast<size_t>(d)]);
            }
            head += fmt::format(".reorder_storage({})", fmt::join(dims, ", "));
        }
        if (f.align > 1 && !info.args.empty() && !info.is_output) {
            size_t innermost = f.storage.empty() ? 0 : static_cast<size_t>(f.storage[0]);
            head += fmt::format(".align_storage({}, {})", info.args[innermost], f.align);
        }
        PlanContext::Sizes sizes = cx.sizes(plan, func);
        FuncPlan placed = f;
        placed.place.level = is_further_out ? Outer : f.place.level;
        for (size_t s = 0; s < info.stages.size(); s++) {
            StageLoops stage;
            std::string calls;
            if (s > 0 && f.rfactor > 0 && info.stages[s].is_associative) {
                body += render_rfactor(cx, func, f, static_cast<int>(s), place, sizes);
                stage.levels.assign(Reduce + 1, "");
            } else {
                calls = render_stage(cx, func, placed, static_cast<int>(s), sizes, stage);
            }
            loops[func].push_back(std::move(stage));
            std::string name = s == 0 ? func : fmt::format("{}.update({})", func, s - 1);
            if (s == 0) {
                calls = head + calls;
            }
            if (calls.empty() && s > 0 && f.rfactor == 0) {
                calls = ".unscheduled()";
            }
            if (!calls.empty()) {
                body += fmt::format("  {}{};\n", name, calls);
            }
        }
    }

    void render_wrap(const WrapPlan &w) {
        std::string text = fmt::format("  {}.in({})", w.producer, w.consumer);
        if (w.place.where == Where::Root) {
            text += ".compute_root()";
        } else {
            int stage = w.place.host == w.consumer ? cx.reading_stages(plan, w.consumer, w.producer).back()
                                                   : stage_in(w.place.host, w.consumer);
            text += at_text(w.place, stage, "compute_at");
        }
        const FuncInfo &info = cx.info(w.producer);
        std::vector<std::string> dims;
        for (size_t d = 0; d < info.args.size(); d++) {
            dims.push_back(info.is_input ? fmt::format("_{}", d) : info.args[d]);
        }
        std::string inner = dims.empty() ? "" : dims[0];
        if (!w.storage.empty() && dims.size() > 1) {
            std::vector<std::string> order;
            for (int d : w.storage) {
                order.push_back(dims[static_cast<size_t>(d)]);
            }
            inner = order[0];
            text += fmt::format(".reorder_storage({})", fmt::join(order, ", "));
        }
        if (!inner.empty() && w.lanes > 1 && !cx.is_gpu) {
            text += fmt::format(".split({0}, {1}, {2}, {3}, GuardWithIf).vectorize({2})", inner, inner + "_o",
                                inner + "_v", w.lanes);
            if (inner != dims[0]) {
                // Whole vectors of the copy's own order; reading across the source.
                std::vector<std::string> order = {inner + "_v"};
                for (const std::string &d : dims) {
                    order.push_back(d == inner ? inner + "_o" : d);
                }
                text += fmt::format(".reorder({})", fmt::join(order, ", "));
            }
        }
        body += text + ";\n";
    }
};

} // namespace

std::string render_plan(const PlanContext &cx, const Plan &plan, const std::string &name) {
    const std::string &generator = cx.problem.info.generator;
    return fmt::format("// {}{}\nschedule {} {{\n{}  target {}\n\n{}}}\n", plan_mark, plan.str(), name,
                       generator.empty() ? "" : fmt::format("  op {}\n", generator), cx.problem.target.str(),
                       Renderer(cx, plan).run());
}

std::optional<Plan> plan_of(const PlanContext &cx, const Schedule &schedule) {
    for (std::string line : schedule.header_comments) {
        line.erase(0, line.find_first_not_of(' '));
        if (!line.starts_with(plan_mark)) {
            continue;
        }
        std::optional<Plan> plan = Plan::parse(line.substr(std::string(plan_mark).size()));
        if (!plan) {
            return std::nullopt;
        }
        for (const std::string &func : cx.funcs) {
            if (!plan->funcs.count(func)) {
                return std::nullopt; // of an algorithm that has changed
            }
        }
        try {
            ParseResult parsed = parse_schedules(render_plan(cx, *plan, schedule.name), "plan");
            bool same = parsed.ok() && parsed.schedules.size() == 1 &&
                        parsed.schedules[0].statements == schedule.statements;
            return same ? plan : std::nullopt; // else somebody wrote on
        } catch (const std::invalid_argument &) {
            return std::nullopt;
        }
    }
    return std::nullopt;
}

} // namespace kiln::search
