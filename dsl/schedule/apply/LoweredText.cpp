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
    // The length of a kernel's source depends on the names in it.
    text = std::regex_replace(text, std::regex(R"((initialize_kernels\(.*), [0-9]+\))"), "$1)");
    // Symbols of kernels, `f$3` and `t17` hold numbers that depend on what the process did before: number them anew
    // in the order of their appearance. The first of a name has no number, or has none left.
    static const std::regex identifier(R"(_?kernel_[A-Za-z0-9_]+|[A-Za-z_][A-Za-z0-9_.$]*)");
    static const std::regex number(R"(\$[0-9]+)");
    std::map<std::string, std::string> names;
    std::map<std::string, int> next;
    size_t end = 0;
    for (auto it = std::sregex_iterator(text.begin(), text.end(), identifier); it != std::sregex_iterator();
         ++it) {
        std::string name = it->str();
        bool kernel = name.starts_with("kernel_") || name.starts_with("_kernel_");
        bool temporary = name.size() > 1 && name.find_first_not_of("0123456789", 1) == std::string::npos;
        std::string base = kernel      ? "kernel"
                           : temporary ? name.substr(0, 1)
                                       : std::regex_replace(name, number, "");
        auto [entry, fresh] = names.try_emplace(name);
        if (fresh) {
            entry->second = fmt::format("{}#{}", base, next[base]++);
        }
        fixed.append(text, end, static_cast<size_t>(it->position()) - end);
        fixed += entry->second;
        end = static_cast<size_t>(it->position() + it->length());
    }
    return fixed.append(text, end, std::string::npos);
}

} // namespace kiln
