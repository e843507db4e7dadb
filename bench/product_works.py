"""The products that products.py times: their buffers, what is right, and cuBLASLt's ways to compute the same."""

import torch
import torch.nn.functional as F

import cublaslt
import kernel as kernels
import timing

UNIT = 2.0**-8        # bf16's unit roundoff; sums of k products are in float32


def table():
    """(m, n, k, w transposed in memory, kind)"""
    for size in (2048, 4096, 8192):
        for transposed in (True, False):
            yield size, size, size, transposed, "none"
    for size in (512, 1024):
        yield size, size, size, True, "none"
    for transposed in (True, False):
        yield 4096, 14336, 4096, transposed, "none"
    for m, n, k in (16, 4096, 4096), (64, 12288, 4096), (1000, 1000, 1000), (4000, 4008, 4016), (333, 777, 555):
        for transposed in (True, False):
            yield m, n, k, transposed, "none"
    yield 4097, 4095, 4093, True, "none"
    yield 4096, 4096, 4096, True, "bias_gelutanh"
    yield 4096, 14336, 4096, True, "gated"
    yield 4096, 4096, 4096, True, "float32"
    yield 4096, 4096, 4096, True, "tf32"


def layers():
    """The linear layers of Llama-3-8B (queries, keys and values; output; gate and up; down) for so many tokens."""
    for m in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192):
        for n, k in (6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336):
            yield m, n, k, True, "none"


def name_of(m, n, k, transposed, kind):
    return f"{m}x{n}x{k} {'NT' if transposed else 'NN'}" + ("" if kind == "none" else " " + kind)


def is_named(name, text):
    return name.startswith(text[1:]) if text[0] == "^" else text in name


def key_of(transposed, kind):
    """The generator and its parameters."""
    transpose = ("transpose_w", str(transposed).lower())
    if kind == "gated":
        return "gated_product", (transpose, ("type", "bfloat16"))
    single = kind in ("float32", "tf32")
    return "gemm", (("epilogue", "none" if single else kind), transpose, ("type", "float32" if single else "bfloat16"))


class Case:
    """One work with as many sets of buffers as are needed to get past the L2 cache."""

    def __init__(self, m, n, k, transposed, kind):
        self.name, self.kind = name_of(m, n, k, transposed, kind), kind
        self.shape, self.transposed = (m, n, k), transposed
        self.generator, params = key_of(transposed, kind)
        self.type = dict(params)["type"]
        self.dtype = getattr(torch, self.type)
        self.weights = 2 if kind == "gated" else 1
        self.flops = 2.0 * m * n * k * self.weights
        self.bound = 2.0**-9 if kind == "tf32" else 1e-5 if kind == "float32" else UNIT  # TF32 cuts both operands to 10 bits
        each = self.dtype.itemsize * (m * k + self.weights * n * k + m * n)
        count = max(2, min(8, -(-timing.L2_BYTES // each)))
        self.sets = [self.draw() for _ in range(count)]
        self.references = [self.reference(i) for i in range(count)]

    def draw(self):
        """The arguments in the order of the call."""
        m, n, k = self.shape
        random = lambda *shape: torch.randn(shape, device="cuda").to(self.dtype)  # noqa: E731
        weights = [random(n, k) if self.transposed else random(k, n) for _ in range(self.weights)]
        scale = k**-0.5 if self.kind == "gated" else 1  # so that the gate is open now and then
        bias = [random(n)] if "bias" in self.kind else []
        return [random(m, k), *(w * scale for w in weights), *bias, torch.empty((m, n), device="cuda", dtype=self.dtype)]

    def product(self, x, w):
        return x.float() @ (w.float().T if self.transposed else w.float())

    def reference(self, i):
        x, w, *rest, _ = self.sets[i]
        y = self.product(x, w)
        if self.kind == "gated":
            return F.silu(y) * self.product(x, rest[0])
        return F.gelu(y + rest[0].float(), approximate="tanh") if self.kind == "bias_gelutanh" else y

    def check(self, i, name):
        """The error in norm. A wrong result is never timed."""
        y, r = self.sets[i][-1].float(), self.references[i]
        error = ((y - r).norm() / r.norm()).item()
        if not error <= self.bound:
            raise kernels.KernelError(f"{self.name}: {name} is off by {error:.3g} in norm, allowed {self.bound:.3g}")
        return error

    def rivals(self, library):
        """Lists of functions, one a set: a list for each of cuBLASLt's algorithms, of which the fastest counts."""
        torch.backends.cuda.matmul.allow_tf32 = self.kind == "tf32"
        x, w, *rest, y = self.sets[0]
        gelu = self.kind == "bias_gelutanh"
        found = library.products(x, w, y, self.transposed, rest[0] if gelu else None, cublaslt.EPILOGUE_GELU_BIAS if gelu else 0)
        torch.backends.cuda.matmul.allow_tf32 = False
        return [[lambda stream, s=s, f=algorithm: f(s[0], s[1], s[-1], s[2]) for s in self.sets] for algorithm in found]


class GatedCase(Case):
    """silu(x wg) · (x wu) against two products by cuBLASLt and an elementwise kernel, Kiln's own at the speed of a copy."""

    def __init__(self, *work):
        super().__init__(*work)
        self.elementwise = None  # a kernels.Kernel of the generator swiglu

    def rivals(self, library):
        m, n, _ = self.shape
        gate, up = (torch.empty((m, n), device="cuda", dtype=self.dtype) for _ in range(2))
        x, wg, _, y = self.sets[0]

        def calls(algorithm, s):
            def run(stream):
                algorithm(s[0], s[1], gate)
                algorithm(s[0], s[2], up)
                self.elementwise.bind([gate, up, s[-1]], stream)()
            return run

        return [[calls(algorithm, s) for s in self.sets] for algorithm in library.products(x, wg, y, self.transposed)]


def make_case(work):
    return (GatedCase if work[4] == "gated" else Case)(*work)
