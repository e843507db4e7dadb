#include "dsl/lower/WriteLibrary.h"

#include "dsl/lower/Condition.h"
#include "dsl/lower/EntryText.h"
#include "dsl/lower/Sha256.h"
#include "dsl/lower/Tools.h"
#include "dsl/support/Files.h"
#include "kiln.h"

#include "HalideRuntime.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>

namespace kiln {

namespace {

namespace fs = std::filesystem;

constexpr size_t max_arguments = 32, max_rank = 8; // KILN_MAX_ARGUMENTS and KILN_MAX_RANK of kiln.h

[[noreturn]] void fail(const char *code, std::string message, std::vector<std::string> notes = {},
                       std::vector<std::string> helps = {}) {
    Diagnostic d;
    d.code = code;
    d.message = std::move(message);
    d.notes = std::move(notes);
    d.helps = std::move(helps);
    throw Error(std::move(d));
}

std::string read_bytes(const fs::path &path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::string describe(const CompiledArgument &a) {
    return a.kind == "scalar"
               ? fmt::format("{} `{}`: {}", a.kind, a.name, a.type)
               : fmt::format("{} `{}`: {}, {} dimensions", a.kind, a.name, a.type, a.dimensions.size());
}

/// Variants stand behind one prototype and one contract. A condition's promise (an alignment, say) is the variant's own.
void check_same_arguments(const LibraryParts &parts) {
    const std::vector<CompiledArgument> &first = parts.variants[0].reply.arguments;
    for (const CompiledVariant &v : parts.variants) {
        const std::vector<CompiledArgument> &other = v.reply.arguments;
        for (size_t i = 0; i < std::max(first.size(), other.size()); i++) {
            std::string a = i < first.size() ? describe(first[i]) : "no such argument";
            std::string b = i < other.size() ? describe(other[i]) : "no such argument";
            if (a != b) {
                fail(
                    "K0709",
                    fmt::format("variants `{}` and `{}` of `{}` have different arguments",
                                parts.variants[0].request.target.str(), v.request.target.str(), parts.name),
                    {fmt::format("argument {}: {} against {}", i, a, b)},
                    {"a generator's arguments must not depend on the target; build two libraries otherwise"});
            }
        }
    }
}

void check_limits(const LibraryParts &parts) {
    const std::vector<CompiledArgument> &arguments = parts.variants[0].reply.arguments;
    if (arguments.size() > max_arguments) {
        fail("K0713", fmt::format("`{}` has {} arguments, at most {} are possible", parts.generator,
                                  arguments.size(), max_arguments));
    }
    for (const CompiledArgument &a : arguments) {
        if (a.dimensions.size() > max_rank) {
            fail("K0713", fmt::format("`{}` of `{}` has {} dimensions, at most {} are possible", a.name,
                                      parts.generator, a.dimensions.size(), max_rank));
        }
    }
}

void check_conditions(const LibraryParts &parts) {
    const std::vector<CompiledArgument> &arguments = parts.variants[0].reply.arguments;
    std::set<Backend> backends, general;
    for (const CompiledVariant &v : parts.variants) {
        backends.insert(v.request.target.backend);
        if (v.request.conditions.empty()) {
            general.insert(v.request.target.backend);
        }
        for (const VariantCondition &c : v.request.conditions) {
            if (is_of_device(c)) {
                const std::string text = c.what == VariantCondition::What::DeviceIs
                                             ? fmt::format("condition `device.is({})`", device_kind(c.value))
                                             : fmt::format("condition `device.vector({})`", c.value);
                if (v.request.target.backend != Backend::OpenCL) {
                    fail("K0714",
                         fmt::format("{} of variant `{}`: only OpenCL's devices are asked", text,
                                     v.request.target.str()),
                         {}, {"leave it out: a target of another backend says what it runs on"});
                }
                continue;
            }
            auto at = std::find_if(arguments.begin(), arguments.end(),
                                   [&](const CompiledArgument &a) { return a.name == c.argument; });
            std::string what =
                fmt::format("condition `{}` of variant `{}`", condition_name(c.what), v.request.target.str());
            if (at == arguments.end() || at->kind == "scalar") {
                std::vector<std::string> names;
                for (const CompiledArgument &a : arguments) {
                    if (a.kind != "scalar") {
                        names.push_back(a.name);
                    }
                }
                fail("K0714",
                     fmt::format("{} names `{}`, which is no buffer of `{}`", what, c.argument,
                                 parts.generator),
                     {fmt::format("its buffers are `{}`", fmt::join(names, "`, `"))});
            }
            bool aligns = c.what == VariantCondition::What::AlignedTo ||
                          c.what == VariantCondition::What::DeviceAlignedTo;
            bool whole = aligns || c.what == VariantCondition::What::ElementsAtMost;
            if (!whole && (c.dimension < 0 || static_cast<size_t>(c.dimension) >= at->dimensions.size())) {
                fail("K0714", fmt::format("{} names dimension {} of `{}`, which has {}", what, c.dimension,
                                          c.argument, at->dimensions.size()));
            }
            bool divides = c.what == VariantCondition::What::ExtentMultipleOf ||
                           c.what == VariantCondition::What::StrideMultipleOf;
            if ((divides && c.value < 1) || (aligns && (c.value < 1 || (c.value & (c.value - 1)) != 0)) ||
                c.value > INT32_MAX) {
                fail("K0714", fmt::format("{} has the value {}, it must be {}", what, c.value,
                                          aligns ? "a power of two" : "from 1 to 2147483647"));
            }
        }
    }
    for (Backend b : backends) {
        if (!general.count(b)) {
            fail("K0712",
                 fmt::format("every variant of `{}` for {} has conditions", parts.name, backend_name(b)),
                 {"a call that meets none of them would find no code"},
                 {"add a variant without conditions, last: the general fallback"});
        }
    }
}

nlohmann::json contract_json(const LibraryParts &parts) {
    nlohmann::json arguments = nlohmann::json::array();
    for (const CompiledArgument &a : parts.variants[0].reply.arguments) {
        nlohmann::json j = {{"name", a.name}, {"kind", a.kind}, {"type", a.type}};
        if (a.kind == "scalar") {
            for (auto [key, value] : {std::pair("min", &a.scalar_min), std::pair("max", &a.scalar_max),
                                      std::pair("default", &a.scalar_default)}) {
                if (!value->empty()) {
                    j[key] = *value;
                }
            }
        } else {
            nlohmann::json dimensions = nlohmann::json::array();
            for (const CompiledArgument::Dimension &d : a.dimensions) {
                nlohmann::json dim = nlohmann::json::object();
                auto put = [&](const char *key, bool has, int64_t value, const std::string &text) {
                    if (has) {
                        dim[key] = value;
                    } else if (!text.empty()) {
                        dim[key] = text;
                    }
                };
                put("min", d.has_min, d.min, d.min_text);
                put("extent", d.has_extent, d.extent, d.extent_text);
                put("stride", d.has_stride, d.stride, d.stride_text);
                dimensions.push_back(dim);
            }
            j["dimensions"] = dimensions;
            j["alignment"] = a.alignment;
            j["alias"] = "none";
            if (a.kind == "output") {
                j["written"] = "all elements";
            }
        }
        arguments.push_back(std::move(j));
    }
    return arguments;
}

nlohmann::json numerics_json(const LibraryParts &parts) {
    nlohmann::json out;
    bool floats = false, short_floats = false, deterministic = true;
    for (const CompiledArgument &a : parts.variants[0].reply.arguments) {
        bool is_float = a.type_code == halide_type_float || a.type_code == halide_type_bfloat;
        floats |= is_float;
        short_floats |= is_float && a.type_bits == 16;
    }
    for (const CompiledVariant &v : parts.variants) {
        deterministic &= v.reply.deterministic;
    }
    if (floats) {
        out["special_values"] = "as IEEE arithmetic of the written formula gives; denormals may flush";
    }
    if (short_floats) {
        out["accumulation"] = "float32 for 16-bit operands";
    }
    out["deterministic"] = deterministic;
    return out;
}

/// What a call checks before it writes, beside ranks, types, overlap and that extents cover what the kernel touches.
nlohmann::json guards_json(const std::vector<CompiledArgument> &arguments) {
    nlohmann::json out = {"rank", "type", "extent", "overlap"};
    auto any = [&](auto says) {
        return std::any_of(arguments.begin(), arguments.end(), [&](const CompiledArgument &a) {
            return std::any_of(a.dimensions.begin(), a.dimensions.end(), says);
        });
    };
    if (any([](const CompiledArgument::Dimension &d) { return d.has_min || !d.min_text.empty(); })) {
        out.push_back("min");
    }
    if (any([](const CompiledArgument::Dimension &d) { return d.has_stride || !d.stride_text.empty(); })) {
        out.push_back("stride");
    }
    if (std::any_of(arguments.begin(), arguments.end(),
                    [](const CompiledArgument &a) { return a.alignment * 8 > std::max(a.type_bits, 8); })) {
        out.push_back("alignment");
    }
    if (std::any_of(arguments.begin(), arguments.end(), [](const CompiledArgument &a) {
            return !a.scalar_min.empty() || !a.scalar_max.empty();
        })) {
        out.push_back("range");
    }
    return out;
}

/// A number, or null where it depends on the call.
nlohmann::json bytes(const std::optional<int64_t> &constant) {
    return constant ? nlohmann::json(*constant) : nlohmann::json();
}

void compile_c(const LibraryParts &parts, const fs::path &source, const fs::path &object) {
    std::vector<std::string> cc = c_compiler();
    for (const char *option : {"-std=c11", "-O2", "-fPIC", "-g0", "-w", "-c"}) {
        cc.push_back(option);
    }
    cc.insert(cc.end(), {"-I", runtime_headers().string(), source.string(), "-o", object.string()});
    run_tool(cc, parts.folder);
}

nlohmann::json variant_json(const CompiledVariant &v, const fs::path &folder,
                            const std::string &object_hash) {
    nlohmann::json conditions = nlohmann::json::array();
    for (const VariantCondition &c : v.request.conditions) {
        if (c.what == VariantCondition::What::DeviceIs) {
            conditions.push_back({{"what", condition_name(c.what)}, {"kind", device_kind(c.value)}});
            continue;
        }
        if (c.what == VariantCondition::What::DeviceVector) {
            conditions.push_back({{"what", condition_name(c.what)}, {"value", c.value}});
            continue;
        }
        conditions.push_back({{"what", condition_name(c.what)},
                              {"argument", c.argument},
                              {"dimension", c.dimension},
                              {"value", c.value}});
        if (c.what == VariantCondition::What::BlocksAtMost) {
            conditions.back()["other"] = c.other;
            conditions.back()["other_dimension"] = c.other_dimension;
        }
    }
    nlohmann::json tiles = nlohmann::json::array();
    for (const CompiledTile &t : v.reply.tiles) {
        tiles.push_back({{"func", t.func},
                         {"registers", t.registers},
                         {"spill_bytes", t.spill_bytes},
                         {"shared_bytes", t.shared_bytes},
                         {"threads", t.threads},
                         {"cluster", t.cluster},
                         {"persistent", t.persistent},
                         {"launch_ahead", t.launch_ahead},
                         {"remarks", t.remarks},
                         {"image_sha256", sha256(read_bytes(folder / (t.symbol + ".image")))}});
    }
    return {{"target", v.request.target.str()},
            {"halide_target", v.reply.halide_target},
            {"schedule_name", v.reply.schedule_name},
            {"schedule", v.reply.schedule_text},
            {"knobs", v.request.knobs},
            {"conditions", conditions},
            {"workspace",
             {{"host_bytes", bytes(v.reply.host_bytes)}, {"device_bytes", bytes(v.reply.device_bytes)}}},
            {"device_alignment", v.reply.device_alignment},
            {"tile_kernels", tiles},
            {"object_sha256", object_hash}};
}

/// The stages of a variant's tile kernels, compiled.
fs::path compile_tiles(const LibraryParts &parts, const CompiledVariant &v) {
    fs::path source = v.object.stem().string() + "_tiles.c", object = v.object.stem().string() + "_tiles.o";
    write_file_atomic(parts.folder / source, v.reply.tile_shim);
    compile_c(parts, source, object);
    fs::remove(parts.folder / source);
    for (const CompiledTile &t : v.reply.tiles) {
        fs::remove(parts.folder / (t.symbol + ".image"));
    }
    return object;
}

} // namespace

void check_c_name(const std::string &name) {
    static const std::set<std::string> reserved = {
        "alignas",   "alignof", "asm",      "auto",     "bool",    "break",    "case",     "catch",
        "char",      "class",   "const",    "continue", "default", "delete",   "do",       "double",
        "else",      "enum",    "explicit", "export",   "extern",  "false",    "float",    "for",
        "friend",    "goto",    "if",       "inline",   "int",     "long",     "main",     "mutable",
        "namespace", "new",     "operator", "private",  "public",  "register", "restrict", "return",
        "short",     "signed",  "sizeof",   "static",   "struct",  "switch",   "template", "this",
        "throw",     "true",    "try",      "typedef",  "typeid",  "typename", "union",    "unsigned",
        "using",     "virtual", "void",     "volatile", "while"};
    bool fits = !name.empty() && !std::isdigit(static_cast<unsigned char>(name[0])) && !reserved.count(name);
    for (char c : name) {
        fits &= std::isalnum(static_cast<unsigned char>(c)) || c == '_';
    }
    bool ours = name.rfind("halide_", 0) == 0 || name.rfind("kiln_", 0) == 0 ||
                name.find("__") != std::string::npos || (!name.empty() && name[0] == '_');
    if (!fits || ours) {
        fail("K0707", fmt::format("`{}` cannot be the name of a kernel", name),
             {ours && fits ? "names with `__`, a leading `_`, `kiln_` or `halide_` are taken"
                           : "it becomes a function in C and C++"},
             {"use letters, digits and single `_`: --name NAME"});
    }
}

std::string c_parameter(const std::string &argument) {
    std::string out = argument;
    for (char &c : out) {
        if (!std::isalnum(static_cast<unsigned char>(c))) {
            c = '_';
        }
    }
    try {
        check_c_name(out);
    } catch (const Error &) {
        out += "_";
    }
    return out == "call" || out == "workspace" ? out + "_" : out;
}

std::string write_library(const LibraryParts &parts) {
    check_same_arguments(parts);
    check_limits(parts);
    check_conditions(parts);

    nlohmann::json json;
    json["name"] = parts.name;
    json["generator"] = parts.generator;
    json["params"] = parts.variants[0].reply.params;
    json["arguments"] = contract_json(parts);
    json["alias"] = "none";
    json["numerics"] = numerics_json(parts);
    json["guards"] = guards_json(parts.variants[0].reply.arguments);
    json["asynchronous"] =
        std::any_of(parts.variants.begin(), parts.variants.end(),
                    [](const CompiledVariant &v) { return v.request.target.backend != Backend::Cpu; });
    json["versions"] = {{"kiln", KILN_VERSION}, {"halide", "21.0.0"}, {"abi", KILN_ABI_VERSION}};
    json["variants"] = nlohmann::json::array();
    for (const CompiledVariant &v : parts.variants) {
        json["variants"].push_back(variant_json(v, parts.folder, sha256(read_bytes(v.object))));
    }
    std::string key = sha256(json.dump());
    json["key"] = key;
    std::string json_text = json.dump(2) + "\n";

    // The entry is compiled from a fixed name in its own folder, so that no path of this machine gets into it.
    std::string entry = parts.name + "__entry.c", entry_object = parts.name + "__entry.o";
    std::string whole = parts.name + ".o", archive = parts.name + ".a";
    write_file_atomic(parts.folder / entry, entry_text(parts, json_text));
    write_file_atomic(parts.folder / (parts.name + ".h"), header_text(parts));
    write_file_atomic(parts.folder / (parts.name + ".json"), json_text);

    compile_c(parts, entry, entry_object);
    std::vector<std::string> ld = {"ld", "-r", "-o", whole, entry_object};
    std::vector<std::string> scraps = {entry, entry_object, whole};
    for (const CompiledVariant &v : parts.variants) {
        ld.push_back(v.object.filename().string());
        scraps.push_back(ld.back());
        if (!v.reply.tiles.empty()) {
            ld.push_back(compile_tiles(parts, v).string());
            scraps.push_back(ld.back());
        }
    }
    run_tool(ld, parts.folder);
    std::vector<std::string> objcopy = {"objcopy"};
    for (const char *suffix : {"", "_argv", "_prepare", "_workspace", "_info"}) {
        objcopy.push_back("--keep-global-symbol=" + parts.name + suffix);
    }
    objcopy.push_back(whole);
    run_tool(objcopy, parts.folder);
    run_tool({"ar", "rcsD", archive, whole}, parts.folder);
    for (const std::string &scrap : scraps) {
        fs::remove(parts.folder / scrap);
    }
    return key;
}

} // namespace kiln
