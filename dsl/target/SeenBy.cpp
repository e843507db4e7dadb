#include "dsl/target/SeenBy.h"

#include <fmt/format.h>

namespace kiln {

Device seen_by(Device device, const Target &target) {
    if (target.backend != Backend::Cpu || device.target == target) {
        return device;
    }
    device.target = target;
    device.limits = limits_of(target);
    if (device.ceilings) {
        std::map<std::string, double> &flops = device.ceilings->flops;
        for (auto &[type, rate] : flops) {
            auto own = flops.find(fmt::format("{}/{}", type, target.feature));
            rate = own == flops.end() ? rate : own->second;
        }
    }
    return device;
}

} // namespace kiln
