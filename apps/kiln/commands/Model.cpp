// kiln model: data sets, training and evaluation of the cost model.
#include "apps/kiln/commands/Commands.h"
#include "dsl/generator/Load.h"
#include "dsl/search/collect/Collect.h"
#include "dsl/search/model/Evaluate.h"
#include "dsl/search/model/Samples.h"
#include "dsl/support/Files.h"
#include "dsl/support/Process.h"
#include "dsl/support/Progress.h"
#include "dsl/target/DeviceJson.h"
#include "dsl/target/SeenBy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <fstream>
#include <set>

namespace kiln::cli {

namespace {

namespace fs = std::filesystem;
using namespace kiln::search;

/// In words: how many samples of what, on which devices.
std::string describe(const std::vector<Sample> &samples) {
    std::set<std::string> problems, operations;
    std::map<std::string, size_t> devices;
    for (const Sample &s : samples) {
        problems.insert(s.problem);
        operations.insert(s.operation.rfind("random/", 0) == 0 ? "random pipelines" : s.operation);
        devices[s.device]++;
    }
    std::vector<std::string> on;
    for (const auto &[device, count] : devices) {
        on.push_back(fmt::format("{} on {}", count, device));
    }
    return fmt::format("{} samples of {} problems ({}): {}", samples.size(), problems.size(),
                       fmt::join(on, "; "), fmt::join(operations, ", "));
}

bool is_timings(const fs::path &path) {
    std::ifstream in(path);
    std::string line;
    return std::getline(in, line) && line.find("\"kiln_timings\"") != std::string::npos;
}

/// Samples out of files of timings and of samples. What could not be used becomes a note.
std::vector<Sample> read_data(const std::vector<fs::path> &paths, const Settings &settings, Report &report) {
    std::vector<fs::path> timings, samples;
    for (const fs::path &path : paths) {
        (is_timings(path) ? timings : samples).push_back(path);
    }
    std::vector<Sample> all = samples.empty() ? std::vector<Sample>() : read_samples(samples);
    if (timings.empty()) {
        return all;
    }
    load_generators(settings.load);
    TimingFile file = read_timings(timings);
    std::map<std::string, size_t> left_out;
    Activity activity("computing features", file.timings.size());
    std::vector<Sample> more = samples_of(file, left_out, [&](size_t done) { activity.at(done); });
    all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
    for (const auto &[reason, count] : left_out) {
        report.text += fmt::format("note: {} timings left out: {}\n", count, reason);
        report.data["left_out"][reason] = count;
    }
    return all;
}

/// The options of training that a user may set, on two commands.
struct TrainArguments {
    std::vector<fs::path> data;
    TrainOptions options;
    std::optional<double> mix;

    void define(CLI::App &app) {
        app.add_option("DATA", data, "Files of timings, from `kiln model collect`, or of samples")
            ->required()
            ->type_name("FILE");
        app.add_option("--epochs", options.epochs, "Times that each member sees its samples")
            ->check(CLI::Range(1, 100000));
        app.add_option("--members", options.members, "Networks, a multiple of 3")->check(CLI::Range(3, 300));
        app.add_option("--mix", mix,
                       "Share of trees beside networks, 0 to 1; chosen on held-out samples by default")
            ->check(CLI::Range(0.0, 1.0));
        app.add_option("--seed", options.seed, "Of all that is drawn");
        app.add_option("-j,--threads", options.threads,
                       "Members trained at once; 0: as many as there are cores")
            ->check(CLI::Range(0, 1024));
    }
};

class ModelCollect : public Command {
public:
    std::string name() const override { return "collect"; }
    std::string summary() const override {
        return "Samples schedules of many pipelines and times them, for training";
    }

