// The directives of a Func: where it is computed and how it is stored.
#include "dsl/schedule/Canonical.h"
#include "dsl/schedule/CheckBuild.h"
#include "dsl/schedule/Print.h"

#include <fmt/format.h>

namespace kiln {

bool NestBuilder::first_choice(const DirectiveCall &call, const std::string &what) {
    auto [it, fresh] = chosen.emplace(func->name + " " + what, &call);
    if (fresh || *it->second == call) {
        return true;
    }
    cx.report("K0309", fmt::format("`{}` already has {}", func->name, what), call.span,
              fmt::format("`{}` is on {}", print_call(*it->second), where(it->second->span)))
        .helps.push_back("keep one of the two");
    return false;
}

void NestBuilder::place(const DirectiveCall &call, NestLevel &level) {
    StageRef ref;
    if (!known_stage(call.args[0], ref)) {
        level.kind = NestLevel::Kind::Root; // one fault is enough
        return;
    }
    StageRef whole = ref;
    whole.update = -1;
    level.kind = NestLevel::Kind::At;
    level.func = whole.str();
    level.update = ref.update >= 0 ? ref.update : any_stage;
    level.loop = call.args[1].text;
    level.span = call.span;
}

void NestBuilder::on_func(const DirectiveCall &call) {
    if (tile_on_func(call)) {
        return;
    }
    const std::string &name = call.name;
    const std::vector<Node> &a = call.args;
    auto root = [&](NestLevel &level) {
        level = {};
        level.kind = NestLevel::Kind::Root;
        level.span = call.span;
    };
    bool placing = name == "compute_at" || name == "compute_root" || name == "compute_inline" ||
                   name == "store_at" || name == "store_root" || name == "hoist_storage" ||
                   name == "hoist_storage_root";
    bool storing = name == "async" || name == "ring_buffer" || name == "fold_storage" ||
                   (name == "store_in" && a[0].text != "Auto" && a[0].text != "Heap");
    if (func->is_output && ((placing && !name.ends_with("_root")) || storing)) {
        Diagnostic &d =
            cx.report("K0301", fmt::format("`{}` is an output, so `{}` has no effect", func->name, name),
                      call.span, "outputs are computed at root, into the caller's buffers");
        d.helps.push_back(placing ? "leave it out, or place the Funcs that it reads" : "leave it out");
        return;
    }
    if (name == "compute_root" || name == "compute_at" || name == "compute_inline") {
        if (!first_choice(call, "a place to compute")) {
            return;
        }
        if (name == "compute_root") {
            root(func->compute);
        } else if (name == "compute_at") {
            place(call, func->compute);
        } else {
            func->compute = {};
            func->compute.span = call.span;
        }
    } else if (name == "store_root" || name == "store_at") {
        if (first_choice(call, "a place to store")) {
            name == "store_root" ? root(func->store) : place(call, func->store);
        }
    } else if (name == "hoist_storage_root" || name == "hoist_storage") {
        if (first_choice(call, "a place to allocate")) {
            name == "hoist_storage_root" ? root(func->hoist) : place(call, func->hoist);
        }
    } else if (name == "async") {
        func->async_span = call.span;
    } else if (name == "ring_buffer") {
        if (first_choice(call, "a ring buffer")) {
            func->ring_buffer = a[0].int_value;
            func->ring_span = call.span;
        }
    } else if (name == "store_in") {
        if (first_choice(call, "a memory")) {
            func->memory = a[0].text;
            func->memory_span = call.span;
        }
    } else if (name == "reorder_storage") {
        for (const Node &dim : a) {
            known_dim(dim);
        }
    } else if (known_dim(a[0])) {
        const Node &dim = a[0];
        if (name == "fold_storage" && first_choice(call, fmt::format("a fold of `{}`", dim.text))) {
            func->folds.push_back({dim.text, a[1].int_value, call.span});
        } else if (name == "bound_storage" &&
                   first_choice(call, fmt::format("a storage bound of `{}`", dim.text))) {
            func->storage_bounds.push_back({dim.text, a[1].int_value, call.span});
        } else if (name == "align_storage" &&
                   first_choice(call, fmt::format("a storage alignment of `{}`", dim.text))) {
            func->storage_alignments.push_back({dim.text, a[1].int_value, call.span});
        } else if ((name == "bound" || name == "bound_extent") &&
                   first_choice(call, fmt::format("a bound of `{}`", dim.text))) {
            func->bounds.push_back({dim.text, a[name == "bound" ? 2 : 1].int_value, call.span});
            for (StageNest &s : func->stages) {
                for (DimInfo &d : s.dims) {
                    if (d.name == dim.text && !d.is_rvar && !d.extent) {
                        d.extent = func->bounds.back().value;
                    }
                }
                s.refresh_extents();
            }
        }
    }
}

} // namespace kiln
