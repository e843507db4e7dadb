#include "apps/kiln/Generators.h"
#include "apps/kiln/commands/Commands.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace kiln::cli {

namespace {

std::string joined(const nlohmann::ordered_json &list) {
    std::string out;
    for (const auto &item : list) {
        out += (out.empty() ? "" : ", ") + item.get<std::string>();
    }
    return out;
}

std::string render_arguments(const char *title, const nlohmann::ordered_json &list) {
    std::string out;
    for (const auto &arg : list) {
        std::string shape = arg["scalar"].get<bool>()
                                ? "scalar"
                                : fmt::format("{}-dimensional", arg["dimensions"].get<int>());
        out += fmt::format("  {:<8} {:<12} {} {}\n", title, arg["name"].get<std::string>(), shape,
                           joined(arg["types"]));
        title = "";
    }
    return out;
}

std::string render_in_full(const nlohmann::ordered_json &json) {
    std::string out = fmt::format("{}\n", json["name"].get<std::string>());
    if (!json["summary"].get<std::string>().empty()) {
        out += fmt::format("  {}\n", json["summary"].get<std::string>());
    }
    out += render_arguments("inputs", json["inputs"]) + render_arguments("outputs", json["outputs"]);
    const char *title = "params";
    for (const auto &param : json["params"]) {
        std::string values =
            param["choices"].empty() ? param["type"].get<std::string>() : joined(param["choices"]);
        out += fmt::format("  {:<8} {:<12} {} (default {})\n", title, param["name"].get<std::string>(),
                           values, param["default"].get<std::string>());
        title = "";
    }
    title = "stages";
    for (const auto &func : json["funcs"]) {
        for (const auto &stage : func["stages"]) {
            out +=
                fmt::format("  {:<8} {:<12} loops {}{}\n", title, stage["stage"].get<std::string>(),
                            joined(stage["loops"]),
                            func["kind"] == "input" ? " (an input: only its wrappers can be scheduled)" : "");
            title = "";
        }
    }
    title = "shapes";
    for (const auto &workload : json["workloads"]) {
        out +=
            fmt::format("  {:<8} {:<12} {}\n", title, workload["name"].get<std::string>(),
                        extents_text(workload["extents"].get<std::map<std::string, std::vector<int64_t>>>()));
        title = "";
    }
    if (!json["interface"].get<std::string>().empty()) {
        out += "\n" + json["interface"].get<std::string>() + "\n";
    }
    return out;
}

class List : public Command {
public:
    std::string name() const override { return "list"; }
    std::string summary() const override {
        return "The generators, or all about some: arguments, parameters, Funcs and loops that a schedule "
               "may name";
    }

    void define(CLI::App &app) override {
        app.add_option("GENERATOR", names_, "Describe these in full")->type_name("GENERATOR");
        app.add_option("-p,--param", params_, "A generator parameter, k=v; may be repeated")
            ->type_name("K=V")
            ->allow_extra_args(false);
    }

    Report run(const Settings &settings) override {
        Report report;
        LoadedGenerators loaded = load_generators(settings.load);
        for (const auto &object : loaded.objects) {
            for (const std::string &name : object.replaces) {
                Diagnostic d;
                d.code = "K1019";
                d.severity = Severity::Warning;
                d.message = fmt::format("`{}` replaces the generator `{}` that was loaded before",
                                        object.path.string(), name);
                report.diagnostics.push_back(std::move(d));
            }
        }
        bool in_full = settings.json || !names_.empty();
        Params params = parse_params(params_);
        report.data["generators"] = nlohmann::ordered_json::array();
        for (const std::string &name : names_.empty() ? generator_names() : names_) {
            if (!in_full) {
                const GeneratorInfo *info = find_generator_info(name);
                report.text += fmt::format("{:<16} {}\n", name, info ? info->summary : "");
                continue;
            }
            try {
                nlohmann::ordered_json described = describe_generator(name, params);
                report.text += (report.text.empty() ? "" : "\n") + render_in_full(described);
                report.data["generators"].push_back(std::move(described));
            } catch (const Error &error) {
                report.add(error.diagnostics); // the others are still listed
            }
        }
        return report;
    }

private:
    std::vector<std::string> names_, params_;
};

} // namespace

std::unique_ptr<Command> list_command() {
    return std::make_unique<List>();
}

} // namespace kiln::cli
