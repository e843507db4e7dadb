#include "dsl/schedule/LoopNest.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace kiln {

namespace {

using Extent = std::optional<int64_t>;

Extent ceil_div(Extent a, Extent b) {
    return a && b && *b > 0 ? Extent((*a + *b - 1) / *b) : std::nullopt;
}

Extent times(Extent a, Extent b) {
    int64_t product = 0;
    return a && b && !__builtin_mul_overflow(*a, *b, &product) ? Extent(product) : std::nullopt;
}

} // namespace

const char *loop_kind_name(LoopKind kind) {
    switch (kind) {
    case LoopKind::Serial:
        return "serial";
    case LoopKind::Parallel:
        return "parallel";
    case LoopKind::Vectorized:
        return "vectorized";
    case LoopKind::Unrolled:
        return "unrolled";
    case LoopKind::GpuBlock:
        return "gpu_block";
    case LoopKind::GpuThread:
        return "gpu_thread";
    case LoopKind::GpuLane:
        return "gpu_lane";
    }
    return "";
}

bool is_gpu_loop(LoopKind kind) {
    return kind == LoopKind::GpuBlock || kind == LoopKind::GpuThread || kind == LoopKind::GpuLane;
}

std::string StageNest::name() const {
    return update < 0 ? func : update == 0 ? func + ".update()" : fmt::format("{}.update({})", func, update);
}

int StageNest::index_of(const std::string &loop) const {
    for (size_t i = 0; i < loops.size(); i++) {
        if (loops[i].name == loop) {
            return static_cast<int>(i);
        }
    }
    return -1;
}

const Loop *StageNest::find(const std::string &loop) const {
    int i = index_of(loop);
    return i < 0 ? nullptr : &loops[i];
}

Loop *StageNest::find(const std::string &loop) {
    int i = index_of(loop);
    return i < 0 ? nullptr : &loops[i];
}

std::vector<std::string> StageNest::loop_names() const {
    std::vector<std::string> names;
    for (const Loop &loop : loops) {
        names.push_back(loop.name);
    }
    return names;
}

const LoopStep *StageNest::consumer_of(const std::string &loop) const {
    for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
        bool consumed = step->kind == LoopStep::Kind::Fuse ? loop == step->inner || loop == step->outer
                                                           : loop == step->old;
        if (consumed) {
            return &*step;
        }
    }
    return nullptr;
}

const LoopStep *StageNest::producer_of(const std::string &loop) const {
    for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
        bool made = step->kind == LoopStep::Kind::Split    ? loop == step->outer || loop == step->inner
                    : step->kind == LoopStep::Kind::Fuse   ? loop == step->old
                    : step->kind == LoopStep::Kind::Rename ? loop == step->inner
                                                           : false;
        if (made) {
            return &*step;
        }
    }
    return nullptr;
}

namespace {

/// Calls `step(LoopStep, name made)` for each step back and `root(name)` where no step is left. Names may be used again
/// after they are gone, so the walk only goes backwards.
template<typename Step, typename Root>
void walk_back(const std::vector<LoopStep> &steps, const std::string &name, size_t end, const Step &step,
               const Root &root) {
    for (size_t i = end; i-- > 0;) {
        const LoopStep &s = steps[i];
        if (s.kind == LoopStep::Kind::Fuse && s.old == name) {
            step(s, name);
            walk_back(steps, s.inner, i, step, root);
            walk_back(steps, s.outer, i, step, root);
            return;
        }
        bool from_split = s.kind == LoopStep::Kind::Split && (s.outer == name || s.inner == name);
        bool from_rename = s.kind == LoopStep::Kind::Rename && s.inner == name;
        if (from_split || from_rename) {
            step(s, name);
            walk_back(steps, s.old, i, step, root);
            return;
        }
    }
    root(name);
}

} // namespace

std::vector<std::pair<const LoopStep *, std::string>> StageNest::ancestry(const std::string &loop) const {
    std::vector<std::pair<const LoopStep *, std::string>> out;
    walk_back(
        steps, loop, steps.size(),
        [&](const LoopStep &s, const std::string &made) { out.emplace_back(&s, made); },
        [](const std::string &) {});
    return out;
}

