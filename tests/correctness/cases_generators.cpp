// Algorithms for the tests of cases from the field: build/lib/kiln_cases_generators.so.
#include "dsl/generator/Generator.h"
#include "dsl/ops/Attention.h"
#include "dsl/ops/Numeric.h"

#include <Halide.h>

namespace {

using namespace Halide;
namespace ops = kiln::ops;

/// Attention where every query may see one key alone, in the middle of all.
class CaseAttentionOneKey : public Generator<CaseAttentionOneKey> {
public:
    GeneratorParam<Type> type{"type", Float(32)};
    GeneratorParam<bool> rows{"rows", true};
    GeneratorParam<int> block{"block", 64};
    GeneratorParam<int> block_i{"block_i", 48};
    GeneratorParam<bool> lse{"lse", false};
    Input<Buffer<void, 4>> q{"q"}, k{"k"}, v{"v"};
    Output<Buffer<void, 4>> y{"y"};
    Output<Buffer<>> *lse_out = nullptr;
    Var c{"c"}, i{"i"}, head{"head"}, batch{"batch"};

    void configure() {
        q.set_type(type);
        k.set_type(type);
        v.set_type(type);
        y.set_type(type);
        if (lse) {
            lse_out = add_output<Buffer<>>("lse_out", Float(32), 3);
        }
    }
    void generate() {
        ops::AttentionOptions options;
        options.form = rows ? ops::Form::Rows : ops::Form::Blocks;
        options.block = block;
        options.block_i = block_i;
        options.mask = [](const ops::ScoreAt &at) { return at.j == at.keys / 2; };
        ops::Attention a = ops::attention(
            q, k, v,
            {q.dim(0).extent(), q.dim(1).extent(), k.dim(1).extent(), q.dim(2).extent(), k.dim(2).extent()},
            options);
        y(c, i, head, batch) = ops::to_type(type, a.out(c, i, head, batch));
        if (lse) {
            (*lse_out)(i, head, batch) = a.lse(i, head, batch);
        }
        for (int d = 0; d < 4; d++) {
            q.dim(d).set_min(0);
            k.dim(d).set_min(0);
            v.dim(d).set_min(0);
            y.dim(d).set_min(0);
        }
        v.dim(1).set_extent(k.dim(1).extent());
    }
};

/// A chain, a stencil, a product of a matrix and a vector, and a sum along the vector: n elements each.
class CaseEdges : public Generator<CaseEdges> {
public:
    Input<Buffer<float, 1>> x{"x"};       ///< n
    Input<Buffer<float, 1>> wide{"wide"}; ///< -1 to n
    Input<Buffer<float, 2>> a{"a"};       ///< (n, 5)
    Output<Buffer<float, 1>> chain{"chain"}, stencil{"stencil"}, gemv{"gemv"};
    Var i{"i"};
    void generate() {
        RDom r(0, a.dim(1).extent(), "r");
        chain(i) = max(2.0f * x(i) + 1.0f, 0.0f);
        stencil(i) = wide(i - 1) + wide(i) + wide(i + 1);
        Func sum{"sum"};
        sum(i) = 0.0f;
        sum(i) += a(i, r) * cast<float>(r + 1);
        gemv(i) = sum(i);
    }
};

/// Rows of dot products: what lies behind a row must not get into its sum.
class CaseDot : public Generator<CaseDot> {
public:
    Input<Buffer<float, 2>> a{"a"}; ///< (n, rows)
    Input<Buffer<float, 1>> x{"x"}; ///< n
    Output<Buffer<float, 1>> y{"y"};
    Var i{"i"};
    void generate() {
        RDom r(0, x.dim(0).extent(), "r");
        Func sum{"sum"};
        sum(i) = 0.0f;
        sum(i) += a(r, i) * x(r);
        y(i) = sum(i);
        a.dim(0).set_extent(x.dim(0).extent());
    }
};

/// first -> middle -> out, over rows: the middle one may run ahead in a thread of its own.
class CaseStages : public Generator<CaseStages> {
public:
    GeneratorParam<bool> neighbours{"neighbours", false}; ///< out reads three rows of the middle stage
    Input<Buffer<int32_t, 2>> x{"x"};
    Output<Buffer<int32_t, 2>> out{"out"};
    Func first{"first"}, middle{"middle"};
    Var i{"i"}, j{"j"};
    void generate() {
        first(i, j) = x(i, j) * 3 + 1;
        middle(i, j) = first(i, j) * first(i, j) - j;
        if (neighbours) {
            out(i, j) = middle(i, j) + 2 * middle(i, j + 1) + 5 * middle(i, j + 2);
        } else {
            out(i, j) = middle(i, j) * 7 + i;
        }
    }
};

/// Updates whose order counts, and one whose order does not.
class CaseOrdered : public Generator<CaseOrdered> {
public:
    Input<Buffer<int32_t, 1>> x{"x"};
    Output<Buffer<int32_t, 1>> out{"out"};
    Func last{"last"}, total{"total"};
    Var i{"i"};
    void generate() {
        RDom r(0, x.dim(0).extent(), "r"), s(0, x.dim(0).extent(), "s");
        last(i) = 0;
        last(i) = x(r) + i;
        total(i) = 0;
        total(i) += x(s) * i;
        out(i) = last(i) + total(i);
    }
};

/// h reads a neighbour of g, which reads f.
class CaseNeighbours : public Generator<CaseNeighbours> {
public:
    Input<Buffer<float, 2>> x{"x"};
    Output<Buffer<float, 2>> out{"out"};
    Func f{"f"}, g{"g"};
    Var i{"i"}, j{"j"};
    void generate() {
        f(i, j) = x(i, j) * 2.0f;
        g(i, j) = f(i, j) + f(i + 1, j + 1);
        out(i, j) = g(i, j) - g(i + 1, j + 1);
    }
};

class CaseCopy : public Generator<CaseCopy> {
public:
    Input<Buffer<float, 1>> x{"x"};
    Output<Buffer<float, 1>> y{"y"};
    Var i{"i"};
    void generate() { y(i) = x(i); }
};

kiln::Workload copied(const char *name, int64_t megabytes) {
    int64_t n = megabytes * (1 << 20) / 4;
    return {name, {{"x", {n}}, {"y", {n}}}, {}, {}, true};
}

} // namespace

KILN_GENERATOR(CaseAttentionOneKey, case_attention_one_key, {.summary = "one key for every query"})
KILN_GENERATOR(CaseEdges, case_edges, {.summary = "loads and stores at the ends of buffers"})
KILN_GENERATOR(CaseDot, case_dot, {.summary = "dot products"})
KILN_GENERATOR(CaseStages, case_stages, {.summary = "three stages over rows"})
KILN_GENERATOR(CaseOrdered, case_ordered, {.summary = "an ordered update and a sum"})
KILN_GENERATOR(CaseNeighbours, case_neighbours, {.summary = "neighbours of neighbours"})
KILN_GENERATOR(CaseCopy, case_copy,
               {.summary = "a copy",
                .workloads = {copied("1 MB", 1), copied("32 MB", 32), copied("64 MB", 64),
                              copied("128 MB", 128)}})
