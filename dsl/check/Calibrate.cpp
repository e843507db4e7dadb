// Ceilings of GPUs: copies and chains of multiply-adds as Halide pipelines, compiled and run in a child.
#include "dsl/support/Process.h"
#include "dsl/target/CalibrateCpu.h"
#include "dsl/target/Device.h"

#include <Halide.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <cstdlib>

namespace kiln {

namespace {

using namespace Halide;

double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// The least time of one call: calls are queued in batches long enough for the clock, then awaited.
double best_seconds(const std::function<void()> &queue, const std::function<void()> &wait, double seconds) {
    queue();
    wait();
    double start = now();
    queue();
    wait();
    int batch = std::clamp(static_cast<int>(2e-3 / std::max(now() - start, 1e-7)), 1, 200);
    double best = 1e30, end = now() + seconds;
    for (int round = 0; round < 5 || now() < end; round++) {
        start = now();
        for (int i = 0; i < batch; i++) {
            queue();
        }
        wait();
        best = std::min(best, (now() - start) / batch);
    }
    return best;
}

class GpuCalibration {
public:
    GpuCalibration(const Device &device, const Progress &progress) : device_(device), progress_(progress) {
        // The JIT wants a target that this process can run; the CPU side only launches.
        target_ = Halide::Target(target_text(device));
    }

    Ceilings run() {
        Ceilings c;
        c.units = device_.units;
        say(0, "copying memory");
        int64_t large = std::min<int64_t>(device_.memory_bytes / 8, int64_t(1) << 30);
        large = std::min(large, std::max<int64_t>(device_.cache_bytes * 8, int64_t(64) << 20));
        int64_t small = std::clamp<int64_t>(device_.cache_bytes / 4, int64_t(1) << 20, large);
        c.copy_ways["kernel"] = copy(large);
        c.copy_ways["runtime"] = runtime_copy(large);
        c.copy_bytes_per_s = std::max(c.copy_ways["kernel"], c.copy_ways["runtime"]);
        c.cached_copy_bytes_per_s = copy(small);
        say(0.5, "launching kernels");
        c.launch_s = launch();
        say(0.6, "multiplying float32");
        c.flops["float32"] = best_arithmetic(Float(32));
        if (device_.target.backend == Backend::Cuda ||
            std::find(device_.features.begin(), device_.features.end(), "cl_khr_fp64") !=
                device_.features.end()) {
            say(0.8, "multiplying float64");
            c.flops["float64"] = best_arithmetic(Float(64));
        }
        c.date = utc_now();
        return c;
    }

private:
    const Device &device_;
    const Progress &progress_;
    Halide::Target target_;

    static std::string target_text(const Device &device) {
        std::string text = device.target.halide();
        for (const char *unwanted : {"-no_runtime", "-user_context"}) {
            text.erase(text.find(unwanted), std::string(unwanted).size());
        }
        if (device.target.backend == Backend::OpenCL &&
            std::find(device.features.begin(), device.features.end(), "cl_khr_fp64") !=
                device.features.end()) {
            text += "-cl_doubles";
        }
        return text;
    }

    void say(double done, const std::string &what) {
        if (progress_) {
            progress_(done, what);
        }
    }

    double copy(int64_t bytes) {
        ImageParam x(Float(32), 1);
        Func f;
        Var i, block, thread, lane;
        f(i) = x(i);
        f.split(i, block, thread, 1024, TailStrategy::RoundUp)
            .split(thread, thread, lane, 4)
            .vectorize(lane)
            .gpu_blocks(block)
            .gpu_threads(thread);
        f.compile_jit(target_);
        int n = static_cast<int>(bytes / 4 / 1024 * 1024);
        Buffer<float> from(n), to(n);
        from.fill(1);
        x.set(from);
        double t = best_seconds([&] { f.realize(to, target_); }, [&] { to.device_sync(); }, 0.3);
        return 2.0 * n * 4 / t;
    }

    double runtime_copy(int64_t bytes) {
        int n = static_cast<int>(bytes / 4);
        Buffer<float> from(n), to(n);
        from.fill(1);
        DeviceAPI api = device_.target.backend == Backend::Cuda ? DeviceAPI::CUDA : DeviceAPI::OpenCL;
        from.copy_to_device(api, target_);
        to.device_malloc(api, target_);
        const halide_device_interface_t *interface = from.raw_buffer()->device_interface;
        double t = best_seconds(
            [&] {
                interface->buffer_copy(nullptr, from.raw_buffer(), interface, to.raw_buffer());
                to.set_device_dirty();
            },
            [&] { to.device_sync(); }, 0.3);
        return 2.0 * n * 4 / t;
    }

