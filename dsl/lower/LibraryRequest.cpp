#include "dsl/lower/LibraryRequest.h"

#include "dsl/generator/Load.h"
#include "dsl/generator/Params.h"
#include "dsl/lower/Condition.h"
#include "dsl/schedule/Parser.h"
#include "dsl/schedule/TargetPattern.h"
#include "dsl/support/Files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <set>
#include <sstream>

namespace kiln {

namespace {

namespace fs = std::filesystem;
using Knobs = std::map<std::string, std::string>;

[[noreturn]] void malformed(const std::filesystem::path &file, const std::string &why) {
    Diagnostic d;
    d.code = "K0716";
    d.message = fmt::format("`{}` is no request for a library: {}", file.string(), why);
    d.helps = {"kiln_add_kernels writes such files; configure the project again"};
    throw Error(std::move(d));
}

VariantRequest by_file(const Target &target, const fs::path &file) {
    VariantRequest variant;
    variant.target = target;
    variant.schedule_file = file.string();
    variant.schedule_text = read_text_file(file, "schedule");
    return variant;
}

/// `parameter=value` or `parameter!=value`, which a condition on a call cannot be.
struct Choice {
    std::string name, value;
    bool equal = true;
};

std::optional<Choice> parse_choice(const std::string &word) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos || equals == 0) {
        return std::nullopt;
    }
    const bool equal = word[equals - 1] != '!';
    const Choice choice{word.substr(0, equal ? equals : equals - 1), word.substr(equals + 1), equal};
    const bool fits = !choice.name.empty() && !choice.value.empty() &&
                      (choice.name + choice.value).find_first_of("=<>!.%") == std::string::npos;
    return fits ? std::optional(choice) : std::nullopt;
}

struct ListedVariant {
    std::string generator, slug, schedule;
    std::vector<Choice> params;
    Knobs knobs;
    std::vector<VariantCondition> conditions;
    bool behind = false; ///< the plain schedule: for calls that it does not take
};

/// `skinny[bn=32,bk=128]`: the schedule and values of its knobs. False where that is not what stands there.
bool split_knobs(std::string &schedule, Knobs &knobs) {
    const size_t open = schedule.find('[');
    if (open == std::string::npos) {
        return true;
    }
    if (schedule.back() != ']') {
        return false;
    }
    std::istringstream pairs(schedule.substr(open + 1, schedule.size() - open - 2));
    for (std::string pair; std::getline(pairs, pair, ',');) {
        const std::optional<Choice> knob = parse_choice(pair);
        if (!knob || !knob->equal) {
            return false;
        }
        knobs[knob->name] = knob->value;
    }
    schedule.resize(open);
    return true;
}

std::optional<ListedVariant> parse_line(const std::string &text) {
    std::istringstream words(text);
    ListedVariant listed;
    std::string word, condition;
    words >> listed.generator >> listed.slug >> listed.schedule;
    if (!split_knobs(listed.schedule, listed.knobs)) {
        return std::nullopt;
    }
    while (words >> word) {
        if (std::optional<Choice> choice = parse_choice(word); choice && condition.empty()) {
            listed.params.push_back(*choice);
        } else if (condition.empty() && word == "behind") {
            listed.behind = true;
        } else {
            condition += (condition.empty() ? "" : " ") + word;
        }
    }
    std::istringstream conditions(condition);
    for (std::string one; std::getline(conditions, one, ',');) {
        std::optional<VariantCondition> parsed = parse_condition(one);
        if (!parsed) {
            return std::nullopt;
        }
        listed.conditions.push_back(*parsed);
    }
    const bool chooses = listed.behind || !listed.params.empty() || !listed.conditions.empty();
    return chooses ? std::optional(listed) : std::nullopt;
}

