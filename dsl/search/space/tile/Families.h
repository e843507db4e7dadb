/** \file
 * The families of tile kernels, one form of algorithm a file.
 */
#pragma once

#include "dsl/search/space/tile/KernelForm.h"
#include "dsl/search/space/tile/TileSketch.h"

namespace kiln::search {

/// A family under way: its name, knobs, what they require and its statements, one a line.
struct FamilyText {
    std::string name, knobs, require, body;
    void add(const std::string &statement) { body += "  " + statement + ";\n"; }
};

/// The schedule of that text for the problem's target and generator, with `alternatives` of the generator as more knobs.
Schedule family_schedule(const PlanContext &context, const FamilyText &text);

std::vector<FamilyText> product_families(const PlanContext &context,
                                         const std::vector<ProductKernel> &kernels);
std::vector<FamilyText> row_families(const PlanContext &context, const RowKernel &kernel);
std::vector<FamilyText> carried_families(const PlanContext &context, const CarriedKernel &kernel);

} // namespace kiln::search