std::vector<std::string> StageNest::roots_of(const std::string &loop, const LoopStep *before) const {
    std::vector<std::string> roots;
    walk_back(
        steps, loop, before ? static_cast<size_t>(before - steps.data()) : steps.size(),
        [](const LoopStep &, const std::string &) {},
        [&](const std::string &name) {
            if (std::find(roots.begin(), roots.end(), name) == roots.end()) {
                roots.push_back(name);
            }
        });
    return roots;
}

void StageNest::split(const std::string &old, const std::string &outer, const std::string &inner,
                      std::optional<int64_t> factor, const std::string &factor_text, const std::string &tail,
                      Span span) {
    int at = index_of(old);
    Loop inner_loop = loops[at], outer_loop = loops[at];
    inner_loop.name = inner;
    outer_loop.name = outer;
    inner_loop.kind_inherited = outer_loop.kind_inherited = inner_loop.kind != LoopKind::Serial;
    inner_loop.made_by = outer_loop.made_by = span;
    loops[at] = inner_loop;
    loops.insert(loops.begin() + at + 1, outer_loop);
    steps.push_back({LoopStep::Kind::Split, old, outer, inner, factor, factor_text, tail, span});
    refresh_extents();
}

void StageNest::fuse(const std::string &inner, const std::string &outer, const std::string &fused,
                     Span span) {
    int at = index_of(inner);
    Loop loop = loops[at];
    const Loop &outer_loop = loops[index_of(outer)];
    loop.name = fused;
    loop.kind = LoopKind::Serial;
    loop.kind_by = {};
    loop.is_rvar = loop.is_rvar || outer_loop.is_rvar;
    loop.is_pure = loop.is_pure && outer_loop.is_pure;
    loop.made_by = span;
    loops[at] = loop;
    loops.erase(loops.begin() + index_of(outer));
    steps.push_back({LoopStep::Kind::Fuse, fused, outer, inner, std::nullopt, "", "", span});
    refresh_extents();
}

void StageNest::rename(const std::string &old, const std::string &fresh, Span span) {
    Loop *loop = find(old);
    loop->name = fresh;
    loop->made_by = span;
    steps.push_back({LoopStep::Kind::Rename, old, "", fresh, std::nullopt, "", "", span});
    refresh_extents();
}

void StageNest::reorder(const std::vector<std::string> &innermost_first) {
    std::vector<int> places;
    for (const std::string &name : innermost_first) {
        places.push_back(index_of(name));
    }
    std::vector<Loop> moved;
    for (int place : places) {
        moved.push_back(loops[place]);
    }
    std::sort(places.begin(), places.end());
    for (size_t i = 0; i < places.size(); i++) {
        loops[places[i]] = moved[i];
    }
}

std::optional<int64_t> StageNest::extent_inside(const std::string &dim, int level) const {
    // Splits are undone from the last to the first: the extents of the loops now, then of what they came from.
    std::map<std::string, Extent> extents;
    for (int i = 0; i < static_cast<int>(loops.size()); i++) {
        extents[loops[i].name] = i < level ? loops[i].extent : Extent(1);
    }
    auto get = [&](const std::string &name) {
        auto it = extents.find(name);
        return it == extents.end() ? Extent() : it->second;
    };
    for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
        switch (step->kind) {
        case LoopStep::Kind::Split: {
            Extent outer = get(step->outer), inner = get(step->inner);
            extents[step->old] = outer == Extent(1) ? inner
                                 : outer && inner && step->factor
                                     ? Extent((*outer - 1) * *step->factor + *inner)
                                     : Extent();
            break;
        }
        case LoopStep::Kind::Fuse: {
            Extent fused = get(step->old);
            // Part of a fused loop can touch any part of either: only one iteration or all of them is certain.
            const Loop *whole = find(step->old);
            bool all = whole && index_of(step->old) < level;
            extents[step->inner] = fused == Extent(1) ? fused : Extent();
            extents[step->outer] = fused == Extent(1) ? fused : Extent();
            if (all) {
                for (const std::string *name : {&step->inner, &step->outer}) {
                    for (const DimInfo &d : dims) {
                        if (d.name == *name) {
                            extents[*name] = d.extent;
                        }
                    }
                }
            }
            break;
        }
        case LoopStep::Kind::Rename:
            extents[step->old] = get(step->inner);
            break;
        case LoopStep::Kind::Rfactor:
            break;
        }
    }
    Extent inside = get(dim);
    for (const DimInfo &d : dims) {
        if (d.name == dim && d.extent && (!inside || *inside > *d.extent)) {
            return level >= static_cast<int>(loops.size()) || inside ? d.extent : inside;
        }
    }
    return inside;
}

