/** \file
 * Files as Kiln reads and writes them: every fault is a diagnostic that names the file, and whatever is
 * written appears whole or not at all.
 */
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace kiln {

/// The whole text of a file; of one that a person wrote 16 MiB are enough. `what` says what it should have been
/// ("schedule"). Throws Error: K0930 not there, K0931 a directory or a device, K0932 not readable, K0933 not text,
/// K0934 above `largest` bytes.
std::string read_text_file(const std::filesystem::path &path, std::string_view what,
                           size_t largest = size_t(16) << 20);

/// Replaces `path` by `content` in one step: a reader sees the old file or the new one. The mode of a file
/// that is replaced is kept, a symbolic link is followed. Throws Error K0935 where that cannot be done.
void write_file_atomic(const std::filesystem::path &path, std::string_view content);

/// A folder of its own for work in progress, in the folder that holds `near` (so that a rename to `near` stays in one
/// file system; that folder is made where it is missing), or in the system's folder for such when `near` is empty.
/// Removed with all in it by the destructor, and when the program is interrupted; one that a killed program left, an
/// hour later by the next that is made beside it. Throws Error K0935.
class TemporaryFolder {
public:
    explicit TemporaryFolder(const std::filesystem::path &near = {});
    ~TemporaryFolder();
    TemporaryFolder(const TemporaryFolder &) = delete;
    TemporaryFolder &operator=(const TemporaryFolder &) = delete;
    const std::filesystem::path &path() const { return path_; }

private:
    std::filesystem::path path_;
    int lock_ = -1;
};

/// The program that runs, with links resolved.
std::filesystem::path program_path();

} // namespace kiln
