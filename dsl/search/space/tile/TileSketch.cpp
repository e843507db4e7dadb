#include "dsl/search/space/tile/TileSketch.h"

#include "dsl/schedule/Parser.h"
#include "dsl/search/space/Alternatives.h"
#include "dsl/search/space/tile/Families.h"
#include "dsl/support/Diagnostic.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kiln::search {

Schedule family_schedule(const PlanContext &cx, const FamilyText &f) {
    const std::string &generator = cx.problem.generator;
    std::string knobs = f.knobs;
    for (const auto &[name, values] : cx.problem.alternatives) {
        knobs += fmt::format("{}{} in {{{}}}", knobs.empty() ? "" : ", ", name, fmt::join(values, ", "));
    }
    std::string text =
        fmt::format("schedule {} {{\n{}  target {}\n{}{}\n{}}}\n", f.name,
                    generator.empty() ? "" : fmt::format("  op {}\n", generator), cx.problem.target.str(),
                    knobs.empty() ? "" : fmt::format("  knob {}\n", knobs),
                    f.require.empty() ? "" : fmt::format("  require {}\n", f.require), f.body);
    ParseResult parsed = parse_schedules(std::move(text), "family " + f.name);
    if (!parsed.ok()) {
        throw Error(parsed.diagnostics);
    }
    return std::move(parsed.schedules.at(0));
}

namespace {

std::vector<FamilyText> families_of_form(const PlanContext &cx) {
    if (auto carried = carried_kernel(cx)) {
        return carried_families(cx, *carried);
    }
    if (auto products = product_kernels(cx); !products.empty()) {
        return product_families(cx, products);
    }
    auto rows = row_kernel(cx);
    return rows ? row_families(cx, *rows) : std::vector<FamilyText>();
}

} // namespace

std::vector<Schedule> tile_families(const PlanContext &cx) {
    const Target &target = cx.problem.target;
    if (target.backend != Backend::Cuda || target.level() < 80) {
        return {};
    }
    std::vector<FamilyText> texts = families_of_form(cx);
    if (texts.empty() && !cx.problem.alternatives.empty()) {
        // Another form of the algorithm may be one that a kernel can be made of.
        texts = families_of_form(PlanContext(first_alternative(cx.problem)));
    }
    std::vector<Schedule> out;
    for (const FamilyText &text : texts) {
        out.push_back(family_schedule(cx, text));
    }
    return out;
}

} // namespace kiln::search
