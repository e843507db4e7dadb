#include "dsl/search/features/NestModel.h"

#include "dsl/schedule/TileGroup.h"
#include "dsl/search/features/Conditions.h"

#include <algorithm>
#include <cmath>

namespace kiln::search {

namespace {

double ceil_div(double a, double b) {
    return b > 0 ? std::ceil(a / b) : a;
}

} // namespace

NestModel::NestModel(const Problem &problem, const LoopNest &nest, const Schedule &canonical)
    : problem(problem), nest(nest) {
    for (const Statement &s : canonical.statements) {
        for (const DirectiveCall &call : s.calls) {
            const FuncNest *f = call.name == "reorder_storage" ? nest.find(s.stage.str()) : nullptr;
            if (!f) {
                continue;
            }
            // The dimensions named take the places that they had, in the order given.
            std::vector<size_t> named, order;
            for (size_t d = 0; d < f->args.size(); d++) {
                order.push_back(d);
            }
            for (const Node &arg : call.args) {
                auto at = std::find(f->args.begin(), f->args.end(), arg.text);
                if (at != f->args.end()) {
                    named.push_back(static_cast<size_t>(at - f->args.begin()));
                }
            }
            std::vector<size_t> places = named;
            std::sort(places.begin(), places.end());
            for (size_t i = 0; i < places.size(); i++) {
                order[places[i]] = named[i];
            }
            storage[f->name] = order;
        }
    }
    for (const FuncNest &f : nest.funcs) {
        for (const StageNest &s : f.stages) {
            chosen[f.name].push_back(stage_in_effect(problem, s));
        }
    }
    // Consumers first: how much of a Func is computed at once follows from its readers' loops.
    for (size_t i = nest.funcs.size(); i-- > 0;) {
        const FuncNest &f = nest.funcs[i];
        if (f.is_input || (f.is_inlined() && !f.is_output)) {
            continue;
        }
        domain[f.name] =
            box_at(f, f.is_output ? NestLevel{NestLevel::Kind::Root, "", -1, "", {}} : f.compute);
        NestLevel store = f.store.kind == NestLevel::Kind::Inlined ? f.compute : f.store;
        stored[f.name] = f.is_output ? domain[f.name] : box_at(f, store);
        refresh(f);
        boxes.clear(); // may hold boxes that did not know these extents
    }
    for (const FuncNest &f : nest.funcs) {
        if (f.is_input || f.is_extern || (f.is_inlined() && !f.is_output) || in_tile_kernel(nest, f)) {
            continue;
        }
        for (size_t s = 0; s < f.stages.size(); s++) {
            add_body(f, s);
        }
    }
}

const StageNest *NestModel::stage_of(const std::string &func, int update) const {
    auto it = chosen.find(func);
    size_t s = static_cast<size_t>(update + 1);
    return it == chosen.end() || s >= it->second.size() ? nullptr : it->second[s];
}

const StageNest *NestModel::at_stage(const NestLevel &level) const {
    const StageNest *s = stage_of(level.func, level.update);
    if (s && s->index_of(level.loop) >= 0) {
        return s;
    }
    auto it = chosen.find(level.func);
    for (size_t i = 0; it != chosen.end() && i < it->second.size(); i++) {
        if (it->second[i]->index_of(level.loop) >= 0) {
            return it->second[i];
        }
    }
    return nullptr;
}

int NestModel::dim_index(const StageNest &stage, const std::string &dim) {
    for (size_t d = 0; d < stage.dims.size(); d++) {
        if (stage.dims[d].name == dim) {
            return static_cast<int>(d);
        }
    }
    return -1;
}

void NestModel::refresh(const FuncNest &f) {
    const FuncAlgorithm *algorithm = problem.algorithm->find(f.name);
    for (size_t i = 0; i < f.stages.size(); i++) {
        const StageNest *s = chosen.at(f.name)[i];
        StageNumbers &n = numbers[s];
        // Names as numbers: dimensions first, then what steps make.
        std::vector<const std::string *> names;
        auto id = [&](const std::string &name, bool fresh) {
            for (size_t k = names.size(); k-- > 0 && !fresh;) {
                if (*names[k] == name) {
                    return static_cast<int>(k);
                }
            }
            names.push_back(&name);
            return static_cast<int>(names.size()) - 1;
        };
        std::vector<double> whole;
        for (const DimInfo &d : s->dims) {
            double extent = d.extent ? static_cast<double>(*d.extent) : 1;
            auto arg = std::find(f.args.begin(), f.args.end(), d.name);
            if (!d.is_rvar && arg != f.args.end()) {
                size_t a = static_cast<size_t>(arg - f.args.begin());
                extent = a < domain[f.name].size() ? domain[f.name][a] : extent;
            } else if (d.is_rvar && !d.extent && algorithm && i < algorithm->stages.size()) {
                // An extent that the sizes do not tell: what the number of points leaves for it.
                double others = 1;
                for (const DimInfo &o : s->dims) {
                    others *= &o != &d && o.extent ? static_cast<double>(*o.extent) : 1;
                }
                extent = std::max(1.0, algorithm->stages[i].points / others);
            }
            id(d.name, true);
            whole.push_back(std::max(1.0, extent));
        }
        const size_t dims = whole.size();
        struct Made {
            int old, outer, inner;
        };
        std::vector<Made> made;
        for (const LoopStep &step : s->steps) {
            Made m{-1, -1, -1};
            auto set = [&](int at, double value) {
                whole.resize(names.size(), 1);
                whole[static_cast<size_t>(at)] = value;
            };
            switch (step.kind) {
            case LoopStep::Kind::Split: {
                m.old = id(step.old, false);
                whole.resize(names.size(), 1);
                double old = whole[static_cast<size_t>(m.old)],
                       factor = static_cast<double>(step.factor.value_or(1));
                m.inner = id(step.inner, true);
                set(m.inner, factor);
                m.outer = id(step.outer, true);
                set(m.outer, std::max(1.0, ceil_div(old, factor)));
                break;
            }
            case LoopStep::Kind::Fuse: {
                m.inner = id(step.inner, false), m.outer = id(step.outer, false);
                whole.resize(names.size(), 1);
                double both = whole[static_cast<size_t>(m.inner)] * whole[static_cast<size_t>(m.outer)];
                m.old = id(step.old, true);
                set(m.old, both);
                break;
            }
            case LoopStep::Kind::Rename: {
                m.old = id(step.old, false);
                whole.resize(names.size(), 1);
                double old = whole[static_cast<size_t>(m.old)];
                m.inner = id(step.inner, true);
                set(m.inner, old);
                break;
            }
            case LoopStep::Kind::Rfactor:
                break;
            }
            made.push_back(m);
        }
        std::vector<int> loop_ids;
        for (const Loop &l : s->loops) {
            loop_ids.push_back(id(l.name, false));
            whole.resize(names.size(), 1);
            n.loops.push_back(whole[static_cast<size_t>(loop_ids.back())]);
        }
        // Splits are undone from the last to the first.
        std::vector<double> now(names.size());
        auto undo = [&](auto &&visit) {
            for (size_t k = made.size(); k-- > 0;) {
                if (s->steps[k].kind != LoopStep::Kind::Rfactor) {
                    visit(s->steps[k], made[k]);
                }
            }
        };
        for (size_t level = 0; level <= s->loops.size(); level++) {
            std::fill(now.begin(), now.end(), 1);
            for (size_t l = 0; l < level; l++) {
                now[static_cast<size_t>(loop_ids[l])] = n.loops[l];
            }
            undo([&](const LoopStep &step, const Made &m) {
                auto at = [&](int k) -> double & { return now[static_cast<size_t>(k)]; };
                switch (step.kind) {
                case LoopStep::Kind::Split: {
                    double factor = static_cast<double>(step.factor.value_or(1));
                    at(m.old) = at(m.outer) <= 1 ? at(m.inner) : (at(m.outer) - 1) * factor + at(m.inner);
                    break;
                }
                case LoopStep::Kind::Fuse: {
                    double fused = at(m.old), inner = whole[static_cast<size_t>(m.inner)];
                    at(m.inner) = std::min(fused, inner);
                    at(m.outer) =
                        std::clamp(std::ceil(fused / inner), 1.0, whole[static_cast<size_t>(m.outer)]);
                    break;
                }
                case LoopStep::Kind::Rename:
                    at(m.old) = at(m.inner);
                    break;
                case LoopStep::Kind::Rfactor:
                    break;
                }
            });
            std::vector<double> spans;
            for (size_t d = 0; d < dims; d++) {
                spans.push_back(std::min(now[d], whole[d]));
            }
            n.spans.push_back(std::move(spans));
        }
        for (int loop : loop_ids) {
            std::vector<char> runs(names.size(), 0);
            runs[static_cast<size_t>(loop)] = 1;
            undo([&](const LoopStep &step, const Made &m) {
                auto at = [&](int k) -> char & { return runs[static_cast<size_t>(k)]; };
                if (step.kind == LoopStep::Kind::Split) {
                    at(m.old) = at(m.outer) || at(m.inner);
                } else if (step.kind == LoopStep::Kind::Fuse) {
                    at(m.inner) = at(m.outer) = at(m.old);
                } else {
                    at(m.old) = at(m.inner);
                }
            });
            runs.resize(dims);
            n.roots.push_back(std::move(runs));
        }
    }
}

double NestModel::span(const StageNest &stage, int dim, int level) const {
    auto known = numbers.find(&stage);
    if (known == numbers.end() || dim < 0 || level < 0) {
        return 1;
    }
    const auto &spans = known->second.spans;
    return spans[std::min(static_cast<size_t>(level), spans.size() - 1)][static_cast<size_t>(dim)];
}

StageAlgorithm NestModel::stage_algorithm(const FuncNest &f, size_t stage) const {
    const FuncAlgorithm *a = problem.algorithm->find(f.name);
    const StageNest &nest_stage = f.stages[stage];
    // A Func that stands as the algorithm has it, or one that rfactor left the merging of.
    bool merged = std::any_of(nest_stage.steps.begin(), nest_stage.steps.end(),
                              [](const LoopStep &s) { return s.kind == LoopStep::Kind::Rfactor; });
    if (a && stage < a->stages.size() && !merged && !f.is_wrapper) {
        return a->stages[stage];
    }
    StageAlgorithm out;
    for (const ReadInfo &read : nest_stage.reads) {
        Access access;
        access.func = read.func;
        for (const IndexInfo &index : read.indices) {
            AccessDim d;
            for (const IndexInfo::Term &t : index.terms) {
                d.terms.push_back({t.loop, static_cast<double>(t.coefficient)});
            }
            if (!index.is_affine) {
                for (const std::string &loop : index.loops) {
                    d.terms.push_back({loop, 1});
                }
            }
            access.dims.push_back(std::move(d));
        }
        out.reads.push_back(std::move(access));
    }
    out.write.resize(f.args.size());
    for (size_t d = 0; d < f.args.size(); d++) {
        out.write[d].terms.push_back({f.args[d], 1});
    }
    if (f.is_wrapper) {
        return out;
    }
    // rfactor: partial results do what the reduction did, the rest adds them up.
    out.reads_itself = stage > 0;
    const FuncAlgorithm *base = f.info ? problem.algorithm->find(f.info->name) : nullptr;
    if (stage > 0 && base && base->stages.size() > 1) {
        const StageAlgorithm &reduction = base->stages.back();
        out.ops = reduction.ops;
        if (merged) {
            out.ops = {};
            out.ops.adds = 1;
        } else {
            out.reads = reduction.reads;
            // The RVar that was split is gone: its parts, the new dimension innermost, stand for it.
            std::string fresh;
            double width = 1;
            for (const DimInfo &d : nest_stage.dims) {
                if (std::find(f.args.begin(), f.args.end(), d.name) != f.args.end() &&
                    std::find(f.info->args.begin(), f.info->args.end(), d.name) == f.info->args.end()) {
                    fresh = d.name;
                    width = d.extent ? static_cast<double>(*d.extent) : 1;
                }
            }
            std::string outer;
            for (const DimInfo &d : nest_stage.dims) {
                bool original = false;
                for (const DimInfo &o : f.info->stages.back().dims) {
                    original = original || o.name == d.name;
                }
                outer = d.is_rvar && !original && outer.empty() ? d.name : outer;
            }
            for (Access &read : out.reads) {
                for (AccessDim &dim : read.dims) {
                    std::vector<AccessDim::Term> terms;
                    for (const AccessDim::Term &t : dim.terms) {
                        bool there = std::any_of(nest_stage.dims.begin(), nest_stage.dims.end(),
                                                 [&](const DimInfo &d) { return d.name == t.loop; });
                        if (there) {
                            terms.push_back(t);
                            continue;
                        }
                        if (!fresh.empty()) {
                            terms.push_back({fresh, t.coefficient});
                        }
                        if (!outer.empty()) {
                            terms.push_back({outer, t.coefficient * width});
                        }
                    }
                    dim.terms = std::move(terms);
                }
            }
        }
    }
    return out;
}

NestModel::Reads NestModel::through(const FuncNest &reader, const StageAlgorithm &stage, int depth) {
    Reads out;
    out.ops = stage.ops;
    for (const Access &read : stage.reads) {
        const FuncNest *f = nest.find(read.func);
        // A wrapper for this reader stands between.
        for (const FuncNest &w : nest.funcs) {
            if (w.is_wrapper && w.info && f && w.info->name == read.func &&
                std::find(w.callers.begin(), w.callers.end(), reader.name) != w.callers.end()) {
                f = &w;
            }
        }
        if (!f || f->is_input || f->is_extern || !f->is_inlined() || f->is_output || f->stages.size() != 1 ||
            depth > 64) {
            Access direct_read = read;
            direct_read.func = f ? f->name : read.func;
            out.reads.push_back(std::move(direct_read));
            continue;
        }
        auto known = inlined.find(f->name);
        if (known == inlined.end()) {
            known = inlined.emplace(f->name, through(*f, stage_algorithm(*f, 0), depth + 1)).first;
        }
        out.ops += known->second.ops.scaled(read.count);
        for (const Access &inner : known->second.reads) {
            Access composed;
            composed.func = inner.func;
            composed.count = inner.count * read.count;
            for (const AccessDim &d : inner.dims) {
                AccessDim c;
                c.spread = d.spread, c.limit = d.limit, c.from_data = d.from_data, c.offset = d.offset;
                for (const AccessDim::Term &t : d.terms) {
                    auto arg = std::find(f->args.begin(), f->args.end(), t.loop);
                    size_t a = static_cast<size_t>(arg - f->args.begin());
                    if (a >= read.dims.size()) {
                        continue;
                    }
                    c.spread += std::abs(t.coefficient) * read.dims[a].spread;
                    c.offset += t.coefficient * read.dims[a].offset;
                    c.from_data = c.from_data || read.dims[a].from_data;
                    for (const AccessDim::Term &outer : read.dims[a].terms) {
                        auto same =
                            std::find_if(c.terms.begin(), c.terms.end(),
                                         [&](const AccessDim::Term &o) { return o.loop == outer.loop; });
                        if (same == c.terms.end()) {
                            c.terms.push_back({outer.loop, outer.coefficient * t.coefficient});
                        } else {
                            same->coefficient += outer.coefficient * t.coefficient;
                        }
                    }
                }
                composed.dims.push_back(std::move(c));
            }
            out.reads.push_back(std::move(composed));
        }
    }
    // Reads of one Func with the same slopes become one, as wide as they lie apart: a stencil.
    std::vector<Access> merged;
    for (Access &read : out.reads) {
        auto same = std::find_if(merged.begin(), merged.end(), [&](const Access &o) {
            if (o.func != read.func || o.dims.size() != read.dims.size()) {
                return false;
            }
            for (size_t d = 0; d < o.dims.size(); d++) {
                if (o.dims[d].terms.size() != read.dims[d].terms.size()) {
                    return false;
                }
                for (const AccessDim::Term &t : o.dims[d].terms) {
                    if (read.dims[d].coefficient(t.loop) != t.coefficient) {
                        return false;
                    }
                }
            }
            return true;
        });
        if (same == merged.end()) {
            merged.push_back(std::move(read));
            continue;
        }
        same->count += read.count;
        for (size_t d = 0; d < same->dims.size(); d++) {
            AccessDim &a = same->dims[d];
            const AccessDim &b = read.dims[d];
            double low = std::min(a.offset, b.offset),
                   high = std::max(a.offset + a.spread, b.offset + b.spread);
            a.offset = low;
            a.spread = high - low;
        }
    }
    out.reads = std::move(merged);
    return out;
}

const NestModel::Reads &NestModel::reads_of(const FuncNest &f, size_t stage) {
    auto [it, fresh] = direct.try_emplace({f.name, static_cast<int>(stage)});
    if (fresh) {
        it->second = through(f, stage_algorithm(f, stage), 0);
    }
    return it->second;
}

const std::vector<double> &NestModel::box_at(const FuncNest &f, const NestLevel &place) {
    std::string key = place.kind == NestLevel::Kind::At
                          ? place.func + "/" + std::to_string(place.update) + "/" + place.loop
                          : "";
    auto [slot, fresh] = boxes.try_emplace({f.name, key});
    if (!fresh) {
        return slot->second;
    }
    const FuncAlgorithm *algorithm = problem.algorithm->find(f.name);
    std::vector<double> whole(f.args.size(), 1);
    if (algorithm) {
        for (size_t d = 0; d < whole.size() && d < algorithm->extents.size(); d++) {
            whole[d] = std::max<double>(1, static_cast<double>(algorithm->extents[d]));
        }
    }
    if (f.is_output || (place.kind != NestLevel::Kind::At && algorithm)) {
        return slot->second = whole;
    }
    slot->second = std::vector<double>(f.args.size(), 1); // for a circle, which the checker refuses
    std::vector<double> most(f.args.size(), 1);
    const StageNest *host_stage = place.kind == NestLevel::Kind::At ? at_stage(place) : nullptr;
    for (const FuncNest &c : nest.funcs) {
        if (c.is_input || (c.is_inlined() && !c.is_output && c.stages.size() == 1)) {
            continue;
        }
        bool at_place = place.kind == NestLevel::Kind::At && c.name == place.func;
        for (size_t s = 0; s < c.stages.size(); s++) {
            const StageNest *stage = chosen.at(c.name)[s];
            if (at_place && stage != host_stage) {
                continue;
            }
            for (const Access &read : reads_of(c, s).reads) {
                if (read.func != f.name) {
                    continue;
                }
                const std::vector<double> *region = nullptr;
                if (!at_place) {
                    region = &box_at(c, place);
                }
                auto extent = [&](const std::string &loop) {
                    auto arg = std::find(c.args.begin(), c.args.end(), loop);
                    if (at_place) {
                        return span(*stage, dim_index(*stage, loop), stage->index_of(place.loop));
                    }
                    if (arg != c.args.end()) {
                        size_t a = static_cast<size_t>(arg - c.args.begin());
                        return a < region->size() ? (*region)[a] : 1.0;
                    }
                    return span(*stage, dim_index(*stage, loop), static_cast<int>(stage->loops.size()));
                };
                for (size_t d = 0; d < most.size() && d < read.dims.size(); d++) {
                    double n = std::ceil(read.dims[d].elements(extent));
                    most[d] = std::max(most[d], algorithm ? std::min(n, whole[d]) : n);
                }
            }
        }
    }
    return boxes[{f.name, key}] = most;
}

std::vector<ModelLoop> NestModel::chain_of(const NestLevel &level) const {
    std::vector<ModelLoop> out;
    NestLevel at = level;
    for (size_t depth = 0; at.kind == NestLevel::Kind::At && depth <= nest.funcs.size(); depth++) {
        const FuncNest *host = nest.find(at.func);
        const StageNest *stage = at_stage(at);
        int index = stage ? stage->index_of(at.loop) : -1;
        if (!host || index < 0) {
            break;
        }
        for (int i = index; i < static_cast<int>(stage->loops.size()); i++) {
            ModelLoop l;
            l.stage = stage, l.index = i, l.kind = stage->loops[i].kind,
            l.reduction = stage->loops[i].is_rvar;
            auto n = numbers.find(stage);
            if (n != numbers.end()) {
                l.extent = n->second.loops[static_cast<size_t>(i)];
            }
            out.push_back(l);
        }
        at = host->compute;
    }
    std::reverse(out.begin(), out.end());
    return out;
}

void NestModel::add_terms(ModelAccess::Dim &dim, const FuncNest &f, const StageNest &stage,
                          const std::string &loop, double coefficient, int depth) const {
    dim.terms.push_back({&stage, dim_index(stage, loop), coefficient});
    // Where the Func is computed inside another one, its coordinates move with that one's.
    auto arg = std::find(f.args.begin(), f.args.end(), loop);
    if (arg == f.args.end() || f.compute.kind != NestLevel::Kind::At || f.is_output || depth > 16) {
        return;
    }
    size_t a = static_cast<size_t>(arg - f.args.begin());
    for (const FuncNest &c : nest.funcs) {
        for (size_t s = 0; s < c.stages.size(); s++) {
            auto reads = direct.find({c.name, static_cast<int>(s)});
            if (reads == direct.end()) {
                continue;
            }
            for (const Access &read : reads->second.reads) {
                if (read.func != f.name || a >= read.dims.size()) {
                    continue;
                }
                for (const AccessDim::Term &t : read.dims[a].terms) {
                    const StageNest *host = chosen.at(c.name)[s];
                    add_terms(dim, c, *host, t.loop, coefficient * t.coefficient, depth + 1);
                }
                return; // one reader tells how it moves
            }
        }
    }
}

ModelAccess NestModel::access_of(const ModelBody &body, const Access &read, bool is_store) const {
    ModelAccess out;
    out.func = read.func;
    out.is_store = is_store;
    out.count = read.count;
    const FuncNest *f = nest.find(read.func);
    out.bytes = f && f->info ? static_cast<double>(f->info->bytes_per_element()) : 4;
    auto known = stored.find(read.func);
    if (known != stored.end()) {
        out.stored = known->second;
    } else if (const FuncAlgorithm *a = problem.algorithm->find(read.func)) {
        for (int64_t e : a->extents) {
            out.stored.push_back(static_cast<double>(e));
        }
    }
    // Loops outside of the buffer's place do not move its addresses.
    if (f && !f->is_input && !f->is_output) {
        NestLevel store = f->store.kind == NestLevel::Kind::Inlined ? f->compute : f->store;
        if (store.kind == NestLevel::Kind::At) {
            const StageNest *host = at_stage(store);
            int index = host ? host->index_of(store.loop) : -1;
            for (size_t i = 0; i < body.loops.size(); i++) {
                if (body.loops[i].stage == host && body.loops[i].index == index) {
                    out.store_depth = static_cast<int>(i) + 1;
                }
            }
        }
    }
    for (const AccessDim &d : read.dims) {
        ModelAccess::Dim dim;
        dim.spread = d.spread, dim.limit = d.limit;
        for (const AccessDim::Term &t : d.terms) {
            add_terms(dim, *body.func, *body.stage, t.loop, t.coefficient, 0);
        }
        out.dims.push_back(std::move(dim));
    }
    auto order = storage.find(read.func);
    if (order != storage.end() && order->second.size() == out.dims.size()) {
        std::vector<ModelAccess::Dim> dims;
        std::vector<double> extents;
        for (size_t d : order->second) {
            dims.push_back(out.dims[d]);
            extents.push_back(d < out.stored.size() ? out.stored[d] : 1);
        }
        out.dims = std::move(dims);
        out.stored = std::move(extents);
    }
    return out;
}

void NestModel::add_body(const FuncNest &f, size_t stage) {
    ModelBody body;
    body.func = &f;
    body.stage = chosen.at(f.name)[stage];
    body.name = f.stages[stage].name();
    StageAlgorithm algorithm = stage_algorithm(f, stage);
    const Reads &reads = reads_of(f, stage);
    body.ops = reads.ops;
    body.is_reduction = algorithm.reads_itself;
    body.share = algorithm.share;
    body.element_bytes = f.info ? static_cast<double>(f.info->bytes_per_element()) : 4;
    body.loops = chain_of(f.is_output ? NestLevel() : f.compute);
    for (int i = static_cast<int>(body.stage->loops.size()); i-- > 0;) {
        ModelLoop l;
        l.stage = body.stage, l.index = i, l.kind = body.stage->loops[i].kind, l.own = true;
        l.reduction = body.stage->loops[i].is_rvar;
        l.extent = numbers[body.stage].loops[static_cast<size_t>(i)];
        body.loops.push_back(l);
    }
    body.useful_points = algorithm.points;
    if (body.useful_points <= 0) {
        body.useful_points = 1;
        for (const ModelLoop &l : body.loops) {
            body.useful_points *= l.extent;
        }
    }
    Access store;
    store.func = f.name;
    store.dims = algorithm.write;
    for (const Access &read : reads.reads) {
        body.accesses.push_back(access_of(body, read, false));
    }
    if (body.is_reduction) {
        ModelAccess own = access_of(body, store, false);
        own.reads_own = true;
        body.accesses.push_back(std::move(own));
    }
    body.accesses.push_back(access_of(body, store, true));
    bodies.push_back(std::move(body));
}

void NestModel::box(const ModelBody &body, const ModelAccess &access, size_t depth,
                    std::vector<double> &out) const {
    depth = std::max(depth, static_cast<size_t>(access.store_depth));
    out.assign(access.dims.size(), 1);
    for (size_t d = 0; d < access.dims.size(); d++) {
        const ModelAccess::Dim &dim = access.dims[d];
        double n = 1 + dim.spread;
        for (const ModelAccess::Term &t : dim.terms) {
            // Loops of this stage that run while the outer `depth` loops stand still, and those that stand below the
            // place where the body is computed anyway: they do not move its start.
            int level = 0, below = static_cast<int>(t.stage->loops.size());
            bool own = t.stage == body.stage;
            bool any = false;
            for (size_t i = 0; i < body.loops.size(); i++) {
                if (body.loops[i].stage == t.stage) {
                    below = std::min(below, body.loops[i].index);
                    if (i >= depth) {
                        level = std::max(level, body.loops[i].index + 1);
                    }
                    any = true;
                }
            }
            if (!any) {
                continue;
            }
            double moved = own ? span(*t.stage, t.dim, level) - 1
                               : std::max(0.0, span(*t.stage, t.dim, std::max(level, below)) -
                                                   span(*t.stage, t.dim, below));
            n += std::abs(t.coefficient) * moved;
        }
        if (dim.limit > 0) {
            n = std::min(n, dim.limit);
        }
        if (d < access.stored.size() && access.stored[d] >= 1) {
            n = std::min(n, access.stored[d]);
        }
        out[d] = std::max(1.0, n);
    }
}

double NestModel::lines(const ModelBody &body, const ModelAccess &access, size_t depth,
                        double line_bytes) const {
    std::vector<double> n;
    box(body, access, depth, n);
    if (n.empty()) {
        return line_bytes;
    }
    double row = n[0] * access.bytes, rows = 1;
    bool whole = true;
    for (size_t d = 1; d < n.size(); d++) {
        // Where whole rows are touched, rows lie side by side.
        whole = whole && d - 1 < access.stored.size() && n[d - 1] >= access.stored[d - 1];
        (whole ? row : rows) *= n[d];
    }
    return rows * std::ceil(row / line_bytes) * line_bytes;
}

double NestModel::bytes(const ModelBody &body, const ModelAccess &access, size_t depth) const {
    std::vector<double> n;
    box(body, access, depth, n);
    double b = access.bytes;
    for (double e : n) {
        b *= e;
    }
    return b;
}

double NestModel::step(const ModelBody &body, const ModelAccess &access, size_t loop, bool &other) const {
    other = false;
    if (static_cast<int>(loop) < access.store_depth) {
        return 0;
    }
    const ModelLoop &l = body.loops[loop];
    auto known = numbers.find(l.stage);
    if (known == numbers.end()) {
        return 0;
    }
    double inner = 0;
    for (size_t d = 0; d < access.dims.size(); d++) {
        for (const ModelAccess::Term &t : access.dims[d].terms) {
            bool runs = t.stage == l.stage && t.dim >= 0 &&
                        known->second.roots[static_cast<size_t>(l.index)][static_cast<size_t>(t.dim)];
            if (!runs) {
                continue;
            }
            // One more iteration of this loop.
            double one = span(*l.stage, t.dim, l.index), all = span(*l.stage, t.dim, l.index + 1);
            double moved = l.extent > 1 ? (all - one) / (l.extent - 1) : one;
            if (moved <= 0) {
                continue;
            }
            if (d == 0) {
                inner += t.coefficient * moved;
            } else if (t.coefficient != 0) {
                other = true;
            }
        }
    }
    return inner;
}

double NestModel::stored_bytes(const std::string &func) const {
    auto it = stored.find(func);
    const FuncNest *f = nest.find(func);
    if (it == stored.end() || !f || !f->info) {
        return 0;
    }
    double b = static_cast<double>(f->info->bytes_per_element());
    for (double e : it->second) {
        b *= e;
    }
    return b;
}

} // namespace kiln::search
