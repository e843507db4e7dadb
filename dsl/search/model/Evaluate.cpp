#include "dsl/search/model/Evaluate.h"

#include "dsl/search/model/Random.h"
#include "dsl/support/Diagnostic.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <map>

namespace kiln::search {

namespace {

std::string unit_of(const Sample &s, HoldOut mode) {
    switch (mode) {
    case HoldOut::Operation:
        return s.operation.empty() ? s.problem : s.operation;
    case HoldOut::Shape:
        return s.problem;
    case HoldOut::Device:
        break;
    }
    return s.device;
}

/// A search over the samples of one problem, as if they were all there is.
struct Searched {
    double best16 = 0;   ///< ms
    double pairwise = 0; ///< after 8, over the rest
    bool has_pairs = false;
};

Searched search_problem(const Model &trained, std::span<const Sample> samples,
                        const std::vector<size_t> &problem) {
    Searched out;
    Model model = trained;
    model.focus(samples[problem[0]].problem, samples[problem[0]].device);
    std::vector<size_t> left = problem;
    out.best16 = INFINITY;
    for (size_t done = 0; done < 16 && !left.empty();) {
        std::vector<Features> rows;
        for (size_t i : left) {
            rows.push_back(samples[i].features);
        }
        std::vector<Prediction> p = model.predict(rows);
        if (done == 8) {
            std::vector<Sample> rest;
            for (size_t i : left) {
                rest.push_back(samples[i]);
            }
            Metrics m = metrics_of(rest, p);
            out.pairwise = m.pairwise;
            out.has_pairs = m.pairs > 0;
        }
        std::vector<size_t> order(left.size());
        for (size_t i = 0; i < order.size(); i++) {
            order[i] = i;
        }
        std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
            return std::log(p[a].ms) - p[a].spread < std::log(p[b].ms) - p[b].spread;
        });
        std::vector<Sample> batch;
        std::vector<size_t> rest;
        for (size_t i = 0; i < order.size(); i++) {
            if (batch.size() < 4 && done + batch.size() < 16) {
                batch.push_back(samples[left[order[i]]]);
                out.best16 = std::min(out.best16, batch.back().ms);
            } else {
                rest.push_back(left[order[i]]);
            }
        }
        done += batch.size();
        left = std::move(rest);
        model.learn(batch);
    }
    return out;
}

[[noreturn]] void fail_nothing_to_hold_out(HoldOut mode, size_t units) {
    Diagnostic d;
    d.code = "K1359";
    d.message = fmt::format("nothing to hold out by {}", hold_out_name(mode));
    d.notes = {fmt::format("the samples are of {} {}{}", units, hold_out_name(mode), units == 1 ? "" : "s")};
    d.helps = {"give samples of more, or hold out something else: `--hold-out operation|shape|device`"};
    throw Error(std::move(d));
}

} // namespace

HoldOut hold_out_of(const std::string &name) {
    for (HoldOut mode : {HoldOut::Operation, HoldOut::Shape, HoldOut::Device}) {
        if (name == hold_out_name(mode)) {
            return mode;
        }
    }
    Diagnostic d;
    d.code = "K1358";
    d.message = fmt::format("there is no way to hold out by `{}`", name);
    d.helps = {"hold out by `operation`, `shape` or `device`"};
    throw Error(std::move(d));
}

const char *hold_out_name(HoldOut mode) {
    return mode == HoldOut::Operation ? "operation" : mode == HoldOut::Shape ? "shape" : "device";
}

std::vector<int> parts_of(std::span<const Sample> samples, HoldOut mode, int parts, uint64_t seed) {
    std::map<std::string, int> units;
    for (const Sample &s : samples) {
        units.emplace(unit_of(s, mode), 0);
    }
    std::vector<int *> order;
    for (auto &[name, part] : units) {
        order.push_back(&part);
    }
    for (size_t i = order.size(); i > 1; i--) {
        std::swap(order[i - 1], order[next_random(seed) % i]);
    }
    size_t count = mode == HoldOut::Device ? order.size() : static_cast<size_t>(std::max(1, parts));
    for (size_t i = 0; i < order.size(); i++) {
        *order[i] = static_cast<int>(i % count);
    }
    std::vector<int> out;
    for (const Sample &s : samples) {
        out.push_back(units.at(unit_of(s, mode)));
    }
    if (units.size() < 2) {
        fail_nothing_to_hold_out(mode, units.size());
    }
    return out;
}

Evaluation evaluate(std::span<const Sample> samples, HoldOut mode, int parts, const TrainOptions &options) {
    Evaluation e;
    e.mode = mode;
    e.part_of = parts_of(samples, mode, parts, options.seed);
    e.parts = *std::max_element(e.part_of.begin(), e.part_of.end()) + 1;
    e.predictions.resize(samples.size());
    e.roofline.resize(samples.size());
    double problems = 0, with_pairs = 0, logs = 0;
    for (int part = 0; part < e.parts; part++) {
        std::vector<Sample> seen, unseen;
        std::vector<size_t> places;
        std::map<std::pair<std::string, std::string>, std::vector<size_t>> groups;
        for (size_t i = 0; i < samples.size(); i++) {
            if (e.part_of[i] == part) {
                unseen.push_back(samples[i]);
                places.push_back(i);
                groups[{samples[i].device, samples[i].problem}].push_back(i);
            } else {
                seen.push_back(samples[i]);
            }
        }
        TrainOptions of_part = options;
        if (options.progress) {
            of_part.progress = [&](size_t done, size_t all, const std::string &what) {
                options.progress(part * all + done, e.parts * all,
                                 fmt::format("part {}: {}", part + 1, what));
            };
        }
        Model trained = train(seen, of_part).model;
        std::vector<Features> rows;
        for (const Sample &s : unseen) {
            rows.push_back(s.features);
        }
        std::vector<Prediction> p = trained.predict(rows), a = Model::analytic().predict(rows);
        for (size_t i = 0; i < places.size(); i++) {
            e.predictions[places[i]] = p[i];
            e.roofline[places[i]] = a[i];
        }
        for (const auto &[key, problem] : groups) {
            if (problem.size() < 8) {
                continue;
            }
            Searched s = search_problem(trained, samples, problem);
            double best = INFINITY;
            for (size_t i : problem) {
                best = std::min(best, samples[i].ms);
            }
            problems++;
            logs += std::log(s.best16 / best);
            e.searched16_within_3_percent += s.best16 <= 1.03 * best;
            if (s.has_pairs) {
                with_pairs++;
                e.pairwise_after_8 += s.pairwise;
            }
        }
    }
    e.model = metrics_of(samples, e.predictions);
    e.analytic = metrics_of(samples, e.roofline);
    e.chance = metrics_of_chance(samples);
    e.searched16 = problems > 0 ? std::exp(logs / problems) : 0;
    e.searched16_within_3_percent /= std::max(1.0, problems);
    e.pairwise_after_8 /= std::max(1.0, with_pairs);
    return e;
}

nlohmann::ordered_json to_json(const Evaluation &e) {
    auto round3 = [](double v) { return std::round(v * 1000) / 1000; };
    nlohmann::ordered_json j;
    j["hold_out"] = hold_out_name(e.mode);
    j["parts"] = e.parts;
    j["model"] = to_json(e.model);
    j["model"]["searched16"] = round3(e.searched16);
    j["model"]["searched16_within_3_percent"] = round3(e.searched16_within_3_percent);
    j["model"]["pairwise_after_8"] = round3(e.pairwise_after_8);
    j["roofline"] = to_json(e.analytic);
    j["chance"] = to_json(e.chance);
    return j;
}

} // namespace kiln::search
