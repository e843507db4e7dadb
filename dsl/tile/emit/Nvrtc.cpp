#include "dsl/tile/emit/Emit.h"
#include "dsl/tile/emit/NvrtcVersion.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <glob.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <regex>
#include <sstream>

namespace kiln::tile {

namespace {

using Program = void *;

/// The functions of nvrtc.h that are used here.
struct Nvrtc {
    int (*create)(Program *, const char *text, const char *name, int headers, const char *const *,
                  const char *const *) = nullptr;
    int (*compile)(Program, int options, const char *const *) = nullptr;
    int (*destroy)(Program *) = nullptr;
    int (*log_size)(Program, size_t *) = nullptr;
    int (*log)(Program, char *) = nullptr;
    int (*cubin_size)(Program, size_t *) = nullptr;
    int (*cubin)(Program, char *) = nullptr;
    int (*ptx_size)(Program, size_t *) = nullptr;
    int (*ptx)(Program, char *) = nullptr;
    int (*version)(int *major, int *minor) = nullptr;
    std::string tried; ///< where it was looked for, if it was not found
};

std::vector<std::string> matches(const std::string &pattern) {
    std::vector<std::string> found;
    glob_t g{};
    if (glob(pattern.c_str(), 0, nullptr, &g) == 0) {
        found.assign(g.gl_pathv, g.gl_pathv + g.gl_pathc);
    }
    globfree(&g);
    std::reverse(found.begin(), found.end()); // the newest first
    return found;
}

/// The folder of the shared object or program that this code is in, and the folders above it: the checkout or the
/// installation may hold `.kiln/py`.
std::vector<std::string> own_folders() {
    Dl_info info{};
    std::vector<std::string> folders;
    if (!dladdr(reinterpret_cast<const void *>(&matches), &info) || !info.dli_fname) {
        return folders;
    }
    std::string path = info.dli_fname;
    char *real = realpath(path.c_str(), nullptr);
    if (real) {
        path = real;
        free(real);
    }
    for (size_t slash; (slash = path.rfind('/')) != std::string::npos && slash > 0;) {
        path.resize(slash);
        folders.push_back(path);
    }
    return folders;
}

std::vector<std::string> places() {
    std::vector<std::string> at;
    auto add = [&](const std::vector<std::string> &more) { at.insert(at.end(), more.begin(), more.end()); };
    for (const std::string &folder : own_folders()) {
        add(matches(folder + "/.kiln/py/lib/python3*/site-packages/nvidia/cu13/lib/libnvrtc.so.*"));
    }
    for (const char *variable : {"CUDA_PATH", "CUDA_HOME"}) {
        if (const char *root = std::getenv(variable)) {
            add({std::string(root) + "/lib64/libnvrtc.so"});
        }
    }
    add({"libnvrtc.so.13", "/usr/local/cuda/lib64/libnvrtc.so"});
    // PyTorch's wheels bring a copy along.
    std::vector<std::string> python = {"/usr/local", "/usr"};
    for (const char *variable : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
        if (const char *root = std::getenv(variable)) {
            python.insert(python.begin(), root);
        }
    }
    for (const std::string &root : python) {
        add(matches(root + "/lib/python3*/*-packages/nvidia/cu*/lib/libnvrtc.so.*"));
        add(matches(root + "/lib/python3*/*-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.*"));
    }
    std::erase_if(at, [](const std::string &p) { return p.find(".alt.") != std::string::npos; });
    return at;
}

Nvrtc load() {
    Nvrtc n;
    void *library = nullptr;
    const char *named = std::getenv("KILN_NVRTC");
    const std::vector<std::string> at = named && *named ? std::vector<std::string>{named} : places();
    for (const std::string &path : at) {
        library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (library) {
            break;
        }
        n.tried += (n.tried.empty() ? "`" : ", `") + path + "`";
    }
    auto symbol = [&](auto &function, const char *name) {
        function =
            library ? reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(library, name)) : nullptr;
        return function != nullptr;
    };
    const bool whole = symbol(n.create, "nvrtcCreateProgram") && symbol(n.compile, "nvrtcCompileProgram") &&
                       symbol(n.destroy, "nvrtcDestroyProgram") &&
                       symbol(n.log_size, "nvrtcGetProgramLogSize") && symbol(n.log, "nvrtcGetProgramLog") &&
                       symbol(n.cubin_size, "nvrtcGetCUBINSize") && symbol(n.cubin, "nvrtcGetCUBIN") &&
                       symbol(n.ptx_size, "nvrtcGetPTXSize") && symbol(n.ptx, "nvrtcGetPTX") &&
                       symbol(n.version, "nvrtcVersion");
    if (!whole) {
        if (library) {
            n.tried = fmt::format("`{}`, which is no NVRTC", at.empty() ? "" : at.front());
        }
        n.create = nullptr;
    }
    return n;
}

/// Never closed: NVRTC keeps state of its own. A path that failed is tried again at the next call.
const Nvrtc &nvrtc() {
    static std::mutex mutex;
    static Nvrtc loaded;
    const std::lock_guard lock(mutex);
    if (!loaded.create) {
        loaded = load();
    }
    if (!loaded.create) {
        Diagnostic d;
        d.code = "K1150";
        d.message = "tile kernels for CUDA need NVRTC, and it was not found";
        d.notes = {"tried " + (loaded.tried.empty() ? "no path" : loaded.tried)};
        d.helps = {"install CUDA 12.8 or later, or the Python package `nvidia-cuda-nvrtc`",
                   "or let `KILN_NVRTC` name the file `libnvrtc.so`"};
        throw Error(std::move(d));
    }
    return loaded;
}

class Compilation {
public:
    Compilation(const std::string &text, const std::string &name, const std::string &arch)
        : api_(nvrtc()), name_(name) {
        if (api_.create(&program_, text.c_str(), (name + ".cu").c_str(), 0, nullptr, nullptr) != 0) {
            fail("NVRTC refuses the text");
        }
        const std::string target = "-arch=" + arch;
        // 177, 550: variables that nothing reads; a kernel names coordinates that not every part of it needs.
        std::vector<const char *> options = {target.c_str(), "-std=c++17", "--ftz=true",
                                             "--diag-suppress=177,550"};
        if (arch.compare(0, 3, "sm_") == 0) {
            options.push_back("--ptxas-options=-v");
        }
        const bool good = api_.compile(program_, static_cast<int>(options.size()), options.data()) == 0;
        size_t n = 0;
        api_.log_size(program_, &n);
        log.resize(n);
        api_.log(program_, log.data());
        log.resize(log.empty() ? 0 : log.size() - 1); // the final 0
        if (!good) {
            fail(log);
        }
    }
    ~Compilation() { api_.destroy(&program_); }
    Compilation(const Compilation &) = delete;

