#include "dsl/lower/BindSizes.h"

#include <fmt/format.h>

namespace kiln {

using namespace Halide::Internal;

Halide::Expr BindSizes::visit(const Variable *op) {
    if (!op->param.defined()) {
        return op;
    }
    const std::string buffer = op->param.name(), base = buffer.substr(0, buffer.find('$'));
    if (auto extents = extents_.find(base); op->param.is_buffer() && extents != extents_.end()) {
        int64_t stride = 1;
        for (size_t d = 0; d < extents->second.size(); d++) {
            auto is = [&](const char *what) { return op->name == fmt::format("{}.{}.{}", buffer, what, d); };
            if (is("extent")) {
                return make_const(op->type, extents->second[d]);
            }
            if (is("min")) {
                return make_zero(op->type);
            }
            if (is("stride")) {
                return make_const(op->type, stride);
            }
            stride *= extents->second[d];
        }
    }
    if (auto value = scalars_.find(base); value != scalars_.end()) {
        return op->type.is_float() ? make_const(op->type, value->second)
                                   : make_const(op->type, static_cast<int64_t>(value->second));
    }
    return op;
}

} // namespace kiln
