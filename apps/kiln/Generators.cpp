#include "apps/kiln/Generators.h"

#include "dsl/generator/Create.h"
#include "dsl/generator/Params.h"
#include "dsl/schedule/apply/Describe.h"
#include "dsl/support/Process.h"
#include "dsl/support/Progress.h"
#include "dsl/target/Target.h"

#include <Halide.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>

namespace kiln::cli {

namespace {

constexpr double generator_timeout_s = 60;

std::string type_text(const Halide::Type &type) {
    std::ostringstream out;
    out << type;
    return out.str();
}

nlohmann::ordered_json arguments(Halide::Internal::AbstractGenerator &generator,
                                 Halide::Internal::ArgInfoDirection dir) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const auto &arg : generator.arginfos()) {
        if (arg.dir != dir) {
            continue;
        }
        nlohmann::ordered_json types = nlohmann::ordered_json::array();
        for (const Halide::Type &type : arg.types) {
            types.push_back(type_text(type));
        }
        bool scalar = arg.kind == Halide::Internal::ArgInfoKind::Scalar;
        list.push_back({{"name", arg.name},
                        {"types", types},
                        {"dimensions", scalar ? 0 : arg.dimensions},
                        {"scalar", scalar}});
    }
    return list;
}

nlohmann::ordered_json funcs_as_json(const PipelineInfo &info) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const FuncInfo &func : info.funcs) {
        nlohmann::ordered_json stages = nlohmann::ordered_json::array();
        for (size_t i = 0; i < func.stages.size(); i++) {
            std::vector<std::string> loops;
            for (const DimInfo &dim : func.stages[i].dims) {
                loops.push_back(dim.name);
            }
            stages.push_back({{"stage", i == 0 ? func.name : fmt::format("{}.update({})", func.name, i - 1)},
                              {"loops", loops},
                              {"definition", func.stages[i].source}});
        }
        const char *kind = func.is_input ? "input" : func.is_output ? "output" : "intermediate";
        list.push_back({{"name", func.name}, {"kind", kind}, {"types", func.types}, {"stages", stages}});
    }
    return list;
}

} // namespace

std::vector<std::string> generator_names_quietly() {
    try {
        load_generators({});
    } catch (const Error &) {
        return {};
    }
    return generator_names();
}

void require_generator(const std::string &name) {
    std::vector<std::string> names = generator_names();
    if (std::find(names.begin(), names.end(), name) == names.end()) {
        // The one place that knows the message.
        create_generator(name, {}, Halide::Target(Target{}.halide()));
    }
}

std::vector<std::string> target_spellings() {
    return {"cpu",    "cpu-sse41", "cpu-avx2",   "cpu-avx512", "cpu-avx512_bf16", "cpu-amx",
            "opencl", "cuda",      "cuda-sm_80", "cuda-sm_90", "cuda-sm_90a",     "cuda-sm_100"};
}

Params parse_params(const std::vector<std::string> &assignments) {
    Params params;
    for (const std::string &assignment : assignments) {
        params.insert_or_assign(split_assignment("--param", assignment).first,
                                split_assignment("--param", assignment).second);
    }
    return params;
}

std::string extents_text(const std::map<std::string, std::vector<int64_t>> &extents) {
    std::string out;
    for (const auto &[name, extent] : extents) {
        out += fmt::format("{}{}=[{}]", out.empty() ? "" : ", ", name, fmt::join(extent, ", "));
    }
    return out;
}

nlohmann::json run_generator(const std::string &name, const std::function<nlohmann::json()> &work) {
    ProcessLimits limits;
    limits.timeout_s = generator_timeout_s;
    limits.memory_bytes = size_t(8) << 30;
    return run_isolated(fmt::format("the generator `{}`", name), limits, [&]() -> nlohmann::json {
        try {
            return work();
        } catch (const Halide::Error &error) {
            Diagnostic d;
            d.code = "K1018";
            d.message = fmt::format("Halide refuses the generator `{}`", name);
            std::string text = error.what();
            while (!text.empty() && text.back() == '\n') {
                text.pop_back();
            }
            d.notes.push_back(text);
            throw Error(std::move(d));
        }
    });
}

nlohmann::ordered_json describe_generator(const std::string &name, const Params &params) {
    Activity activity(fmt::format("reading the generator {}", name));
    nlohmann::json described = run_generator(name, [&]() -> nlohmann::json {
        auto generator = create_generator(name, params, Halide::Target(Target{}.halide()));
        // First of all: types and parameters are not settled before it.
        Halide::Pipeline pipeline = generator->build_pipeline();
        nlohmann::ordered_json json;
        std::vector<ParamInfo> known = generator_params(name, Halide::Target(Target{}.halide()));
        json["inputs"] = arguments(*generator, Halide::Internal::ArgInfoDirection::Input);
        json["outputs"] = arguments(*generator, Halide::Internal::ArgInfoDirection::Output);
        json["params"] = nlohmann::ordered_json::array();
        for (const ParamInfo &param : known) {
            json["params"].push_back({{"name", param.name},
                                      {"type", param.type},
                                      {"default", param.fallback},
                                      {"choices", param.choices}});
        }
        json["funcs"] = funcs_as_json(describe_pipeline(pipeline.outputs(), name));
        // As a string: nlohmann's plain json would sort the keys.
        return json.dump();
    });
    nlohmann::ordered_json json;
    json["name"] = name;
    const GeneratorInfo *info = find_generator_info(name);
    json["summary"] = info ? info->summary : "";
    json["interface"] = info ? info->interface_ : "";
    const auto parts = nlohmann::ordered_json::parse(described.get<std::string>());
    for (const auto &[key, value] : parts.items()) {
        json[key] = value;
    }
    json["workloads"] = nlohmann::ordered_json::array();
    if (info) {
        for (const Workload &workload : info->workloads) {
            json["workloads"].push_back({{"name", workload.name},
                                         {"extents", workload.extents},
                                         {"scalars", workload.scalars},
                                         {"params", workload.params}});
        }
    }
    return json;
}

} // namespace kiln::cli
