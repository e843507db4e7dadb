#include "dsl/target/Device.h"
#include "apps/kiln/commands/Commands.h"
#include "dsl/support/Progress.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

namespace kiln::cli {

namespace {

std::string gib(int64_t bytes) {
    return bytes >= (int64_t(1) << 30) ? fmt::format("{:.1f} GiB", bytes / double(1 << 30))
                                       : fmt::format("{:.0f} KiB", bytes / 1024.0);
}

void add_limit(std::string &out, const char *what, int64_t value, const char *unit) {
    if (value > 0) {
        out += fmt::format("    {:<26} {} {}\n", what, value, unit);
    }
}

std::string render(const Device &device) {
    std::string out = fmt::format("{}  {}\n", device.id(), device.name);
    auto line = [&](const char *what, const std::string &value) {
        if (!value.empty()) {
            out += fmt::format("    {:<26} {}\n", what, value);
        }
    };
    line("target", device.target.str());
    line("vendor", device.vendor);
    line("platform", device.platform);
    line("driver", device.driver);
    line("units", device.units > 0 ? std::to_string(device.units) : "");
    line("clock", device.clock_mhz > 0 ? fmt::format("{:.0f} MHz", device.clock_mhz) : "");
    line("memory", device.memory_bytes > 0 ? gib(device.memory_bytes) : "");
    for (const auto &[name, bytes] : device.caches) {
        line(name.c_str(), gib(bytes));
    }
    line("features", fmt::format("{}", fmt::join(device.features, " ")));
    add_limit(out, "shared memory of a block", device.limits.shared_bytes, "bytes");
    add_limit(out, "threads of a block", device.limits.threads, "");
    add_limit(out, "threads of a unit", device.limits.threads_unit, "");
    add_limit(out, "registers of a thread", device.limits.registers, "");
    add_limit(out, "lanes in step", device.limits.lanes, "");
    if (!device.ceilings) {
        return out + "    not calibrated: `kiln device --calibrate` measures its ceilings\n";
    }
    const Ceilings &ceilings = *device.ceilings;
    line("copy", fmt::format("{:.1f} GB/s", ceilings.copy_bytes_per_s / 1e9));
    line("copy in cache", ceilings.cached_copy_bytes_per_s > 0
                              ? fmt::format("{:.1f} GB/s", ceilings.cached_copy_bytes_per_s / 1e9)
                              : "");
    line("launch", ceilings.launch_s > 0 ? fmt::format("{:.2f} us", ceilings.launch_s * 1e6) : "");
    for (const auto &[type, flops] : ceilings.flops) {
        line(("arithmetic " + type).c_str(), fmt::format("{:.1f} GFLOP/s", flops / 1e9));
    }
    line("calibrated", ceilings.date);
    return out;
}

class DeviceCommand : public Command {
public:
    std::string name() const override { return "device"; }
    std::string summary() const override {
        return "What devices this machine has, their limits and their measured ceilings";
    }

    void define(CLI::App &app) override {
        app.add_flag("--calibrate", calibrate_,
                     "Measure copy bandwidth and peak arithmetic per type, and store them");
        app.add_option("-t,--target", target_, "Only the first device that runs this target")
            ->type_name("TARGET");
    }

    Report run(const Settings &) override {
        Report report;
        std::vector<std::string> notes;
        std::vector<Device> devices;
        if (target_.empty()) {
            devices = detect_devices(&notes);
        } else {
            devices.push_back(device_for(Target::parse(target_)));
        }
        report.data["devices"] = nlohmann::ordered_json::array();
        for (Device &device : devices) {
            if (calibrate_) {
                Activity activity(fmt::format("calibrating {}", device.id()), 100);
                device.ceilings = kiln::calibrate(device, [&](double done, const std::string &what) {
                    activity.at(static_cast<size_t>(std::lround(done * 100)), what);
                });
            }
            report.text += (report.text.empty() ? "" : "\n") + render(device);
            nlohmann::json json = to_json(device);
            report.data["devices"].emplace_back(json);
        }
        for (const std::string &note : notes) {
            report.text += fmt::format("\nnote: {}\n", note);
        }
        report.data["notes"] = notes;
        return report;
    }

private:
    bool calibrate_ = false;
    std::string target_;
};

} // namespace

std::unique_ptr<Command> device_command() {
    return std::make_unique<DeviceCommand>();
}

} // namespace kiln::cli
