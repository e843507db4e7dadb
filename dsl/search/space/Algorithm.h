/** \file
 * Arithmetic and accesses of every definition, as numbers for one set of sizes: what costs are counted from. Indices that
 * are not affine (clamped, divided, from data) are taken as the nearest affine ones.
 */
#pragma once

#include "dsl/schedule/PipelineInfo.h"

#include <map>
#include <string>
#include <vector>

namespace kiln::search {

struct Problem;

/// Operations of one evaluation; an expression that occurs twice counts once.
struct OpCount {
    double adds = 0, muls = 0, divs = 0, specials = 0; ///< of floats
    double compares = 0, ints = 0, casts = 0;
    double special_cost = 0; ///< of `specials`, in multiply-adds: exp 12, log 14, pow 30, others 20
    OpCount &operator+=(const OpCount &other);
    OpCount scaled(double factor) const;
};

/// Where one dimension is accessed: Σ coefficient · loop, plus `spread` elements that several accesses or a constant range
/// add, at most `limit` of them (0: no limit).
struct AccessDim {
    struct Term {
        std::string loop;
        double coefficient = 1;
    };
    std::vector<Term> terms;
    double offset = 0; ///< constant part
    double spread = 0, limit = 0;
    bool from_data = false;

    double coefficient(const std::string &loop) const;
    /// Elements touched where each loop runs over `extent(loop)` iterations.
    template<typename Extent>
    double elements(const Extent &extent) const {
        double n = 1 + spread;
        for (const Term &t : terms) {
            n += (t.coefficient < 0 ? -t.coefficient : t.coefficient) * (extent(t.loop) - 1);
        }
        return limit > 0 && n > limit ? limit : n;
    }
};

struct Access {
    std::string func;
    std::vector<AccessDim> dims; ///< innermost first
    double count = 1;            ///< evaluations of it in one evaluation of the definition
};

struct StageAlgorithm {
    OpCount ops;
    std::vector<Access> reads;    ///< of other Funcs
    std::vector<AccessDim> write; ///< the left side
    bool reads_itself = false;    ///< a reduction: the old value takes part
    double points = 0;            ///< at root, once
    double share = 1;             ///< of the domain's points at which `where` holds
};

struct FuncAlgorithm {
    std::string name;
    std::vector<StageAlgorithm> stages;
    std::vector<int64_t> extents; ///< of the region that is needed, innermost first
    double bytes = 0;             ///< of one element, all Tuple values
    std::vector<std::string> types;
};

struct Algorithm {
    std::vector<FuncAlgorithm> funcs; ///< as PipelineInfo::funcs
    std::map<std::string, size_t> index;
    const FuncAlgorithm *find(const std::string &func) const;
};

/// Fills in `sized` and `algorithm` of a problem whose facts and `info` are there.
void read_algorithm(Problem &problem);

} // namespace kiln::search
