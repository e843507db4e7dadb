#include "apps/kiln/Variants.h"

#include "apps/kiln/ScheduleFile.h"
#include "dsl/schedule/TargetPattern.h"
#include "dsl/support/Files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

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
                      "% 4 == 0` or `x.aligned(16)`");
    throw Error(std::move(d));
}

/// `x.extent(0)`: the buffer's name into `buffer`, the number into `number`.
bool is_method(const Node &node, const char *method, std::string &buffer, int64_t &number) {
    if (node.kind != Node::Kind::Call || !node.is_method || node.text != method || node.args.size() != 2 ||
        node.args[0].kind != Node::Kind::Name || node.args[1].kind != Node::Kind::Int) {
        return false;
    }
    buffer = node.args[0].text;
    number = node.args[1].int_value;
    return true;
}

bool is_int(const Node &node, int64_t &value) {
    value = node.int_value;
    return node.kind == Node::Kind::Int;
}

} // namespace

VariantCondition parse_condition(const std::string &text) {
    using What = VariantCondition::What;
    std::vector<Diagnostic> ignored;
    std::optional<Node> node = parse_expression(text, ignored);
    if (!node) {
        wrong_condition(text);
    }
    VariantCondition condition;
    int64_t number = 0, zero = 0;
    if (is_method(*node, "aligned", condition.argument, number)) {
        condition.what = What::AlignedTo;
        condition.value = number;
        return condition;
    }
    if (node->kind != Node::Kind::Binary || node->args.size() != 2) {
        wrong_condition(text);
    }
    const Node &left = node->args[0], &right = node->args[1];
    if ((node->text == ">=" || node->text == "<=") && is_method(left, "extent", condition.argument, number) &&
        is_int(right, condition.value)) {
        condition.what = node->text == ">=" ? What::ExtentAtLeast : What::ExtentAtMost;
    } else if (node->text == "==" && is_int(right, zero) && zero == 0 && left.kind == Node::Kind::Binary &&
               left.text == "%" && is_int(left.args[1], condition.value)) {
        if (is_method(left.args[0], "extent", condition.argument, number)) {
            condition.what = What::ExtentMultipleOf;
        } else if (is_method(left.args[0], "stride", condition.argument, number)) {
            condition.what = What::StrideMultipleOf;
        } else {
            wrong_condition(text);
        }
    } else {
        wrong_condition(text);
    }
    condition.dimension = static_cast<int>(number);
    return condition;
}

void VariantOptions::define(CLI::App &app, bool several) {
    const char *again = several ? "; may be repeated" : "";
    target_option_ =
        app.add_option("-t,--target", targets_, fmt::format("Where it runs: cpu-avx2, opencl, cuda{}", again))
            ->type_name("TARGET")
            ->allow_extra_args(false);
    schedule_option_ =
        app.add_option("-s,--schedule", schedules_,
                       fmt::format("The schedule file of the target before it, or `default`{}", again))
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

std::vector<VariantRequest> VariantOptions::requests(const CLI::App &app,
                                                     std::map<std::string, std::string> &sources) const {
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
            last.conditions.push_back(parse_condition(value));
        }
    }
    std::vector<VariantRequest> out;
    for (const Draft &draft : drafts) {
        VariantRequest variant;
        variant.target = draft.target.value_or(Target{});
        variant.knobs = parse_knobs(draft.knobs);
        variant.conditions = draft.conditions;
        if (draft.schedule && *draft.schedule != "default") {
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
