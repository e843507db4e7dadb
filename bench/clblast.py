"""f32 products on an OpenCL device: Kiln against CLBlast, through CLBlast's C interface, each with host memory in and out
queued on the device beforehand. CLBlast runs with its stock parameters unless it was tuned for the device."""

import ctypes
import ctypes.util
import sys

import torch

import kernel as kernels
import timing
import works


class OpenCL:
    """As much of OpenCL as a baseline needs: one device, one queue, buffers."""

    def __init__(self):
        path = ctypes.util.find_library("OpenCL")
        if not path:
            raise kernels.KernelError("libOpenCL is not installed")
        self.cl = ctypes.CDLL(path)
        for name in ("clCreateContext", "clCreateCommandQueue", "clCreateBuffer"):
            getattr(self.cl, name).restype = ctypes.c_void_p
        platform, device, error = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int()
        self.cl.clGetPlatformIDs(1, ctypes.byref(platform), None)
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

    def buffer(self, tensor):
        error = ctypes.c_int()
        size = ctypes.c_size_t(tensor.numel() * tensor.element_size())
        memory = ctypes.c_void_p(self.cl.clCreateBuffer(self.context, ctypes.c_uint64(1), size, None, ctypes.byref(error)))
        self.cl.clEnqueueWriteBuffer(self.queue, memory, 1, ctypes.c_size_t(0), size, ctypes.c_void_p(tensor.data_ptr()), 0,
                                     None, None)
        return memory

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


def main(arguments):
    import run as driver
    opencl = OpenCL()
    path = ctypes.util.find_library("clblast")
    if not path:
        raise SystemExit("CLBlast is not installed: apt-get install libclblast1")
    library = ctypes.CDLL(path)
    session = driver.Session(arguments)
    for size in (512, 1024):
        work = works.gemm(size, size, size)
        kernel = session.kernel(work, 0)
        call = kernels.Call(size=ctypes.sizeof(kernels.Call))
        call.cl_context, call.cl_queue = opencl.context.value, opencl.queue.value
        x, w, y = work.arguments
        memory = [opencl.buffer(t) for t in (x, w, y)]
        views, pointers = [], []
        for tensor, m in zip((x, w, y), memory):
            view = kernels.View()
            extents = (ctypes.c_int64 * 2)(*reversed(tensor.shape))
            kernel.library.kiln_view_opencl(ctypes.byref(view), kernels.KILN_TYPES["float32"], m, ctypes.c_uint64(0), 2,
                                            extents, None)
            views.append(view)
            pointers.append(ctypes.cast(ctypes.byref(view.buffer), ctypes.c_void_p))
        array = (ctypes.c_void_p * 3)(*pointers)

        def ours():
            if kernel.argv(ctypes.byref(call), array):
                raise kernels.KernelError(kernel.message())

        ours()
        opencl.finish()
        opencl.read(memory[2], y)
        error, bound = works.error_and_bound(work)
        if not error <= bound:
            raise SystemExit(f"gemm {size}: off by {error:.3g}, allowed {bound:.3g}; not timed")
        theirs = sgemm(opencl, library, size, size, size, *memory)
        warm, _ = timing.interleave({"kiln": ours, "clblast": theirs}, opencl.finish, None, arguments.seconds)
        ratio, low, high = timing.paired_ratio(warm["kiln"], warm["clblast"])
        ms = timing.median(warm["kiln"]) * 1e3
        session.rows.append({
            "work": "gemm", "shape": work.shape, "type": "float32", "target": "opencl", "schedule": kernel.choice(),
            "threads": 0, "ms": ms, "baseline": "clblast", "baseline_ms": timing.median(warm["clblast"]) * 1e3,
            "ratio": ratio, "ratio_low": low, "ratio_high": high, "flops": work.flops, "bytes": work.bytes,
            "roofline": 0.0, "error": error, "bound": bound, "samples": len(warm["kiln"]), "flags": []})
        print(f"gemm {size}: {ms:.3f} ms, {work.flops / ms * 1e-6:.0f} GFLOP/s, {ratio:.2f} [{low:.2f}, {high:.2f}] of "
              f"CLBlast", file=sys.stderr)
    driver.write(arguments.out or driver.ROOT / "docs" / "results" / "opencl.json", session)
    return 0
