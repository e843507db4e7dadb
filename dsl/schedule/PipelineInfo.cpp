#include "dsl/schedule/PipelineInfo.h"

#include <cctype>

namespace kiln {

int64_t FuncInfo::bytes_per_element() const {
    int64_t bytes = 0;
    for (const std::string &type : types) {
        size_t digits = type.find_first_of("0123456789");
        int bits = digits == std::string::npos ? 8 : std::atoi(type.c_str() + digits);
        bytes += (bits + 7) / 8;
    }
    return bytes;
}

const FuncInfo *PipelineInfo::find(const std::string &name) const {
    for (const FuncInfo &f : funcs) {
        if (f.name == name) {
            return &f;
        }
    }
    return nullptr;
}

std::vector<std::string> PipelineInfo::names() const {
    std::vector<std::string> out;
    for (const FuncInfo &f : funcs) {
        out.push_back(f.name);
    }
    return out;
}

} // namespace kiln
