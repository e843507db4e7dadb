#include "dsl/schedule/apply/Apply.h"

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
    return out.str();
}

} // namespace kiln
