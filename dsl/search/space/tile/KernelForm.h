/** \file
 * Forms of algorithms that tile kernels serve, found by what the definitions read and compute: sums of products with what
 * follows them, rows with their reductions, and loops that carry a result over blocks.
 */
#pragma once

#include "dsl/search/space/Context.h"

#include <set>

namespace kiln::search {

/// One of the two values that a product multiplies.
struct Operand {
    std::string
        buffer; ///< an input, or a Func of another kernel, whose tile is copied; "" where it is computed inside
    std::string reader; ///< who reads the buffer: the product, or an inlined Func on the way
    std::string type;
    std::set<std::string> loops; ///< of the product's that its place depends on
};

/// `acc(n, m) += a(k, m) · b(n, k)`: a sum over one RVar of products of two values.
struct ProductForm {
    std::string func, rvar;
    int64_t extent = 1; ///< of the sum, at the problem's sizes
    Operand rows,
        columns; ///< `columns` moves with the Func's innermost argument or with what `rows` does not
    std::string row, column; ///< the arguments that only the one and only the other depends on
};

/// Nothing where the Func is no such sum.
std::optional<ProductForm> product_form(const PlanContext &context, const std::string &func);

/// A Func whose tiles are a kernel's blocks, and the sums that are computed inside.
struct ProductKernel {
    std::string output;
    std::vector<ProductForm> products;
};

/// Where all updates of the pipeline are sums of products, each followed by nothing but elementwise Funcs up to an output
/// or to a Func that others read otherwise: their kernels, producers first. Else none.
std::vector<ProductKernel> product_kernels(const PlanContext &context);

/// Outputs of one shape, and reductions of their rows.
struct RowKernel {
    std::vector<std::string> outputs; ///< elementwise along the row, dimension 0
    std::string row_loop;             ///< of the outputs: along a row
    int64_t columns = 1;
    struct Reduction {
        std::string func, rvar;
    };
    std::vector<Reduction> reductions;
    std::vector<std::string> scalars; ///< pure Funcs of one value a row
    std::vector<std::string> rows;    ///< pure Funcs of a row that several definitions read: worth keeping
    std::vector<std::string>
        inputs; ///< of whole rows that several definitions read, themselves or through inlined Funcs
    bool inputs_read_directly =
        false; ///< one of them by several definitions themselves: worth keeping beside `rows`
};

/// Where every update of the pipeline reduces a row.
std::optional<RowKernel> row_kernel(const PlanContext &context);

/// A loop over blocks that carries a result: in each step products and reductions of the block, and an update that joins
/// them (blocked attention and its kin).
struct CarriedKernel {
    std::string output;                ///< the kernel
    std::vector<std::string> extra;    ///< other outputs, which lack its column
    std::string carrier, loop;         ///< the Func whose update carries the result over the RVar `loop`
    std::string row, column;           ///< arguments of the output
    std::vector<std::string> batch;    ///< its other arguments
    std::vector<ProductForm> products; ///< producers first
    std::vector<std::string> inside;   ///< Funcs that are computed for each block, in order of the pipeline
};

std::optional<CarriedKernel> carried_kernel(const PlanContext &context);

} // namespace kiln::search
