#include "dsl/check/BenchKernel.h"

#include "dsl/check/Autoscheduled.h"
#include "dsl/check/Groups.h"
#include "dsl/check/Measure.h"
#include "dsl/check/Problem.h"
#include "dsl/support/Process.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace kiln {

namespace {

namespace fs = std::filesystem;

Diagnostic doubt(std::string message, std::string help) {
    Diagnostic d;
    d.code = "K0820";
    d.severity = Severity::Warning;
    d.message = std::move(message);
    d.helps = {std::move(help)};
    return d;
}

[[noreturn]] void unknown_baseline(const std::string &name) {
    std::vector<std::string> known = {"copy", "default"};
    known.insert(known.end(), halide_searchers().begin(), halide_searchers().end());
    std::string near = nearest(name, known);
    Diagnostic d;
    d.code = "K0821";
    d.message = fmt::format("unknown baseline `{}`", name);
    d.notes = {fmt::format("baselines are `{}`, and `archive:PATH`", fmt::join(known, "`, `"))};
    d.helps = {near.empty() ? "vendors' libraries run in `./dev bench`"
                            : fmt::format("did you mean `{}`?", near)};
    throw Error(std::move(d));
}

/// What runs in turn with the kernel.
struct Rival {
    std::string name;
    std::unique_ptr<TemporaryFolder> folder;
    BuiltKernel kernel;                          ///< another schedule, another library
    std::unique_ptr<AutoscheduledLibrary> stock; ///< of a Halide searcher
    bool is_copy = false;
};

int output_of(const Problem &problem) {
    for (int i = 0; i < problem.count(); i++) {
        if (problem.argument(i).kind == KernelArgument::Kind::Output) {
            return i;
        }
    }
    return 0;
}

void must(int status, const std::string &message) {
    if (status != 0) {
        throw std::runtime_error(fmt::format("a call returned {}: {}", status, message));
    }
}

/// Everything that runs in the timing child.
class Timing {
public:
    Timing(const BenchRequest &request, const LoadedLibrary &library, Rival &rival, Problem &ours,
           Problem &theirs, const Device &device)
        : request_(request), library_(library), rival_(rival), ours_(ours), theirs_(theirs), device_(device) {
        call_.device = request.device;
    }

    nlohmann::json run(uint64_t seed) {
        library_.set_threads(request_.threads);
        MeasureOptions options;
        options.seconds = request_.seconds;
        options.seed = seed;
        Work candidate = work_of(library_, ours_);
        // The first call is timed by measure(): until then nothing is loaded or on the device.
        Work baseline = rival_work();
        bool on_gpu = device_.target.backend == Backend::Cuda;
        std::unique_ptr<HostFlush> host;
        if (!on_gpu) {
            host = std::make_unique<HostFlush>(std::clamp<size_t>(
                static_cast<size_t>(device_.cache_bytes) * 3, size_t(32) << 20, size_t(512) << 20));
            options.flush = [&] { (*host)(); };
        } else {
            options.flush = [this] { flush_device(); };
        }
        Measurement m = measure(candidate, baseline, options);
        return {{"first", m.first},
                {"warm", m.warm},
                {"cold", m.cold},
                {"baseline_warm", m.baseline_warm},
                {"baseline_cold", m.baseline_cold},
                {"repeats", m.repeats}};
    }

private:
    const BenchRequest &request_;
    const LoadedLibrary &library_;
    Rival &rival_;
    Problem &ours_, &theirs_;
    const Device &device_;
    kiln_call call_ = KILN_CALL_INIT;
    std::vector<uint8_t> from_, to_;
    std::unique_ptr<Halide::Runtime::Buffer<uint8_t>> flush_from_, flush_to_;

    Work work_of(const LoadedLibrary &library, Problem &problem) {
        problem.touch_host();
        auto arguments = std::make_shared<std::vector<void *>>(problem.arguments_for(library));
        halide_buffer_t *out = problem.buffer(output_of(problem));
        Work work;
        work.queue = [this, &library, arguments] {
            must(library.call(&call_, arguments->data()), library.last_message());
        };
        if (device_.target.backend != Backend::Cpu) {
            work.wait = [this, &library, out] { must(library.device_sync(&call_, out), "device_sync"); };
        }
        return work;
    }

