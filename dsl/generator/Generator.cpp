#include "dsl/generator/Generator.h"

namespace kiln {

namespace {

std::map<std::string, GeneratorInfo> &registry() {
    static std::map<std::string, GeneratorInfo> infos;
    return infos;
}

std::map<std::string, std::vector<std::string>> &origins() {
    static std::map<std::string, std::vector<std::string>> files;
    return files;
}

} // namespace

void register_generator_info(GeneratorInfo info) {
    std::string name = info.name;
    origins()[name].push_back(info.origin);
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

std::map<std::string, std::vector<std::string>> shadowed_generators() {
    std::map<std::string, std::vector<std::string>> out;
    for (const auto &[name, files] : origins()) {
        if (files.size() > 1) {
            out[name] = files;
        }
    }
    return out;
}

double elements(const Workload &workload, const std::string &buffer) {
    auto it = workload.extents.find(buffer);
    if (it == workload.extents.end()) {
        return 0;
    }
    double n = 1;
    for (int64_t e : it->second) {
        n *= double(e);
    }
    return n;
}

} // namespace kiln
