#include "apps/kiln/Environment.h"

#include <fmt/format.h>

namespace kiln::cli {

const std::vector<EnvironmentEntry> &exit_codes() {
    static const std::vector<EnvironmentEntry> table = {
        {"0", "all went well; warnings may have been printed"},
        {"1", "the input is at fault (schedule, generator, file), or a check failed"},
        {"2", "the command line is at fault"},
        {"3", "Kiln is at fault, or a child crashed or ran over its limit of time or memory"},
        {"4", "this machine lacks the device or the tool that was asked for"},
        {"130, 143, 129", "interrupted by Ctrl-C, SIGTERM or SIGHUP; nothing half written is left"},
    };
    return table;
}

const std::vector<EnvironmentEntry> &environment_variables() {
    static const std::vector<EnvironmentEntry> table = {
        {"KILN_GENERATORS", "shared objects with generators, separated by `:`, in place of Kiln's own "
                            "`lib/kiln_generators.so`"},
        {"KILN_CACHE_DIR", "the cache's folder; else `$XDG_CACHE_HOME/kiln`, else `~/.cache/kiln`"},
        {"KILN_DATABASE", "the file of all tuning results; else `tune.db` in the cache"},
        {"KILN_BUILD_TOOL", "the program that compiles one variant, in place of `bin/kiln-build`"},
        {"KILN_MEASURE_TOOL", "the program that runs and times trials, in place of `bin/kiln-measure`"},
        {"KILN_MPI_LIBRARY", "what joins the ranks of `mpirun`, in place of `lib/libkiln_mpi.so`"},
        {"CC", "the C compiler for a library's entry point; else `cc`"},
        {"KILN_NVRTC",
         "the NVRTC library for CUDA tile kernels; else it is looked for in the checkout, the CUDA "
         "toolkit and PyTorch"},
        {"HL_NUM_THREADS", "threads of CPU kernels (Halide's own variable); else all cores"},
        {"HL_OCL_PLATFORM_NAME", "part of the name of the OpenCL platform to use (Halide's own variable)"},
        {"HL_OCL_DEVICE_TYPE",
         "`cpu`, `gpu` or `acc`: the kind of OpenCL device to use (Halide's own variable)"},
        {"TMPDIR", "where work in progress lives; removed at the end and on Ctrl-C"},
    };
    return table;
}

const std::vector<EnvironmentEntry> &files_written() {
    static const std::vector<EnvironmentEntry> table = {
        {"DIR/NAME.a, DIR/NAME.h, DIR/NAME.json", "by `kiln build -o DIR`, all three or none"},
        {"NAME/", "by `kiln new NAME`: generator, schedule, CMakeLists.txt, README.md"},
        {"cache/devices/", "by `kiln device --calibrate`: measured ceilings of this machine's devices"},
        {"cache/tune.db", "by `kiln tune`: all trials with their results; `kiln db` shows it"},
        {"DIR/NAME.sched",
         "by `kiln tune -o DIR` (else `tuned/`), beside NAME.a, NAME.h and NAME.json: the best schedule"},
        {"cache/watch/", "by `kiln watch`: every version of a schedule that was tried, with its result"},
        {"FILE", "by `kiln bench --output FILE`: rows are added to this results file"},
    };
    return table;
}

std::string environment_table() {
    std::string out = "| kind | name | meaning |\n|---|---|---|\n";
    auto add = [&](const char *kind, const std::vector<EnvironmentEntry> &entries) {
        for (const EnvironmentEntry &entry : entries) {
            out += fmt::format("| {} | `{}` | {} |\n", kind, entry.name, entry.meaning);
        }
    };
    add("exit code", exit_codes());
    add("variable", environment_variables());
    add("file", files_written());
    return out;
}

} // namespace kiln::cli