    void define(CLI::App &app) override {
        app.add_option("-o,--output", options_.output, "File of timings; it grows")
            ->required()
            ->type_name("FILE");
        app.add_option("-t,--target", target_, "For which target; cpu avx2 by default")->type_name("TARGET");
        app.add_option("--random", random_, "Random pipelines beside the loaded generators")
            ->check(CLI::Range(0, 100000));
        app.add_option("--of-problem", options_.of_problem, "Candidates of each problem")
            ->check(CLI::Range(3, 10000));
        app.add_option("--threads", options_.threads, "Threads of a timed CPU kernel; 0: all units")
            ->check(CLI::Range(0, 4096));
        app.add_option("-j,--jobs", options_.jobs, "Candidates compiled at once")->check(CLI::Range(1, 1024));
        app.add_option("--budget", options_.budget_s,
                       "Seconds after which no new problem is begun; 0: no limit");
        app.add_option("--seed", options_.seed, "Of all that is drawn");
        app.add_option("--only", only_, "Only operations whose name contains this");
    }

    Report run(const Settings &settings) override {
        load_generators(settings.load);
        options_.target = kiln::Target::parse(target_);
        options_.device = describe_device(options_.target);
        if (options_.threads == 0) {
            options_.threads = std::max(1, options_.device.units);
        }
        if (options_.target.backend == Backend::Cpu) {
            options_.device.units = options_.threads;
        }
        std::vector<CollectWork> work = default_work(random_, options_.seed);
        std::erase_if(work,
                      [&](const CollectWork &w) { return w.operation.find(only_) == std::string::npos; });
        CollectReport result;
        {
            Activity activity("sampling schedules", work.size());
            options_.progress = [&](size_t done, size_t, const std::string &what) {
                activity.at(done, what);
            };
            result = collect(work, options_);
        }
        Report report;
        report.text = fmt::format("{} samples of {} problems into {}; {} problems left\n", result.samples,
                                  result.problems, options_.output.string(), result.left);
        for (const auto &[reason, count] : result.failed) {
            report.text += fmt::format("note: {} candidates gave no time: {}\n", count, reason);
        }
        for (const std::string &note : result.notes) {
            report.text += fmt::format("note: {}\n", note);
        }
        report.data["samples"] = result.samples;
        report.data["problems"] = result.problems;
        report.data["left"] = result.left;
        report.data["failed"] = result.failed;
        report.data["notes"] = result.notes;
        return report;
    }

private:
    /// With its ceilings. In a child: candidates run in forks of this process, and a CUDA driver that was started before
    /// a fork does not work after it.
    static Device describe_device(const kiln::Target &target) {
        Activity activity("looking at the device");
        nlohmann::json description = run_isolated("the description of the device", {120, 0}, [&] {
            Device device = device_for(target);
            if (!device.ceilings) {
                device.ceilings = calibrate(device);
            }
            return to_json(seen_by(device, target));
        });
        return device_from_json(description);
    }

    CollectOptions options_;
    std::string target_ = "cpu avx2", only_;
    int random_ = 40;
};

class ModelTrain : public Command {
public:
    std::string name() const override { return "train"; }
    std::string summary() const override { return "Trains the cost model's weights on samples"; }

    void define(CLI::App &app) override {
        arguments_.define(app);
        app.add_option("-o,--output", output_, "File of weights")->required()->type_name("FILE");
    }

