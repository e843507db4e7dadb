/** \file
 * `--target T [--schedule FILE|default] [--knob k=v] [--when CONDITION]`, repeated: the variants behind one name.
 */
#pragma once

#include "apps/kiln/Generators.h"
#include "dsl/lower/BuildLibrary.h"

#include <functional>

namespace kiln::cli {

class VariantOptions {
public:
    /// `several`: may be repeated, in order; otherwise one variant.
    void define(CLI::App &app, bool several = true);

    /// In the order of the command line: each --target begins a variant, and --schedule, --knob and --when belong to the
    /// --target before them (to the first one where there is none before). A second --schedule after one --target makes
    /// another variant of that target. A folder stands for all variants that it has for the target. Without --target, that of the schedule, or plain `cpu`. Reads the schedule files
    /// and keeps their texts in `sources`. Throws Error: K0930… for the files, K0923 for a condition.
    /// `tuned` gives the variants of `--schedule auto` for a target; without it that is a file like any other.
    std::vector<VariantRequest>
    requests(const CLI::App &app, std::map<std::string, std::string> &sources,
             const std::function<std::vector<VariantRequest>(const Target &)> &tuned = {}) const;

    Params params() const { return parse_params(params_); }

    static std::string targets_text(const std::vector<VariantRequest> &variants);

private:
    std::vector<std::string> targets_, schedules_, knobs_, conditions_, params_;
    CLI::Option *target_option_ = nullptr, *schedule_option_ = nullptr, *knob_option_ = nullptr,
                *when_option_ = nullptr;
};

} // namespace kiln::cli
