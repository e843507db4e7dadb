"""cuBLASLt through ctypes: a product of 16-bit or 32-bit matrices by each algorithm that its heuristics propose, on the
memory of PyTorch's tensors. Numbers are those of cublasLt.h and library_types.h (CUDA 13)."""

import ctypes
import ctypes.util
import pathlib

import torch

COMPUTE_32F, COMPUTE_32F_TF32, R_32F = 68, 77, 0
TYPES = {torch.float32: 0, torch.float16: 2, torch.bfloat16: 14}
TRANSA, TRANSB, EPILOGUE, BIAS_POINTER, BIAS_TYPE = 3, 4, 7, 8, 26
EPILOGUE_BIAS, EPILOGUE_GELU_BIAS, EPILOGUE_RELU_BIAS = 4, 36, 6
MAX_WORKSPACE = 1
WORKSPACE_BYTES = 64 << 20


class Heuristic(ctypes.Structure):
    _fields_ = [("algorithm", ctypes.c_uint64 * 8), ("workspace", ctypes.c_size_t), ("state", ctypes.c_int),
                ("waves", ctypes.c_float), ("reserved", ctypes.c_int * 4)]


class Failure(RuntimeError):
    pass


def find():
    """cuBLASLt that PyTorch carries, or the system's."""
    found = sorted(pathlib.Path(torch.__file__).resolve().parent.parent.glob("nvidia/**/libcublasLt.so.*"))
    path = str(found[-1]) if found else ctypes.util.find_library("cublasLt")
    if not path:
        raise Failure("no cuBLASLt beside PyTorch or in the library path")
    return ctypes.CDLL(path)


class Library:
    def __init__(self):
        self.library = find()
        self.handle = ctypes.c_void_p()
        self.check("cublasLtCreate", ctypes.byref(self.handle))
        self.workspace = torch.empty(WORKSPACE_BYTES, dtype=torch.uint8, device="cuda")
        self.one, self.zero = ctypes.c_float(1), ctypes.c_float(0)

    def check(self, name, *arguments):
        status = getattr(self.library, name)(*arguments)
        if status:
            raise Failure(f"{name}: cuBLAS status {status}")

    def set(self, descriptor, attribute, value):
        self.check("cublasLtMatmulDescSetAttribute", descriptor, attribute, ctypes.byref(value), ctypes.sizeof(value))

    def layout(self, dtype, rows, columns, leading):
        made = ctypes.c_void_p()
        self.check("cublasLtMatrixLayoutCreate", ctypes.byref(made), TYPES[dtype], ctypes.c_uint64(rows),
                   ctypes.c_uint64(columns), ctypes.c_int64(leading))
        return made

    def products(self, x, w, y, transpose_w, bias=None, epilogue=0, most=8):
        """Functions that compute y = x w (w transposed in memory where said: rows are columns of the product), one an
        algorithm, on the current stream. x: m by k, w: k by n or n by k, y: m by n, all row-major."""
        (m, k), n = x.shape, y.shape[1]
        descriptor = ctypes.c_void_p()
        compute = COMPUTE_32F_TF32 if x.dtype == torch.float32 and torch.backends.cuda.matmul.allow_tf32 else COMPUTE_32F
        self.check("cublasLtMatmulDescCreate", ctypes.byref(descriptor), compute, R_32F)
        # cuBLAS counts columns first: it computes yᵀ = wᵀ xᵀ.
        self.set(descriptor, TRANSA, ctypes.c_int(1 if transpose_w else 0))
        self.set(descriptor, TRANSB, ctypes.c_int(0))
        if epilogue:
            self.set(descriptor, EPILOGUE, ctypes.c_int(epilogue))
            self.set(descriptor, BIAS_POINTER, ctypes.c_void_p(bias.data_ptr()))
            self.set(descriptor, BIAS_TYPE, ctypes.c_int(TYPES[bias.dtype]))
        a = self.layout(w.dtype, k, n, k) if transpose_w else self.layout(w.dtype, n, k, n)
        b, d = self.layout(x.dtype, k, m, k), self.layout(y.dtype, n, m, n)
        preference = ctypes.c_void_p()
        self.check("cublasLtMatmulPreferenceCreate", ctypes.byref(preference))
        size = ctypes.c_size_t(WORKSPACE_BYTES)
        self.check("cublasLtMatmulPreferenceSetAttribute", preference, MAX_WORKSPACE, ctypes.byref(size), 8)
        results, count = (Heuristic * most)(), ctypes.c_int()
        self.check("cublasLtMatmulAlgoGetHeuristic", self.handle, descriptor, a, b, d, d, preference, most, results,
                   ctypes.byref(count))

        def make(result):
            algorithm = (ctypes.c_uint64 * 8)(*result.algorithm)

            def run(x, w, y, bias=None):
                if epilogue:
                    self.set(descriptor, BIAS_POINTER, ctypes.c_void_p(bias.data_ptr()))
                self.check("cublasLtMatmul", self.handle, descriptor, ctypes.byref(self.one),
                           ctypes.c_void_p(w.data_ptr()), a, ctypes.c_void_p(x.data_ptr()), b, ctypes.byref(self.zero),
                           ctypes.c_void_p(y.data_ptr()), d, ctypes.c_void_p(y.data_ptr()), d, ctypes.byref(algorithm),
                           ctypes.c_void_p(self.workspace.data_ptr()), ctypes.c_size_t(WORKSPACE_BYTES),
                           ctypes.c_void_p(torch.cuda.current_stream().cuda_stream))

            return run

        return [make(results[i]) for i in range(count.value) if results[i].state == 0]
