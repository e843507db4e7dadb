#include "dsl/schedule/DefaultSchedule.h"
#include "dsl/schedule/Parser.h"
#include "dsl/target/Device.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

namespace kiln {

namespace {

/// Elements below which starting threads costs more than they save.
constexpr int64_t worth_a_thread = 4096;
/// Elements of a one-dimensional Func that one CPU task computes.
constexpr int64_t task_elements = 16384;
/// Inlined Funcs in a row; longer chains make expressions that Halide takes long to simplify.
constexpr int longest_inline_chain = 16;
constexpr int64_t block_threads = 256, block_width = 32;

bool is_identifier(const std::string &name) {
    return !name.empty() && !isdigit(static_cast<unsigned char>(name[0])) &&
           std::all_of(name.begin(), name.end(),
                       [](unsigned char c) { return isalnum(c) || c == '_' || c == '.'; });
}

class DefaultScheduler {
public:
    DefaultScheduler(const PipelineInfo &pipeline, const Target &target)
        : pipeline(pipeline), target(target), limits(limits_of(target)) {}

    std::string run() {
        std::string body;
        for (const FuncInfo &f : pipeline.funcs) {
            if (!f.is_input && is_identifier(f.name) && !inlined(f)) {
                body += func(f);
            }
        }
        std::string op =
            is_identifier(pipeline.generator) ? fmt::format("  op {}\n", pipeline.generator) : "";
        return fmt::format("// Made by Kiln for any sizes: right everywhere, tuned for nothing.\n"
                           "schedule default_{} {{\n{}  target {}\n\n{}}}\n",
                           target.slug(), op, target.str(), body);
    }

private:
    const PipelineInfo &pipeline;
    const Target &target;
    DeviceLimits limits;
    std::map<std::string, int> inline_depth; ///< of the Funcs decided so far; 0: not inlined

    bool inlined(const FuncInfo &f) {
        if (!f.can_be_inlined || f.is_output) {
            return false;
        }
        int depth = 1;
        for (const std::string &callee : f.callees) {
            depth = std::max(depth, 1 + inline_depth[callee]);
        }
        if (!must_inline(f) && (depth > longest_inline_chain || !read_once_elementwise(f))) {
            return false;
        }
        inline_depth[f.name] = depth;
        return true;
    }

    template<typename Visit>
    void for_reads_of(const FuncInfo &f, Visit visit) const {
        for (const std::string &caller : f.callers) {
            for (const StageInfo &stage : pipeline.find(caller)->stages) {
                for (const ReadInfo &read : stage.reads) {
                    if (read.func == f.name) {
                        visit(stage, read);
                    }
                }
            }
        }
    }

    /// Where an index comes from data, the region to compute may have no bound.
    bool must_inline(const FuncInfo &f) const {
        bool from_data = false;
        for_reads_of(f, [&](const StageInfo &, const ReadInfo &read) {
            for (const IndexInfo &index : read.indices) {
                from_data = from_data || index.from_data;
            }
        });
        return from_data;
    }

    /// Inlining computes nothing twice: one read, whose indices use every loop of the reader.
    bool read_once_elementwise(const FuncInfo &f) const {
        int reads = 0;
        bool elementwise = f.types.size() == 1;
        for_reads_of(f, [&](const StageInfo &stage, const ReadInfo &read) {
            reads += read.count;
            std::set<std::string> used;
            for (const IndexInfo &index : read.indices) {
                used.insert(index.loops.begin(), index.loops.end());
                elementwise = elementwise && index.is_affine && index.terms.size() <= 1;
            }
            elementwise = elementwise && used.size() == stage.dims.size();
        });
        return elementwise && reads == 1;
    }

    std::string func(const FuncInfo &f) {
        std::string text;
        if (!f.is_output) {
            text += fmt::format("  {}.compute_root();\n", f.name);
        }
        if (f.is_extern) {
            return text;
        }
        bool any = false;
        for (size_t i = 0; i < f.stages.size(); i++) {
            std::string calls =
                target.backend == Backend::Cpu ? cpu_stage(f, f.stages[i]) : gpu_stage(f.stages[i]);
            if (calls.empty() && any) {
                calls = ".unscheduled()";
            }
            if (!calls.empty()) {
                std::string stage = i == 0   ? f.name
                                    : i == 1 ? f.name + ".update()"
                                             : fmt::format("{}.update({})", f.name, i - 1);
                text += fmt::format("  {}{};\n", stage, calls);
                any = true;
            }
        }
        return text;
    }

    /// A loop name that the stage does not have yet.
    static std::string fresh(std::set<std::string> &names, std::string name) {
        std::replace(name.begin(), name.end(), '.', '_');
        std::string candidate = name;
        for (int i = 1; !names.insert(candidate).second; i++) {
            candidate = name + std::to_string(i);
        }
        return candidate;
    }

    struct Loops {
        std::vector<std::string> pure, rvars; ///< innermost first
        std::set<std::string> names;
        bool usable = true;
    };

