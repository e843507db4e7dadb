// How much of each Func its consumers need: a small bounds inference over affine reads. What it cannot tell stays
// empty, and what it gives is what one iteration needs, before a tail cuts it short.
#include "dsl/schedule/LoopNest.h"

#include <algorithm>
#include <map>

namespace kiln {

namespace {

using Extent = std::optional<int64_t>;
using Box = std::vector<Extent>;

class Inference {
public:
    explicit Inference(LoopNest &nest) : nest(nest) {}

    void run() {
        for (size_t i = nest.funcs.size(); i-- > 0;) {
            FuncNest &f = nest.funcs[i];
            f.stored_extents.assign(f.args.size(), std::nullopt);
            if (f.is_output || f.is_input || f.is_extern) {
                if (!f.stages.empty()) {
                    for (size_t a = 0; a < f.args.size(); a++) {
                        for (const DimInfo &d : f.stages[0].dims) {
                            if (d.name == f.args[a]) {
                                f.stored_extents[a] = d.extent;
                            }
                        }
                    }
                }
                continue;
            }
            if (f.is_inlined()) {
                continue;
            }
            Box computed = box(f, f.compute);
            f.needed_extents = computed;
            for (StageNest &stage : f.stages) {
                for (DimInfo &d : stage.dims) {
                    auto at = std::find(f.args.begin(), f.args.end(), d.name);
                    if (!d.is_rvar && at != f.args.end() && computed[at - f.args.begin()]) {
                        d.extent = computed[at - f.args.begin()];
                    }
                }
                stage.refresh_extents();
            }
            f.stored_extents = f.store.same_place(f.compute) ? computed : box(f, f.store);
            for (const FuncNest::Amount &bound : f.bounds) {
                for (size_t a = 0; a < f.args.size(); a++) {
                    if (f.args[a] == bound.dim && bound.value) {
                        f.stored_extents[a] = bound.value;
                    }
                }
            }
            // The memo may hold boxes that did not know of the extents just found.
            memo.clear();
        }
    }

private:
    LoopNest &nest;
    std::map<std::pair<std::string, std::string>, Box> memo;

    /// An output that another Func's tile kernel stores too: it reads what that one's tile holds.
    static bool joins_a_kernel(const FuncNest &f) {
        auto mark = f.tile.find("tile_kernel");
        return mark != f.tile.end() && !mark->second.args.empty();
    }

    /// Elements of `f` along each of its dimensions that one iteration of `place` needs.
    Box box(const FuncNest &f, const NestLevel &place) {
        auto key = std::make_pair(f.name, place.str());
        if (auto it = memo.find(key); it != memo.end()) {
            return it->second;
        }
        memo[key] = Box(f.args.size()); // what a circle of levels sees
        Box whole(f.args.size());
        bool first = true;
        for (const std::string &caller : f.callers) {
            const FuncNest *c = nest.find(caller);
            if (!c || (place.kind == NestLevel::Kind::At && joins_a_kernel(*c))) {
                continue;
            }
            for (const StageNest &stage : c->stages) {
                bool at_place = place.kind == NestLevel::Kind::At && place.func == c->name;
                if (at_place && stage.update != place.update) {
                    continue;
                }
                bool reads = std::any_of(stage.reads.begin(), stage.reads.end(),
                                         [&](const ReadInfo &read) { return read.func == f.name; });
                if (!reads) {
                    continue;
                }
                Box need = box_of_reads(f, *c, stage, place, at_place);
                for (size_t d = 0; d < whole.size(); d++) {
                    whole[d] = first ? need[d] : join(whole[d], need[d]);
                }
                first = false;
            }
        }
        return memo[key] = whole;
    }

    /// The larger of two; where one is unknown the other is still a lower bound, but no exact number.
    static Extent join(Extent a, Extent b) { return a && b ? Extent(std::max(*a, *b)) : std::nullopt; }

    Extent extent_of_loop(const std::string &loop, const FuncNest &c, const StageNest &stage,
                          const NestLevel &place, bool at_place) {
        if (at_place) {
            return stage.extent_inside(loop, stage.index_of(place.loop));
        }
        auto arg = std::find(c.args.begin(), c.args.end(), loop);
        if (arg != c.args.end() && !c.is_output) {
            return box(c, place)[arg - c.args.begin()];
        }
        return stage.extent_inside(loop, static_cast<int>(stage.loops.size()));
    }

    Box box_of_reads(const FuncNest &f, const FuncNest &c, const StageNest &stage, const NestLevel &place,
                     bool at_place) {
        Box need(f.args.size());
        for (size_t d = 0; d < need.size(); d++) {
            struct Range {
                const IndexInfo *index;
                int64_t low, high;
            };
            std::vector<Range> ranges;
            bool known = true;
            for (const ReadInfo &read : stage.reads) {
                if (read.func != f.name || read.indices.size() != need.size()) {
                    continue;
                }
                const IndexInfo &index = read.indices[d];
                known = known && index.is_affine;
                auto same = std::find_if(ranges.begin(), ranges.end(),
                                         [&](const Range &r) { return r.index->terms == index.terms; });
                if (same == ranges.end()) {
                    ranges.push_back({&index, index.offset, index.offset});
                } else {
                    same->low = std::min(same->low, index.offset);
                    same->high = std::max(same->high, index.offset);
                }
            }
            Extent widest;
            if (known && ranges.size() == 1) {
                widest = ranges[0].high - ranges[0].low + 1;
                for (const IndexInfo::Term &term : ranges[0].index->terms) {
                    Extent e = extent_of_loop(term.loop, c, stage, place, at_place);
                    widest =
                        widest && e ? Extent(*widest + std::abs(term.coefficient) * (*e - 1)) : std::nullopt;
                }
            }
            need[d] = widest;
        }
        return need;
    }
};

} // namespace

void LoopNest::infer_extents() {
    Inference(*this).run();
}

} // namespace kiln
