#include "dsl/schedule/apply/Apply.h"

#include <fmt/format.h>

#include <map>
#include <regex>
#include <sstream>

namespace kiln {

std::string lowered_text(const std::vector<Halide::Func> &outputs, const Target &target) {
    Halide::Pipeline pipeline(outputs);
    Halide::Module module =
        pipeline.compile_to_module(pipeline.infer_arguments(), "kernel", Halide::Target(target.halide()));
    std::ostringstream out;
    for (const auto &function : module.functions()) {
        out << function;
    }
    // `f$3` and `t17` hold numbers that depend on what the process did before.
    static const std::regex numbered(R"([A-Za-z_]*\$[0-9]+|\b[a-z][0-9]+\b)");
    std::string text = out.str(), fixed;
    std::map<std::string, std::string> names;
    std::map<std::string, int> next;
    auto begin = std::sregex_iterator(text.begin(), text.end(), numbered);
    size_t end = 0;
    for (auto it = begin; it != std::sregex_iterator(); ++it) {
        std::string name = it->str();
        std::string base = name.substr(0, name.find_first_of("$0123456789"));
        auto [entry, fresh] = names.try_emplace(name);
        if (fresh) {
            entry->second = fmt::format("{}#{}", base, next[base]++);
        }
        fixed.append(text, end, it->position() - end);
        fixed += entry->second;
        end = it->position() + it->length();
    }
    return fixed.append(text, end, std::string::npos);
}

} // namespace kiln
