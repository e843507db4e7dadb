#include "apps/kiln/commands/Commands.h"
#include "apps/kiln/tune/TuneReport.h"
#include "dsl/schedule/Print.h"
#include "dsl/search/measure/BuildTrial.h"
#include "dsl/search/measure/Worker.h"
#include "dsl/search/search/Tuned.h"
#include "dsl/support/Files.h"
#include "dsl/support/Progress.h"

#include <fmt/format.h>

#include <algorithm>

namespace kiln::cli {

namespace {

namespace fs = std::filesystem;
using search::Database;
using search::Entry;
using search::StoredTrial;

/// What all of them take.
class DbCommand : public Command {
public:
    void define(CLI::App &app) override {
        app.add_option("--database", file_, "The file of all results; else KILN_DATABASE, else in the cache")
            ->type_name("FILE");
    }

protected:
    fs::path path() const { return file_.empty() ? Database::standard_path() : fs::path(file_); }

    /// Only `import` makes a file that is not there.
    std::unique_ptr<Database> open() const {
        if (!fs::exists(path())) {
            Diagnostic d;
            d.code = "K1314";
            d.message = fmt::format("there is no database `{}` yet", path().string());
            d.helps = {"`kiln tune GENERATOR --target T` makes it"};
            throw Error(std::move(d));
        }
        return std::make_unique<Database>(path());
    }

    static std::vector<int64_t> ids(const Database &database, const std::vector<std::string> &names) {
        std::vector<int64_t> out;
        for (const std::string &name : names) {
            out.push_back(database.entry_by_name(name).id);
        }
        return out;
    }

    static nlohmann::ordered_json json_of(const Entry &e) {
        return {{"id", e.id},
                {"key", e.key},
                {"work", e.work},
                {"target", e.facts.firm.count("target") ? e.facts.firm.at("target") : ""},
                {"device", e.facts.firm.count("device") ? e.facts.firm.at("device") : ""},
                {"trials", e.trials},
                {"right", e.ok},
                {"best_ms", e.best_ms},
                {"best_cool_ms", e.best_cool_ms},
                {"created", e.created},
                {"changed", e.changed}};
    }

