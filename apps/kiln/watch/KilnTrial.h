/** \file
 * A try with Kiln itself: the schedule is checked, the library built, its results verified and its time taken.
 */
#pragma once

#include "apps/kiln/watch/Trial.h"
#include "dsl/generator/Generator.h"
#include "dsl/target/Target.h"

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kiln::cli {

struct TrialSetup {
    std::string generator;
    std::vector<std::filesystem::path> load;
    std::map<std::string, std::string> params, knobs;
    std::vector<Workload> works;  ///< to time; empty: some of the generator's own
    std::optional<Target> target; ///< none: the one that the schedule names
};

class KilnTrial : public TrialRunner {
public:
    explicit KilnTrial(TrialSetup setup);
    ~KilnTrial() override;
    TrialResult run(const std::string &file, const std::string &text) override;

private:
    struct State;
    std::unique_ptr<State> state_;
};

} // namespace kiln::cli
