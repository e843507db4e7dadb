"""On an OpenCL device: f32 products against CLBlast, through CLBlast's C interface, and on a GPU the relu chain against the
device's copy (clEnqueueCopyBuffer) and torch.compile, each with its operands queued on the device beforehand. CLBlast runs
with its stock parameters unless it was tuned for the device. HL_OCL_PLATFORM_NAME chooses the platform, as for kernels."""

import ctypes
import ctypes.util
import os
import pathlib
import sys

import torch

import kernel as kernels
import timing
import works

DEVICE_GPU = 4  # CL_DEVICE_TYPE_GPU


class OpenCL:
    """As much of OpenCL as a baseline needs: one device, one queue, buffers."""

    def __init__(self):
        self.cl = library_named("OpenCL", "libOpenCL.so.1")
        if not self.cl:
            raise kernels.KernelError("libOpenCL is not installed")
        for name in ("clCreateContext", "clCreateCommandQueue", "clCreateBuffer"):
            getattr(self.cl, name).restype = ctypes.c_void_p
        device, error = ctypes.c_void_p(), ctypes.c_int()
        platform = self.platform(os.environ.get("HL_OCL_PLATFORM_NAME", ""))
        self.cl.clGetDeviceIDs(platform, ctypes.c_uint64(0xFFFFFFFF), 1, ctypes.byref(device), None)
        self.context = ctypes.c_void_p(
            self.cl.clCreateContext(None, 1, ctypes.byref(device), None, None, ctypes.byref(error)))
        self.queue = ctypes.c_void_p(
            self.cl.clCreateCommandQueue(self.context, device, ctypes.c_uint64(0), ctypes.byref(error)))
        if error.value:
            raise kernels.KernelError(f"OpenCL error {error.value}")
        name = ctypes.create_string_buffer(256)
        self.cl.clGetDeviceInfo(device, 0x102B, 256, name, None)
        self.name = name.value.decode()
        kind = ctypes.c_uint64()
        self.cl.clGetDeviceInfo(device, 0x1000, 8, ctypes.byref(kind), None)
        self.is_gpu = bool(kind.value & DEVICE_GPU)

    def platform(self, wanted):
        count, platforms = ctypes.c_uint(), (ctypes.c_void_p * 16)()
        self.cl.clGetPlatformIDs(16, platforms, ctypes.byref(count))
        for platform in platforms[:count.value]:
            name = ctypes.create_string_buffer(256)
            self.cl.clGetPlatformInfo(ctypes.c_void_p(platform), 0x0902, 256, name, None)
            if wanted in name.value.decode():
                return ctypes.c_void_p(platform)
        raise kernels.KernelError(f"no OpenCL platform is named like `{wanted}`")

    def copy(self, source, destination, size):
        def run():
            if self.cl.clEnqueueCopyBuffer(self.queue, source, destination, ctypes.c_size_t(0), ctypes.c_size_t(0),
                                           ctypes.c_size_t(size), 0, None, None):
                raise kernels.KernelError("clEnqueueCopyBuffer failed")

        return run

    def buffer(self, tensor):
        error = ctypes.c_int()
        size = ctypes.c_size_t(tensor.numel() * tensor.element_size())
        memory = ctypes.c_void_p(self.cl.clCreateBuffer(self.context, ctypes.c_uint64(1), size, None, ctypes.byref(error)))
        self.cl.clEnqueueWriteBuffer(self.queue, memory, 1, ctypes.c_size_t(0), size, ctypes.c_void_p(tensor.data_ptr()), 0,
                                     None, None)
        return memory

    def write(self, memory, tensor):
        size = ctypes.c_size_t(tensor.numel() * tensor.element_size())
        if self.cl.clEnqueueWriteBuffer(self.queue, memory, 1, ctypes.c_size_t(0), size, ctypes.c_void_p(tensor.data_ptr()),
                                        0, None, None):
            raise kernels.KernelError("clEnqueueWriteBuffer failed")

    def release(self, memory):
        self.cl.clReleaseMemObject(memory)

    def read(self, memory, tensor):
        size = ctypes.c_size_t(tensor.numel() * tensor.element_size())
        self.cl.clEnqueueReadBuffer(self.queue, memory, 1, ctypes.c_size_t(0), size, ctypes.c_void_p(tensor.data_ptr()), 0,
                                    None, None)

    def finish(self):
        self.cl.clFinish(self.queue)


