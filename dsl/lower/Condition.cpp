#include "dsl/lower/Condition.h"

#include "dsl/schedule/Parser.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

namespace kiln {

namespace {

struct DeviceKind {
    const char *name;
    int64_t bit;
};
/// Of Khronos' CL/cl.h: CL_DEVICE_TYPE_CPU, _GPU, _ACCELERATOR.
constexpr std::array device_kinds = {DeviceKind{"cpu", 2}, DeviceKind{"gpu", 4},
                                     DeviceKind{"accelerator", 8}};

/// `device.is(KIND)`; throws for a KIND that there is not.
bool is_device(const Node &node, int64_t &bit) {
    if (node.kind != Node::Kind::Call || !node.is_method || node.text != "is" || node.args.size() != 2 ||
        node.args[0].kind != Node::Kind::Name || node.args[0].text != "device" ||
        node.args[1].kind != Node::Kind::Name) {
        return false;
    }
    const std::string &given = node.args[1].text;
    std::vector<std::string> names;
    for (const DeviceKind &kind : device_kinds) {
        if (given == kind.name) {
            bit = kind.bit;
            return true;
        }
        names.push_back(kind.name);
    }
    Diagnostic d;
    d.code = "K0718";
    d.message = fmt::format("`{}` of `device.is({})` is no kind of device", given, given);
    d.notes = {fmt::format("OpenCL's kinds are `{}`", fmt::join(names, "`, `"))};
    if (std::string near = nearest(given, names); !near.empty()) {
        d.helps = {fmt::format("did you mean `{}`?", near)};
    }
    throw Error(std::move(d));
}

/// `x.extent(0)`: the buffer's name into `buffer`, the number into `number`.
bool is_method(const Node &node, const char *method, std::string &buffer, int64_t &number) {
    if (node.kind != Node::Kind::Call || !node.is_method || node.text != method || node.args.size() != 2 ||
        node.args[0].kind != Node::Kind::Name || node.args[1].kind != Node::Kind::Int) {
        return false;
    }
    buffer = node.args[0].text;
    number = node.args[1].int_value;
    return true;
}

bool is_int(const Node &node, int64_t &value) {
    value = node.int_value;
    return node.kind == Node::Kind::Int;
}

} // namespace

std::optional<VariantCondition> parse_condition(const std::string &text) {
    using What = VariantCondition::What;
    std::vector<Diagnostic> ignored;
    std::optional<Node> node = parse_expression(text, ignored);
    if (!node) {
        return std::nullopt;
    }
    VariantCondition condition;
    int64_t number = 0, zero = 0;
    if (is_method(*node, "aligned", condition.argument, number)) {
        condition.what = What::AlignedTo;
        condition.value = number;
        return condition;
    }
    if (is_device(*node, condition.value)) {
        condition.what = What::DeviceIs;
        return condition;
    }
    if (is_method(*node, "vector", condition.argument, number) && condition.argument == "device") {
        condition.what = What::DeviceVector;
        condition.argument.clear();
        condition.value = number;
        return condition;
    }
    if (node->kind != Node::Kind::Binary || node->args.size() != 2) {
        return std::nullopt;
    }
    const Node &left = node->args[0], &right = node->args[1];
    if ((node->text == ">=" || node->text == "<=") && is_method(left, "extent", condition.argument, number) &&
        is_int(right, condition.value)) {
        condition.what = node->text == ">=" ? What::ExtentAtLeast : What::ExtentAtMost;
    } else if (node->text == "==" && is_int(right, zero) && zero == 0 && left.kind == Node::Kind::Binary &&
               left.text == "%" && is_int(left.args[1], condition.value)) {
        if (is_method(left.args[0], "extent", condition.argument, number)) {
            condition.what = What::ExtentMultipleOf;
        } else if (is_method(left.args[0], "stride", condition.argument, number)) {
            condition.what = What::StrideMultipleOf;
        } else {
            return std::nullopt;
        }
    } else {
        return std::nullopt;
    }
    condition.dimension = static_cast<int>(number);
    return condition;
}

bool is_of_device(const VariantCondition &condition) {
    return condition.what == VariantCondition::What::DeviceIs ||
           condition.what == VariantCondition::What::DeviceVector;
}

const char *device_kind(int64_t bit) {
    for (const DeviceKind &kind : device_kinds) {
        if (kind.bit == bit) {
            return kind.name;
        }
    }
    return nullptr;
}

} // namespace kiln
