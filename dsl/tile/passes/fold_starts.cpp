// Σ + rest becomes a product that starts at rest: the carried sum of a blocked product, a bias, a rescaled accumulator.
#include "dsl/tile/passes/Passes.h"
#include "dsl/tile/passes/Rewrite.h"

#include <algorithm>

namespace kiln::tile {

using namespace Halide::Internal;

namespace {

void split_terms(const Expr &e, std::vector<Expr> &terms) {
    if (const Add *a = e.as<Add>()) {
        split_terms(a->a, terms);
        split_terms(a->b, terms);
    } else {
        terms.push_back(e);
    }
}

std::set<std::string> as_set(const std::vector<std::string> &axes) {
    return {axes.begin(), axes.end()};
}

/// The product without a start in this body that `term` is, if nothing but `reader` reads it.
size_t lone_product(const Kernel &k, const Body &body, const Expr &term, const Map &reader) {
    const Variable *v = term.as<Variable>();
    for (size_t i = 0; v && i < body.size(); i++) {
        const Mma *m = body[i].as<Mma>();
        if (m && m->dst == v->name && m->start.empty() && count_reads(k, k.body, v->name) == 1 &&
            as_set(k.tile(m->dst).axes) == as_set(k.tile(reader.dst).axes)) {
            return i;
        }
    }
    return body.size();
}

/// One term of the map body[at] that is a product takes the others as its start, and its place.
bool fold_one(Kernel &k, Body &body, size_t at) {
    const Map map = *body[at].as<Map>();
    if (map.unless.defined()) {
        return false;
    }
    std::vector<Expr> terms;
    split_terms(map.value, terms);
    if (terms.size() < 2) {
        return false;
    }
    for (size_t t = 0; t < terms.size(); t++) {
        const size_t found = lone_product(k, body, terms[t], map);
        if (found >= at) {
            continue;
        }
        Expr rest;
        for (size_t i = 0; i < terms.size(); i++) {
            if (i != t) {
                rest = rest.defined() ? rest + terms[i] : terms[i];
            }
        }
        Mma product = *body[found].as<Mma>();
        const std::string func = body[found].func;
        const Variable *v = rest.as<Variable>();
        std::vector<Stmt> made;
        if (v && k.tiles.count(v->name) && as_set(k.tile(v->name).axes) == as_set(k.tile(map.dst).axes)) {
            product.start = v->name;
        } else {
            const Tile &start = k.add_tile(map.dst + "_start", rest.type(), k.tile(map.dst).axes, func);
            product.start = start.name;
            made.push_back({Map{start.name, rest, Expr()}, func});
        }
        product.dst = map.dst;
        made.push_back({product, func});
        body.erase(body.begin() + at);
        body.insert(body.begin() + at, made.begin(), made.end());
        body.erase(body.begin() + found);
        return true;
    }
    return false;
}

void fold(Kernel &k, Body &body) {
    for (size_t i = 0; i < body.size(); i++) {
        if (For *f = body[i].as<For>()) {
            fold(k, f->body);
        } else if (If *branch = body[i].as<If>()) {
            fold(k, branch->body);
            fold(k, branch->otherwise);
        } else if (Last *l = body[i].as<Last>()) {
            fold(k, l->body);
        } else if (body[i].as<Map>() && fold_one(k, body, i)) {
            i = size_t(-1); // a start may itself hold a product
        }
    }
}

} // namespace

void fold_starts(Kernel &k) {
    fold(k, k.body);
}

} // namespace kiln::tile
