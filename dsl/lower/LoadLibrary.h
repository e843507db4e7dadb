/** \file
 * A kernel library as built, opened in this process: for check, bench, watch and tune, each in its own child.
 */
#pragma once

#include "dsl/support/Diagnostic.h"

#include "kiln.h"
#include "kiln_entry.h"

#include <filesystem>
#include <memory>
#include <string>

namespace kiln {

/// Links NAME.a with the runtime to a shared object that stands alone: LoadedLibrary opens it where there is no C
/// compiler. Throws Error K0704 and K0706 as build_library.
void link_shared(const std::filesystem::path &archive, const std::filesystem::path &object);

class LoadedLibrary {
public:
    /// Links `archive` (NAME.a of build_library) with the runtime to a shared object of its own and opens it; a NAME.so
    /// that link_shared made is opened as it is. The runtime in it is its own too: nothing is shared with other loaded
    /// libraries. Throws Error K0720 where the archive is not there or is none of Kiln's, K0704 and K0706 as
    /// build_library.
    explicit LoadedLibrary(const std::filesystem::path &archive);
    ~LoadedLibrary();
    LoadedLibrary(LoadedLibrary &&other) noexcept;
    LoadedLibrary &operator=(LoadedLibrary &&other) noexcept;

    const std::string &name() const { return name_; }
    /// NAME_argv: buffers as halide_buffer_t *, scalars as pointers. A kiln_status.
    int call(const kiln_call *call, void **arguments) const { return argv_(call, arguments); }
    int prepare(const kiln_call *call) const { return prepare_(call); }
    const kiln_entry_library &info() const { return *info_; }
    /// The variant that a call would run; `reason` (may be null) gets why earlier ones would not.
    const kiln_entry_variant *choose(const kiln_call *call, void **arguments, std::string *reason) const;
    std::string last_message() const;
    /// What the last call ran and why.
    std::string last_choice() const;

    /// Any function of the runtime inside, such as "halide_copy_to_host"; null where there is none.
    void *symbol(const char *name) const;
    int copy_to_host(const kiln_call *call, halide_buffer_t *buffer) const;
    int device_sync(const kiln_call *call, halide_buffer_t *buffer) const;
    int device_free(const kiln_call *call, halide_buffer_t *buffer) const;
    /// Halide's pool of threads inside; 0 gives the default back.
    void set_threads(int n) const;

private:
    void *handle_ = nullptr;
    std::string name_;
    int (*argv_)(const kiln_call *, void **) = nullptr;
    int (*prepare_)(const kiln_call *) = nullptr;
    const kiln_entry_library *info_ = nullptr;
};

} // namespace kiln
