#include "dsl/generator/Load.h"

#include "dsl/support/Files.h"
#include "dsl/support/Process.h"

#include <Halide.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>
#include <map>

#include <dlfcn.h>

namespace kiln {

namespace {

namespace fs = std::filesystem;
using Halide::Internal::GeneratorRegistry;

constexpr const char *own_object = "kiln_generators.so";

Diagnostic fault(const char *code, std::string message, std::string help = "") {
    Diagnostic d;
    d.code = code;
    d.message = std::move(message);
    if (!help.empty()) {
        d.helps.push_back(std::move(help));
    }
    return d;
}

/// Opens it in this process. Everything stays open to the end: its code is the generators.
void open_object(const fs::path &path) {
    // A bare name would be looked up in the system's folders.
    if (!dlopen(fs::absolute(path).c_str(), RTLD_NOW | RTLD_GLOBAL)) {
        std::string why = dlerror();
        // "/long/path/libx.so: undefined symbol: f": the path is in our own message.
        if (size_t colon = why.find(": "); colon != std::string::npos && why[0] == '/') {
            why = why.substr(colon + 2);
        }
        throw Error(
            fault("K1012", fmt::format("cannot load `{}`: {}", path.string(), why),
                  "it must be a shared object that is linked with libkiln.so; `kiln new` writes a project "
                  "for one"));
    }
}

/// The names that `path` registers, found in a child with an empty registry: Halide ends the program where a
/// name is registered twice, and a user's static constructors may do anything.
std::vector<std::string> probe(const fs::path &path) {
    std::string what = fmt::format("`{}`", path.string());
    ProcessLimits limits;
    limits.timeout_s = 30;
    try {
        return run_isolated(what, limits, [&]() -> nlohmann::json {
            try {
                for (const std::string &name : GeneratorRegistry::enumerate()) {
                    GeneratorRegistry::unregister_factory(name);
                }
                open_object(path);
                return GeneratorRegistry::enumerate();
            } catch (const Halide::Error &error) {
                std::string why = error.what();
                why.erase(why.find_last_not_of('\n') + 1);
                throw Error(
                    fault("K1014", fmt::format("`{}` fails while it is loaded: {}", path.string(), why)));
            }
        });
    } catch (Error &error) {
        Diagnostic &d = error.diagnostics.front();
        if (d.code.compare(0, 4, "K094") == 0) {
            d.code = "K1014";
            d.message += " while it was loaded";
            throw Error(d);
        }
        throw;
    }
}

} // namespace

std::vector<fs::path> own_generators() {
    std::vector<fs::path> out;
    if (const char *list = std::getenv("KILN_GENERATORS"); list && *list) {
        std::string text = list;
        for (size_t start = 0; start <= text.size();) {
            size_t end = std::min(text.find(':', start), text.size());
            if (end > start) {
                out.push_back(text.substr(start, end - start));
            }
            start = end + 1;
        }
        return out;
    }
    std::vector<fs::path> tried = {program_path().parent_path().parent_path() / "lib" / own_object};
    Dl_info self = {};
    if (dladdr(reinterpret_cast<void *>(&own_generators), &self) != 0 && self.dli_fname) {
        std::error_code ignored;
        tried.push_back(fs::canonical(self.dli_fname, ignored).parent_path() / own_object);
    }
    for (const fs::path &path : tried) {
        if (fs::exists(path)) {
            return {path};
        }
    }
    throw Error(fault("K1011",
                      fmt::format("Kiln's own generators are not there: no file `{}`", tried[0].string()),
                      "build the target `kiln_generators`, or name the object in KILN_GENERATORS"));
}

LoadedGenerators load_generators(const std::vector<fs::path> &more) {
    static std::map<fs::path, LoadedGenerators::Object> opened;
    LoadedGenerators loaded;
    std::vector<fs::path> all = own_generators();
    all.insert(all.end(), more.begin(), more.end());
    for (const fs::path &path : all) {
        std::error_code error;
        fs::path real = fs::canonical(path, error);
        if (error) {
            throw Error(fault("K1012", fmt::format("cannot load `{}`: {}", path.string(), error.message())));
        }
        auto it = opened.find(real);
        if (it == opened.end()) {
            LoadedGenerators::Object object;
            object.path = path;
            object.generators = probe(path);
            if (object.generators.empty()) {
                throw Error(
                    fault("K1013", fmt::format("`{}` registers no generator", path.string()),
                          "register one with KILN_GENERATOR(Class, name, {…}) (dsl/generator/Generator.h)"));
            }
            std::vector<std::string> before = generator_names();
            for (const std::string &name : object.generators) {
                if (std::find(before.begin(), before.end(), name) != before.end()) {
                    GeneratorRegistry::unregister_factory(name);
                    object.replaces.push_back(name);
                }
            }
            open_object(path);
            it = opened.emplace(real, std::move(object)).first;
        }
        loaded.objects.push_back(it->second);
    }
    return loaded;
}

std::vector<std::string> generator_names() {
    std::vector<std::string> names = GeneratorRegistry::enumerate();
    std::sort(names.begin(), names.end());
    return names;
}

} // namespace kiln
