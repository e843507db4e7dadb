#include "dsl/search/model/Weights.h"
#include "dsl/support/Diagnostic.h"
#include "dsl/support/Files.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>

namespace kiln::search {

namespace {

using nlohmann::json;
using nlohmann::ordered_json;

/// The shortest text of the number's first six digits, as a double that prints so.
double rounded(double v) {
    return std::stod(fmt::format("{:.6g}", v));
}

template<typename Vector>
ordered_json list_of(const Vector &v) {
    ordered_json list = ordered_json::array();
    for (Eigen::Index i = 0; i < v.size(); i++) {
        list.push_back(rounded(v[i]));
    }
    return list;
}

Eigen::VectorXf vector_of(const json &list) {
    Eigen::VectorXf v(static_cast<Eigen::Index>(list.size()));
    for (size_t i = 0; i < list.size(); i++) {
        v[static_cast<Eigen::Index>(i)] = list[i].get<float>();
    }
    return v;
}

void round_vector(Eigen::VectorXf &v) {
    v = v.unaryExpr([](float x) { return static_cast<float>(rounded(x)); });
}

/// Pairs of a name and a place for each number of the correlation.
template<typename C>
auto fields(C &c) {
    return std::vector<std::pair<const char *, decltype(&c.device)>>{
        {"device", &c.device},     {"problem", &c.problem},
        {"between", &c.between},   {"per_variance", &c.per_variance},
        {"together", &c.together}, {"length", &c.length},
        {"noise", &c.noise},       {"scale", &c.scale}};
}

[[noreturn]] void fail(const char *code, const std::string &file, std::string message, std::string note) {
    Diagnostic d;
    d.code = code;
    d.message = std::move(message);
    d.file = file;
    d.notes = {std::move(note)};
    d.helps = {"train them again from samples of this version: `kiln model train DATA --output FILE`",
               "or leave the file out: Kiln carries weights of its own"};
    throw Error(std::move(d));
}

void place_columns(ModelData &data, const std::string &name) {
    const std::vector<std::string> &known = feature_names();
    for (const std::string &feature : data.features) {
        auto it = std::find(known.begin(), known.end(), feature);
        if (it == known.end()) {
            std::string close = nearest(feature, known);
            fail("K1351", name,
                 fmt::format("these weights need a feature `{}`, which does not exist", feature),
                 close.empty() ? fmt::format("there are {} features here", known.size())
                               : fmt::format("there is a feature `{}`", close));
        }
        data.columns.push_back(static_cast<int>(it - known.begin()));
    }
}

void read_networks(ModelData &data, const json &file, const std::string &name) {
    data.scaling.mean = vector_of(file.at("mean"));
    data.scaling.inverse_deviation = vector_of(file.at("inverse_deviation"));
    data.embedding_scale = vector_of(file.at("embedding_scale"));
    int inputs = input_count(data.columns);
    data.mix = file.at("mix").get<double>();
    Eigen::Index width = 0;
    for (const json &m : file.at("members")) {
        int first = m.at("first").get<int>(), second = m.at("second").get<int>();
        Network n = Network::shaped(inputs, first, second);
        n.parameters = vector_of(m.at("parameters"));
        width += second;
        if (n.parameters.size() != Network::parameter_count(inputs, first, second)) {
            fail("K1350", name, "a network of these weights has the wrong number of parameters",
                 fmt::format("{} parameters for {} inputs and layers of {} and {}, which take {}",
                             n.parameters.size(), inputs, first, second,
                             Network::parameter_count(inputs, first, second)));
        }
        data.members.push_back(std::move(n));
        data.trees.push_back(trees_from_json(m.at("trees"), pooled_count(inputs)));
    }
    if (!data.members.empty() &&
        (data.scaling.mean.size() != inputs || data.scaling.inverse_deviation.size() != inputs ||
         data.embedding_scale.size() != width)) {
        fail("K1350", name, "the scaling of these weights does not fit their networks",
             fmt::format(
                 "{} columns of mean and {} of embedding for {} inputs and {} values of the last layers",
                 data.scaling.mean.size(), data.embedding_scale.size(), inputs, width));
    }
}

} // namespace

std::string hash_text(std::string_view text) {
    uint64_t h = 0xcbf29ce484222325ull;
    for (char c : text) {
        h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
    }
    return fmt::format("{:016x}", h);
}

void round_member(Network &network, Trees &trees) {
    round_vector(network.parameters);
    trees.base = static_cast<float>(rounded(trees.base));
    for (Trees::Node &n : trees.nodes) {
        n.threshold = static_cast<float>(rounded(n.threshold));
    }
}

void round_weights(ModelData &data) {
    round_vector(data.scaling.mean);
    round_vector(data.scaling.inverse_deviation);
    round_vector(data.embedding_scale);
    for (size_t m = 0; m < data.members.size(); m++) {
        round_member(data.members[m], data.trees[m]);
    }
    data.mix = rounded(data.mix);
    data.offset = rounded(data.offset);
    data.slope = rounded(data.slope);
    for (auto &[name, value] : fields(data.correlation)) {
        *value = rounded(*value);
    }
}

std::string weights_text(const ModelData &data) {
    ordered_json file;
    file["kiln_weights"] = weights_version;
    file["description"] = data.description;
    file["command"] = data.command;
    file["trained_on"] = data.trained_on;
    file["offset"] = rounded(data.offset);
    file["slope"] = rounded(data.slope);
    for (const auto &[name, value] : fields(data.correlation)) {
        file["correlation"][name] = rounded(*value);
    }
    file["features"] = data.features;
    file["mean"] = list_of(data.scaling.mean);
    file["inverse_deviation"] = list_of(data.scaling.inverse_deviation);
    file["embedding_scale"] = list_of(data.embedding_scale);
    file["mix"] = rounded(data.mix);
    file["members"] = ordered_json::array();
    for (size_t m = 0; m < data.members.size(); m++) {
        const Network &n = data.members[m];
        ordered_json member;
        member["first"] = n.first();
        member["second"] = n.second();
        member["parameters"] = list_of(n.parameters);
        member["trees"] = to_json(data.trees[m]);
        file["members"].push_back(std::move(member));
    }
    return file.dump() + "\n";
}

void write_weights(const ModelData &data, const std::filesystem::path &path) {
    write_file_atomic(path, weights_text(data));
}

ModelData parse_weights(std::string_view text, const std::string &name) {
    json file = json::parse(text, nullptr, false);
    if (!file.is_object() || !file.contains("kiln_weights")) {
        fail("K1350", name, "this is no file of a cost model's weights",
             "such a file is JSON and starts with `\"kiln_weights\"`");
    }
    if (file.at("kiln_weights") != weights_version) {
        fail("K1351", name,
             fmt::format("weights of version {}, this Kiln reads version {}", file.at("kiln_weights").dump(),
                         weights_version),
             "what the numbers mean may differ");
    }
    ModelData data;
    try {
        data.description = file.at("description").get<std::string>();
        data.command = file.at("command").get<std::string>();
        data.trained_on = file.at("trained_on").get<std::string>();
        data.offset = file.at("offset").get<double>();
        data.slope = file.at("slope").get<double>();
        for (const auto &[field, value] : fields(data.correlation)) {
            *value = file.at("correlation").at(field).get<double>();
        }
        data.features = file.at("features").get<std::vector<std::string>>();
        place_columns(data, name);
        read_networks(data, file, name);
    } catch (const json::exception &e) {
        fail("K1350", name, "this file of weights is damaged", e.what());
    } catch (const Error &) {
        throw;
    } catch (const std::runtime_error &e) {
        fail("K1350", name, "this file of weights is damaged", e.what());
    }
    return data;
}

ModelData read_weights(const std::filesystem::path &path) {
    return parse_weights(read_text_file(path, "file of weights"), path.string());
}

} // namespace kiln::search