    Report run(const Settings &settings) override {
        Report report;
        std::vector<Sample> samples = read_data(arguments_.data, settings, report);
        TrainOptions options = arguments_.options;
        options.mix = arguments_.mix;
        options.description = describe(samples);
        std::vector<std::string> files;
        for (const fs::path &path : arguments_.data) {
            files.push_back(path.filename().string());
        }
        options.command = fmt::format("kiln model train {} --epochs {} --members {} --seed {}",
                                      fmt::join(files, " "), options.epochs, options.members, options.seed);
        options.checkpoint = output_.string() + ".unfinished";
        std::optional<Activity> activity;
        activity.emplace("training the cost model", options.members);
        options.progress = [&](size_t done, size_t, const std::string &what) { activity->at(done, what); };
        Trained trained = train(samples, options);
        activity.reset();
        trained.model.save(output_);
        std::vector<Sample> kept;
        std::vector<Prediction> held_out;
        for (size_t i = 0; i < samples.size(); i++) {
            if (trained.held_out[i].ms > 0) {
                kept.push_back(samples[i]);
                held_out.push_back(trained.held_out[i]);
            }
        }
        Metrics m = metrics_of(kept, held_out);
        report.text += fmt::format(
            "{}\n{} written, fingerprint {}\non operations that members had not seen: {:.1f} % of the "
            "pairs in order, first choice {:.2f} of the best, 90 % intervals hold for {:.0f} %\n",
            options.description, output_.string(), trained.model.fingerprint(), 100 * m.pairwise, m.top1,
            100 * m.within_90);
        report.data["description"] = options.description;
        report.data["command"] = options.command;
        report.data["fingerprint"] = trained.model.fingerprint();
        report.data["held_out"] = to_json(m);
        return report;
    }

private:
    TrainArguments arguments_;
    fs::path output_;
};

class ModelEvaluate : public Command {
public:
    std::string name() const override { return "evaluate"; }
    std::string summary() const override {
        return "What the cost model is worth on operations, shapes or devices that it was not trained on";
    }

    void define(CLI::App &app) override {
        arguments_.define(app);
        app.add_option("--hold-out", hold_out_, "What is held out together: operation, shape or device")
            ->type_name("operation|shape|device");
        app.add_option("--parts", parts_, "Parts that are held out in turn")->check(CLI::Range(2, 100));
        app.add_option("-o,--output", output_, "Results as JSON; other ways to hold out in the file stay")
            ->type_name("FILE");
        app.add_option("--predictions", predictions_, "Each sample's part, time and predictions as JSON")
            ->type_name("FILE");
    }

    Report run(const Settings &settings) override {
        Report report;
        HoldOut mode = hold_out_of(hold_out_);
        std::vector<Sample> samples = read_data(arguments_.data, settings, report);
        TrainOptions options = arguments_.options;
        options.mix = arguments_.mix;
        std::optional<Activity> activity;
        activity.emplace(fmt::format("holding out by {}", hold_out_), 100);
        options.progress = [&](size_t done, size_t all, const std::string &what) {
            activity->at(100 * done / std::max<size_t>(1, all), what);
        };
        Evaluation e = evaluate(samples, mode, parts_, options);
        activity.reset();
        report.data["data"] = describe(samples);
        report.data["command"] = fmt::format(
            "kiln model evaluate DATA --hold-out {} --parts {} --epochs {} --members {} --seed {}", hold_out_,
            parts_, options.epochs, options.members, options.seed);
        report.data["results"] = to_json(e);
        report.text += table(e);
        if (!predictions_.empty()) {
            write_file_atomic(predictions_, predictions(samples, e).dump() + "\n");
        }
        if (!output_.empty()) {
            merge(report.data);
        }
        return report;
    }

private:
    TrainArguments arguments_;
    std::string hold_out_ = "operation";
    int parts_ = 5;
    fs::path output_, predictions_;

    static std::string table(const Evaluation &e) {
        std::string out = fmt::format("{:<10} {:>9} {:>7} {:>7} {:>7} {:>14}\n", "", "in order", "first",
                                      "best of 5", "of 16", "16 within 3 %");
        auto line = [&](const char *name, const Metrics &m) {
            out += fmt::format("{:<10} {:>8.1f}% {:>7.2f} {:>9.2f} {:>7.2f} {:>13.0f}%\n", name,
                               100 * m.pairwise, m.top1, m.top5, m.top16, 100 * m.top16_within_3_percent);
        };
        line("model", e.model);
        line("roofline", e.analytic);
        line("chance", e.chance);
        return out +
               fmt::format(
                   "{} samples of {} problems, {} pairs that differ by 10 % or more\n"
                   "learning from its own trials, 16 measured: {:.3f} of the best, {:.0f} % within 3 %; "
                   "{:.1f} % of the pairs in order after 8\n"
                   "90 % intervals hold for {:.0f} %, 50 % ones for {:.0f} %\n",
                   e.model.samples, e.model.problems, e.model.pairs, e.searched16,
                   100 * e.searched16_within_3_percent, 100 * e.pairwise_after_8, 100 * e.model.within_90,
                   100 * e.model.within_50);
    }

