#include "apps/kiln/ScheduleCheck.h"
#include "apps/kiln/Variants.h"
#include "apps/kiln/Workloads.h"
#include "apps/kiln/commands/Commands.h"
#include "dsl/check/CheckKernel.h"
#include "dsl/lower/LibraryRequest.h"
#include "dsl/lower/Work.h"
#include "dsl/target/Device.h"

#include <Halide.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

namespace kiln::cli {

namespace {

using Json = nlohmann::ordered_json;

std::string scaled(double value, const char *unit) {
    for (auto [size, prefix] : {std::pair(1e12, "T"), {1e9, "G"}, {1e6, "M"}, {1e3, "k"}}) {
        if (value >= size) {
            return fmt::format("{:.2f} {}{}", value / size, prefix, unit);
        }
    }
    return fmt::format("{:.0f} {}", value, unit);
}

Json work_as_json(const Work &work) {
    Json json = {{"flops", work.flops()}, {"bytes", work.bytes()}};
    json["stages"] = Json::array();
    for (const StageWork &stage : work.stages) {
        json["stages"].push_back({{"func", stage.func},
                                  {"update", stage.update},
                                  {"points", stage.points},
                                  {"estimated", stage.estimated},
                                  {"add", stage.each.add},
                                  {"multiply", stage.each.multiply},
                                  {"divide", stage.each.divide},
                                  {"compare", stage.each.compare},
                                  {"special", stage.each.special},
                                  {"flops", stage.points * stage.each.flops()}});
    }
    json["regions"] = Json::array();
    for (const RegionWork &region : work.regions) {
        const char *kind = region.is_input ? "input" : region.is_output ? "output" : "intermediate";
        json["regions"].push_back({{"func", region.func},
                                   {"kind", kind},
                                   {"types", region.types},
                                   {"mins", region.mins},
                                   {"extents", region.extents},
                                   {"bytes", region.bytes}});
    }
    json["reads"] = Json::array();
    for (const auto &[pair, bytes] : work.reads) {
        json["reads"].push_back({{"by", pair.first}, {"of", pair.second}, {"bytes", bytes}});
    }
    return json;
}

/// Arithmetic and traffic of each Func that is computed at root, with all that is computed inside it.
Json kernels_as_json(const Json &work, const std::map<std::string, std::string> &kernel_of) {
    auto kernel = [&](const std::string &func) {
        auto it = kernel_of.find(func);
        return it == kernel_of.end() ? std::string() : it->second;
    };
    std::vector<std::string> order;
    std::map<std::string, double> flops, special, written;
    std::map<std::string, std::map<std::string, double>> read;
    for (const auto &stage : work["stages"]) {
        std::string name = kernel(stage["func"]);
        if (std::find(order.begin(), order.end(), name) == order.end()) {
            order.push_back(name);
        }
        flops[name] += stage["flops"].get<double>();
        special[name] += stage["special"].get<double>() * stage["points"].get<double>();
    }
    std::set<std::string> inputs;
    for (const auto &region : work["regions"]) {
        if (region["kind"] == "input") {
            inputs.insert(region["func"]);
        } else if (kernel(region["func"]) == region["func"]) {
            written[region["func"]] = region["bytes"].get<double>();
        }
    }
    for (const auto &one : work["reads"]) {
        std::string by = kernel(one["by"]), of = one["of"];
        if (inputs.count(of) > 0 || kernel(of) != by) {
            double &bytes = read[by][of];
            bytes = std::max(bytes, one["bytes"].get<double>());
        }
    }
    Json out = Json::array();
    for (const std::string &name : order) {
        double bytes = written[name];
        for (const auto &[of, more] : read[name]) {
            bytes += more;
        }
        out.push_back({{"func", name},
                       {"flops", flops[name]},
                       {"special", special[name]},
                       {"reads", read[name]},
                       {"writes", written[name]},
                       {"bytes", bytes}});
    }
    return out;
}

/// The place under the roofline; `type` is the one whose arithmetic bounds it.
Json roofline_as_json(const Target &target, double flops, double bytes, const std::string &type) {
    Json json = {{"flops", flops}, {"bytes", bytes}, {"intensity", bytes > 0 ? flops / bytes : 0}};
    json["device"] = "";
    json["calibrated"] = false;
    try {
        Device device = device_for(target);
        json["device"] = device.name;
        if (device.ceilings) {
            auto peak = device.ceilings->flops.find(type);
            double arithmetic = peak == device.ceilings->flops.end() ? 0 : peak->second;
            json["calibrated"] = true;
            json["copy_bytes_per_s"] = device.ceilings->copy_bytes_per_s;
            json["peak_flops"] = arithmetic;
            json["ridge"] =
                device.ceilings->copy_bytes_per_s > 0 ? arithmetic / device.ceilings->copy_bytes_per_s : 0;
            json["seconds"] = roofline_seconds(device, type, flops, bytes);
        }
    } catch (const Error &) {
        // Explaining a schedule for a device that is not here is fine; only its ceilings are unknown.
    }
    return json;
}

std::string render_work(const Json &kernels, const Json &work) {
    std::string out = "work, each value once\n";
    for (const auto &kernel : kernels) {
        out += fmt::format("  {:<16} {}, {} special functions; writes {}", kernel["func"].get<std::string>(),
                           scaled(kernel["flops"], "FLOP"), scaled(kernel["special"], ""),
                           scaled(kernel["writes"], "B"));
        for (const auto &[of, bytes] : kernel["reads"].items()) {
            out += fmt::format(", reads {} of {}", scaled(bytes.get<double>(), "B"), of);
        }
        out += "\n";
    }
    out += "buffers\n";
    for (const auto &region : work["regions"]) {
        if (region["kind"] != "intermediate") {
            out += fmt::format("  {:<16} {} {} [{}], {}\n", region["func"].get<std::string>(),
                               region["kind"].get<std::string>(),
                               fmt::join(region["types"].get<std::vector<std::string>>(), ", "),
                               fmt::join(region["extents"].get<std::vector<int64_t>>(), ", "),
                               scaled(region["bytes"], "B"));
        }
    }
    return out;
}

std::string render_roofline(const Json &roofline) {
    std::string out =
        fmt::format("roofline\n  {}, {}: {:.2f} FLOP a byte\n", scaled(roofline["flops"], "FLOP"),
                    scaled(roofline["bytes"], "B"), roofline["intensity"].get<double>());
    if (roofline["device"] == "") {
        return out + "  no such device here: its ceilings are not known\n";
    }
    if (!roofline["calibrated"].get<bool>()) {
        return out + "  not calibrated: `kiln device --calibrate` measures this device's ceilings\n";
    }
    double ridge = roofline["ridge"], intensity = roofline["intensity"];
    out += fmt::format("  {}: {} copy, {} peak; the ridge is at {:.1f} FLOP a byte, so {} bounds it\n",
                       roofline["device"].get<std::string>(), scaled(roofline["copy_bytes_per_s"], "B/s"),
                       scaled(roofline["peak_flops"], "FLOP/s"), ridge,
                       intensity < ridge ? "memory" : "arithmetic");
    return out + fmt::format("  at best {:.4f} ms\n", roofline["seconds"].get<double>() * 1e3);
}

std::string render_tiles(const std::vector<CompiledTile> &tiles, bool passes, bool code) {
    std::string out;
    for (const CompiledTile &t : tiles) {
        out +=
            fmt::format("tile kernel {}\n  {} registers a thread, {} of {} threads{}{}{}\n", t.func,
                        t.registers, scaled(t.shared_bytes, "B of shared memory for each block"), t.threads,
                        t.spill_bytes > 0 ? fmt::format(", {} bytes spilled", t.spill_bytes) : "",
                        t.persistent ? ", persistent" : "", t.launch_ahead ? ", launched ahead" : "");
        for (const std::string &remark : t.remarks) {
            out += "  " + remark + "\n";
        }
        out += passes ? "\n" + t.passes : "";
        out += code ? "\n" + t.text : "";
    }
    return out;
}

class Explain : public Command {
public:
    std::string name() const override { return "explain"; }
    std::string summary() const override {
        return "Loop nest, memory, work and bytes of a schedule, and its place under the roofline";
    }

