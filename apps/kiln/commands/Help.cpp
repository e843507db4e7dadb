#include "apps/kiln/CommandLine.h"
#include "apps/kiln/Environment.h"
#include "apps/kiln/commands/Commands.h"

#include <fmt/format.h>

namespace kiln::cli {

namespace {

nlohmann::ordered_json as_json(const std::vector<EnvironmentEntry> &entries) {
    nlohmann::ordered_json out = nlohmann::ordered_json::array();
    for (const EnvironmentEntry &entry : entries) {
        out.push_back({{"name", entry.name}, {"meaning", entry.meaning}});
    }
    return out;
}

std::string as_text(const char *title, const std::vector<EnvironmentEntry> &entries) {
    std::string out = fmt::format("{}\n", title);
    for (const EnvironmentEntry &entry : entries) {
        out += fmt::format("  {:<24} {}\n", entry.name, entry.meaning);
    }
    return out + "\n";
}

class HelpEnvironment : public Command {
public:
    std::string name() const override { return "environment"; }
    std::string summary() const override { return "Exit codes, environment variables and files written"; }

    void define(CLI::App &app) override {
        app.add_flag("--markdown", markdown_, "As the table of docs/cli.md");
    }

    Report run(const Settings &) override {
        Report report;
        report.text = markdown_ ? environment_table()
                                : as_text("Exit codes", exit_codes()) +
                                      as_text("Environment variables", environment_variables()) +
                                      as_text("Files written", files_written());
        report.data["exit_codes"] = as_json(exit_codes());
        report.data["variables"] = as_json(environment_variables());
        report.data["files"] = as_json(files_written());
        return report;
    }

private:
    bool markdown_ = false;
};

class HelpCommands : public Command {
public:
    std::string name() const override { return "commands"; }
    std::string summary() const override { return "All commands with their options"; }

    Report run(const Settings &) override {
        Report report;
        CommandLine line;
        report.data["commands"] = nlohmann::ordered_json::array();
        describe(line.app(), "kiln", report);
        return report;
    }

private:
    static void describe(const CLI::App &app, const std::string &path, Report &report) {
        auto below = app.get_subcommands([](const CLI::App *sub) { return !sub->get_group().empty(); });
        if (below.empty()) {
            nlohmann::ordered_json entry = {{"command", path}, {"summary", app.get_description()}};
            entry["options"] = nlohmann::ordered_json::array();
            report.text += fmt::format("{}\n    {}\n", path, app.get_description());
            for (const CLI::Option *option : app.get_options()) {
                if (option->get_name() == "--help,-h" || option->get_name() == "-h,--help") {
                    continue;
                }
                std::string name = option_name(*option);
                bool takes_value = option->get_expected_max() > 0 && option->get_type_size() != 0;
                std::string shown =
                    option->nonpositional() && takes_value ? name + " " + option->get_type_name() : name;
                report.text += fmt::format("    {:<34} {}\n", shown, option->get_description());
                entry["options"].push_back({{"name", name},
                                            {"value", takes_value ? option->get_type_name() : ""},
                                            {"required", option->get_required()},
                                            {"summary", option->get_description()}});
            }
            report.data["commands"].push_back(std::move(entry));
        }
        for (const CLI::App *sub : below) {
            describe(*sub, path + " " + sub->get_name(), report);
        }
    }
};

class Help : public CommandGroup {
public:
    std::string name() const override { return "help"; }
    std::string summary() const override { return "More about the command line"; }
    std::vector<std::unique_ptr<Command>> children() override {
        std::vector<std::unique_ptr<Command>> all;
        all.push_back(std::make_unique<HelpEnvironment>());
        all.push_back(std::make_unique<HelpCommands>());
        return all;
    }
};

} // namespace

std::unique_ptr<Command> help_command() {
    return std::make_unique<Help>();
}

} // namespace kiln::cli
