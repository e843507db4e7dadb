#include "dsl/check/Autoscheduled.h"

#include "dsl/check/Groups.h"
#include "dsl/generator/Create.h"
#include "dsl/lower/Tools.h"
#include "dsl/support/Process.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cctype>
#include <dlfcn.h>

namespace kiln {

namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const std::string &searcher, const std::string &generator,
                       std::vector<std::string> notes) {
    Diagnostic d;
    d.code = "K0822";
    d.message = fmt::format("Halide's searcher `{}` gives no schedule for `{}`", searcher, generator);
    d.notes = std::move(notes);
    d.helps = {"choose another baseline"};
    throw Error(std::move(d));
}

/// The plugins lie beside libHalide.
fs::path plugin(const std::string &searcher) {
    Dl_info info{};
    dladdr(reinterpret_cast<void *>(&Halide::load_plugin), &info);
    return fs::path(info.dli_fname).parent_path() / fmt::format("libautoschedule_{}.so", searcher);
}

std::string halide_name(std::string searcher) {
    searcher[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(searcher[0])));
    return searcher;
}

const std::vector<int64_t> &extents_of(const Workload &workload, const std::string &name) {
    return workload.extents.at(name);
}

void set_estimates(Halide::Internal::AbstractGenerator &generator, Halide::Pipeline &pipeline,
                   const Workload &workload, std::vector<Halide::Argument> &arguments) {
    using namespace Halide::Internal;
    for (const AbstractGenerator::ArgInfo &info : generator.arginfos()) {
        if (info.dir != ArgInfoDirection::Input) {
            continue;
        }
        for (Halide::Parameter &p : generator.input_parameter(info.name)) {
            if (!p.is_buffer()) {
                auto it = workload.scalars.find(info.name);
                p.set_estimate(
                    Halide::cast(p.type(), Halide::Expr(it == workload.scalars.end() ? 1.0 : it->second)));
                arguments.emplace_back(p.name(), Halide::Argument::InputScalar, p.type(), 0,
                                       p.get_argument_estimates());
                continue;
            }
            const std::vector<int64_t> &extents = extents_of(workload, info.name);
            for (int d = 0; d < p.dimensions(); d++) {
                p.set_min_constraint_estimate(d, 0);
                p.set_extent_constraint_estimate(d, static_cast<int>(extents[d]));
            }
            arguments.emplace_back(p.name(), Halide::Argument::InputBuffer, p.type(), p.dimensions(),
                                   p.get_argument_estimates());
        }
    }
    size_t output = 0;
    for (const AbstractGenerator::ArgInfo &info : generator.arginfos()) {
        if (info.dir == ArgInfoDirection::Output) {
            Halide::Region region;
            for (int64_t e : extents_of(workload, info.name)) {
                region.emplace_back(0, static_cast<int>(e));
            }
            pipeline.outputs().at(output++).set_estimates(region);
        }
    }
}

void compile(const std::string &searcher, const BuildRequest &build,
             const std::map<std::string, std::string> &params, const Workload &workload,
             const fs::path &folder, int threads) {
    std::string text = build.variants.at(0).target.halide();
    for (const char *unwanted : {"-no_runtime", "-user_context", "-large_buffers"}) {
        text.erase(text.find(unwanted), std::string(unwanted).size());
    }
    Halide::Target target(text);
    std::unique_ptr<Halide::Internal::AbstractGenerator> generator =
        create_generator(build.generator, params, target);
    Halide::Pipeline pipeline = generator->build_pipeline();
    std::vector<Halide::Argument> arguments;
    set_estimates(*generator, pipeline, workload, arguments);
    Halide::load_plugin(plugin(searcher).string());
    Halide::AutoschedulerParams options(halide_name(searcher));
    if (searcher != "anderson2021") {
        options.extra["parallelism"] = std::to_string(std::max(1, threads));
    }
    pipeline.apply_autoscheduler(target, options);
    pipeline.compile_to_file((folder / "rival").string(), arguments, "rival", target);
    Halide::compile_standalone_runtime((folder / "runtime.o").string(), target);
}

} // namespace

const std::vector<std::string> &halide_searchers() {
    static const std::vector<std::string> names = {"adams2019", "mullapudi2016", "li2018", "anderson2021"};
    return names;
}

AutoscheduledLibrary::AutoscheduledLibrary(const std::string &searcher, const BuildRequest &build,
                                           const std::map<std::string, std::string> &params,
                                           const Workload &workload, const fs::path &folder, int threads,
                                           double timeout_s) {
    try {
        run_isolated(fmt::format("`{}`", searcher), {timeout_s, 0}, [&] {
            try {
                compile(searcher, build, params, workload, folder, threads);
            } catch (const Halide::Error &e) {
                throw std::runtime_error(e.what());
            }
            return nlohmann::json::object();
        });
        std::vector<std::string> cc = c_compiler();
        fs::path object = folder / "rival.so";
        cc.insert(cc.end(),
                  {"-shared", "-o", object.string(), "-Wl,-Bsymbolic", (folder / "rival.o").string(),
                   (folder / "runtime.o").string(), "-ldl", "-lpthread", "-lm"});
        run_tool(cc, folder);
        handle_ = dlopen(object.c_str(), RTLD_NOW | RTLD_LOCAL);
    } catch (const Error &e) {
        std::vector<std::string> notes;
        for (const Diagnostic &d : e.diagnostics) {
            notes.push_back(d.message);
            notes.insert(notes.end(), d.notes.begin(), d.notes.end());
        }
        fail(searcher, build.generator, std::move(notes));
    }
    argv_ = handle_ ? reinterpret_cast<int (*)(void **)>(dlsym(handle_, "rival_argv")) : nullptr;
    if (!argv_) {
        fail(searcher, build.generator, {"what it compiled cannot be opened"});
    }
}

AutoscheduledLibrary::~AutoscheduledLibrary() {
    if (handle_) {
        dlclose(handle_);
    }
}

void AutoscheduledLibrary::set_threads(int n) const {
    reinterpret_cast<int (*)(int)>(dlsym(handle_, "halide_set_num_threads"))(n);
}

int AutoscheduledLibrary::device_sync(halide_buffer_t *buffer) const {
    return reinterpret_cast<int (*)(void *, halide_buffer_t *)>(dlsym(handle_, "halide_device_sync"))(nullptr,
                                                                                                      buffer);
}

} // namespace kiln
