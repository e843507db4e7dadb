#include "dsl/lower/BuildLibrary.h"

#include "dsl/lower/BuildProtocol.h"
#include "dsl/lower/LibraryRequest.h"
#include "dsl/lower/Tools.h"
#include "dsl/lower/WriteLibrary.h"
#include "dsl/support/Files.h"
#include "dsl/support/Process.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>

namespace kiln {

namespace {

namespace fs = std::filesystem;

Diagnostic fault(const char *code, std::string message) {
    Diagnostic d;
    d.code = code;
    d.message = std::move(message);
    return d;
}

/// K0705.
Diagnostic no_output(const std::string &what, const fs::path &path, const std::string &why) {
    Diagnostic d = fault("K0705", fmt::format("cannot {} `{}`: {}", what, path.string(), why));
    d.helps = {"name another output folder, or make this one writable"};
    return d;
}

/// The last lines of what a dying child said.
void add_last_words(Diagnostic &d, const std::string &text) {
    std::vector<std::string> lines;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) {
        if (!line.empty()) {
            lines.push_back(line);
        }
    }
    for (size_t i = lines.size() > 5 ? lines.size() - 5 : 0; i < lines.size(); i++) {
        d.notes.push_back(lines[i]);
    }
}

/// A child that left no reply.
Diagnostic explain(const BuildRequest &request, const VariantRequest &variant, const ProcessResult &result) {
    std::string what = fmt::format("the build of `{}` for `{}`", request.generator, variant.target.str());
    bool memory = false;
    for (const char *sign : {"bad_alloc", "out of memory", "Out of memory", "Cannot allocate memory"}) {
        memory |= result.err.find(sign) != std::string::npos;
    }
    if (result.end == ProcessResult::End::TimedOut) {
        Diagnostic d = fault("K0702", fmt::format("{} did not end in {:g} s", what, request.timeout_s));
        d.helps = {"the schedule may unroll too much; a longer limit can be set"};
        return d;
    }
    if (memory) {
        Diagnostic d = fault("K0703", fmt::format("{} needs more than {} MiB of memory", what,
                                                  request.memory_limit_bytes >> 20));
        d.helps = {"the schedule may unroll too much; a higher limit can be set"};
        return d;
    }
    if (result.end == ProcessResult::End::NotStarted) {
        Diagnostic d =
            fault("K0704", fmt::format("{} could not be started: {}", what, strerror(result.code)));
        return d;
    }
    std::string how = result.end == ProcessResult::End::Signalled
                          ? fmt::format("crashed: {}", strsignal(result.code))
                          : fmt::format("ended with exit status {} and no result", result.code);
    Diagnostic d = fault("K0701", fmt::format("{} {}", what, how));
    add_last_words(d, result.err);
    d.helps = {
        "take directives out of the schedule to find the one that does it, and report it as a fault of Kiln"};
    return d;
}

CompileReply compile(const BuildRequest &request, const VariantRequest &variant, const std::string &symbol,
                     const fs::path &object) {
    CompileJob job;
    job.generator = request.generator;
    for (const fs::path &path : request.load) {
        job.load.push_back(fs::absolute(path));
    }
    job.params = request.params;
    job.variant = variant;
    job.symbol = symbol;
    job.object = fs::absolute(object);
    job.reply = job.object;
    job.reply += ".reply";

    ProcessRequest child;
    child.argv = {build_tool().string()};
    child.cwd = object.parent_path();
    child.input = to_json(job).dump();
    child.limits = {request.timeout_s, request.memory_limit_bytes};
    ProcessResult result = run_process(child);

    std::ifstream in(job.reply);
    std::ostringstream text;
    text << in.rdbuf();
    in.close();
    fs::remove(job.reply);
    nlohmann::json json = nlohmann::json::parse(text.str(), nullptr, false);
    CompileReply reply;
    if (result.ok() && !json.is_discarded()) {
        reply = compile_reply_from_json(json);
    } else {
        reply.diagnostics = {explain(request, variant, result)};
    }
    return reply;
}

/// All three files into the output folder, or none of them: a reader never sees a header of one build and an archive of
/// another for longer than two renames take.
void publish(const fs::path &from, const fs::path &to, const std::string &name) {
    const std::array suffixes = {".json", ".h", ".a"};
    for (const char *suffix : suffixes) { // the one thing in the way that no file replaces
        std::error_code error;
        if (fs::is_directory(to / (name + suffix), error)) {
            throw Error(no_output("write", to / (name + suffix), "a folder of that name is there"));
        }
    }
    for (const char *suffix : suffixes) {
        std::error_code error;
        fs::rename(from / (name + suffix), to / (name + suffix), error);
        if (error) {
            throw Error(no_output("write", to / (name + suffix), error.message()));
        }
    }
}

/// Tile kernels need more of a call than the contract asks: a target whose only variants have such conditions gets one
/// of loops after them.
std::vector<VariantRequest> fallbacks(const LibraryParts &parts) {
    std::vector<VariantRequest> out;
    // Code for CUDA runs on later GPUs too, but where the target is exact.
    auto serves = [](const VariantRequest &v, const Target &target) {
        bool exact = !v.target.feature.empty() && v.target.feature.back() == 'a';
        return v.conditions.empty() && (v.target == target || (v.target.backend == target.backend && !exact &&
                                                               v.target.level() <= target.level()));
    };
    for (const CompiledVariant &v : parts.variants) {
        const Target target = v.request.target;
        bool served = v.reply.conditions.empty();
        for (const CompiledVariant &other : parts.variants) {
            served |= serves(other.request, target);
        }
        for (const VariantRequest &other : out) {
            served |= serves(other, target);
        }
        if (!served) {
            VariantRequest loops;
            loops.target = target.general();
            out.push_back(loops);
        }
    }
    return out;
}

/// The variants that a folder of schedules has for this target and these parameters; else the variant itself.
std::vector<VariantRequest> out_of_folder(const BuildRequest &request, const VariantRequest &variant) {
    if (!variant.schedule_text.empty() || variant.schedule_file.empty() ||
        !fs::is_directory(variant.schedule_file)) {
        return {variant};
    }
    std::vector<VariantRequest> chosen = choose_schedules(request.generator, variant.target,
                                                          {variant.schedule_file, "default"}, request.params);
    for (VariantRequest &one : chosen) {
        for (const auto &[knob, value] : variant.knobs) {
            one.knobs[knob] = value;
        }
        one.conditions.insert(one.conditions.end(), variant.conditions.begin(), variant.conditions.end());
    }
    return chosen;
}

/// Behind code for one GPU only the folder's tile kernels that run on any: on other devices, and for calls that the first
/// does not take. None where the folder has no such schedule, or the request names one for a target of its own.
std::vector<VariantRequest> portable(const BuildRequest &request, const VariantRequest &variant) {
    const Target any = Target::parse("cuda sm_80");
    const bool exact = variant.target.backend == Backend::Cuda && !variant.target.feature.empty() &&
                       variant.target.feature.back() == 'a';
    const bool named = std::any_of(request.variants.begin(), request.variants.end(),
                                   [&](const VariantRequest &v) { return v.target == any; });
    if (!exact || named || !variant.schedule_text.empty() || !fs::is_directory(variant.schedule_file) ||
        !fs::exists(fs::path(variant.schedule_file) / request.generator / (any.slug() + ".sched"))) {
        return {};
    }
    return choose_schedules(request.generator, any, {variant.schedule_file}, request.params);
}

void build(const BuildRequest &request, const std::string &name, BuildResult &result) {
    check_c_name(name);
    if (request.variants.empty()) {
        throw Error(fault("K0708", fmt::format("`{}` was given no target to build for", name)));
    }
    std::error_code error;
    fs::create_directories(request.output_dir, error);
    if (error) {
        throw Error(no_output("make the folder", request.output_dir, error.message()));
    }
    std::optional<TemporaryFolder> work;
    try {
        work.emplace(request.output_dir / name);
    } catch (const Error &) {
        throw;
    } catch (const std::exception &e) {
        throw Error(no_output("write in", request.output_dir, e.what()));
    }
    LibraryParts parts;
    parts.name = name;
    parts.generator = request.generator;
    parts.folder = work->path();
    auto add = [&](VariantRequest variant, bool required = true) {
        std::string symbol = fmt::format("{}__v{}", name, parts.variants.size());
        fs::path object = work->path() / (symbol + ".o");
        CompileReply reply = compile(request, variant, symbol, object);
        if (!required && has_errors(reply.diagnostics)) {
            return; // these parameters are not for it
        }
        result.diagnostics.insert(result.diagnostics.end(), reply.diagnostics.begin(),
                                  reply.diagnostics.end());
        variant.conditions.insert(variant.conditions.end(), reply.conditions.begin(), reply.conditions.end());
        parts.variants.push_back({std::move(variant), std::move(reply), object});
    };
    for (const VariantRequest &variant : request.variants) {
        for (const VariantRequest &chosen : out_of_folder(request, variant)) {
            add(chosen);
        }
        for (const VariantRequest &chosen : portable(request, variant)) {
            add(chosen, false);
        }
    }
    if (has_errors(result.diagnostics)) {
        return;
    }
    for (const VariantRequest &fallback : fallbacks(parts)) {
        add(fallback);
    }
    if (has_errors(result.diagnostics)) {
        return;
    }
    result.key = write_library(parts);
    publish(work->path(), request.output_dir, name);
    result.archive = request.output_dir / (name + ".a");
    result.header = request.output_dir / (name + ".h");
    result.json = request.output_dir / (name + ".json");
    result.ok = true;
}

} // namespace

BuildResult build_library(const BuildRequest &request) {
    auto start = std::chrono::steady_clock::now();
    BuildResult result;
    try {
        build(request, request.function_name.empty() ? request.generator : request.function_name, result);
    } catch (const Error &error) {
        result.diagnostics.insert(result.diagnostics.end(), error.diagnostics.begin(),
                                  error.diagnostics.end());
    }
    result.ok &= !has_errors(result.diagnostics);
    result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return result;
}

} // namespace kiln