void StageNest::refresh_extents() {
    struct Known {
        Extent value;
        std::string text;
    };
    std::map<std::string, Known> known;
    for (const DimInfo &d : dims) {
        known[d.name] = {d.extent, d.extent ? std::to_string(*d.extent) : d.extent_text};
    }
    auto text_of = [](const Known &k) { return k.value ? std::to_string(*k.value) : k.text; };
    for (const LoopStep &step : steps) {
        switch (step.kind) {
        case LoopStep::Kind::Split: {
            Known old = known[step.old];
            known[step.inner] = {step.factor, step.factor_text};
            Extent outer = ceil_div(old.value, step.factor);
            known[step.outer] = {outer, fmt::format("ceil({} / {})", text_of(old), step.factor_text)};
            break;
        }
        case LoopStep::Kind::Fuse: {
            Known inner = known[step.inner], outer = known[step.outer];
            known[step.old] = {times(inner.value, outer.value),
                               fmt::format("{} * {}", text_of(outer), text_of(inner))};
            break;
        }
        case LoopStep::Kind::Rename:
            known[step.inner] = known[step.old];
            break;
        case LoopStep::Kind::Rfactor:
            break;
        }
    }
    for (Loop &loop : loops) {
        auto it = known.find(loop.name);
        if (it != known.end()) {
            loop.extent = it->second.value;
            loop.extent_text = text_of(it->second);
        }
    }
    for (StageNest &special : specializations) {
        for (size_t i = 0; i < dims.size() && i < special.dims.size(); i++) {
            special.dims[i] = dims[i];
        }
        special.refresh_extents();
    }
}

std::string NestLevel::str() const {
    if (kind != Kind::At) {
        return kind == Kind::Root ? "root" : "inlined";
    }
    return update < 0 ? fmt::format("({}, {})", func, loop)
                      : fmt::format("({}.update({}), {})", func, update, loop);
}

bool NestLevel::same_place(const NestLevel &other) const {
    return kind == other.kind &&
           (kind != Kind::At || (func == other.func && update == other.update && loop == other.loop));
}

std::optional<int64_t> FuncNest::stored_bytes() const {
    Extent bytes = info ? info->bytes_per_element() : 0;
    for (const Extent &extent : stored_extents) {
        bytes = times(bytes, extent);
    }
    return bytes;
}

const FuncNest *LoopNest::find(const std::string &name) const {
    for (const FuncNest &f : funcs) {
        if (f.name == name) {
            return &f;
        }
    }
    return nullptr;
}

FuncNest *LoopNest::find(const std::string &name) {
    return const_cast<FuncNest *>(static_cast<const LoopNest *>(this)->find(name));
}

std::vector<std::string> LoopNest::names() const {
    std::vector<std::string> out;
    for (const FuncNest &f : funcs) {
        out.push_back(f.name);
    }
    return out;
}

const StageNest *LoopNest::stage(const std::string &func, int update) const {
    const FuncNest *f = find(func);
    size_t index = static_cast<size_t>(update + 1);
    return f && index < f->stages.size() ? &f->stages[index] : nullptr;
}

std::vector<LoopNest::Enclosing> LoopNest::enclosing(const NestLevel &level) const {
    std::vector<Enclosing> out;
    NestLevel at = level;
    // A chain longer than the number of Funcs goes in a circle, which the checker reports.
    for (size_t depth = 0; at.kind == NestLevel::Kind::At && depth <= funcs.size(); depth++) {
        const FuncNest *host = find(at.func);
        const StageNest *host_stage = stage(at.func, at.update);
        int index = host_stage ? host_stage->index_of(at.loop) : -1;
        if (index < 0) {
            break;
        }
        for (int i = index; i < static_cast<int>(host_stage->loops.size()); i++) {
            out.push_back({host, host_stage, i});
        }
        at = host->compute;
    }
    std::reverse(out.begin(), out.end());
    return out;
}

std::vector<LoopNest::Enclosing> LoopNest::around_body(const FuncNest &func, const StageNest &stage) const {
    std::vector<Enclosing> out = enclosing(func.compute);
    for (int i = static_cast<int>(stage.loops.size()); i-- > 0;) {
        out.push_back({&func, &stage, i});
    }
    return out;
}

} // namespace kiln
