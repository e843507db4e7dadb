// Sums of products, and the kernels that they and what follows them make.
#include "dsl/search/space/tile/KernelForm.h"

#include <algorithm>

namespace kiln::search {

namespace {

/// Follows Funcs that only pass one value on to the buffer that it comes from.
Operand operand_of(const PlanContext &cx, const std::string &reader, const ReadInfo &read) {
    Operand out;
    for (const IndexInfo &index : read.indices) {
        out.loops.insert(index.loops.begin(), index.loops.end());
    }
    out.reader = reader;
    const FuncInfo *f = &cx.info(read.func);
    for (size_t depth = 0; depth < cx.funcs.size() + 1; depth++) {
        out.type = f->types[0];
        if (f->is_input || f->is_extern) {
            out.buffer = f->name;
            return out;
        }
        const OpCount &ops = cx.algorithm(f->name).stages[0].ops;
        bool passes = f->stages.size() == 1 && f->can_be_inlined && f->stages[0].reads.size() == 1 &&
                      ops.adds + ops.muls + ops.divs + ops.specials + ops.compares == 0;
        if (!passes) {
            return out; // a value that is computed
        }
        out.reader = f->name;
        f = &cx.info(f->stages[0].reads[0].func);
    }
    return out;
}

/// The argument of `f` that `here` depends on and `there` does not: the innermost one.
std::string only_in(const FuncInfo &f, const Operand &here, const Operand &there) {
    for (const std::string &arg : f.args) {
        if (here.loops.count(arg) && !there.loops.count(arg)) {
            return arg;
        }
    }
    return "";
}

/// Reads `producer` at its own arguments, in their order.
bool is_elementwise(const FuncInfo &reader, const FuncInfo &producer) {
    if (reader.stages.size() != 1 || reader.args.size() != producer.args.size()) {
        return false;
    }
    bool reads = false;
    for (const ReadInfo &read : reader.stages[0].reads) {
        if (read.func != producer.name) {
            continue;
        }
        reads = true;
        for (size_t d = 0; d < read.indices.size(); d++) {
            const IndexInfo &i = read.indices[d];
            if (!i.is_affine || i.offset != 0 || i.terms.size() != 1 || i.terms[0].coefficient != 1 ||
                i.terms[0].loop != reader.args[d]) {
                return false;
            }
        }
    }
    return reads;
}

/// The last of the elementwise Funcs that follow `func`.
std::string last_of_chain(const PlanContext &cx, std::string func) {
    for (size_t depth = 0; depth < cx.funcs.size(); depth++) {
        const FuncInfo &f = cx.info(func);
        if (f.is_output || f.callers.size() != 1 || !is_elementwise(cx.info(f.callers[0]), f)) {
            break;
        }
        func = f.callers[0];
    }
    return func;
}

} // namespace

std::optional<ProductForm> product_form(const PlanContext &cx, const std::string &func) {
    const FuncInfo &f = cx.info(func);
    if (f.stages.size() != 2 || f.types.size() != 1) {
        return std::nullopt;
    }
    const StageInfo &update = f.stages[1];
    const StageAlgorithm &a = cx.algorithm(func).stages[1];
    ProductForm out;
    out.func = func;
    for (const DimInfo &d : update.dims) {
        if (d.is_rvar && !out.rvar.empty()) {
            return std::nullopt; // over two RVars
        }
        if (d.is_rvar) {
            out.rvar = d.name;
            out.extent = d.extent.value_or(1);
        }
    }
    bool one_product = a.ops.muls == 1 && a.ops.adds == 1 && a.ops.divs == 0 && a.ops.specials == 0 &&
                       a.ops.compares == 0 && a.reads_itself && update.is_associative;
    if (out.rvar.empty() || !one_product || update.reads.size() != 2 || update.reads[0].count != 1 ||
        update.reads[1].count != 1) {
        return std::nullopt;
    }
    Operand one = operand_of(cx, func, update.reads[0]), other = operand_of(cx, func, update.reads[1]);
    if (!one.loops.count(out.rvar) || !other.loops.count(out.rvar)) {
        return std::nullopt;
    }
    std::string first = only_in(f, one, other), second = only_in(f, other, one);
    auto place = [&](const std::string &arg) { return std::find(f.args.begin(), f.args.end(), arg); };
    if (first.empty() || second.empty()) {
        return std::nullopt;
    }
    if (place(first) < place(second)) {
        std::swap(one, other);
        std::swap(first, second);
    }
    out.rows = std::move(one), out.columns = std::move(other);
    out.row = first, out.column = second;
    return out;
}

std::vector<ProductKernel> product_kernels(const PlanContext &cx) {
    std::vector<ProductKernel> out;
    std::set<std::string> covered;
    for (const std::string &func : cx.funcs) {
        if (!cx.has_update(func)) {
            continue;
        }
        std::optional<ProductForm> product = product_form(cx, func);
        std::string last = product ? last_of_chain(cx, func) : func;
        if (last == func || cx.info(last).args.size() > 4 || product->rows.buffer.empty() ||
            product->columns.buffer.empty()) {
            return {};
        }
        auto known =
            std::find_if(out.begin(), out.end(), [&](const ProductKernel &k) { return k.output == last; });
        if (known == out.end()) {
            out.push_back({last, {}});
            known = out.end() - 1;
        }
        known->products.push_back(std::move(*product));
        covered.insert(last);
    }
    // The other outputs would be kernels of loops beside them.
    for (const std::string &func : cx.funcs) {
        if (cx.is_output(func) && !covered.count(func)) {
            return {};
        }
    }
    return out;
}

} // namespace kiln::search
