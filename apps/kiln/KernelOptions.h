/** \file
 * What `check` and `bench` ask for alike: a generator, its variants or a built archive, problems, threads and a device.
 */
#pragma once

#include "apps/kiln/Variants.h"
#include "dsl/generator/Generator.h"

#include <filesystem>

namespace kiln::cli {

class KernelOptions {
public:
    /// `verb` begins the help of --archive: "Check", "Time". `several`, `works`: as VariantOptions, and what --work says.
    void define(CLI::App &app, const std::string &verb, bool several, const std::string &works);

    /// Fills in what a CheckRequest and a BenchRequest have alike, and keeps the schedules' texts in `sources`. Throws
    /// Error: K1015 no such generator, those of VariantOptions::requests.
    template<typename Request>
    void fill(Request &request, const std::vector<std::filesystem::path> &load,
              std::map<std::string, std::string> &sources) const {
        request.build = build(load, sources);
        request.archive = archive_;
        request.threads = threads_;
        request.device = device_;
    }

    const std::string &generator() const { return generator_; }
    const std::vector<std::string> &works() const { return works_; }
    /// The whole command as a results file keeps it, so that anybody can repeat it; without --output.
    std::string command_line() const;

private:
    BuildRequest build(const std::vector<std::filesystem::path> &load,
                       std::map<std::string, std::string> &sources) const;

    CLI::App *app_ = nullptr;
    VariantOptions variants_;
    std::string generator_, archive_;
    std::vector<std::string> works_;
    int threads_ = 0, device_ = 0;
};

} // namespace kiln::cli
