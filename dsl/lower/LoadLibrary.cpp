#include "dsl/lower/LoadLibrary.h"

#include "dsl/lower/Tools.h"
#include "dsl/support/Files.h"

#include <fmt/format.h>

#include <utility>

#include <dlfcn.h>

namespace kiln {

namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(std::string message) {
    Diagnostic d;
    d.code = "K0720";
    d.message = std::move(message);
    throw Error(std::move(d));
}

template<typename F>
F find(void *handle, const std::string &name) {
    return reinterpret_cast<F>(dlsym(handle, name.c_str()));
}

} // namespace

void link_shared(const fs::path &archive, const fs::path &object) {
    std::vector<std::string> cc = c_compiler();
    cc.insert(cc.end(), {"-shared", "-o", fs::absolute(object).string(), "-Wl,-Bsymbolic", "-Wl,-z,defs",
                         "-Wl,--whole-archive", fs::absolute(archive).string(), runtime_archive().string(),
                         "-Wl,--no-whole-archive", "-ldl", "-lpthread", "-lm"});
    run_tool(cc, fs::absolute(object).parent_path());
}

LoadedLibrary::LoadedLibrary(const fs::path &archive) : name_(archive.stem().string()) {
    if (!fs::exists(archive)) {
        fail(fmt::format("no library `{}`", archive.string()));
    }
    TemporaryFolder folder;
    fs::path object = fs::absolute(archive);
    if (archive.extension() != ".so") {
        object = folder.path() / (name_ + ".so");
        link_shared(archive, object);
    }
    handle_ = dlopen(object.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle_) {
        fail(fmt::format("cannot open `{}`: {}", archive.string(), dlerror()));
    }
    argv_ = find<decltype(argv_)>(handle_, name_ + "_argv");
    prepare_ = find<decltype(prepare_)>(handle_, name_ + "_prepare");
    auto info = find<const kiln_entry_library *(*)(void)>(handle_, name_ + "_info");
    if (!argv_ || !prepare_ || !info) {
        dlclose(handle_);
        handle_ = nullptr;
        fail(fmt::format("`{}` is no library of Kiln's: it has no `{}_argv`", archive.string(), name_));
    }
    info_ = info();
}

LoadedLibrary::~LoadedLibrary() {
    if (handle_) {
        // Outside of dlclose, which holds a lock that a device at work may wait for.
        if (auto release = find<decltype(&kiln_release_context)>(handle_, "kiln_release_context")) {
            release(nullptr, nullptr);
        }
        dlclose(handle_);
    }
}

LoadedLibrary::LoadedLibrary(LoadedLibrary &&other) noexcept {
    *this = std::move(other);
}

LoadedLibrary &LoadedLibrary::operator=(LoadedLibrary &&other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(name_, other.name_);
    std::swap(argv_, other.argv_);
    std::swap(prepare_, other.prepare_);
    std::swap(info_, other.info_);
    return *this;
}

void *LoadedLibrary::symbol(const char *name) const {
    return dlsym(handle_, name);
}

const kiln_entry_variant *LoadedLibrary::choose(const kiln_call *call, void **arguments,
                                                std::string *reason) const {
    char text[1024] = "";
    auto choose = find<decltype(&kiln_entry_choose)>(handle_, "kiln_entry_choose");
    const kiln_entry_variant *variant = choose(info_, call, arguments, text, sizeof(text));
    if (reason) {
        *reason = text;
    }
    return variant;
}

std::string LoadedLibrary::last_message() const {
    return find<const char *(*)(void)>(handle_, "kiln_last_message")();
}

std::string LoadedLibrary::last_choice() const {
    return find<const char *(*)(void)>(handle_, "kiln_last_choice")();
}

int LoadedLibrary::copy_to_host(const kiln_call *call, halide_buffer_t *buffer) const {
    return find<int (*)(const void *, halide_buffer_t *)>(handle_, "halide_copy_to_host")(call, buffer);
}

int LoadedLibrary::device_sync(const kiln_call *call, halide_buffer_t *buffer) const {
    return find<int (*)(const void *, halide_buffer_t *)>(handle_, "halide_device_sync")(call, buffer);
}

int LoadedLibrary::device_free(const kiln_call *call, halide_buffer_t *buffer) const {
    return find<int (*)(const void *, halide_buffer_t *)>(handle_, "halide_device_free")(call, buffer);
}

void LoadedLibrary::set_threads(int n) const {
    find<int (*)(int)>(handle_, "halide_set_num_threads")(n);
}

} // namespace kiln
