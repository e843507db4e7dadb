#include "dsl/support/Files.h"

#include "dsl/support/Diagnostic.h"
#include "dsl/support/Interrupt.h"

#include <fmt/format.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace kiln {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void fail(const char *code, std::string message, const fs::path &path,
                       std::vector<std::string> helps = {}) {
    Diagnostic d;
    d.code = code;
    d.message = std::move(message);
    d.file = path.string();
    d.helps = std::move(helps);
    throw Error(std::move(d));
}

/// What a person may have meant by a file that is not there.
std::vector<std::string> help_for_missing(const fs::path &path) {
    std::error_code error;
    fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
    if (!fs::is_directory(folder, error)) {
        return {fmt::format("there is no folder `{}` either", folder.string())};
    }
    std::vector<std::string> names;
    for (const auto &entry : fs::directory_iterator(folder, error)) {
        names.push_back(entry.path().filename().string());
        if (names.size() == 1000) {
            break;
        }
    }
    std::string near = nearest(path.filename().string(), names);
    if (near.empty()) {
        return {};
    }
    return {fmt::format("did you mean `{}`?", path.has_parent_path() ? (folder / near).string() : near)};
}

std::string error_text(int number) {
    return std::system_category().message(number);
}

/// The file that a chain of links ends in, also where that one does not exist yet.
fs::path behind_links(fs::path path) {
    std::error_code error;
    for (int i = 0; i < 40 && fs::is_symlink(fs::symlink_status(path, error)); i++) {
        fs::path to = fs::read_symlink(path, error);
        path = to.is_absolute() ? to : path.parent_path() / to;
    }
    return path;
}

} // namespace

std::string read_text_file(const fs::path &path, std::string_view what, size_t largest) {
    // O_NONBLOCK: a named pipe without a writer must not hang us.
    int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        int number = errno;
        if (number == ENOENT || number == ENOTDIR) {
            fail("K0930", fmt::format("no file `{}`", path.string()), "", help_for_missing(path));
        }
        fail("K0932", fmt::format("cannot read `{}`: {}", path.string(), error_text(number)), "");
    }
    struct stat info = {};
    fstat(fd, &info);
    if (!S_ISREG(info.st_mode)) {
        close(fd);
        fail("K0931",
             fmt::format("`{}` is {}, not a {} file", path.string(),
                         S_ISDIR(info.st_mode) ? "a folder" : "a device or a pipe", what),
             "");
    }
    if (static_cast<size_t>(info.st_size) > largest) {
        close(fd);
        fail("K0934",
             fmt::format("`{}` has {} bytes, more than a {} may have ({})", path.string(), info.st_size, what,
                         largest),
             "");
    }
    std::string text;
    std::vector<char> block(1 << 16);
    ssize_t n = 0;
    while ((n = read(fd, block.data(), block.size())) > 0) {
        text.append(block.data(), n);
    }
    int number = errno;
    close(fd);
    if (n < 0) {
        fail("K0932", fmt::format("cannot read `{}`: {}", path.string(), error_text(number)), "");
    }
    if (size_t zero = text.find('\0'); zero != std::string::npos) {
        fail("K0933", fmt::format("`{}` is not text: byte {} is zero", path.string(), zero), "",
             {fmt::format("{} {} is a text file in UTF-8",
                          std::string_view("aeiou").find(what.substr(0, 1)) < 5 ? "an" : "a", what)});
    }
    return text;
}

void write_file_atomic(const fs::path &given, std::string_view content) {
    fs::path path = behind_links(given);
    std::error_code error;
    if (fs::is_directory(path, error)) {
        fail("K0935", fmt::format("cannot write `{}`: it is a folder", given.string()), "");
    }
    std::string name = path.string() + ".XXXXXX";
    int fd = mkostemp(name.data(), O_CLOEXEC);
    if (fd < 0) {
        fail("K0935", fmt::format("cannot write `{}`: {}", given.string(), error_text(errno)), "");
    }
    register_unfinished(name);
    struct stat old = {};
    mode_t mask = umask(0);
    umask(mask);
    fchmod(fd, stat(path.c_str(), &old) == 0 ? old.st_mode & 07777 : 0666 & ~mask);
    int number = 0;
    for (size_t done = 0; done < content.size() && number == 0;) {
        ssize_t n = write(fd, content.data() + done, content.size() - done);
        if (n < 0 && errno != EINTR) {
            number = errno;
        }
        done += n > 0 ? n : 0;
    }
    if (number == 0 && fsync(fd) != 0 && errno != EINVAL) {
        number = errno;
    }
    if (close(fd) != 0 && number == 0) {
        number = errno;
    }
    if (number == 0 && rename(name.c_str(), path.c_str()) != 0) {
        number = errno;
    }
    if (number != 0) {
        unlink(name.c_str());
    }
    forget_unfinished(name);
    if (number != 0) {
        fail("K0935", fmt::format("cannot write `{}`: {}", given.string(), error_text(number)), "");
    }
}

namespace {

constexpr const char *temporary_prefix = ".kiln-";

/// Who is killed leaves its folder. The lock of one that still runs is held; fresh ones may be about to be locked.
void remove_leftovers(const fs::path &parent) {
    std::error_code error;
    const auto now = fs::file_time_type::clock::now();
    for (fs::directory_iterator it(parent, error), end; !error && it != end; it.increment(error)) {
        std::error_code ignored;
        if (it->path().filename().string().rfind(temporary_prefix, 0) != 0 ||
            it->symlink_status(ignored).type() != fs::file_type::directory ||
            now - fs::last_write_time(it->path(), ignored) < std::chrono::hours(1) || ignored) {
            continue;
        }
        int lock = open(it->path().c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) == 0) {
            fs::remove_all(it->path(), ignored);
        }
        if (lock >= 0) {
            close(lock);
        }
    }
}

} // namespace

TemporaryFolder::TemporaryFolder(const fs::path &near) {
    std::error_code error;
    fs::path parent = near.empty() ? fs::temp_directory_path(error) : near.parent_path();
    if (parent.empty()) {
        parent = near.empty() ? "/tmp" : ".";
    }
    fs::create_directories(parent, error);
    remove_leftovers(parent);
    std::string name = (parent / (std::string(temporary_prefix) + "XXXXXX")).string();
    if (!mkdtemp(name.data())) {
        fail("K0935", fmt::format("cannot make a folder in `{}`: {}", parent.string(), error_text(errno)),
             "");
    }
    path_ = name;
    register_unfinished(path_);
    lock_ = open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock_ >= 0) {
        flock(lock_, LOCK_EX | LOCK_NB);
    }
}

TemporaryFolder::~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
    forget_unfinished(path_);
    if (lock_ >= 0) {
        close(lock_);
    }
}

fs::path program_path() {
    std::error_code error;
    return fs::read_symlink("/proc/self/exe", error);
}

} // namespace kiln