/// The lines of FOLDER/variants.txt for the generator with `params` (and its defaults) and a target of one of those slugs.
std::vector<ListedVariant> listed_variants(const std::string &generator, const std::set<std::string> &slugs,
                                           const std::map<std::string, std::string> &given_params,
                                           const fs::path &folder) {
    std::vector<ListedVariant> variants;
    fs::path list = folder / "variants.txt";
    if (!fs::exists(list)) {
        return variants;
    }
    const std::map<std::string, std::string> params = with_defaults(generator, given_params);
    std::istringstream lines(read_text_file(list, "list of variants"));
    std::string text;
    for (int line = 1; std::getline(lines, text); line++) {
        std::string said = text.substr(0, text.find('#'));
        if (said.find_first_not_of(" \t\r") == std::string::npos) {
            continue;
        }
        std::optional<ListedVariant> listed;
        try {
            listed = parse_line(said);
        } catch (Error &error) {
            for (Diagnostic &d : error.diagnostics) {
                d.file = list.string();
                d.span = {line, 1, static_cast<int>(text.size())};
            }
            throw Error(error.diagnostics);
        }
        if (!listed) {
            Diagnostic d;
            d.code = "K0717";
            d.message = fmt::format("`{}` is no variant of a generator", text);
            d.file = list.string();
            d.span = {line, 1, static_cast<int>(text.size())};
            d.helps = {"write `GENERATOR TARGET SCHEDULE CONDITION`, such as `gemm cpu_avx2 few_rows "
                       "x.extent(1) <= 32` or `attention cuda with_lse lse=true`"};
            throw Error(std::move(d));
        }
        bool fits = listed->generator == generator && slugs.count(listed->slug);
        for (const Choice &choice : listed->params) {
            auto given = params.find(choice.name);
            fits = fits && (given != params.end() && same_value(given->second, choice.value)) == choice.equal;
        }
        if (fits) {
            variants.push_back(std::move(*listed));
        }
    }
    return variants;
}

/// TARGET.sched, or where there is none the one for the most features of that CPU.
fs::path plain_schedule(const Target &target, const fs::path &folder) {
    fs::path exact = folder / (target.slug() + ".sched");
    if (target.backend == Backend::Cpu && !fs::exists(exact)) {
        std::vector<std::string> features = target_features(Backend::Cpu);
        for (auto feature = features.rbegin(); feature != features.rend(); ++feature) {
            Target less{Backend::Cpu, *feature};
            fs::path file = folder / (less.slug() + ".sched");
            if (less.level() < target.level() && fs::exists(file)) {
                return file;
            }
        }
    }
    return exact;
}

/// Whether the file has a schedule for the generator on the target, or faults for the build to report; `reasons` gets
/// why its schedules do not fit.
bool serves(const VariantRequest &variant, const std::string &generator, std::vector<std::string> &reasons) {
    ParseResult parsed = parse_schedules(variant.schedule_text, variant.schedule_file);
    bool fits = !parsed.ok();
    for (const Schedule &s : parsed.schedules) {
        std::string reason;
        if (!s.op.empty() && s.op != generator) {
            reasons.push_back(fmt::format("`{}` is for the generator `{}`", s.name, s.op));
        } else if (s.target && !matches(*s.target, variant.target, &reason)) {
            reasons.push_back(fmt::format("`{}` is for another target: {}", s.name, reason));
        } else {
            fits = true;
        }
    }
    return fits;
}

/// Whether the last of `variants` serves every call, so that none behind it would ever run.
bool serves_all(const std::vector<VariantRequest> &variants) {
    return !variants.empty() && variants.back().conditions.empty();
}

VariantRequest by_line(const Target &target, const fs::path &folder, const ListedVariant &listed) {
    VariantRequest variant = by_file(target, folder / listed.generator / (listed.schedule + ".sched"));
    variant.conditions = listed.conditions;
    variant.knobs = listed.knobs;
    return variant;
}

/// What `schedules` have for the target and not already for its general one.
std::vector<VariantRequest> special_schedules(const std::string &generator, const Target &target,
                                              const std::vector<std::string> &schedules,
                                              const std::map<std::string, std::string> &params) {
    std::vector<VariantRequest> variants;
    std::vector<std::string> reasons;
    for (const fs::path named : schedules) {
        if (fs::is_directory(named)) {
            for (const ListedVariant &listed : listed_variants(generator, {target.slug()}, params, named)) {
                variants.push_back(by_line(target, named, listed));
            }
            const fs::path plain = named / generator / (target.slug() + ".sched");
            if (variants.empty() && fs::exists(plain)) {
                variants.push_back(by_file(target, plain));
            }
        } else if (named != "default" && serves(by_file(target, named), generator, reasons) &&
                   !serves(by_file(target.general(), named), generator, reasons)) {
            variants.push_back(by_file(target, named));
        }
        if (!variants.empty()) {
            break;
        }
    }
    return variants;
}

} // namespace