def sgemm(opencl, library, m, n, k, x, w, y):
    def size(value):
        return ctypes.c_size_t(value)

    def run():
        status = library.CLBlastSgemm(101, 111, 111, size(m), size(n), size(k), ctypes.c_float(1), x, size(0), size(k), w,
                                      size(0), size(n), ctypes.c_float(0), y, size(0), size(n),
                                      ctypes.byref(opencl.queue), None)
        if status:
            raise kernels.KernelError(f"CLBlast returned {status}")

    return run


def library_named(name, file):
    path = ctypes.util.find_library(name)
    try:
        return ctypes.CDLL(path or file)
    except OSError:
        return None


class Candidate:
    """One library of Kiln's on the device's memory."""

    def __init__(self, opencl, kernel, work, memory):
        call = kernels.Call(size=ctypes.sizeof(kernels.Call))
        call.cl_context, call.cl_queue = opencl.context.value, opencl.queue.value
        views, pointers, scalars = [], [], []
        buffers = iter(memory)
        for argument in work.arguments:
            if not torch.is_tensor(argument):
                scalars.append(ctypes.c_float(argument))
                pointers.append(ctypes.cast(ctypes.byref(scalars[-1]), ctypes.c_void_p))
                continue
            view = kernels.View()
            extents = (ctypes.c_int64 * argument.dim())(*reversed(argument.shape))
            kernel.library.kiln_view_opencl(ctypes.byref(view), kernels.KILN_TYPES[str(argument.dtype)[6:]], next(buffers),
                                            ctypes.c_uint64(0), argument.dim(), extents, None)
            views.append(view)
            pointers.append(ctypes.cast(ctypes.byref(view.buffer), ctypes.c_void_p))
        self.kernel, self.call, self.views, self.scalars = kernel, call, views, scalars
        self.array = (ctypes.c_void_p * len(pointers))(*pointers)

    def __call__(self):
        if self.kernel.argv(ctypes.byref(self.call), self.array):
            raise kernels.KernelError(self.kernel.message())


