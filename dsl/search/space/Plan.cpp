#include "dsl/search/space/Plan.h"

#include <nlohmann/json.hpp>

namespace kiln::search {

namespace {

using nlohmann::json;

json place_json(const PlanPlace &p) {
    return json::array({static_cast<int>(p.where), p.host, p.level});
}

PlanPlace place_of(const json &j) {
    PlanPlace p;
    p.where = static_cast<Where>(std::clamp(j.at(0).get<int>(), 0, 2));
    p.host = j.at(1);
    p.level = std::clamp(j.at(2).get<int>(), 0, static_cast<int>(Reduce));
    return p;
}

} // namespace

const char *level_name(int level) {
    static const char *names[] = {"task", "outer", "inner", "block", "reduce"};
    return names[level];
}

std::string Plan::str() const {
    json j;
    for (const auto &[name, f] : funcs) {
        json g = {{"at", place_json(f.place)},
                  {"tile", f.tile},
                  {"order", f.order},
                  {"v", json::array({f.vector_dim, f.lanes})},
                  {"fused", f.fused},
                  {"r", json::array({f.reduce, f.reduce_outside, f.reduce_unroll, f.rfactor})},
                  {"tail", static_cast<int>(f.tail)},
                  {"align", f.align},
                  {"storage", f.storage}};
        if (f.store) {
            g["store"] = place_json(*f.store);
        }
        j["f"][name] = std::move(g);
    }
    for (const WrapPlan &w : wraps) {
        j["w"].push_back({w.producer, w.consumer, place_json(w.place), w.lanes, w.storage});
    }
    return j.dump();
}

std::optional<Plan> Plan::parse(const std::string &text) {
    json j = json::parse(text, nullptr, false);
    if (j.is_discarded() || !j.is_object()) {
        return std::nullopt;
    }
    try {
        Plan plan;
        for (const auto &[name, g] : j.at("f").items()) {
            FuncPlan f;
            f.place = place_of(g.at("at"));
            f.tile = g.at("tile").get<std::array<std::vector<int64_t>, tile_levels>>();
            f.order = g.at("order").get<std::vector<int>>();
            f.vector_dim = g.at("v").at(0);
            f.lanes = g.at("v").at(1);
            f.fused = g.at("fused");
            f.reduce = g.at("r").at(0);
            f.reduce_outside = g.at("r").at(1);
            f.reduce_unroll = g.at("r").at(2);
            f.rfactor = g.at("r").at(3);
            f.tail = static_cast<Tail>(g.at("tail").get<int>());
            f.align = g.at("align");
            f.storage = g.at("storage").get<std::vector<int>>();
            if (g.contains("store")) {
                f.store = place_of(g.at("store"));
            }
            plan.funcs[name] = std::move(f);
        }
        if (j.contains("w")) {
            for (const json &w : j.at("w")) {
                plan.wraps.push_back({w.at(0), w.at(1), place_of(w.at(2)), w.at(3), w.at(4)});
            }
        }
        return plan;
    } catch (const json::exception &) {
        return std::nullopt;
    }
}

} // namespace kiln::search
