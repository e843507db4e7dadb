#include "dsl/lower/LibraryRequest.h"

#include "dsl/lower/Condition.h"
#include "dsl/schedule/Parser.h"
#include "dsl/schedule/TargetPattern.h"
#include "dsl/support/Files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <sstream>

namespace kiln {

namespace {

namespace fs = std::filesystem;

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

/// The variants that FOLDER/variants.txt puts first.
std::vector<VariantRequest> listed_variants(const std::string &generator, const Target &target,
                                            const fs::path &folder) {
    std::vector<VariantRequest> variants;
    fs::path list = folder / "variants.txt";
    if (!fs::exists(list)) {
        return variants;
    }
    std::istringstream lines(read_text_file(list, "list of variants"));
    std::string text;
    for (int line = 1; std::getline(lines, text); line++) {
        std::istringstream words(text.substr(0, text.find('#')));
        std::string op, slug, schedule, condition;
        if (!(words >> op)) {
            continue;
        }
        words >> slug >> schedule >> std::ws;
        std::getline(words, condition);
        std::optional<VariantCondition> parsed = parse_condition(condition);
        if (!parsed) {
            Diagnostic d;
            d.code = "K0717";
            d.message = fmt::format("`{}` is no variant of a generator", text);
            d.file = list.string();
            d.span = {line, 1, static_cast<int>(text.size())};
            d.helps = {"write `GENERATOR TARGET SCHEDULE CONDITION`, such as `gemm cpu_avx2 few_rows "
                       "x.extent(1) <= 32`"};
            throw Error(std::move(d));
        }
        if (op == generator && slug == target.slug()) {
            variants.push_back(by_file(target, folder / generator / (schedule + ".sched")));
            variants.back().conditions = {*parsed};
        }
    }
    return variants;
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

} // namespace

std::vector<VariantRequest> choose_schedules(const std::string &generator, const Target &target,
                                             const std::vector<std::string> &schedules) {
    std::vector<VariantRequest> variants;
    std::vector<std::string> reasons;
    for (const std::string &named : schedules) {
        if (named == "default") {
            variants.emplace_back().target = target;
            return variants;
        }
        fs::path file = named;
        if (fs::is_directory(file)) {
            for (VariantRequest &listed : listed_variants(generator, target, file)) {
                variants.push_back(std::move(listed));
            }
            file = file / generator / (target.slug() + ".sched");
            if (!fs::exists(file)) {
                reasons.push_back(fmt::format("there is no `{}`", file.string()));
                continue;
            }
        }
        VariantRequest variant = by_file(target, file);
        if (serves(variant, generator, reasons)) {
            variants.push_back(std::move(variant));
            return variants;
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

BuildRequest read_library_request(const std::filesystem::path &file) {
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
        for (const nlohmann::json &param : json.at("params")) {
            std::string pair = param;
            size_t equals = pair.find('=');
            if (equals == std::string::npos) {
                malformed(file, fmt::format("parameter `{}` is not key=value", pair));
            }
            request.params[pair.substr(0, equals)] = pair.substr(equals + 1);
        }
        std::vector<std::string> schedules = json.at("schedules");
        for (const nlohmann::json &target : json.at("targets")) {
            for (VariantRequest &variant :
                 choose_schedules(request.generator, Target::parse(target.get<std::string>()), schedules)) {
                request.variants.push_back(std::move(variant));
            }
        }
    } catch (const nlohmann::json::exception &error) {
        malformed(file, error.what());
    }
    return request;
}

} // namespace kiln
