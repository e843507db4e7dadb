/** \file
 * The one table of exit codes, environment variables and files of `kiln`. `kiln help environment` prints it and
 * docs/cli.md contains the same text.
 */
#pragma once

#include "apps/kiln/Report.h"

namespace kiln::cli {

struct EnvironmentEntry {
    std::string name, meaning;
};

const std::vector<EnvironmentEntry> &exit_codes();
const std::vector<EnvironmentEntry> &environment_variables();
const std::vector<EnvironmentEntry> &files_written();

/// All three as one Markdown table.
std::string environment_table();

} // namespace kiln::cli
