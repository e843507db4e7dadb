#include "dsl/lower/LibraryRequest.h"

#include "dsl/schedule/Parser.h"
#include "dsl/schedule/TargetPattern.h"
#include "dsl/support/Files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace kiln {

namespace {

[[noreturn]] void malformed(const std::filesystem::path &file, const std::string &why) {
    Diagnostic d;
    d.code = "K0716";
    d.message = fmt::format("`{}` is no request for a library: {}", file.string(), why);
    d.helps = {"kiln_add_kernels writes such files; configure the project again"};
    throw Error(std::move(d));
}

} // namespace

VariantRequest choose_schedule(const std::string &generator, const Target &target,
                               const std::vector<std::string> &schedules) {
    VariantRequest variant;
    variant.target = target;
    std::vector<std::string> reasons;
    for (const std::string &file : schedules) {
        if (file == "default") {
            return variant;
        }
        std::string text = read_text_file(file, "schedule");
        ParseResult parsed = parse_schedules(text, file);
        bool fits = !parsed.ok(); // the build reports its faults
        for (const Schedule &s : parsed.schedules) {
            std::string reason;
            if (!s.op.empty() && s.op != generator) {
                reasons.push_back(fmt::format("`{}` is for the generator `{}`", s.name, s.op));
            } else if (s.target && !matches(*s.target, target, &reason)) {
                reasons.push_back(fmt::format("`{}` is for another target: {}", s.name, reason));
            } else {
                fits = true;
            }
        }
        if (fits) {
            variant.schedule_file = file;
            variant.schedule_text = text;
            return variant;
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
            request.variants.push_back(
                choose_schedule(request.generator, Target::parse(target.get<std::string>()), schedules));
        }
    } catch (const nlohmann::json::exception &error) {
        malformed(file, error.what());
    }
    return request;
}

} // namespace kiln