    void define(CLI::App &app) override {
        app_ = &app;
        app.add_option("GENERATOR", generator_, "The algorithm")->required()->type_name("GENERATOR");
        variants_.define(app, false);
        app.add_option("-w,--work", work_,
                       "The problem whose work is counted, by name; else the largest for timing")
            ->type_name("NAME");
        app.add_flag("--passes", passes_, "What each pass over a tile kernel did");
        app.add_flag("--code", code_, "The text of tile kernels, as it is compiled");
    }

    Report run(const Settings &settings) override {
        Report report;
        load_generators(settings.load);
        require_generator(generator_);
        VariantRequest variant = variants_.requests(*app_, report.sources).front();
        CheckOutcome outcome;
        if (variant.schedule_text.empty() &&
            !variant.schedule_file.empty()) { // a folder: what serves every call
            variant =
                choose_schedules(generator_, variant.target, {variant.schedule_file}, variants_.params())
                    .back();
            report.sources[variant.schedule_file] = variant.schedule_text;
        }
        if (variant.schedule_file.empty()) {
            outcome = check_default_schedule(generator_, variants_.params(), variant.target);
        } else {
            CheckRequest request;
            request.generator = generator_;
            request.params = variants_.params();
            request.knobs = variant.knobs;
            request.target = variant.target;
            outcome =
                check_schedules(parse_schedule_text(variant.schedule_file, variant.schedule_text), request);
        }
        report.add(outcome.diagnostics);
        if (has_errors(outcome.diagnostics) || outcome.schedules.empty()) {
            return report;
        }
        const CheckedSchedule &schedule = outcome.schedules.front();
        report.text = fmt::format("{} by `{}` on {}\n\nloops\n{}", generator_, schedule.name, schedule.target,
                                  schedule.nest);
        report.text += "memory\n";
        for (const CheckedSchedule::Memory &memory : schedule.memory) {
            report.text += fmt::format("  {:<16} computed at {}, stored at {}, {}: {}\n", memory.func,
                                       memory.compute_at, memory.store_at, memory.kind,
                                       memory.bytes > 0 ? scaled(static_cast<double>(memory.bytes), "B")
                                                        : "a size known only at run time");
        }
        report.text += render_tiles(schedule.tiles, passes_, code_);
        report.data["schedule"] = to_json(schedule);
        std::optional<Workload> workload = chosen_workload();
        if (!workload) {
            report.text +=
                "\nthe generator names no problem, so its work cannot be counted: add `workloads` to it\n";
            return report;
        }
        Params params = variants_.params();
        for (const auto &[key, value] : workload->params) {
            params.emplace(key, value);
        }
        Json work = Json::parse(run_generator(generator_, [&]() -> nlohmann::json {
                                    LegalizedPipeline pipeline =
                                        fresh_pipeline(generator_, params, variant.target);
                                    return work_as_json(count_work(pipeline.outputs, *workload)).dump();
                                }).get<std::string>());
        Json kernels = kernels_as_json(work, schedule.kernels);
        std::string type = "float32";
        for (const auto &region : work["regions"]) {
            if (region["kind"] == "input" && region["types"][0] == "float64") {
                type = "float64";
            }
        }
        Json roofline = roofline_as_json(variant.target, work["flops"], work["bytes"], type);
        report.text += fmt::format("\nproblem {}\n", workload->name) + render_work(kernels, work) +
                       render_roofline(roofline);
        report.data["workload"] = workload->name;
        report.data["work"] = std::move(work);
        report.data["kernels"] = std::move(kernels);
        report.data["roofline"] = std::move(roofline);
        return report;
    }

private:
    std::optional<Workload> chosen_workload() const {
        if (!work_.empty()) {
            return find_workload(generator_, work_);
        }
        std::vector<Workload> all = timing_workloads(generator_, variants_.params());
        if (all.empty()) {
            return std::nullopt;
        }
        return *std::max_element(all.begin(), all.end(), [](const Workload &a, const Workload &b) {
            return rough_bytes(a) < rough_bytes(b);
        });
    }

    CLI::App *app_ = nullptr;
    VariantOptions variants_;
    std::string generator_, work_;
    bool passes_ = false, code_ = false;
};

} // namespace

std::unique_ptr<Command> explain_command() {
    return std::make_unique<Explain>();
}

} // namespace kiln::cli