    static Loops loops_of(const StageInfo &stage) {
        Loops loops;
        for (const DimInfo &d : stage.dims) {
            (d.is_rvar ? loops.rvars : loops.pure).push_back(d.name);
            loops.names.insert(d.name);
            loops.usable = loops.usable && is_identifier(d.name);
        }
        return loops;
    }

    static const DimInfo *dim(const StageInfo &stage, const std::string &name) {
        for (const DimInfo &d : stage.dims) {
            if (d.name == name) {
                return &d;
            }
        }
        return nullptr;
    }

    int64_t lanes_for(const FuncInfo &f) const {
        int64_t bytes = 1;
        for (const std::string &type : f.types) {
            FuncInfo one;
            one.types = {type};
            bytes = std::max(bytes, one.bytes_per_element());
        }
        return std::clamp<int64_t>(limits.lanes * 4 / bytes, 1, 64);
    }

    std::string cpu_stage(const FuncInfo &f, const StageInfo &stage) const {
        Loops loops = loops_of(stage);
        if (loops.pure.empty() || !loops.usable) {
            return "";
        }
        std::string text;
        std::vector<std::string> order = loops.rvars;
        std::string inner = loops.pure[0];
        int64_t lanes = lanes_for(f);
        const DimInfo *first = dim(stage, inner);
        // A vector along any dimension but the first of the storage would gather.
        bool vectorized =
            lanes > 1 && !f.args.empty() && f.args[0] == inner && (!first->extent || *first->extent >= lanes);
        if (vectorized) {
            std::string lane = fresh(loops.names, inner + "v");
            text += fmt::format(".split({0}, {0}, {1}, {2}).vectorize({1})", inner, lane, lanes);
            order.insert(order.begin(), lane);
        }
        order.insert(order.end(), loops.pure.begin(), loops.pure.end());
        if (order.size() > 1 && !loops.rvars.empty()) {
            text += fmt::format(".reorder({})", fmt::join(order, ", "));
        }
        int64_t elements = 1;
        bool known = true;
        for (const DimInfo &d : stage.dims) {
            known = known && d.extent;
            elements =
                known ? std::min<int64_t>(elements, INT32_MAX) * std::min<int64_t>(*d.extent, INT32_MAX) : 0;
        }
        if (known && elements < worth_a_thread) {
            return text;
        }
        if (loops.pure.size() == 1) {
            std::string task = fresh(loops.names, inner + "t");
            int64_t vectors = std::max<int64_t>(1, task_elements / (vectorized ? lanes : 1));
            // A loop of an update does more than one step an element.
            int64_t factor = loops.rvars.empty() ? vectors : std::max<int64_t>(1, vectors / 256);
            return text + fmt::format(".split({0}, {1}, {0}, {2}).parallel({1})", inner, task, factor);
        }
        std::string outer = loops.pure.back();
        if (loops.pure.size() > 2) {
            std::string fused = fresh(loops.names, "p");
            text += fmt::format(".fuse({}, {}, {})", loops.pure[loops.pure.size() - 2], outer, fused);
            outer = fused;
        }
        return text + fmt::format(".parallel({})", outer);
    }

    /// All block loops are fused into one, which has no limit of 65535, and threads lie along one or two dimensions.
    std::string gpu_stage(const StageInfo &stage) const {
        Loops loops = loops_of(stage);
        if (!loops.usable) {
            return "";
        }
        if (loops.pure.empty()) {
            return ".gpu_single_thread()";
        }
        std::string text, fuses, blocks;
        std::vector<std::string> threads;
        int64_t width = loops.pure.size() == 1 ? block_threads : block_width;
        for (size_t i = 0; i < loops.pure.size(); i++) {
            std::string outer = loops.pure[i];
            if (i < 2) {
                std::string block = fresh(loops.names, outer + "b"), thread = fresh(loops.names, outer + "t");
                int64_t factor = i == 0 ? width : block_threads / width;
                text += fmt::format(".split({}, {}, {}, {})", outer, block, thread, factor);
                threads.push_back(thread);
                outer = block;
            }
            if (i == 0) {
                blocks = outer;
                continue;
            }
            std::string fused = fresh(loops.names, "b");
            fuses += fmt::format(".fuse({}, {}, {})", blocks, outer, fused);
            blocks = fused;
        }
        text += fuses;
        std::vector<std::string> order = loops.rvars;
        order.insert(order.end(), threads.begin(), threads.end());
        order.push_back(blocks);
        text += fmt::format(".reorder({}).gpu_blocks({}).gpu_threads({})", fmt::join(order, ", "), blocks,
                            fmt::join(threads, ", "));
        return text;
    }
};

} // namespace

Schedule default_schedule(const PipelineInfo &pipeline, const Target &target) {
    ParseResult parsed = parse_schedules(DefaultScheduler(pipeline, target).run(), "<default schedule>");
    if (!parsed.ok() || parsed.schedules.empty()) {
        throw Error(parsed.diagnostics);
    }
    return parsed.schedules.front();
}

} // namespace kiln