    double launch() {
        Func f;
        Var i, b, t;
        f(i) = 1.0f;
        f.gpu_tile(i, b, t, 32, TailStrategy::RoundUp);
        f.compile_jit(target_);
        Buffer<float> out(32);
        return best_seconds([&] { f.realize(out, target_); }, [&] { out.device_sync(); }, 0.1);
    }

    /// Devices differ in whether vectors or threads fill their lanes.
    double best_arithmetic(const Type &type) {
        double best = arithmetic(type, 1);
        if (device_.target.backend == Backend::OpenCL) {
            best = std::max({best, arithmetic(type, 4), arithmetic(type, 8)});
        }
        return best;
    }

    double arithmetic(const Type &type, int lanes) {
        constexpr int chains = 8, steps = 2048, threads = 256;
        ImageParam seed(type, 1);
        Func chain, out;
        Var i, j, block, thread, lane;
        RDom r(0, steps);
        chain(j, i) = cast(type, j) + seed(0);
        chain(j, i) = chain(j, i) * seed(1) + seed(2) + cast(type, 0 * r);
        Expr sum = cast(type, 0);
        for (int k = 0; k < chains; k++) {
            sum += chain(k, i);
        }
        out(i) = sum;
        out.split(i, block, thread, threads * lanes, TailStrategy::RoundUp)
            .split(thread, thread, lane, lanes)
            .vectorize(lane)
            .gpu_blocks(block)
            .gpu_threads(thread);
        chain.compute_at(out, thread)
            .store_in(MemoryType::Register)
            .bound(j, 0, chains)
            .reorder_storage(i, j)
            .vectorize(i, lanes)
            .unroll(j);
        chain.update().reorder(i, j, r).vectorize(i, lanes).unroll(j).unroll(r, 8);
        out.compile_jit(target_);
        Buffer<> values(type, 4);
        if (type.bits() == 32) {
            Buffer<float> v = values;
            v.fill(0.5f);
        } else {
            Buffer<double> v = values;
            v.fill(0.5);
        }
        seed.set(values);
        bool is_cpu = device_.vendor.find("NVIDIA") == std::string::npos && device_.units <= 256;
        int n = threads * lanes * device_.units * (is_cpu ? 16 : 32);
        Buffer<> result(type, n);
        double t = best_seconds([&] { out.realize(result, target_); }, [&] { result.device_sync(); }, 0.3);
        return 2.0 * chains * steps * n / t;
    }
};

} // namespace

Ceilings calibrate(const Device &device, const Progress &progress) {
    Ceilings ceilings;
    if (device.target.backend == Backend::Cpu) {
        ceilings = calibrate_cpu(device, progress);
    } else {
        try {
            if (progress) {
                progress(0, "copying and multiplying");
            }
            nlohmann::json result = run_isolated(fmt::format("calibrating {}", device.id()), {120, 0}, [&] {
                if (device.target.backend == Backend::OpenCL) {
                    // Halide takes the first platform otherwise.
                    setenv("HL_OCL_PLATFORM_NAME", device.platform.c_str(), 1);
                } else {
                    setenv("HL_GPU_DEVICE", std::to_string(device.index).c_str(), 1);
                }
                try {
                    return to_json(GpuCalibration(device, {}).run());
                } catch (const Halide::Error &e) {
                    throw std::runtime_error(e.what());
                }
            });
            ceilings = ceilings_from_json(result);
        } catch (const Error &e) {
            Diagnostic d;
            d.code = "K0904";
            d.message = fmt::format("device {} ({}) failed while its ceilings were measured", device.id(),
                                    device.name);
            for (const Diagnostic &cause : e.diagnostics) {
                d.notes.push_back(cause.message);
                d.notes.insert(d.notes.end(), cause.notes.begin(), cause.notes.end());
            }
            d.helps = {"a driver that works elsewhere points at Kiln; please report the notes"};
            throw Error(std::move(d));
        }
    }
    store_ceilings(device, ceilings);
    if (progress) {
        progress(1, "done");
    }
    return ceilings;
}

} // namespace kiln
