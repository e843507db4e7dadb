"""A kernel of Kiln's in this process: built by `kiln build`, linked with the runtime, called through ctypes on the
memory of PyTorch's tensors."""

import ctypes
import json
import os
import pathlib
import subprocess

KILN_TYPES = {"int8": 0, "int16": 1, "int32": 2, "int64": 3, "uint8": 4, "uint16": 5, "uint32": 6, "uint64": 7,
              "float16": 8, "float32": 9, "float64": 10, "bfloat16": 11, "bool": 12}


class Type(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class Dimension(ctypes.Structure):
    _fields_ = [("min", ctypes.c_int32), ("extent", ctypes.c_int32), ("stride", ctypes.c_int32),
                ("flags", ctypes.c_uint32)]


class Buffer(ctypes.Structure):
    _fields_ = [("device", ctypes.c_uint64), ("device_interface", ctypes.c_void_p), ("host", ctypes.c_void_p),
                ("flags", ctypes.c_uint64), ("type", Type), ("dimensions", ctypes.c_int32),
                ("dim", ctypes.POINTER(Dimension)), ("padding", ctypes.c_void_p)]


class View(ctypes.Structure):
    _fields_ = [("buffer", Buffer), ("dim", Dimension * 8)]


class Call(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("device", ctypes.c_int), ("cuda_context", ctypes.c_void_p),
                ("cuda_stream", ctypes.c_void_p), ("cl_context", ctypes.c_void_p), ("cl_queue", ctypes.c_void_p),
                ("on_message", ctypes.c_void_p), ("user", ctypes.c_void_p), ("alloc", ctypes.c_void_p),
                ("free", ctypes.c_void_p)]


class KernelError(RuntimeError):
    pass


def build(kiln, generator, variants, folder, params=None, runtime=None, compiler="cc"):
    """Builds NAME.a and links it with the runtime to NAME.so in `folder`; returns that path. `variants`: the options of
    `kiln build` that name targets and schedules."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    command = [str(kiln), "build", generator, *variants, "-o", str(folder), "--quiet"]
    for name, value in (params or {}).items():
        command += ["--param", f"{name}={value}"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise KernelError(done.stderr.strip() or done.stdout.strip())
    runtime = runtime or pathlib.Path(kiln).resolve().parent.parent / "lib" / "libkiln_runtime.a"
    shared = folder / f"{generator}.so"
    subprocess.run([compiler, "-shared", "-o", str(shared), "-Wl,-Bsymbolic", "-Wl,--whole-archive",
                    str(folder / f"{generator}.a"), str(runtime), "-Wl,--no-whole-archive", "-ldl", "-lpthread", "-lm"],
                   check=True)
    return shared


class Kernel:
    """One NAME.so; its arguments by the names that NAME.json gives."""

    def __init__(self, shared, threads=0):
        shared = pathlib.Path(shared)
        self.name = shared.stem
        self.library = ctypes.CDLL(str(shared), mode=os.RTLD_LOCAL)
        self.argv = getattr(self.library, self.name + "_argv")
        self.library.kiln_last_message.restype = ctypes.c_char_p
        self.library.kiln_last_choice.restype = ctypes.c_char_p
        if threads:
            self.library.halide_set_num_threads(threads)
        self.contract = json.loads(shared.with_suffix(".json").read_text())

    def bind(self, arguments, stream=None):
        """Returns a function that calls the kernel. `arguments` in the order of the call: tensors (dense or strided, on
        the CPU or a CUDA device) and Python numbers for scalars of type float32. Tensors keep their memory."""
        call = Call(size=ctypes.sizeof(Call))
        if stream:
            call.cuda_stream = stream
        holders, pointers = self.passed(arguments)
        array = (ctypes.c_void_p * len(pointers))(*pointers)
        argv, message = self.argv, self.message
        address = ctypes.byref(call)

        def run(_keep=(holders, call)):
            if argv(address, array):
                raise KernelError(message())

        return run

    def call_on_host(self, arguments):
        """One call with all tensors on the CPU, whatever the kernel's target: results come back to them."""
        holders, pointers = self.passed(arguments)
        if self.argv(None, (ctypes.c_void_p * len(pointers))(*pointers)):
            raise KernelError(self.message())
        for view in (h for h in holders if isinstance(h, View)):
            if self.library.halide_copy_to_host(None, ctypes.byref(view.buffer)):
                raise KernelError(self.message())
            self.library.kiln_view_release(None, ctypes.byref(view))

    def passed(self, arguments):
        """What must live as long as a call, and the pointers that it gets."""
        holders, pointers = [], []
        for argument in arguments:
            if isinstance(argument, (int, float)):
                value = ctypes.c_float(argument)
                holders.append(value)
                pointers.append(ctypes.cast(ctypes.pointer(value), ctypes.c_void_p))
                continue
            view = View()
            rank = argument.dim()
            # The last dimension of a tensor is the innermost, dimension 0 of Halide.
            extents = (ctypes.c_int64 * rank)(*reversed(argument.shape))
            strides = (ctypes.c_int64 * rank)(*reversed(argument.stride()))
            make = self.library.kiln_view_cuda if argument.is_cuda else self.library.kiln_view_host
            status = make(ctypes.byref(view), KILN_TYPES[str(argument.dtype).removeprefix("torch.")],
                          ctypes.c_void_p(argument.data_ptr()), rank, extents, strides)
            if status:
                raise KernelError(self.message())
            holders += [view, argument]
            pointers.append(ctypes.cast(ctypes.byref(view.buffer), ctypes.c_void_p))
        return holders, pointers

    def message(self):
        return self.library.kiln_last_message().decode()

    def choice(self):
        return self.library.kiln_last_choice().decode()
