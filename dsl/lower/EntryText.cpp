#include "dsl/lower/EntryText.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kiln {

namespace {

std::string scalar_type(const CompiledArgument &a) {
    switch (a.type_code) {
    case 0:
        return fmt::format("int{}_t", a.type_bits);
    case 1:
        return a.type_bits == 1 ? "bool" : fmt::format("uint{}_t", a.type_bits);
    case 2:
        return a.type_bits == 32 ? "float" : a.type_bits == 64 ? "double" : "uint16_t";
    case 4:
        return "uint16_t"; // its bits
    default:
        return "void *";
    }
}

std::string parameters(const LibraryParts &parts) {
    std::string out = "const kiln_call *call";
    for (const CompiledArgument &a : parts.variants[0].reply.arguments) {
        std::string type = a.kind == "scalar" ? scalar_type(a) + " " : "halide_buffer_t *";
        out += fmt::format(", {}{}", type, c_parameter(a.name));
    }
    return out;
}

std::string c_string(const std::string &text) {
    std::string out = "\"";
    for (char ch : text) {
        unsigned char c = static_cast<unsigned char>(ch);
        if (c == '\n') {
            out += "\\n\"\n    \"";
        } else if (c == '"' || c == '\\') {
            out += '\\';
            out += ch;
        } else if (c < 32 || c >= 127 || c == '?') {
            out += fmt::format("\\{:03o}", c);
        } else {
            out += ch;
        }
    }
    return out + "\"";
}

std::string describe_dimension(const CompiledArgument &a, size_t d) {
    const CompiledArgument::Dimension &dim = a.dimensions[d];
    std::string out;
    auto add = [&](const char *what, bool has, int64_t value, const std::string &text) {
        if (has || !text.empty()) {
            out += fmt::format("{}{} {}", out.empty() ? "" : ", ", what, has ? std::to_string(value) : text);
        }
    };
    add("min", dim.has_min, dim.min, dim.min_text);
    add("extent", dim.has_extent, dim.extent, dim.extent_text);
    add("stride", dim.has_stride, dim.stride, dim.stride_text);
    return out;
}

std::string arguments_table(const std::vector<CompiledArgument> &arguments) {
    std::string out;
    for (size_t i = 0; i < arguments.size(); i++) {
        if (arguments[i].dimensions.empty()) {
            continue;
        }
        out += fmt::format("static const kiln_entry_dimension dimensions_{}[] = {{\n", i);
        for (const CompiledArgument::Dimension &d : arguments[i].dimensions) {
            auto value = [](bool has, int64_t v) {
                return has ? std::to_string(v) : std::string("KILN_FREE");
            };
            out += fmt::format("    {{{}, {}, {}}},\n", value(d.has_min, d.min),
                               value(d.has_extent, d.extent), value(d.has_stride, d.stride));
        }
        out += "};\n";
    }
    out += "static const kiln_entry_argument arguments[] = {\n";
    for (size_t i = 0; i < arguments.size(); i++) {
        const CompiledArgument &a = arguments[i];
        out += fmt::format("    {{{}, {}, {}, {}, {}, {}, {}}},\n", c_string(a.name),
                           a.kind == "scalar"  ? "KILN_SCALAR"
                           : a.kind == "input" ? "KILN_INPUT"
                                               : "KILN_OUTPUT",
                           a.type_code, a.type_bits, a.dimensions.size(), a.alignment,
                           a.dimensions.empty() ? "0" : fmt::format("dimensions_{}", i));
    }
    return out + "};\n";
}

size_t index_of(const std::vector<CompiledArgument> &arguments, const std::string &name) {
    for (size_t i = 0; i < arguments.size(); i++) {
        if (arguments[i].name == name) {
            return i;
        }
    }
    return arguments.size();
}

constexpr const char *condition_enumerators[] = {"KILN_EXTENT_AT_LEAST",
                                                 "KILN_EXTENT_AT_MOST",
                                                 "KILN_EXTENT_MULTIPLE_OF",
                                                 "KILN_STRIDE_MULTIPLE_OF",
                                                 "KILN_ALIGNED_TO",
                                                 "KILN_STRIDE_IS",
                                                 "KILN_MIN_IS",
                                                 "KILN_DEVICE_ALIGNED_TO",
                                                 "KILN_BLOCKS_AT_MOST",
                                                 "KILN_DEVICE_IS",
                                                 "KILN_ELEMENTS_AT_MOST",
                                                 "KILN_DEVICE_VECTOR"};

std::string variants_table(const LibraryParts &parts) {
    std::string declarations, table = "static const kiln_entry_variant variants[] = {\n";
    const std::vector<CompiledArgument> &arguments = parts.variants[0].reply.arguments;
    for (size_t i = 0; i < parts.variants.size(); i++) {
        const CompiledVariant &v = parts.variants[i];
        std::string symbol = fmt::format("{}__v{}", parts.name, i);
        declarations += fmt::format("int {0}_argv(void **);\n"
                                    "int {0}_workspace_argv(void **);\n"
                                    "const struct halide_filter_metadata_t *{0}_metadata(void);\n",
                                    symbol);
        std::string features = "0", conditions = "0";
        if (!v.reply.cpu_features.empty()) {
            features = fmt::format("features_{}", i);
            declarations += fmt::format("static const uint64_t {}[] = {{", features);
            for (uint64_t word : v.reply.cpu_features) {
                declarations += fmt::format("{:#x}ull, ", word);
            }
            declarations += "};\n";
        }
        if (!v.request.conditions.empty()) {
            conditions = fmt::format("conditions_{}", i);
            declarations += fmt::format("static const kiln_entry_condition {}[] = {{\n", conditions);
            for (const VariantCondition &c : v.request.conditions) {
                declarations += fmt::format(
                    "    {{{}, {}, {}, {}, {}, {}}},\n", condition_enumerators[static_cast<size_t>(c.what)],
                    c.argument.empty() ? 0 : index_of(arguments, c.argument), c.dimension,
                    c.other.empty() ? 0 : index_of(arguments, c.other), c.other_dimension, c.value);
            }
            declarations += "};\n";
        }
        std::string alignment = "0";
        if (!v.reply.device_alignment.empty()) {
            alignment = fmt::format("device_alignment_{}", i);
            declarations += fmt::format("static const uint8_t {}[] = {{", alignment);
            for (const CompiledArgument &a : arguments) {
                auto at = v.reply.device_alignment.find(a.name);
                declarations += fmt::format("{}, ", at == v.reply.device_alignment.end() ? 1 : at->second);
            }
            declarations += "};\n";
        }
        std::string tiles = "0";
        if (!v.reply.tiles.empty()) {
            tiles = symbol + "_tiles";
            declarations += fmt::format("extern const struct kiln_tile_kernel *const {}[];\n", tiles);
        }
        const Target &t = v.request.target;
        const char *backend = t.backend == Backend::Cpu    ? "KILN_CPU"
                              : t.backend == Backend::Cuda ? "KILN_CUDA"
                                                           : "KILN_OPENCL";
        bool exact = t.backend == Backend::Cuda && !t.feature.empty() && t.feature.back() == 'a';
        table += fmt::format(
            "    {{{}, {}, {}, {}, {}, {}, {}, {}, {}_argv, {}_metadata, {}_workspace_argv, {}, {}, {}}},\n",
            c_string(t.str()), c_string(v.reply.schedule_name), backend, exact ? 1 : 0,
            t.backend == Backend::Cuda ? t.level() : 0, features, v.request.conditions.size(), conditions,
            symbol, symbol, symbol, alignment, v.reply.tiles.size(), tiles);
    }
    return declarations + table + "};\n";
}

} // namespace