class Bench:
    def __init__(self, arguments):
        import run as driver
        self.driver, self.arguments = driver, arguments
        self.opencl = OpenCL()
        self.session = driver.Session(arguments)
        self.clblast = library_named("clblast", "libclblast.so.1")
        if not self.clblast:
            raise SystemExit("CLBlast is not installed: apt-get install libclblast1")

    def built(self, work):
        """{name: library} of what the schedules give, and of each file of --try."""
        found = {"as written": self.session.kernel(work, 0)}
        for folder in self.arguments.attempts:
            for file in sorted((pathlib.Path(folder) / work.generator).glob("*.sched")):
                options = ["--target", self.arguments.target, "--schedule", str(file)]
                into = pathlib.Path(self.session.folder.name) / f"{work.name}-{work.params['type']}-{file.stem}"
                try:
                    found[file.stem] = kernels.Kernel(
                        kernels.build(self.arguments.kiln, work.generator, options, into, work.params))
                except kernels.KernelError as error:
                    print(f"    {file.stem}: {error}", file=sys.stderr)
        return found

    def wait(self):
        self.opencl.finish()
        if torch.cuda.is_available():
            torch.cuda.synchronize()

    def run(self, work, rivals):
        """Times all candidates that are right beside `rivals(memory)` ({name: function}); a row for each of these."""
        if self.arguments.only and self.arguments.only not in f"{work.name} {work.shape}":
            return
        tensors = [a for a in work.arguments if torch.is_tensor(a)]
        memory = [self.opencl.buffer(t) for t in tensors]
        candidates, errors = {}, {}
        for name, kernel in self.built(work).items():
            candidate = Candidate(self.opencl, kernel, work, memory)
            work.output.fill_(float("nan"))
            try:
                self.opencl.write(memory[-1], work.output)
                candidate()
                self.opencl.finish()
            except kernels.KernelError as error:
                print(f"    {name}: {error}", file=sys.stderr)
                continue
            self.opencl.read(memory[-1], work.output)
            error, bound = works.error_and_bound(work)
            if not error <= bound:
                print(f"    {name}: off by {error:.3g}, allowed {bound:.3g}; not timed", file=sys.stderr)
                continue
            candidates[name], errors[name] = candidate, (error, bound)
        if not candidates:
            return
        others = rivals(memory)
        turns = {**{f"kiln {n}": c for n, c in candidates.items()}, **others}
        shortest = 20e-3 if self.opencl.is_gpu else 300e-6
        warm, _ = timing.interleave(turns, self.wait, None, self.arguments.seconds, shortest=shortest)
        best = min(candidates, key=lambda n: timing.median(warm[f"kiln {n}"]))
        mine = warm[f"kiln {best}"]
        ms = timing.median(mine) * 1e3
        speed = f"{work.flops / ms * 1e-6:.0f} GFLOP/s" if work.flops else f"{work.bytes / ms * 1e-6:.0f} GB/s"
        for rival in others:
            ratio, low, high = timing.paired_ratio(mine, warm[rival])
            self.session.rows.append({
                "work": work.name, "shape": work.shape, "type": work.params["type"], "target": "opencl",
                "schedule": candidates[best].kernel.choice(), "attempt": best, "threads": 0, "ms": ms, "baseline": rival,
                "baseline_ms": timing.median(warm[rival]) * 1e3, "ratio": ratio, "ratio_low": low, "ratio_high": high,
                "flops": work.flops, "bytes": work.bytes, "roofline": 0.0, "error": errors[best][0],
                "bound": errors[best][1], "samples": len(mine), "flags": [],
                "others": {n: timing.median(warm[f"kiln {n}"]) * 1e3 for n in candidates}})
            print(f"{work.name} {work.shape} {work.params['type']}: {best}, {ms:.4f} ms, {speed}, {ratio:.3f} "
                  f"[{low:.3f}, {high:.3f}] of {rival}", file=sys.stderr, flush=True)
        for m in memory:
            self.opencl.release(m)
        self.driver.write(self.arguments.out or self.driver.ROOT / "docs" / "results" / "opencl.json", self.session)

    def product(self, size):
        work = works.gemm(size, size, size)
        self.run(work, lambda memory: {"clblast": sgemm(self.opencl, self.clblast, size, size, size, *memory)})

    def chain(self, bits, dtype):
        work = works.chain_relu(1 << bits, dtype)
        x, a, b, y = work.arguments

        def rivals(memory):
            found = {"copy": self.opencl.copy(memory[0], memory[1], x.numel() * x.element_size())}
            if torch.cuda.is_available():
                on, out = x.cuda(), y.cuda()
                compiled = torch.compile(lambda x, out: out.copy_(torch.relu(x * a + b)), dynamic=False)
                found["torch.compile"] = lambda: compiled(on, out)
                found["pytorch copy"] = lambda: out.copy_(on)
            return found

        self.run(work, rivals)


def main(arguments):
    bench = Bench(arguments)
    for size in (512, 1024, 2048) if bench.opencl.is_gpu else (512, 1024):
        bench.product(size)
    if bench.opencl.is_gpu:
        for bits in (24, 28):
            for dtype in (torch.float32, torch.bfloat16):
                bench.chain(bits, dtype)
    return 0
