#include "dsl/search/plugin/Parameters.h"
#include "dsl/support/Diagnostic.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <functional>

namespace kiln::search {

namespace {

struct Entry {
    const char *name, *meaning, *values;
    /// False where the text is no such value.
    std::function<bool(const std::string &, PluginParameters &)> set;
};

template<typename T>
bool read(const std::string &text, T &value, double least, double most) {
    size_t used = 0;
    double number = 0;
    try {
        number = std::stod(text, &used);
    } catch (const std::exception &) {
        return false;
    }
    if (used != text.size() || !(number >= least && number <= most) ||
        (std::is_integral_v<T> && number != std::floor(number))) {
        return false;
    }
    value = static_cast<T>(number);
    return true;
}

const std::vector<Entry> &entries() {
    using P = PluginParameters;
    static const std::vector<Entry> all = {
        {"parallelism", "threads that CPU code will run on", "an integer from 1 to 4096",
         [](const std::string &v, P &p) { return read(v, p.parallelism, 1, 4096); }},
        {"beam_size", "schedules kept at each step of the beam", "an integer from 1 to 1024",
         [](const std::string &v, P &p) { return read(v, p.beam_size, 1, 1024); }},
        {"time_budget", "seconds for the search", "a number from 0.1 to 86400",
         [](const std::string &v, P &p) { return read(v, p.time_budget, 0.1, 86400); }},
        {"candidates", "schedules looked at, at most", "an integer from 1 to 1e9",
         [](const std::string &v, P &p) { return read(v, p.candidates, 1, 1e9); }},
        {"seed", "of the random choices", "an integer from 0 to 2^53",
         [](const std::string &v, P &p) { return read(v, p.seed, 0, 0x1p53); }},
        {"weights_path", "a file of cost-model weights in place of those that Kiln carries", "a path",
         [](const std::string &v, P &p) {
             p.weights_path = v;
             return true;
         }},
    };
    return all;
}

} // namespace

PluginParameters plugin_parameters(const Halide::AutoschedulerParams &params) {
    PluginParameters out;
    std::vector<std::string> names;
    for (const Entry &e : entries()) {
        names.emplace_back(e.name);
    }
    std::vector<Diagnostic> faults;
    for (const auto &[key, value] : params.extra) {
        const Entry *entry = nullptr;
        for (const Entry &e : entries()) {
            entry = key == e.name ? &e : entry;
        }
        Diagnostic d;
        if (!entry) {
            d.code = "K1354";
            d.message = fmt::format("`autoscheduler=Kiln` has no parameter `{}`", key);
            d.notes = {fmt::format("it has {}", fmt::join(names, ", "))};
            if (std::string close = nearest(key, names); !close.empty()) {
                d.helps = {fmt::format("did you mean `autoscheduler.{}`?", close)};
            }
            faults.push_back(std::move(d));
        } else if (!entry->set(value, out)) {
            d.code = "K1355";
            d.message = fmt::format("`autoscheduler.{}={}` is not {}", key, value, entry->values);
            d.notes = {fmt::format("`{}`: {}", key, entry->meaning)};
            faults.push_back(std::move(d));
        }
    }
    if (!faults.empty()) {
        throw Error(std::move(faults));
    }
    return out;
}

std::vector<std::pair<std::string, std::string>> plugin_parameter_list() {
    std::vector<std::pair<std::string, std::string>> out;
    for (const Entry &e : entries()) {
        out.emplace_back(e.name, fmt::format("{}: {}", e.meaning, e.values));
    }
    return out;
}

} // namespace kiln::search