std::vector<VariantRequest> choose_schedules(const std::string &generator, const Target &target,
                                             const std::vector<std::string> &schedules,
                                             const std::map<std::string, std::string> &params) {
    std::vector<VariantRequest> variants, behind;
    std::vector<std::string> reasons;
    auto all = [&] {
        variants.insert(variants.end(), behind.begin(), behind.end());
        return variants;
    };
    if (const Target general = target.general(); general != target) {
        variants = special_schedules(generator, target, schedules, params);
        std::vector<std::string> behind_those = schedules;
        if (!variants.empty()) {
            behind_those.push_back("default");
        }
        const std::vector<VariantRequest> others = choose_schedules(generator, general, behind_those, params);
        variants.insert(variants.end(), others.begin(), others.end());
        return variants;
    }
    for (const std::string &named : schedules) {
        if (named == "default") {
            variants.emplace_back().target = target;
            return variants;
        }
        fs::path file = named;
        if (fs::is_directory(file)) {
            fs::path plain = plain_schedule(target, file / generator);
            // A file for fewer features brings its own variants.
            std::set<std::string> slugs = {target.slug(), plain.stem().string()};
            for (const ListedVariant &listed : listed_variants(generator, slugs, params, file)) {
                std::vector<VariantRequest> &list = listed.behind ? behind : variants;
                if (serves_all(list)) {
                    continue;
                }
                list.push_back(by_line(target, file, listed));
            }
            if (serves_all(variants)) {
                return all();
            }
            file = plain;
            if (!fs::exists(file)) {
                reasons.push_back(fmt::format("there is no `{}`", file.string()));
                continue;
            }
        }
        VariantRequest variant = by_file(target, file);
        if (serves(variant, generator, reasons)) {
            variants.push_back(std::move(variant));
            return all();
        }
    }
    Diagnostic d;
    d.code = "K0711";
    d.message = fmt::format("no schedule for `{}` on `{}`", generator, target.str());
    d.file = fmt::format("{}", fmt::join(schedules, ", "));
    d.notes = reasons;
    d.helps = {"add a file with one, or `default` at the end of the list"};
    throw Error(std::move(d));
}

BuildRequest read_library_request(const std::filesystem::path &file, const AutomaticSchedule &automatic) {
    std::string text = read_text_file(file, "request");
    nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
    if (json.is_discarded() || !json.is_object()) {
        malformed(file, "it is not JSON");
    }
    BuildRequest request;
    try {
        request.generator = json.at("generator");
        request.function_name = json.at("name");
        request.output_dir = json.at("output_dir").get<std::string>();
        for (const nlohmann::json &load : json.at("loads")) {
            request.load.push_back(load.get<std::string>());
        }
        load_generators({request.load.begin(), request.load.end()});
        for (const nlohmann::json &param : json.at("params")) {
            std::string pair = param;
            size_t equals = pair.find('=');
            if (equals == std::string::npos) {
                malformed(file, fmt::format("parameter `{}` is not key=value", pair));
            }
            request.params[pair.substr(0, equals)] = pair.substr(equals + 1);
        }
        std::vector<std::string> schedules = json.at("schedules");
        bool is_automatic = automatic && !schedules.empty() && schedules.front() == "auto";
        for (const nlohmann::json &target : json.at("targets")) {
            if (is_automatic) {
                for (VariantRequest &variant : automatic(request, Target::parse(target.get<std::string>()))) {
                    request.variants.push_back(std::move(variant));
                }
                continue;
            }
            for (VariantRequest &variant :
                 choose_schedules(request.generator, Target::parse(target.get<std::string>()), schedules,
                                  request.params)) {
                request.variants.push_back(std::move(variant));
            }
        }
    } catch (const nlohmann::json::exception &error) {
        malformed(file, error.what());
    }
    return request;
}

} // namespace kiln
