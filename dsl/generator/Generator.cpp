#include "dsl/generator/Generator.h"

namespace kiln {

namespace {
std::map<std::string, GeneratorInfo> &registry() {
    static std::map<std::string, GeneratorInfo> infos;
    return infos;
}
} // namespace

void register_generator_info(GeneratorInfo info) {
    std::string name = info.name;
    registry()[name] = std::move(info);
}

const GeneratorInfo *find_generator_info(const std::string &name) {
    auto it = registry().find(name);
    return it == registry().end() ? nullptr : &it->second;
}

std::vector<const GeneratorInfo *> all_generator_infos() {
    std::vector<const GeneratorInfo *> out;
    for (const auto &[name, info] : registry()) {
        out.push_back(&info);
    }
    return out;
}

} // namespace kiln