    Work rival_work() {
        if (rival_.kernel.library) {
            rival_.kernel.library->set_threads(request_.threads);
            return work_of(*rival_.kernel.library, theirs_);
        }
        Work work;
        if (rival_.stock) {
            rival_.stock->set_threads(request_.threads);
            theirs_.touch_host();
            auto arguments = std::make_shared<std::vector<void *>>(theirs_.arguments_in_order());
            halide_buffer_t *out = theirs_.buffer(output_of(theirs_));
            work.queue = [this, arguments] { must(rival_.stock->call(*arguments), "Halide's own schedule"); };
            if (device_.target.backend != Backend::Cpu) {
                work.wait = [this, out] { must(rival_.stock->device_sync(out), "device_sync"); };
            }
        } else if (rival_.is_copy) {
            auto half = static_cast<size_t>(ours_.bytes() / 2);
            from_.assign(half, 1);
            to_.assign(half, 2);
            work.queue = [this] { std::memcpy(to_.data(), from_.data(), from_.size()); };
        }
        return work;
    }

    /// Twice the device's cache, copied on the device.
    void flush_device() {
        halide_buffer_t *out = ours_.buffer(output_of(ours_));
        const halide_device_interface_t *interface = out->device_interface;
        if (!flush_from_) {
            int n = static_cast<int>(
                std::clamp<int64_t>(device_.cache_bytes * 2, int64_t(64) << 20, int64_t(512) << 20));
            flush_from_ = std::make_unique<Halide::Runtime::Buffer<uint8_t>>(n);
            flush_to_ = std::make_unique<Halide::Runtime::Buffer<uint8_t>>(n);
            flush_from_->set_host_dirty();
            must(interface->copy_to_device(&call_, flush_from_->raw_buffer(), interface), "copy_to_device");
            must(interface->device_malloc(&call_, flush_to_->raw_buffer(), interface), "device_malloc");
        }
        flush_from_->set_host_dirty(false);
        flush_from_->set_device_dirty(true);
        must(interface->buffer_copy(&call_, flush_from_->raw_buffer(), interface, flush_to_->raw_buffer()),
             "buffer_copy");
        must(library_.device_sync(&call_, out), "device_sync");
    }
};

Rival make_rival(const BenchRequest &request, const std::map<std::string, std::string> &params,
                 std::vector<Diagnostic> &diagnostics) {
    Rival rival;
    rival.name = request.baseline;
    if (request.baseline.empty()) {
        return rival;
    }
    const std::vector<std::string> &searchers = halide_searchers();
    if (request.baseline == "copy") {
        if (request.build.variants.at(0).target.backend != Backend::Cpu) {
            unknown_baseline("copy on a GPU");
        }
        rival.is_copy = true;
    } else if (request.baseline == "default") {
        BuildRequest build = request.build;
        for (VariantRequest &v : build.variants) {
            VariantRequest plain;
            plain.target = v.target;
            v = plain;
        }
        rival.kernel = build_kernel(build, params, {}, diagnostics);
    } else if (request.baseline.rfind("archive:", 0) == 0) {
        rival.kernel = build_kernel(request.build, params, request.baseline.substr(8), diagnostics);
    } else if (std::find(searchers.begin(), searchers.end(), request.baseline) != searchers.end()) {
        rival.folder = std::make_unique<TemporaryFolder>();
        rival.stock =
            std::make_unique<AutoscheduledLibrary>(request.baseline, request.build, params, request.workload,
                                                   rival.folder->path(), request.threads, request.timeout_s);
    } else {
        unknown_baseline(request.baseline);
    }
    return rival;
}

std::string type_of(const Problem &problem) {
    for (int i = 0; i < problem.count(); i++) {
        if (problem.argument(i).kind == KernelArgument::Kind::Input) {
            const Halide::Type t = problem.argument(i).type;
            return fmt::format("{}{}",
                               t.is_bfloat()  ? "bfloat"
                               : t.is_float() ? "float"
                               : t.is_int()   ? "int"
                                              : "uint",
                               t.bits());
        }
    }
    return "";
}

/// Fills in what the times say, and doubts them.
void judge(BenchReport &report, const nlohmann::json &times, const Device &device, uint64_t seed) {
    BenchRow &row = report.row;
    auto list = [&](const char *name) { return times.at(name).get<std::vector<double>>(); };
    std::vector<double> warm = list("warm"), cold = list("cold");
    std::vector<double> theirs = list("baseline_warm"), theirs_cold = list("baseline_cold");
    Interval ours = median_interval(warm);
    row.ms = ours.value * 1e3;
    row.ms_low = ours.low * 1e3;
    row.ms_high = ours.high * 1e3;
    row.cold_ms = median(cold) * 1e3;
    row.first_ms = times.at("first").get<double>() * 1e3;
    row.samples = static_cast<int>(warm.size());
    if (!theirs.empty()) {
        row.baseline_ms = median(theirs) * 1e3;
        row.baseline_cold_ms = median(theirs_cold) * 1e3;
        Interval ratio = paired_ratio(warm, theirs, seed);
        row.ratio = ratio.value;
        row.ratio_low = ratio.low;
        row.ratio_high = ratio.high;
    }
    for (double t : warm) {
        report.samples_ms.push_back(t * 1e3);
    }
    for (double t : theirs) {
        report.baseline_samples_ms.push_back(t * 1e3);
    }
    auto flag = [&](const char *name, std::string message, std::string help) {
        row.flags.push_back(name);
        report.diagnostics.push_back(doubt(std::move(message), std::move(help)));
    };
    double best = roofline_seconds(device, row.type, row.flops, row.bytes, row.threads);
    if (best > 0 && row.ms > 0) {
        row.roofline = best * 1e3 / row.ms;
        // Warm data that the last cache holds may move faster than memory does: judged by the cold time.
        bool cached = row.bytes <= static_cast<double>(device.cache_bytes);
        double judged = cached && row.cold_ms > 0 ? row.cold_ms : row.ms;
        if (best * 1e3 / judged > 1.03) {
            flag("above the roofline",
                 fmt::format("{:.4g} ms is less than the {:.4g} ms that the measured ceilings of {} allow",
                             judged, best * 1e3, device.id()),
                 "calibrate on an idle machine (`kiln device --calibrate`); if it stays, the work is not "
                 "what it seems");
        }
    }
    double moved = std::max(drift(warm), drift(theirs));
    if (moved > 0.1) {
        flag("clock drift", fmt::format("times moved by {:.0f} % while they were taken", moved * 100),
             "let the machine settle; the paired ratio holds, single times do not");
    }
    if (spread(warm) > 0.2) {
        flag("noisy",
             fmt::format("the middle half of the times spreads over {:.0f} % of the median",
                         spread(warm) * 100),
             "run on an idle machine, or for longer");
    }
}

void run(const BenchRequest &request, BenchReport &report) {
    ensure_generator(request.build);
    WorkloadGroup group = group_workloads(request.build, {request.workload}).at(0);
    const Target target = request.build.variants.at(0).target;
    Device device = device_for(target);
    BuiltKernel kernel = build_kernel(request.build, group.params, request.archive, report.diagnostics);
    report.build_s = kernel.build_s;
    if (!kernel.library) {
        return;
    }
    BenchRow &row = report.row;
    if (request.check) {
        CheckRequest check;
        check.build = request.build;
        check.build.params = group.params;
        check.archive = kernel.archive;
        check.workloads = {request.workload};
        check.quick = true;
        check.seed = report.seed;
        check.max_points = 4096;
        check.threads = request.threads;
        check.device = request.device;
        CheckReport checked = check_kernel(check);
        report.diagnostics.insert(report.diagnostics.end(), checked.diagnostics.begin(),
                                  checked.diagnostics.end());
        if (!checked.ok) {
            return;
        }
        row.error = checked.error;
        row.bound = checked.bound;
    }
    Algorithm algorithm(request.build.generator, group.params, reference_target(request.build));
    Problem ours(algorithm.arguments, request.workload), theirs(algorithm.arguments, request.workload);
    ours.fill(Fill::Random, report.seed);
    theirs.fill(Fill::Random, report.seed);
    Rival rival = make_rival(request, group.params, report.diagnostics);
    const GeneratorInfo *info = find_generator_info(request.build.generator);
    row.work = request.build.generator;
    for (const auto &[name, value] : group.params) {
        row.work += fmt::format(" {}={}", name, value);
    }
    row.shape = shape_text(request.workload);
    row.type = type_of(ours);
    row.target = target.str();
    row.baseline = request.baseline;
    row.threads = request.threads ? request.threads : device.units;
    row.flops = info && info->flops ? info->flops(request.workload) : 0;
    row.bytes = ours.bytes();
    kiln_call call = KILN_CALL_INIT;
    if (target.backend == Backend::Cpu) {
        const kiln_entry_variant *v =
            kernel.library->choose(&call, ours.arguments_for(*kernel.library).data(), nullptr);
        row.schedule = v ? v->schedule : "";
    } else {
        row.schedule =
            kernel.library->info().variant_count ? kernel.library->info().variants[0].schedule : "";
    }
    nlohmann::json times =
        run_isolated(fmt::format("timing `{}`", request.build.generator), {request.timeout_s, 0}, [&] {
            return Timing(request, *kernel.library, rival, ours, theirs, device).run(report.seed);
        });
    judge(report, times, device, report.seed);
}

} // namespace

BenchReport bench_kernel(const BenchRequest &request) {
    BenchReport report;
    report.seed = request.seed ? request.seed : fresh_seed();
    try {
        run(request, report);
    } catch (const Error &e) {
        report.diagnostics.insert(report.diagnostics.end(), e.diagnostics.begin(), e.diagnostics.end());
    }
    report.ok = !has_errors(report.diagnostics) && report.row.ms > 0;
    return report;
}

} // namespace kiln
