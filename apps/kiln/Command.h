/** \file
 * What every command of `kiln` is: a name, its options, and a run that returns a report. Commands print nothing
 * themselves: one place (Report.h) prints the report as text or as JSON.
 */
#pragma once

#include "apps/kiln/Report.h"

#include <CLI/CLI.hpp>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace kiln::cli {

/// Options that every command takes.
struct Settings {
    bool json = false;
    bool quiet = false;
    std::vector<std::filesystem::path> load;
};

class Command {
public:
    virtual ~Command() = default;
    virtual std::string name() const = 0;
    /// One line for lists of commands.
    virtual std::string summary() const = 0;
    /// Declares options. An option's type_name tells help and completion what its value is: FILE, DIR, GENERATOR,
    /// TARGET, or the choices themselves, `text|kiln|halide`.
    virtual void define(CLI::App &app) {}
    /// Commands below this one; such a command is not run itself.
    virtual std::vector<std::unique_ptr<Command>> children() { return {}; }
    virtual Report run(const Settings &settings) = 0;
    /// Only for scripts: left out of help and completion.
    virtual bool hidden() const { return false; }
};

/// A command that only holds others.
class CommandGroup : public Command {
public:
    Report run(const Settings &) final { return {}; }
};

/// The whole tree, in the order of help. One function a file of commands/.
std::vector<std::unique_ptr<Command>> all_commands();

/// Takes `--name VALUE` whose value is one of `choices`, and no other.
CLI::Option *add_choice(CLI::App &app, const std::string &name, std::string &value,
                        const std::vector<std::string> &choices, const std::string &summary);

/// Splits `k=v`. Throws Error K0923 that names `option` where there is no '='.
std::pair<std::string, std::string> split_assignment(const std::string &option, const std::string &text);

} // namespace kiln::cli
