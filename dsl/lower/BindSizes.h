/** \file
 * Expressions of a pipeline for sizes that are known.
 */
#pragma once

#include <Halide.h>

#include <map>
#include <string>
#include <vector>

namespace kiln {

/// Puts constants in the place of a pipeline's parameters: extents of buffers (innermost first), strides as dense buffers
/// have them, minima of 0, values of scalar inputs. What is not named stays. Names are without Halide's `$N`. Both maps must
/// outlive it.
class BindSizes : public Halide::Internal::IRMutator {
public:
    BindSizes(const std::map<std::string, std::vector<int64_t>> &extents,
              const std::map<std::string, double> &scalars)
        : extents_(extents), scalars_(scalars) {}
    using IRMutator::mutate;

protected:
    Halide::Expr visit(const Halide::Internal::Variable *op) override;

private:
    const std::map<std::string, std::vector<int64_t>> &extents_;
    const std::map<std::string, double> &scalars_;
};

} // namespace kiln
