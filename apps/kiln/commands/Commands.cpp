#include "apps/kiln/commands/Commands.h"

namespace kiln::cli {

std::vector<std::unique_ptr<Command>> all_commands() {
    std::vector<std::unique_ptr<Command>> all;
    // The order of help: what one writes, builds, measures, and the rest.
    all.push_back(new_command());
    all.push_back(list_command());
    all.push_back(build_command());
    all.push_back(schedule_command());
    all.push_back(check_command());
    all.push_back(bench_command());
    all.push_back(watch_command());
    all.push_back(tune_command());
    all.push_back(db_command());
    all.push_back(model_command());
    all.push_back(explain_command());
    all.push_back(device_command());
    all.push_back(cache_command());
    all.push_back(completion_command());
    all.push_back(complete_command());
    all.push_back(help_command());
    return all;
}

} // namespace kiln::cli
