#include "dsl/lower/Tools.h"

#include "dsl/support/Diagnostic.h"
#include "dsl/support/Process.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <sstream>

#include <dlfcn.h>

namespace kiln {

namespace fs = std::filesystem;

namespace {

fs::path need(const fs::path &path, const char *what, const char *help) {
    if (fs::exists(path)) {
        return path;
    }
    Diagnostic d;
    d.code = "K0704";
    d.message = fmt::format("{} is missing: there is no `{}`", what, path.string());
    d.helps = {help};
    throw Error(std::move(d));
}

} // namespace

fs::path kiln_root() {
    Dl_info info;
    if (dladdr(reinterpret_cast<void *>(&kiln_root), &info) == 0 || !info.dli_fname) {
        return {};
    }
    std::error_code error;
    fs::path library = fs::canonical(info.dli_fname, error);
    return library.parent_path().parent_path();
}

fs::path build_tool() {
    if (const char *named = std::getenv("KILN_BUILD_TOOL"); named && *named) {
        return need(named, "the build tool",
                    "KILN_BUILD_TOOL names it; without that, bin/kiln-build is taken");
    }
    return need(kiln_root() / "bin" / "kiln-build", "the build tool",
                "build the target `kiln-build`, or name it in KILN_BUILD_TOOL");
}

fs::path runtime_archive() {
    if (const char *named = std::getenv("KILN_RUNTIME"); named && *named) {
        return need(named, "the runtime", "KILN_RUNTIME names it; without that, Kiln's own is taken");
    }
    return need(kiln_root() / "lib" / "libkiln_runtime.a", "the runtime", "build the target `kiln_runtime`");
}

fs::path runtime_headers() {
    need(kiln_root() / "include" / "kiln" / "kiln_entry.h", "the runtime's header",
         "build the target `kiln_runtime`");
    return kiln_root() / "include" / "kiln";
}

std::vector<std::string> c_compiler() {
    const char *cc = std::getenv("CC");
    std::istringstream words(cc && *cc ? cc : "cc");
    std::vector<std::string> argv;
    for (std::string word; words >> word;) {
        argv.push_back(word);
    }
    return argv;
}

void run_tool(const std::vector<std::string> &argv, const fs::path &folder) {
    ProcessRequest request;
    request.argv = argv;
    request.cwd = folder;
    request.limits.timeout_s = 120;
    ProcessResult result = run_process(request);
    if (result.ok()) {
        return;
    }
    Diagnostic d;
    if (result.end == ProcessResult::End::NotStarted) {
        d.code = "K0704";
        d.message = fmt::format("`{}` cannot be started", argv[0]);
        d.helps = {
            "a C compiler and binutils are needed: on Debian and Ubuntu `apt-get install gcc binutils`"};
        throw Error(std::move(d));
    }
    d.code = "K0706";
    d.message = fmt::format("`{}` failed", argv[0]);
    d.notes = {fmt::format("the command was `{}`", fmt::join(argv, " "))};
    const std::string &said = result.err.empty() ? result.out : result.err;
    d.helps = {said.find("No space left on device") != std::string::npos
                   ? "make room on that disk, or name an output folder on another"
                   : "run the command by itself to see more; CC names another C compiler"};
    std::istringstream lines(said);
    for (std::string line; std::getline(lines, line) && d.notes.size() < 12;) {
        d.notes.push_back(line);
    }
    throw Error(std::move(d));
}

} // namespace kiln
