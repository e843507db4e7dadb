#include "dsl/lower/BuildProtocol.h"

#include <array>

namespace kiln {

namespace {

constexpr std::array condition_names = {
    "extent_at_least",  "extent_at_most", "extent_multiple_of", "stride_multiple_of", "aligned_to",
    "stride_is",        "min_is",         "device_aligned_to",  "blocks_at_most",     "device_is",
    "elements_at_most", "device_vector"};

nlohmann::json to_json(const std::vector<VariantCondition> &list) {
    nlohmann::json conditions = nlohmann::json::array();
    for (const VariantCondition &c : list) {
        conditions.push_back({{"what", static_cast<int>(c.what)},
                              {"argument", c.argument},
                              {"dimension", c.dimension},
                              {"value", c.value},
                              {"other", c.other},
                              {"other_dimension", c.other_dimension}});
    }
    return conditions;
}

std::vector<VariantCondition> conditions_from_json(const nlohmann::json &j) {
    std::vector<VariantCondition> out;
    for (const nlohmann::json &c : j) {
        out.push_back({static_cast<VariantCondition::What>(c.at("what").get<int>()), c.at("argument"),
                       c.at("dimension"), c.at("value"), c.at("other"), c.at("other_dimension")});
    }
    return out;
}

nlohmann::json to_json(const VariantRequest &v) {
    return {{"target", v.target.str()},
            {"schedule_file", v.schedule_file},
            {"schedule_text", v.schedule_text},
            {"schedule_name", v.schedule_name},
            {"knobs", v.knobs},
            {"conditions", to_json(v.conditions)}};
}

VariantRequest variant_from_json(const nlohmann::json &j) {
    VariantRequest v;
    v.target = Target::parse(j.at("target").get<std::string>());
    v.schedule_file = j.at("schedule_file");
    v.schedule_text = j.at("schedule_text");
    v.schedule_name = j.at("schedule_name");
    v.knobs = j.at("knobs");
    v.conditions = conditions_from_json(j.at("conditions"));
    return v;
}

nlohmann::json to_json(const CompiledArgument &a) {
    nlohmann::json dimensions = nlohmann::json::array();
    for (const CompiledArgument::Dimension &d : a.dimensions) {
        dimensions.push_back({{"name", d.name},
                              {"min", d.min},
                              {"extent", d.extent},
                              {"stride", d.stride},
                              {"has_min", d.has_min},
                              {"has_extent", d.has_extent},
                              {"has_stride", d.has_stride},
                              {"min_text", d.min_text},
                              {"extent_text", d.extent_text},
                              {"stride_text", d.stride_text}});
    }
    return {{"name", a.name},
            {"kind", a.kind},
            {"type_code", a.type_code},
            {"type_bits", a.type_bits},
            {"type", a.type},
            {"alignment", a.alignment},
            {"dimensions", dimensions},
            {"scalar_min", a.scalar_min},
            {"scalar_max", a.scalar_max},
            {"scalar_default", a.scalar_default}};
}

CompiledArgument argument_from_json(const nlohmann::json &j) {
    CompiledArgument a;
    a.name = j.at("name");
    a.kind = j.at("kind");
    a.type_code = j.at("type_code");
    a.type_bits = j.at("type_bits");
    a.type = j.at("type");
    a.alignment = j.at("alignment");
    a.scalar_min = j.at("scalar_min");
    a.scalar_max = j.at("scalar_max");
    a.scalar_default = j.at("scalar_default");
    for (const nlohmann::json &d : j.at("dimensions")) {
        CompiledArgument::Dimension dim;
        dim.name = d.at("name");
        dim.min = d.at("min");
        dim.extent = d.at("extent");
        dim.stride = d.at("stride");
        dim.has_min = d.at("has_min");
        dim.has_extent = d.at("has_extent");
        dim.has_stride = d.at("has_stride");
        dim.min_text = d.at("min_text");
        dim.extent_text = d.at("extent_text");
        dim.stride_text = d.at("stride_text");
        a.dimensions.push_back(std::move(dim));
    }
    return a;
}

} // namespace

nlohmann::json to_json(const CompiledTile &t) {
    return {{"func", t.func},
            {"symbol", t.symbol},
            {"function", t.function},
            {"registers", t.registers},
            {"spill_bytes", t.spill_bytes},
            {"shared_bytes", t.shared_bytes},
            {"threads", t.threads},
            {"cluster", t.cluster},
            {"persistent", t.persistent},
            {"launch_ahead", t.launch_ahead},
            {"text", t.text},
            {"passes", t.passes},
            {"remarks", t.remarks}};
}

CompiledTile compiled_tile_from_json(const nlohmann::json &j) {
    CompiledTile t;
    t.func = j.at("func");
    t.symbol = j.at("symbol");
    t.function = j.at("function");
    t.registers = j.at("registers");
    t.spill_bytes = j.at("spill_bytes");
    t.shared_bytes = j.at("shared_bytes");
    t.threads = j.at("threads");
    t.cluster = j.at("cluster");
    t.persistent = j.at("persistent");
    t.launch_ahead = j.at("launch_ahead");
    t.text = j.at("text");
    t.passes = j.at("passes");
    t.remarks = j.at("remarks");
    return t;
}

const char *condition_name(VariantCondition::What what) {
    return condition_names[static_cast<size_t>(what)];
}

nlohmann::json to_json(const CompileJob &job) {
    std::vector<std::string> load;
    for (const std::filesystem::path &path : job.load) {
        load.push_back(path.string());
    }
    return {{"generator", job.generator},      {"load", load},         {"params", job.params},
            {"variant", to_json(job.variant)}, {"symbol", job.symbol}, {"object", job.object.string()},
            {"reply", job.reply.string()}};
}

CompileJob compile_job_from_json(const nlohmann::json &j) {
    CompileJob job;
    job.generator = j.at("generator");
    for (const nlohmann::json &path : j.at("load")) {
        job.load.push_back(path.get<std::string>());
    }
    job.params = j.at("params");
    job.variant = variant_from_json(j.at("variant"));
    job.symbol = j.at("symbol");
    job.object = j.at("object").get<std::string>();
    job.reply = j.at("reply").get<std::string>();
    return job;
}

nlohmann::json to_json(const CompileReply &reply) {
    nlohmann::json diagnostics = nlohmann::json::array(), arguments = nlohmann::json::array(),
                   tiles = nlohmann::json::array();
    for (const Diagnostic &d : reply.diagnostics) {
        diagnostics.push_back(to_json(d));
    }
    for (const CompiledArgument &a : reply.arguments) {
        arguments.push_back(to_json(a));
    }
    for (const CompiledTile &t : reply.tiles) {
        tiles.push_back(to_json(t));
    }
    return {{"diagnostics", diagnostics},
            {"arguments", arguments},
            {"schedule_name", reply.schedule_name},
            {"schedule_text", reply.schedule_text},
            {"tiles", tiles},
            {"tile_shim", reply.tile_shim},
            {"conditions", to_json(reply.conditions)},
            {"halide_target", reply.halide_target},
            {"cpu_features", reply.cpu_features},
            {"params", reply.params},
            {"deterministic", reply.deterministic},
            {"device_alignment", reply.device_alignment},
            {"host_bytes", reply.host_bytes ? nlohmann::json(*reply.host_bytes) : nlohmann::json()},
            {"device_bytes", reply.device_bytes ? nlohmann::json(*reply.device_bytes) : nlohmann::json()}};
}

CompileReply compile_reply_from_json(const nlohmann::json &j) {
    CompileReply reply;
    for (const nlohmann::json &d : j.at("diagnostics")) {
        reply.diagnostics.push_back(diagnostic_from_json(d));
    }
    for (const nlohmann::json &a : j.at("arguments")) {
        reply.arguments.push_back(argument_from_json(a));
    }
    for (const nlohmann::json &t : j.at("tiles")) {
        reply.tiles.push_back(compiled_tile_from_json(t));
    }
    reply.tile_shim = j.at("tile_shim");
    reply.conditions = conditions_from_json(j.at("conditions"));
    reply.schedule_name = j.at("schedule_name");
    reply.schedule_text = j.at("schedule_text");
    reply.halide_target = j.at("halide_target");
    reply.cpu_features = j.at("cpu_features").get<std::vector<uint64_t>>();
    reply.params = j.at("params");
    reply.deterministic = j.at("deterministic");
    reply.device_alignment = j.at("device_alignment");
    for (auto [key, value] :
         {std::pair("host_bytes", &reply.host_bytes), std::pair("device_bytes", &reply.device_bytes)}) {
        if (!j.at(key).is_null()) {
            *value = j.at(key).get<int64_t>();
        }
    }
    return reply;
}

} // namespace kiln