std::string header_text(const LibraryParts &parts) {
    const std::string &name = parts.name;
    std::string doc;
    for (const CompiledArgument &a : parts.variants[0].reply.arguments) {
        doc += fmt::format(" *   {}: {} of {}", c_parameter(a.name), a.kind, a.type);
        if (a.kind != "scalar") {
            doc += fmt::format(", {} dimension{}", a.dimensions.size(), a.dimensions.size() == 1 ? "" : "s");
            for (size_t d = 0; d < a.dimensions.size(); d++) {
                std::string text = describe_dimension(a, d);
                doc += text.empty() ? "" : fmt::format("; dimension {}: {}", d, text);
            }
        }
        doc += "\n";
    }
    std::vector<std::string> targets;
    for (const CompiledVariant &v : parts.variants) {
        targets.push_back(v.request.target.str());
    }
    return fmt::format(
        R"(/* Made by Kiln {version} from the generator `{generator}` for {targets}. Do not edit.
 *
 * int {name}(call, …):
{doc} * Returns KILN_OK or a kiln_status; kiln_last_message() says what was wrong. Outputs share no memory with inputs or
 * with each other. `call` may be null.
 */
#ifndef KILN_KERNEL_{name}_H
#define KILN_KERNEL_{name}_H

#include "kiln_entry.h"

#ifdef __cplusplus
extern "C" {{
#endif

int {name}({parameters});
/** The same with the arguments in an array: buffers as halide_buffer_t *, scalars as pointers to them. */
int {name}_argv(const kiln_call *call, void **arguments);
/** Loads what the first call would: modules on the device of `call`. */
int {name}_prepare(const kiln_call *call);
/** Bytes that a call with these arguments takes for intermediate values. Only shapes count: buffers need no memory. */
int {name}_workspace({parameters}, kiln_workspace *workspace);
/** Contract, variants and the text of {name}.json. */
const kiln_entry_library *{name}_info(void);

#ifdef __cplusplus
}} /* extern "C" */
#endif

#endif
)",
        fmt::arg("version", KILN_VERSION), fmt::arg("generator", parts.generator),
        fmt::arg("targets", fmt::join(targets, ", ")), fmt::arg("name", name), fmt::arg("doc", doc),
        fmt::arg("parameters", parameters(parts)));
}

