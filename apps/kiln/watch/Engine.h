/** \file
 * The heart of `kiln watch`: looks at a file, tries each new content, remembers it and says what came of it.
 */
#pragma once

#include "apps/kiln/watch/History.h"
#include "apps/kiln/watch/Trial.h"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace kiln::cli {

/// Something to tell the person at the keyboard.
struct WatchEvent {
    enum class Kind {
        Trial, ///< a new content was tried
        Gone,  ///< the file is not there, or cannot be read: waiting
        Back,  ///< it is there again, with the content that was tried last
    };
    Kind kind = Kind::Trial;
    std::vector<Diagnostic> diagnostics; ///< Gone: why
    HistoryEntry entry;                  ///< Trial, and what follows
    TrialResult result;
    std::vector<std::string> changes; ///< lines with "- " or "+ " against `compared_with`
    int compared_with = 0;            ///< number of the version before; 0: none
    int same_text_as = 0;             ///< an older version with this very text; 0: none
    double versus_previous = 0;       ///< how many times as fast as the last version that passed; 0: unknown
    int previous = 0;
    double versus_best = 0; ///< the same against the best before it
    int best = 0;
};

class WatchEngine {
public:
    WatchEngine(std::filesystem::path file, TrialRunner &runner, History &history);

    /// Reads the file; tries its content when it is new and has stayed the same for two looks, since an editor may be
    /// in the middle of writing it. Nothing where there is nothing new to tell.
    std::optional<WatchEvent> look();

private:
    WatchEvent try_text(const std::string &text);

    std::filesystem::path file_;
    TrialRunner &runner_;
    History &history_;
    std::optional<std::string> pending_, tried_;
    std::optional<std::string> gone_; ///< why the file cannot be read
};

/// As the command prints it.
std::string render(const WatchEvent &event, const std::string &file);
nlohmann::ordered_json to_json(const WatchEvent &event, const std::string &file);
/// The list of `kiln watch --history`.
std::string render(const History &history);

} // namespace kiln::cli
