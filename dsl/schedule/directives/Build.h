/** \file
 * Short words to write registry entries with.
 */
#pragma once

#include "dsl/schedule/Directive.h"

namespace kiln::entry {

inline Param loop(std::string name = "loop") {
    Param p;
    p.name = std::move(name);
    return p;
}

inline Param of_kind(std::string name, ArgKind kind) {
    Param p;
    p.name = std::move(name);
    p.kind = kind;
    return p;
}

inline Param new_loop(std::string name) {
    return of_kind(std::move(name), ArgKind::NewLoop);
}

inline Param dim(std::string name = "dim") {
    return of_kind(std::move(name), ArgKind::Dim);
}

inline Param integer(std::string name, int64_t least = 1) {
    Param p = of_kind(std::move(name), ArgKind::Int);
    p.least = least;
    return p;
}

inline Param stage(std::string name = "consumer") {
    return of_kind(std::move(name), ArgKind::Stage);
}

inline Param with_default(Param p, Node value) {
    p.fallback = std::move(value);
    return p;
}

inline Param tail() {
    return with_default(of_kind("tail", ArgKind::Tail), Node::name("Auto"));
}

inline Param shaped(Param p, Param::Shape shape) {
    p.shape = shape;
    return p;
}

inline Param list(Param p) {
    return shaped(std::move(p), Param::Shape::List);
}

/// Any number from `least` to `most`.
inline Param rest(Param p, int64_t least = 1, int64_t most = INT32_MAX) {
    p.least = least;
    p.most = most;
    return shaped(std::move(p), Param::Shape::Rest);
}

inline Param pairs(std::string name, ArgKind first, ArgKind second) {
    Param p = shaped(of_kind(std::move(name), first), Param::Shape::Pairs);
    p.second = second;
    return p;
}

/// An expansion has no places of its own: canonicalize puts in those of the call that it comes from.
inline DirectiveCall call(std::string name, std::vector<Node> args) {
    DirectiveCall c;
    c.name = std::move(name);
    c.args = std::move(args);
    return c;
}

/// One call a loop: what gpu_blocks(x, y) and never_partition(x, y) stand for.
inline std::vector<DirectiveCall> for_each_loop(const std::string &name, const std::vector<Node> &loops) {
    std::vector<DirectiveCall> out;
    for (const Node &l : loops) {
        out.push_back(call(name, {l}));
    }
    return out;
}

/// The splits and the reorder of a tile; `tails` one a dimension.
std::vector<DirectiveCall> tile_calls(const std::vector<Node> &previous, const std::vector<Node> &outers,
                                      const std::vector<Node> &inners, const std::vector<Node> &factors,
                                      const std::vector<Node> &tails);

} // namespace kiln::entry