    std::string log;

    std::string cubin() const { return result(api_.cubin_size, api_.cubin); }
    std::string ptx() const {
        std::string text = result(api_.ptx_size, api_.ptx);
        text.resize(text.find('\0') == std::string::npos ? text.size() : text.find('\0'));
        return text;
    }

private:
    const Nvrtc &api_;
    Program program_ = nullptr;
    std::string name_;

    std::string result(int (*size)(Program, size_t *), int (*get)(Program, char *)) const {
        size_t n = 0;
        size(program_, &n);
        std::string out(n, '\0');
        get(program_, out.data());
        return out;
    }

    [[noreturn]] void fail(const std::string &reason) const {
        Diagnostic d;
        d.code = "K1151";
        d.message = fmt::format("the text of kernel `{}` does not compile", name_);
        std::istringstream lines(reason);
        for (std::string line; std::getline(lines, line);) {
            if (!line.empty()) {
                d.notes.push_back(line);
            }
        }
        throw Error(std::move(d));
    }
};

int number(const std::string &log, const std::string &pattern) {
    std::smatch m;
    return std::regex_search(log, m, std::regex(pattern)) ? std::stoi(m[1]) : 0;
}

/// "ptxas info : (C7510) Potential Performance Loss: …" and other warnings, each once.
std::vector<std::string> warnings_in(const std::string &log) {
    std::vector<std::string> found;
    std::istringstream lines(log);
    for (std::string line; std::getline(lines, line);) {
        const size_t at = line.find("(C7");
        const bool warning = line.find("warning") != std::string::npos;
        if (at == std::string::npos && !warning) {
            continue;
        }
        std::string text = at == std::string::npos ? line : line.substr(at);
        if (std::find(found.begin(), found.end(), text) == found.end()) {
            found.push_back(std::move(text));
        }
    }
    return found;
}

} // namespace

std::string nvrtc_version() {
    try {
        int major = 0, minor = 0;
        nvrtc().version(&major, &minor);
        return fmt::format("{}.{}", major, minor);
    } catch (const Error &) {
        return "";
    }
}

CompiledKernel compile_cubin(const std::string &text, const std::string &name, const std::string &arch) {
    const auto start = std::chrono::steady_clock::now();
    Compilation c(text, name, arch);
    CompiledKernel out;
    out.cubin = c.cubin();
    out.registers = number(c.log, "Used ([0-9]+) registers");
    out.spill_bytes = number(c.log, "([0-9]+) bytes spill stores");
    out.shared_bytes = number(c.log, "([0-9]+) bytes smem");
    out.warnings = warnings_in(c.log);
    out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    std::vector<std::string> serialised;
    for (const std::string &w : out.warnings) {
        if (w.compare(0, 4, "(C75") == 0) {
            serialised.push_back(w);
        }
    }
    if (out.spill_bytes > 0 || !serialised.empty()) {
        Diagnostic d;
        d.code = "K1152";
        d.message =
            out.spill_bytes > 0
                ? fmt::format("kernel `{}` needs more registers than it has: {} registers a thread, {} bytes "
                              "are spilled to memory",
                              name, out.registers, out.spill_bytes)
                : fmt::format("products of kernel `{}` would run one after another, at {} registers a thread",
                              name, out.registers);
        d.notes = serialised;
        d.helps = {"take a smaller tile, more `warpgroups`, or other `registers`"};
        throw Error(std::move(d));
    }
    return out;
}

std::string compile_ptx(const std::string &text, const std::string &name, const std::string &arch) {
    return Compilation(text, name, arch).ptx();
}

} // namespace kiln::tile
