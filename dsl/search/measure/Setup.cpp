#include "dsl/search/measure/Measurer.h"

#include <nlohmann/json.hpp>

namespace kiln::search {

nlohmann::json to_json(const MeasureSetup &s) {
    std::vector<std::string> load;
    for (const std::filesystem::path &path : s.load) {
        load.push_back(std::filesystem::absolute(path).string());
    }
    return {{"generator", s.generator},
            {"load", load},
            {"params", s.params},
            {"target", s.target.str()},
            {"workload",
             {{"name", s.workload.name},
              {"extents", s.workload.extents},
              {"scalars", s.workload.scalars},
              {"params", s.workload.params}}},
            {"threads", s.threads},
            {"device", s.device},
            {"cool", s.cool},
            {"floor_ms", s.floor_ms},
            {"limits",
             {{"build_s", s.limits.build_s},
              {"build_bytes", s.limits.build_bytes},
              {"call_s", s.limits.call_s},
              {"run_bytes", s.limits.run_bytes},
              {"time_s", s.limits.time_s},
              {"reference_s", s.limits.reference_s}}}};
}

MeasureSetup measure_setup_from_json(const nlohmann::json &json) {
    using Strings = std::map<std::string, std::string>;
    MeasureSetup s;
    s.generator = json.at("generator");
    for (const std::string &path : json.at("load").get<std::vector<std::string>>()) {
        s.load.emplace_back(path);
    }
    s.params = json.at("params").get<Strings>();
    s.target = Target::parse(json.at("target").get<std::string>());
    const nlohmann::json &w = json.at("workload");
    s.workload.name = w.at("name");
    s.workload.extents = w.at("extents").get<std::map<std::string, std::vector<int64_t>>>();
    s.workload.scalars = w.at("scalars").get<std::map<std::string, double>>();
    s.workload.params = w.at("params").get<Strings>();
    s.threads = json.at("threads");
    s.device = json.at("device");
    s.cool = json.at("cool");
    s.floor_ms = json.at("floor_ms");
    const nlohmann::json &l = json.at("limits");
    s.limits.build_s = l.at("build_s");
    s.limits.build_bytes = l.at("build_bytes");
    s.limits.call_s = l.at("call_s");
    s.limits.run_bytes = l.at("run_bytes");
    s.limits.time_s = l.at("time_s");
    s.limits.reference_s = l.at("reference_s");
    return s;
}

} // namespace kiln::search
