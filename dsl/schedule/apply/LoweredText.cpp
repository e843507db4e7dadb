#include "dsl/schedule/apply/Apply.h"

#include <fmt/format.h>

#include <map>
#include <regex>
#include <sstream>

namespace kiln {

namespace {

std::vector<Halide::Internal::Function> functions_of(const std::vector<Halide::Func> &outputs) {
    std::vector<Halide::Internal::Function> functions;
    for (const Halide::Func &f : outputs) {
        functions.push_back(f.function());
    }
    return functions;
}

} // namespace

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
    // The pipeline's own Funcs by their names, in every spelling that Halide uses: `out$15`, `out__15`, `out_15`.
    for (const auto &[name, func] : Halide::Internal::build_environment(functions_of(outputs))) {
        size_t dollar = name.rfind('$');
        if (dollar != std::string::npos) {
            std::string base = name.substr(0, dollar), number = name.substr(dollar + 1);
            std::string quoted = std::regex_replace(base, std::regex(R"([$])"), R"((?:\$|_|__))");
            text = std::regex_replace(
                text, std::regex(R"(\b)" + quoted + R"((?:\$|__|_))" + number + R"((?![0-9]))"), base);
            text = std::regex_replace(
                text, std::regex("_" + quoted + R"((?:\$|__|_))" + number + R"((?![0-9]))"), "_" + base);
        }
    }
    // Kernels are numbered too, and their source's length holds those numbers.
    text = std::regex_replace(text, std::regex(R"((block_id_[xyz])__[0-9]+)"), "$1");
    text = std::regex_replace(text, std::regex(R"((initialize_kernels\(.*), [0-9]+\))"), "$1)");
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
