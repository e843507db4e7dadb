#include "dsl/target/Device.h"
#include "dsl/target/DeviceJson.h"

#include "dsl/support/Files.h"
#include "dsl/support/Process.h"
#include "dsl/target/Detect.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>

namespace kiln {

namespace {

nlohmann::json limits_json(const DeviceLimits &l) {
    return {{"shared_bytes", l.shared_bytes},           {"shared_bytes_static", l.shared_bytes_static},
            {"shared_bytes_unit", l.shared_bytes_unit}, {"threads", l.threads},
            {"block_extent", l.block_extent},           {"grid_extent", l.grid_extent},
            {"threads_unit", l.threads_unit},           {"registers", l.registers},
            {"registers_unit", l.registers_unit},       {"lanes", l.lanes},
            {"vector_lanes", l.vector_lanes},           {"vector_registers", l.vector_registers},
            {"cluster_blocks", l.cluster_blocks}};
}

DeviceLimits limits_from(const nlohmann::json &j) {
    DeviceLimits l;
    l.shared_bytes = j.at("shared_bytes");
    l.shared_bytes_static = j.at("shared_bytes_static");
    l.shared_bytes_unit = j.at("shared_bytes_unit");
    l.threads = j.at("threads");
    l.block_extent = j.at("block_extent");
    l.grid_extent = j.at("grid_extent");
    l.threads_unit = j.at("threads_unit");
    l.registers = j.at("registers");
    l.registers_unit = j.at("registers_unit");
    l.lanes = j.at("lanes");
    l.vector_lanes = j.at("vector_lanes");
    l.vector_registers = j.at("vector_registers");
    l.cluster_blocks = j.at("cluster_blocks");
    return l;
}

Device device_from(const nlohmann::json &j) {
    Device d;
    d.target = Target::parse(j.at("target").get<std::string>());
    d.name = j.at("name");
    d.vendor = j.at("vendor");
    d.driver = j.at("driver");
    d.platform = j.at("platform");
    d.index = j.at("index");
    d.units = j.at("units");
    d.clock_mhz = j.at("clock_mhz");
    d.memory_bytes = j.at("memory_bytes");
    d.cache_bytes = j.at("cache_bytes");
    d.caches = j.at("caches").get<std::map<std::string, int64_t>>();
    d.features = j.at("features").get<std::vector<std::string>>();
    d.limits = limits_from(j.at("limits"));
    return d;
}

std::filesystem::path ceilings_path(const Device &device) {
    return cache_dir() / "devices" / (device.key() + ".json");
}

/// Drivers are asked in a child: one that is initialised here could not be used by a child of ours any more, and
/// checks and timings run in children.
void detect_gpus(std::vector<Device> &devices, std::vector<std::string> &notes) {
    for (auto [what, detect] :
         {std::pair{"the CUDA driver", &detect_cuda}, {"the OpenCL driver", &detect_opencl}}) {
        try {
            nlohmann::json found = run_isolated(what, {30, 0}, [&, detect = detect] {
                std::vector<std::string> said;
                nlohmann::json list = nlohmann::json::array();
                for (const Device &d : detect(said)) {
                    list.push_back(to_json(d));
                }
                return nlohmann::json{{"devices", list}, {"notes", said}};
            });
            for (const nlohmann::json &d : found.at("devices")) {
                devices.push_back(device_from(d));
            }
            for (const nlohmann::json &n : found.at("notes")) {
                notes.push_back(n);
            }
        } catch (const Error &e) {
            notes.push_back(e.diagnostics.empty() ? e.what() : e.diagnostics[0].message);
        }
    }
}

} // namespace

std::string Device::id() const {
    return fmt::format("{}:{}", backend_name(target.backend), index);
}

std::string Device::key() const {
    std::string text = fmt::format("{}_{}_{}_{}_{}", target.slug(), platform, name, units, driver), out;
    for (char c : text) {
        out += std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' ? c : '-';
    }
    return out;
}

std::vector<Device> detect_devices(std::vector<std::string> *notes) {
    std::vector<std::string> said;
    std::vector<Device> devices = {detect_cpu()};
    detect_gpus(devices, said);
    for (Device &d : devices) {
        d.ceilings = load_ceilings(d);
    }
    if (notes) {
        notes->insert(notes->end(), said.begin(), said.end());
    }
    return devices;
}

Device device_for(const Target &target) {
    std::vector<std::string> notes, names;
    std::vector<Device> devices;
    if (target.backend == Backend::Cpu) {
        devices = {detect_cpu()};
        devices[0].ceilings = load_ceilings(devices[0]);
    } else {
        devices = detect_devices(&notes);
    }
    for (const Device &d : devices) {
        names.push_back(fmt::format("{} ({}, {})", d.id(), d.name, d.target.str()));
        // An architecture's own code (sm_90a) runs on that one alone, any other on later ones too.
        bool is_exact =
            target.backend == Backend::Cuda && !target.feature.empty() && target.feature.back() == 'a';
        bool runs = is_exact ? d.target.level() == target.level() : d.target.level() >= target.level();
        if (d.target.backend == target.backend && runs) {
            return d;
        }
    }
    Diagnostic d;
    d.code = "K0903";
    d.message = fmt::format("no device of this machine runs `{}`", target.str());
    d.notes = {fmt::format("it has {}", fmt::join(names, "; "))};
    d.notes.insert(d.notes.end(), notes.begin(), notes.end());
    d.helps = {"libraries for it can be built here and run elsewhere: `kiln build`"};
    throw Error(std::move(d));
}

double roofline_seconds(const Device &device, const std::string &type, double flops, double bytes,
                        int threads) {
    if (!device.ceilings) {
        return 0;
    }
    const Ceilings &c = *device.ceilings;
    auto peak = c.flops.find(type);
    if (peak == c.flops.end()) {
        peak = c.flops.find("float32"); // 16-bit storage, f32 arithmetic
    }
    double share = threads > 0 && c.units > 0 ? std::min(1.0, double(threads) / c.units) : 1.0;
    double compute = peak == c.flops.end() || flops == 0 ? 0 : flops / (peak->second * share);
    // One core may take more than its share of the memory's bandwidth: the whole is the bound.
    double memory = c.copy_bytes_per_s > 0 ? bytes / c.copy_bytes_per_s : 0;
    return std::max(compute, memory);
}

std::filesystem::path cache_dir() {
    auto from = [](const char *name) {
        const char *value = std::getenv(name);
        return std::filesystem::path(value ? value : "");
    };
    if (!from("KILN_CACHE_DIR").empty()) {
        return from("KILN_CACHE_DIR");
    }
    if (!from("XDG_CACHE_HOME").empty()) {
        return from("XDG_CACHE_HOME") / "kiln";
    }
    return (from("HOME").empty() ? std::filesystem::temp_directory_path() : from("HOME")) / ".cache" / "kiln";
}

std::optional<Ceilings> load_ceilings(const Device &device) {
    std::ifstream in(ceilings_path(device));
    nlohmann::json json = nlohmann::json::parse(in, nullptr, false);
    if (json.is_discarded() || !json.contains("ceilings")) {
        return std::nullopt;
    }
    try {
        return ceilings_from_json(json.at("ceilings"));
    } catch (const nlohmann::json::exception &) {
        return std::nullopt; // of another version of Kiln: measured anew
    }
}

void store_ceilings(const Device &device, const Ceilings &ceilings) {
    std::filesystem::path path = ceilings_path(device);
    std::error_code ignored; // write_file_atomic reports what matters
    std::filesystem::create_directories(path.parent_path(), ignored);
    nlohmann::json json = to_json(device);
    json["ceilings"] = to_json(ceilings);
    write_file_atomic(path, json.dump(2) + "\n");
}

nlohmann::json to_json(const DeviceLimits &limits) {
    return limits_json(limits);
}

nlohmann::json to_json(const Ceilings &c) {
    return {{"copy_bytes_per_s", c.copy_bytes_per_s},
            {"copy_ways", c.copy_ways},
            {"cached_copy_bytes_per_s", c.cached_copy_bytes_per_s},
            {"launch_s", c.launch_s},
            {"flops", c.flops},
            {"units", c.units},
            {"date", c.date}};
}

Ceilings ceilings_from_json(const nlohmann::json &j) {
    Ceilings c;
    c.copy_bytes_per_s = j.at("copy_bytes_per_s");
    c.copy_ways = j.at("copy_ways").get<std::map<std::string, double>>();
    c.cached_copy_bytes_per_s = j.at("cached_copy_bytes_per_s");
    c.launch_s = j.at("launch_s");
    c.flops = j.at("flops").get<std::map<std::string, double>>();
    c.units = j.at("units");
    c.date = j.at("date");
    return c;
}

Device device_from_json(const nlohmann::json &json) {
    Device d = device_from(json);
    if (json.contains("ceilings")) {
        d.ceilings = ceilings_from_json(json.at("ceilings"));
    }
    return d;
}

nlohmann::json to_json(const Device &d) {
    nlohmann::json j = {{"id", d.id()},
                        {"key", d.key()},
                        {"target", d.target.str()},
                        {"name", d.name},
                        {"vendor", d.vendor},
                        {"driver", d.driver},
                        {"platform", d.platform},
                        {"index", d.index},
                        {"units", d.units},
                        {"clock_mhz", d.clock_mhz},
                        {"memory_bytes", d.memory_bytes},
                        {"cache_bytes", d.cache_bytes},
                        {"caches", d.caches},
                        {"features", d.features},
                        {"limits", limits_json(d.limits)}};
    if (d.ceilings) {
        j["ceilings"] = to_json(*d.ceilings);
    }
    return j;
}

} // namespace kiln
