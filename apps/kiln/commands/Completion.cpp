#include "apps/kiln/CommandLine.h"
#include "apps/kiln/Templates.h"
#include "apps/kiln/commands/Commands.h"

#include <fmt/format.h>

namespace kiln::cli {

namespace {

/// The scripts (completion/) only carry words to `kiln complete` and its answer back, so that they need no change when a
/// command does.
class Completion : public Command {
public:
    std::string name() const override { return "completion"; }
    std::string summary() const override {
        return "A script that teaches a shell to complete kiln's command line";
    }
    void define(CLI::App &app) override {
        add_choice(app, "SHELL", shell_, {"bash", "zsh", "fish"}, "The shell")->required();
    }
    Report run(const Settings &) override {
        Report report;
        report.text = shell_ == "bash"  ? templates::kiln_bash
                      : shell_ == "zsh" ? templates::kiln_zsh
                                        : templates::kiln_fish;
        report.data["shell"] = shell_;
        report.data["script"] = report.text;
        return report;
    }

private:
    std::string shell_;
};

class Complete : public Command {
public:
    std::string name() const override { return "complete"; }
    std::string summary() const override {
        return "Candidates for the last of the words, for completion scripts";
    }
    bool hidden() const override { return true; }
    void define(CLI::App &app) override {
        app.add_option("WORDS", words_, "The words after `kiln`, the last one as far as typed")
            ->type_name("WORD");
    }
    Report run(const Settings &) override {
        Report report;
        report.data["candidates"] = nlohmann::ordered_json::array();
        for (const std::string &candidate : complete(CommandLine(), words_)) {
            report.text += candidate + "\n";
            report.data["candidates"].push_back(candidate.substr(0, candidate.find('\t')));
        }
        return report;
    }

private:
    std::vector<std::string> words_;
};

} // namespace

std::unique_ptr<Command> completion_command() {
    return std::make_unique<Completion>();
}

std::unique_ptr<Command> complete_command() {
    return std::make_unique<Complete>();
}

} // namespace kiln::cli
