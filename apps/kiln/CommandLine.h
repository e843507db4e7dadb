/** \file
 * From argv to a command: the tree of commands as a CLI11 parser, its faults as diagnostics.
 */
#pragma once

#include "apps/kiln/Command.h"

#include <memory>
#include <string>
#include <vector>

namespace kiln::cli {

class CommandLine {
public:
    CommandLine();

    struct Parsed {
        Command *command = nullptr; ///< null: `text` is to be printed and that is all
        std::string path;           ///< "schedule check"
        std::string text;
        std::vector<Diagnostic> faults;
    };
    Parsed parse(int argc, const char *const *argv);

    Settings settings;
    CLI::App &app() { return *app_; }
    const CLI::App &app() const { return *app_; }

private:
    std::vector<std::string> words(int argc, const char *const *argv) const;
    void define_settings(CLI::App &app);
    void add(CLI::App &parent, std::unique_ptr<Command> command);

    std::unique_ptr<CLI::App> app_;
    std::vector<std::unique_ptr<Command>> commands_;
    std::vector<std::pair<CLI::App *, Command *>> by_app_;
};

/// What could stand at the end of `words` (the last one is being typed, maybe ""): one candidate a line, a tab and
/// what it is. A line `:files PATTERN` or `:folders` asks the shell for file names.
std::vector<std::string> complete(const CommandLine &line, const std::vector<std::string> &words);

/// The name a user types for an option: `--target`, or `GENERATOR` for a positional one.
std::string option_name(const CLI::Option &option);

} // namespace kiln::cli
