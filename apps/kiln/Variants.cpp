#include "apps/kiln/Variants.h"

#include "apps/kiln/ScheduleFile.h"
#include "dsl/lower/Condition.h"
#include "dsl/schedule/TargetPattern.h"
#include "dsl/support/Files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <map>

namespace kiln::cli {

namespace {

struct Draft {
    std::optional<Target> target;
    std::optional<std::string> schedule;
    std::vector<std::string> knobs;
    std::vector<VariantCondition> conditions;
};

[[noreturn]] void wrong_condition(const std::string &text) {
    Diagnostic d;
    d.code = "K0923";
    d.message = fmt::format("option `--when` does not take `{}`", text);
    d.helps.push_back("write `x.extent(0) >= 64`, `x.extent(0) <= 8`, `x.extent(0) % 16 == 0`, `x.stride(1) "
                      "% 4 == 0`, `x.aligned(16)`, `device.is(gpu)` or `device.vector(16)`");
    throw Error(std::move(d));
}

VariantCondition condition_of(const std::string &text) {
    try {
        if (std::optional<VariantCondition> condition = parse_condition(text)) {
            return *condition;
        }
    } catch (const Error &error) { // a condition by its form, but of nothing that there is
        Diagnostic d = error.diagnostics.front();
        d.notes.insert(d.notes.begin(), d.message);
        d.code = "K0923";
        d.message = fmt::format("option `--when` does not take `{}`", text);
        throw Error(std::move(d));
    }
    wrong_condition(text);
}

} // namespace

void VariantOptions::define(CLI::App &app, bool several) {
    const char *again = several ? "; may be repeated" : "";
    target_option_ =
        app.add_option("-t,--target", targets_, fmt::format("Where it runs: cpu-avx2, opencl, cuda{}", again))
            ->type_name("TARGET")
            ->allow_extra_args(false);
    schedule_option_ = app.add_option("-s,--schedule", schedules_,
                                      fmt::format("The schedule file of the target before it, a folder of "
                                                  "schedules, or `default`{}",
                                                  again))
                           ->type_name("FILE")
                           ->allow_extra_args(false);
    knob_option_ = app.add_option("-k,--knob", knobs_,
                                  "A value for a knob of the schedule before it, k=v; may be repeated")
                       ->type_name("K=V")
                       ->allow_extra_args(false);
    if (several) {
        when_option_ =
            app.add_option(
                   "--when", conditions_,
                   "What a call must be for the variant before it: `x.extent(0) >= 64`; may be repeated")
                ->type_name("CONDITION")
                ->allow_extra_args(false);
    }
    app.add_option("-p,--param", params_, "A generator parameter, k=v; may be repeated")
        ->type_name("K=V")
        ->allow_extra_args(false);
}

std::vector<VariantRequest>
VariantOptions::requests(const CLI::App &app, std::map<std::string, std::string> &sources,
                         const std::function<std::vector<VariantRequest>(const Target &)> &tuned) const {
    std::vector<Draft> drafts(1);
    std::map<const CLI::Option *, size_t> used;
    for (const CLI::Option *option : app.parse_order()) {
        if (option != target_option_ && option != schedule_option_ && option != knob_option_ &&
            option != when_option_) {
            continue;
        }
        std::string value = option->results().at(used[option]++);
        Draft &last = drafts.back();
        if (option == target_option_) {
            if (last.target) {
                drafts.push_back({});
            }
            drafts.back().target = Target::parse(value);
        } else if (option == schedule_option_) {
            if (last.schedule) {
                drafts.push_back({last.target, value, {}, {}});
            } else {
                last.schedule = value;
            }
        } else if (option == knob_option_) {
            last.knobs.push_back(value);
        } else {
            last.conditions.push_back(condition_of(value));
        }
    }
    std::vector<VariantRequest> out;
    for (const Draft &draft : drafts) {
        VariantRequest variant;
        variant.target = draft.target.value_or(Target{});
        variant.knobs = parse_knobs(draft.knobs);
        variant.conditions = draft.conditions;
        if (tuned && draft.schedule == "auto") {
            for (VariantRequest &one : tuned(variant.target)) {
                one.conditions.insert(one.conditions.end(), draft.conditions.begin(), draft.conditions.end());
                out.push_back(std::move(one));
            }
            continue;
        }
        if (draft.schedule && std::filesystem::is_directory(*draft.schedule)) {
            variant.schedule_file = *draft.schedule;
        } else if (draft.schedule && *draft.schedule != "default") {
            variant.schedule_file = *draft.schedule;
            variant.schedule_text = read_text_file(*draft.schedule, "schedule");
            sources[*draft.schedule] = variant.schedule_text;
            if (!draft.target) {
                ParseResult parsed = parse_schedules(variant.schedule_text, variant.schedule_file);
                if (!parsed.schedules.empty() && parsed.schedules.front().target) {
                    variant.target = target_of(*parsed.schedules.front().target);
                }
            }
        }
        out.push_back(std::move(variant));
    }
    return out;
}

std::string VariantOptions::targets_text(const std::vector<VariantRequest> &variants) {
    std::vector<std::string> names;
    for (const VariantRequest &variant : variants) {
        if (names.empty() || names.back() != variant.target.str()) {
            names.push_back(variant.target.str());
        }
    }
    return fmt::format("{}", fmt::join(names, ", "));
}

} // namespace kiln::cli