std::string entry_text(const LibraryParts &parts, const std::string &json) {
    const std::vector<CompiledArgument> &arguments = parts.variants[0].reply.arguments;
    std::vector<std::string> values;
    for (const CompiledArgument &a : arguments) {
        values.push_back((a.kind == "scalar" ? "&" : "") + c_parameter(a.name));
    }
    return fmt::format(
        R"(#include "kiln_entry.h"

{arguments}{variants}
static const kiln_entry_library library = {{
    KILN_ABI_VERSION, {argument_count}, {variant_count}, "{name}", arguments, variants, {json}, &KILN_ABI_SYMBOL}};

int {name}({parameters}) {{
    void *values[] = {{{values}}};
    return kiln_entry_call(&library, call, values);
}}

int {name}_argv(const kiln_call *call, void **values) {{
    return kiln_entry_call(&library, call, values);
}}

int {name}_prepare(const kiln_call *call) {{
    return kiln_entry_prepare(&library, call);
}}

int {name}_workspace({parameters}, kiln_workspace *workspace) {{
    void *values[] = {{{values}}};
    return kiln_entry_workspace(&library, call, values, workspace);
}}

const kiln_entry_library *{name}_info(void) {{
    return &library;
}}
)",
        fmt::arg("arguments", arguments_table(arguments)), fmt::arg("variants", variants_table(parts)),
        fmt::arg("argument_count", arguments.size()), fmt::arg("variant_count", parts.variants.size()),
        fmt::arg("name", parts.name), fmt::arg("json", c_string(json)),
        fmt::arg("parameters", parameters(parts)), fmt::arg("values", fmt::join(values, ", ")));
}

} // namespace kiln
