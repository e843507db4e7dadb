/** \file
 * One function for each command; each is a file of this folder, which registers it in Commands.cpp.
 */
#pragma once

#include "apps/kiln/Command.h"

namespace kiln::cli {

std::unique_ptr<Command> list_command();
std::unique_ptr<Command> build_command();
std::unique_ptr<Command> schedule_command();
std::unique_ptr<Command> check_command();
std::unique_ptr<Command> bench_command();
std::unique_ptr<Command> explain_command();
std::unique_ptr<Command> device_command();
std::unique_ptr<Command> new_command();
std::unique_ptr<Command> watch_command();
std::unique_ptr<Command> tune_command();
std::unique_ptr<Command> db_command();
std::unique_ptr<Command> model_command();
std::unique_ptr<Command> cache_command();
std::unique_ptr<Command> completion_command();
std::unique_ptr<Command> complete_command();
std::unique_ptr<Command> help_command();

} // namespace kiln::cli
