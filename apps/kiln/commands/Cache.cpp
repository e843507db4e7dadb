#include "apps/kiln/commands/Commands.h"
#include "dsl/target/Device.h"

#include <fmt/format.h>

namespace kiln::cli {

namespace {

namespace fs = std::filesystem;

struct Contents {
    size_t files = 0;
    uintmax_t bytes = 0;
};

Contents measure(const fs::path &folder) {
    Contents contents;
    std::error_code error;
    for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
        std::error_code ignored;
        if (it->is_regular_file(ignored)) {
            contents.files++;
            contents.bytes += it->file_size(ignored);
        }
    }
    return contents;
}

/// What Kiln itself puts into its cache. Nothing else is ever removed: KILN_CACHE_DIR may name any folder.
const std::vector<std::string> &kinds() {
    static const std::vector<std::string> names = {"devices", "watch", "kernels", "builds"};
    return names;
}

class CacheShow : public Command {
public:
    std::string name() const override { return "show"; }
    std::string summary() const override { return "Where the cache is and what it holds"; }
    Report run(const Settings &) override {
        Report report;
        fs::path folder = cache_dir();
        report.text = fmt::format("{}\n", folder.string());
        report.data["folder"] = folder.string();
        report.data["kinds"] = nlohmann::ordered_json::array();
        for (const std::string &kind : kinds()) {
            Contents contents = measure(folder / kind);
            if (contents.files > 0) {
                report.text += fmt::format("  {:<10} {} files, {:.1f} KiB\n", kind, contents.files,
                                           contents.bytes / 1024.0);
            }
            report.data["kinds"].push_back(
                {{"name", kind}, {"files", contents.files}, {"bytes", contents.bytes}});
        }
        return report;
    }
};

class CacheClear : public Command {
public:
    std::string name() const override { return "clear"; }
    std::string summary() const override {
        return "Removes what the cache holds: calibrations, histories, kernels";
    }
    Report run(const Settings &) override {
        Report report;
        fs::path folder = cache_dir();
        size_t files = 0;
        for (const std::string &kind : kinds()) {
            files += measure(folder / kind).files;
            std::error_code error;
            fs::remove_all(folder / kind, error);
            if (error) {
                Diagnostic d;
                d.code = "K0935";
                d.message = fmt::format("cannot remove `{}`: {}", (folder / kind).string(), error.message());
                report.diagnostics.push_back(std::move(d));
            }
        }
        report.text = fmt::format("removed {} files from {}\n", files, folder.string());
        report.data["folder"] = folder.string();
        report.data["removed"] = files;
        return report;
    }
};

class Cache : public CommandGroup {
public:
    std::string name() const override { return "cache"; }
    std::string summary() const override { return "Shows or clears what Kiln keeps between runs"; }
    std::vector<std::unique_ptr<Command>> children() override {
        std::vector<std::unique_ptr<Command>> all;
        all.push_back(std::make_unique<CacheShow>());
        all.push_back(std::make_unique<CacheClear>());
        return all;
    }
};

} // namespace

std::unique_ptr<Command> cache_command() {
    return std::make_unique<Cache>();
}

} // namespace kiln::cli
