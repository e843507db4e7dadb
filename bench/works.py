"""What is timed: for each work the generator and its parameters, the arguments, and the same mathematics by the rivals.

A work is made by a function of a torch device and type; `rivals` are functions without arguments that write into
memory they were given, so that page faults on fresh outputs flatter nobody."""

import math
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F


@dataclass
class Work:
    name: str
    shape: str
    generator: str
    params: dict
    arguments: list            # in the order of the kernel's call, outputs last
    output: torch.Tensor
    rivals: dict = field(default_factory=dict)
    flops: float = 0.0
    reference: object = None   # a function that returns the result in double, and Σ|terms| of it (or None)
    terms: int = 1

    @property
    def bytes(self):
        return float(sum(a.numel() * a.element_size() for a in self.arguments if torch.is_tensor(a)))


def random_tensor(shape, dtype, device):
    return torch.randn(shape, device=device, dtype=torch.float32).to(dtype)


def compiled(function):
    return torch.compile(function, dynamic=False)


def gemm(m, n, k, dtype=torch.float32, device="cpu"):
    x, w = random_tensor((m, k), dtype, device), random_tensor((k, n), dtype, device)
    y, out = torch.empty((m, n), dtype=dtype, device=device), torch.empty((m, n), dtype=dtype, device=device)

    def reference():
        a, b = x.double(), w.double()
        return a @ b, a.abs() @ b.abs()

    return Work("gemm", f"{m}x{n}x{k}", "gemm", {"type": str(dtype).removeprefix("torch.")}, [x, w, y], y,
                {"pytorch": lambda: torch.mm(x, w, out=out)}, 2.0 * m * n * k, reference, k)


def openblas(work, library):
    """sgemm of a CBLAS on the work's own tensors."""
    import ctypes
    x, w, y = work.arguments
    out = torch.empty_like(y)
    (m, k), n = x.shape, w.shape[1]
    sgemm = library.cblas_sgemm
    sgemm.argtypes = [ctypes.c_int] * 3 + [ctypes.c_int] * 3 + [ctypes.c_float, ctypes.c_void_p, ctypes.c_int,
                                                                 ctypes.c_void_p, ctypes.c_int, ctypes.c_float,
                                                                 ctypes.c_void_p, ctypes.c_int]

    def run():
        sgemm(101, 111, 111, m, n, k, 1.0, x.data_ptr(), k, w.data_ptr(), n, 0.0, out.data_ptr(), n)

    return run


def attention(length, causal, dtype=torch.float32, device="cpu", batch=1, heads=8, depth=64):
    q, k, v = (random_tensor((batch, heads, length, depth), dtype, device) for _ in range(3))
    y = torch.empty_like(q)

    def reference():
        s = q.double() @ k.double().transpose(-1, -2) / math.sqrt(depth)
        if causal:
            s = s.masked_fill(torch.ones(length, length, dtype=torch.bool, device=device).triu(1), -math.inf)
        p = s.softmax(-1)
        return p @ v.double(), p @ v.double().abs()

    flops = 4.0 * batch * heads * length * length * depth * (0.5 if causal else 1)
    return Work("attention causal" if causal else "attention", f"B{batch} H{heads} N{length} D{depth}", "attention",
                {"type": str(dtype).removeprefix("torch."), "mask": "causal" if causal else "none"}, [q, k, v, y], y,
                {"pytorch sdpa": lambda: F.scaled_dot_product_attention(q, k, v, is_causal=causal)}, flops, reference,
                64 * (length + depth))


def eager_and_compiled(function, arguments, out):
    fast = compiled(function)

    def eager():
        function(*arguments, out)

    def inductor():
        fast(*arguments, out)

    return {"pytorch eager": eager, "pytorch compiled": inductor}


def chain_relu(n, dtype=torch.float32, device="cpu"):
    x = random_tensor((n,), dtype, device)
    y, out = torch.empty_like(x), torch.empty_like(x)
    a, b = 1.5, -0.25
    rivals = eager_and_compiled(lambda x, out: out.copy_(torch.relu(x * a + b)), [x], out)
    rivals["copy"] = lambda: out.copy_(x)
    return Work("chain_relu", str(n), "chain_relu", {"type": str(dtype).removeprefix("torch.")}, [x, a, b, y], y, rivals, 0,
                lambda: (torch.relu(x.double() * a + b), x.double().abs() * a + abs(b)), 2)