    std::string file_;
};

class DbList : public DbCommand {
public:
    std::string name() const override { return "list"; }
    std::string summary() const override { return "All problems that were tuned, with their best times"; }
    Report run(const Settings &) override {
        Report report;
        std::unique_ptr<Database> database = open();
        report.data["database"] = path().string();
        report.data["entries"] = nlohmann::ordered_json::array();
        for (const Entry &e : database->entries()) {
            nlohmann::ordered_json json = json_of(e);
            report.text +=
                fmt::format("{:<4} {}  {:>10}  {:>4} trials  {} on {} ({})  {}\n", e.id, e.key.substr(0, 12),
                            e.best_ms > 0 ? fmt::format("{:.4f} ms", e.best_ms) : "none", e.trials, e.work,
                            json["target"].get<std::string>(), json["device"].get<std::string>(), e.changed);
            report.data["entries"].push_back(std::move(json));
        }
        if (report.text.empty()) {
            report.text = "nothing was tuned yet\n";
        }
        return report;
    }
};

class DbShow : public DbCommand {
public:
    std::string name() const override { return "show"; }
    std::string summary() const override {
        return "An entry: the facts of its key, its best schedule, its trials";
    }
    void define(CLI::App &app) override {
        app.add_option("ENTRY", entry_, "Its number, or the start of its key")
            ->required()
            ->type_name("ENTRY");
        app.add_flag("--all", all_, "All trials, and not only the ten best");
        app.add_flag("--schedule", schedule_, "Only the best schedule's text");
        DbCommand::define(app);
    }
    Report run(const Settings &) override {
        Report report;
        std::unique_ptr<Database> database = open();
        Entry e = database->entry_by_name(entry_);
        std::vector<StoredTrial> best = database->best(e.id, 10);
        std::string text = best.empty() ? "" : print_text(search::schedule_of(best.front()));
        report.data["entry"] = json_of(e);
        report.data["firm"] = e.facts.firm;
        report.data["loose"] = e.facts.loose;
        report.data["schedule"] = text;
        report.data["trials"] = nlohmann::ordered_json::array();
        std::vector<StoredTrial> shown = all_ ? database->trials(e.id) : best;
        for (const StoredTrial &t : shown) {
            report.data["trials"].push_back(trial_json(t));
        }
        if (schedule_) {
            report.text = text;
            return report;
        }
        report.text = fmt::format("{}\nkey {}\n", e.work, e.key);
        for (const auto &[name, value] : e.facts.firm) {
            report.text += fmt::format("  {:<12} {}\n", name, value);
        }
        report.text += "measured again where one of these differs:\n";
        for (const auto &[name, value] : e.facts.loose) {
            report.text += fmt::format("  {:<12} {}\n", name, value);
        }
        report.text += fmt::format("{} trials, {} right\n", e.trials, e.ok);
        for (const StoredTrial &t : shown) {
            report.text += trial_text(t) + "\n";
        }
        report.text += text.empty() ? "" : "\n" + text;
        return report;
    }

private:
    std::string entry_;
    bool all_ = false, schedule_ = false;
};

class DbExport : public DbCommand {
public:
    std::string name() const override { return "export"; }
    std::string summary() const override { return "Entries with all their trials, as one JSON document"; }
    void define(CLI::App &app) override {
        app.add_option("ENTRY", entries_, "Which ones; else all")->type_name("ENTRY");
        app.add_option("-o,--output", output_, "The file to write; else stdout")->type_name("FILE");
        DbCommand::define(app);
    }
    Report run(const Settings &settings) override {
        Report report;
        std::unique_ptr<Database> database = open();
        nlohmann::json document = database->export_json(ids(*database, entries_));
        size_t trials = 0;
        for (const nlohmann::json &e : document["entries"]) {
            trials += e["trials"].size();
        }
        report.data["entries"] = document["entries"].size();
        report.data["trials"] = trials;
        std::string text = document.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
        if (output_.empty()) {
            report.text = text;
            report.data["document"] = document;
        } else {
            write_file_atomic(output_, text);
            report.text =
                fmt::format("{}: {} entries, {} trials\n", output_, document["entries"].size(), trials);
        }
        return report;
    }

private:
    std::vector<std::string> entries_;
    std::string output_;
};

class DbImport : public DbCommand {
public:
    std::string name() const override { return "import"; }
    std::string summary() const override { return "Adds what `kiln db export` wrote, here or elsewhere"; }
    void define(CLI::App &app) override {
        app.add_option("FILE", from_, "The document")->required()->type_name("FILE");
        DbCommand::define(app);
    }
    Report run(const Settings &) override {
        Report report;
        // Some 4 kB a trial.
        nlohmann::json document =
            nlohmann::json::parse(read_text_file(from_, "export", size_t(1) << 31), nullptr, false);
        Database database(path());
        int64_t added = 0;
        try {
            added = database.import_json(document);
        } catch (Error &error) {
            for (Diagnostic &d : error.diagnostics) {
                d.file = from_;
            }
            throw;
        }
        report.data["added"] = added;
        report.text = fmt::format("{} trials added to {}\n", added, path().string());
        return report;
    }

private:
    std::string from_;
};

class DbPrune : public DbCommand {
public:
    std::string name() const override { return "prune"; }
    std::string summary() const override { return "Removes all but the best trials"; }
    void define(CLI::App &app) override {
        app.add_option("ENTRY", entries_, "Which ones; else all")->type_name("ENTRY");
        app.add_option("--keep", keep_, "The best trials that stay of each entry; 0 removes the entry")
            ->type_name("N")
            ->capture_default_str();
        DbCommand::define(app);
    }
    Report run(const Settings &) override {
        Report report;
        std::unique_ptr<Database> database = open();
        int64_t removed = database->prune(ids(*database, entries_), keep_);
        report.data["removed"] = removed;
        report.text = fmt::format("{} trials removed from {}\n", removed, path().string());
        return report;
    }

private:
    std::vector<std::string> entries_;
    size_t keep_ = 16;
};

class DbRerun : public DbCommand {
public:
    std::string name() const override { return "rerun"; }
    std::string summary() const override { return "Builds, checks and times a trial again, with its inputs"; }
    void define(CLI::App &app) override {
        app.add_option("TRIAL", trial_, "Its number")->required()->type_name("TRIAL");
        DbCommand::define(app);
    }
    Report run(const Settings &settings) override {
        Report report;
        std::unique_ptr<Database> database = open();
        StoredTrial t = database->trial(trial_);
        Entry entry;
        for (const Entry &e : database->entries()) {
            entry = e.id == t.entry ? e : entry;
        }
        const auto &firm = entry.facts.firm;
        search::MeasureSetup setup;
        setup.generator = firm.at("generator");
        setup.load = settings.load;
        setup.params = nlohmann::json::parse(firm.at("parameters")).get<Params>();
        setup.target = Target::parse(firm.at("target"));
        setup.workload.name = entry.work;
        setup.workload.extents =
            nlohmann::json::parse(firm.at("extents")).get<std::map<std::string, std::vector<int64_t>>>();
        setup.workload.scalars =
            nlohmann::json::parse(firm.at("scalars")).get<std::map<std::string, double>>();
        setup.threads = std::stoi(firm.at("threads"));
        setup.cool = setup.target.backend == Backend::Cuda;
        load_generators(settings.load);
        require_generator(setup.generator);
        TemporaryFolder folder;
        Activity activity(fmt::format("running trial {} again", trial_));
        search::BuiltTrial built = search::build_trial(setup, t.job.schedule, t.job.knobs, folder.path());
        search::BuiltTrial incumbent;
        if (!built.object.empty() && !t.job.incumbent.empty()) {
            incumbent = search::build_trial(setup, t.job.incumbent, t.job.incumbent_knobs, folder.path());
        }
        StoredTrial again = t;
        again.outcome = built.outcome;
        if (!built.object.empty()) {
            search::Worker worker(setup);
            again.outcome = worker.run({t.job.number, built.object, incumbent.object, t.outcome.seed});
            again.outcome.build_s = built.outcome.build_s;
        }
        again.score_ms = again.outcome.times.ms;
        report.add(again.outcome.diagnostics);
        report.data["before"] = trial_json(t);
        report.data["again"] = trial_json(again);
        report.text = fmt::format("before: {}\nagain:  {}\n", trial_text(t), trial_text(again));
        if (!again.outcome.ok()) {
            report.exit_code = exit_fault;
        }
        return report;
    }

private:
    int64_t trial_ = 0;
};

class Db : public CommandGroup {
public:
    std::string name() const override { return "db"; }
    std::string summary() const override { return "What `kiln tune` has measured"; }
    std::vector<std::unique_ptr<Command>> children() override {
        std::vector<std::unique_ptr<Command>> all;
        all.push_back(std::make_unique<DbList>());
        all.push_back(std::make_unique<DbShow>());
        all.push_back(std::make_unique<DbRerun>());
        all.push_back(std::make_unique<DbExport>());
        all.push_back(std::make_unique<DbImport>());
        all.push_back(std::make_unique<DbPrune>());
        return all;
    }
};

} // namespace

std::unique_ptr<Command> db_command() {
    return std::make_unique<Db>();
}

} // namespace kiln::cli