    static nlohmann::json predictions(const std::vector<Sample> &samples, const Evaluation &e) {
        nlohmann::json list = nlohmann::json::array();
        for (size_t i = 0; i < samples.size(); i++) {
            list.push_back({{"problem", samples[i].problem},
                            {"device", samples[i].device},
                            {"part", e.part_of[i]},
                            {"ms", samples[i].ms},
                            {"model_ms", e.predictions[i].ms},
                            {"sigma", e.predictions[i].sigma},
                            {"roofline_ms", e.roofline[i].ms}});
        }
        return list;
    }

    void merge(const nlohmann::ordered_json &data) const {
        nlohmann::ordered_json file = nlohmann::ordered_json::object();
        if (fs::exists(output_)) {
            file = nlohmann::ordered_json::parse(read_text_file(output_, "file of results"), nullptr, false);
            if (!file.is_object()) {
                file = nlohmann::ordered_json::object();
            }
        }
        file[hold_out_] = data;
        write_file_atomic(output_, file.dump(2) + "\n");
    }
};

class ModelFeatures : public Command {
public:
    std::string name() const override { return "features"; }
    std::string summary() const override { return "Computes the features of timings, for other tools"; }

    void define(CLI::App &app) override {
        app.add_option("DATA", data_, "Files of timings, from `kiln model collect`")
            ->required()
            ->type_name("FILE");
        app.add_option("-o,--output", output_, "File of samples, written anew")
            ->required()
            ->type_name("FILE");
    }

    Report run(const Settings &settings) override {
        Report report;
        std::vector<Sample> samples = read_data(data_, settings, report);
        write_samples(output_, samples);
        report.text += fmt::format("{}\n", describe(samples));
        report.data["samples"] = samples.size();
        return report;
    }

private:
    std::vector<fs::path> data_;
    fs::path output_;
};

class ModelShow : public Command {
public:
    std::string name() const override { return "show"; }
    std::string summary() const override { return "What a file of weights, or Kiln's own, was trained on"; }

    void define(CLI::App &app) override {
        app.add_option("WEIGHTS", weights_, "File of weights; Kiln's own by default")->type_name("FILE");
    }

    Report run(const Settings &) override {
        Model model = weights_.empty() ? Model::shipped() : Model::load(weights_);
        Report report;
        report.text = fmt::format("{}\nmade by: {}\nfingerprint: {}\n", model.data_description(),
                                  model.command(), model.fingerprint());
        report.data["description"] = model.data_description();
        report.data["command"] = model.command();
        report.data["fingerprint"] = model.fingerprint();
        return report;
    }

private:
    fs::path weights_;
};

class ModelCommand : public CommandGroup {
public:
    std::string name() const override { return "model"; }
    std::string summary() const override { return "The cost model: its data, training, evaluation"; }
    std::vector<std::unique_ptr<Command>> children() override {
        std::vector<std::unique_ptr<Command>> all;
        all.push_back(std::make_unique<ModelShow>());
        all.push_back(std::make_unique<ModelCollect>());
        all.push_back(std::make_unique<ModelFeatures>());
        all.push_back(std::make_unique<ModelTrain>());
        all.push_back(std::make_unique<ModelEvaluate>());
        return all;
    }
};

} // namespace

std::unique_ptr<Command> model_command() {
    return std::make_unique<ModelCommand>();
}

} // namespace kiln::cli