def gelu_residual(rows, columns, device="cpu"):
    x, r = (random_tensor((rows, columns), torch.float32, device) for _ in range(2))
    w, b = (random_tensor((columns,), torch.float32, device) for _ in range(2))
    y, out = torch.empty_like(x), torch.empty_like(x)
    rivals = eager_and_compiled(lambda x, w, b, r, out: out.copy_(F.gelu(x * w + b) + r), [x, w, b, r], out)

    def reference():
        t = x.double() * w.double() + b.double()
        return F.gelu(t) + r.double(), (x.double() * w.double()).abs() + b.double().abs() + r.double().abs()

    return Work("gelu_residual", f"{rows}x{columns}", "gelu_residual", {"type": "float32"}, [x, w, b, r, y], y, rivals, 0,
                reference, 32)


def swiglu(rows, columns, device="cpu"):
    g, u = (random_tensor((rows, columns), torch.float32, device) for _ in range(2))
    y, out = torch.empty_like(g), torch.empty_like(g)
    rivals = eager_and_compiled(lambda g, u, out: out.copy_(F.silu(g) * u), [g, u], out)
    return Work("swiglu", f"{rows}x{columns}", "swiglu", {"type": "float32"}, [g, u, y], y, rivals, 0,
                lambda: (F.silu(g.double()) * u.double(), (g.double() * u.double()).abs()), 32)


def softmax(rows, columns, dtype=torch.float32, device="cpu"):
    x = random_tensor((rows, columns), dtype, device)
    y, out = torch.empty_like(x), torch.empty_like(x)
    rivals = eager_and_compiled(lambda x, out: torch.softmax(x, -1, out=out), [x], out)
    return Work("softmax", f"{rows}x{columns}", "softmax", {"type": str(dtype).removeprefix("torch.")}, [x, y], y, rivals, 0,
                lambda: (x.double().softmax(-1),) * 2, columns + 32)


def layer_norm(rows, columns, dtype=torch.float32, device="cpu"):
    x, gamma, beta = (random_tensor(s, dtype, device) for s in ((rows, columns), (columns,), (columns,)))
    y, out = torch.empty_like(x), torch.empty_like(x)
    rivals = eager_and_compiled(
        lambda x, gamma, beta, out: out.copy_(F.layer_norm(x, (columns,), gamma, beta, 1e-5)), [x, gamma, beta], out)

    def reference():
        r = F.layer_norm(x.double(), (columns,), gamma.double(), beta.double(), 1e-5)
        return r, (r - beta.double()).abs() + beta.double().abs() + gamma.double().abs()

    return Work("layer_norm", f"{rows}x{columns}", "layer_norm", {"type": str(dtype).removeprefix("torch.")},
                [x, gamma, 1e-5, beta, y], y, rivals, 0, reference, columns + 32)


def rms_norm(rows, columns, dtype=torch.float32, device="cpu"):
    x, gamma = (random_tensor(s, dtype, device) for s in ((rows, columns), (columns,)))
    y, out = torch.empty_like(x), torch.empty_like(x)
    rivals = eager_and_compiled(
        lambda x, gamma, out: out.copy_(x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5) * gamma), [x, gamma], out)

    def reference():
        a = x.double()
        r = a * torch.rsqrt((a * a).mean(-1, keepdim=True) + 1e-5) * gamma.double()
        return r, r.abs()

    return Work("rms_norm", f"{rows}x{columns}", "rms_norm", {"type": str(dtype).removeprefix("torch.")},
                [x, gamma, 1e-5, y], y, rivals, 0, reference, columns + 32)


UNIT = {torch.float32: 2.0**-24, torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}


def error_and_bound(work):
    """Of the element nearest to its tolerance (dsl/check/Tolerance.h): (error, bound)."""
    reference, size = work.reference()
    bound = UNIT[work.output.dtype] * reference.abs() + (work.terms + 2) * 2.0**-23 * size + 1e-37
    error = (work.output.double() - reference).abs()
    if not torch.isfinite(error).all():
        return math.inf, float(bound.max())
    worst = int((error / bound).argmax())
    return float(error.flatten()[worst]), float(bound.flatten()[worst])
