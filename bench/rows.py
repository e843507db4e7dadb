#!/usr/bin/env python3
"""Times Kiln's tile kernels for rows (softmax, norms) and for gated products on a GPU against PyTorch, eager and compiled, and
against the device's copy of the same bytes, in one process: CUDA graphs over rotating buffers, rounds interleaved in rotating order.

usage: rows.py [--schedules FOLDER] [--candidate SHAPE=FILE[,knob=value]…] … [--kiln PATH] [--out FILE]
               [--only TEXT] … [--rounds N] [--runs N] [--without-compile]

Each work runs as the folder of schedules serves it. A candidate is a schedule that the works with SHAPE in their names are timed with
too; the best is the row's, the others are in `others`. The copy moves what the kernel must read into where it writes, in the same
buffers: x to y, and where a residual is added, the residual to the sum.
"""

import argparse
import concurrent.futures
import os
import pathlib
import sys
import tempfile

import torch
import torch.nn.functional as F

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import kernel as kernels  # noqa: E402
import products  # noqa: E402
import timing  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent


def draw(*shape):
    return torch.randn(shape, device="cuda").to(torch.bfloat16)


def rows(name, count, columns, params, make, function, tensors=2):
    """A kernel over rows of `tensors` inputs and outputs. `make` gives the inputs after x; `function` the same mathematics
    from x and these, its outputs in the kernel's order."""
    each = 2 * tensors * count * columns

    def sets():
        for _ in range(max(2, min(8, -(-timing.L2_BYTES // each)))):
            x = draw(count, columns)
            yield [x, *make(x)], [torch.empty_like(x) for _ in range(2 if tensors == 4 else 1)]
    label = ("add_" if "add" in params else "") + name
    return {"name": f"{label} {count}x{columns}", "generator": name, "params": {"type": "bfloat16", **params}, "sets": sets,
            "function": function, "bytes": each, "flops": 0.0, "columns": columns}


def gated(m, n, k):
    def sets():
        for _ in range(2):
            yield [draw(m, k), draw(n, k) / 16, draw(n, k) / 16], [torch.empty((m, n), device="cuda", dtype=torch.bfloat16)]
    return {"name": f"gated_product {m}x{n}x{k} NT", "generator": "gated_product",
            "params": {"type": "bfloat16", "transpose_w": "true"}, "sets": sets,
            "function": lambda x, g, u: F.silu(x @ g.T) * (x @ u.T), "bytes": 2 * (m * k + 2 * n * k + m * n),
            "flops": 4.0 * m * n * k}


def add_rms_norm(x, g, e, r):
    h = x + r
    return F.rms_norm(h, g.shape, g, e), h


def works():
    def one(x):
        return [torch.ones_like(x[0]), 1e-5]

    for count, columns in ((8192, 4096), (16384, 8192), (4096, 131072), (65536, 1024)):
        yield rows("softmax", count, columns, {}, lambda x: [], lambda x: F.softmax(x, -1))
        yield rows("rms_norm", count, columns, {}, one, lambda x, g, e: F.rms_norm(x, g.shape, g, e))
        yield rows("rms_norm", count, columns, {"add": "true"}, lambda x: [*one(x), draw(*x.shape)], add_rms_norm, 4)
        yield rows("layer_norm", count, columns, {}, lambda x: [*one(x), torch.zeros_like(x[0])],
                   lambda x, g, e, b: F.layer_norm(x, g.shape, g, b, e))
    yield gated(4096, 14336, 4096)


def copied(inputs, outputs):
    """Pairs of an output and an input of its shape, each input once: what a copy of the same bytes moves."""
    left = [a for a in inputs if torch.is_tensor(a)]
    pairs = []
    for out in outputs:
        source = next((a for a in left if a.shape == out.shape), None)
        if source is not None:
            left = [a for a in left if a is not source]
            pairs.append((out, source))
    return pairs


class Session:
    def __init__(self, arguments):
        self.arguments = arguments
        self.folder = tempfile.TemporaryDirectory()
        self.rows = []
        self.built = {}

    def candidates(self, work):
        """{name: options of `kiln build`}"""
        target = ["--target", "cuda-sm_90a"]
        found = {"as written": [*target, "--schedule", self.arguments.schedules]}
        for text in self.arguments.candidates:
            shape, _, rest = text.partition("=")
            file, *knobs = rest.split(",")
            if work["name"].startswith(shape):
                found[" ".join([pathlib.Path(file).stem, *knobs])] = [*target, "--schedule", file,
                                                                      *(o for k in knobs for o in ("--knob", k))]
        return found

    def build(self, work, options, folder):
        key = (work["generator"], *work["params"].values(), *options)
        if key not in self.built:
            try:
                self.built[key] = kernels.Kernel(kernels.build(self.arguments.kiln, work["generator"], options, folder, work["params"]))
            except kernels.KernelError as error:
                self.built[key] = str(error)
        return self.built[key]

    def run(self, work, number):
        print(work["name"], file=sys.stderr, flush=True)
        choices = self.candidates(work)
        base = pathlib.Path(self.folder.name) / work["name"].replace(" ", "_")
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            built = list(pool.map(lambda i: self.build(work, list(choices.values())[i], base / str(i)), range(len(choices))))
        sets = list(work["sets"]())
        reference = work["function"](*[a.float() if torch.is_tensor(a) else a for a in sets[0][0]])
        reference = reference if isinstance(reference, tuple) else (reference,)
        found = {}
        for name, kernel in zip(choices, built):
            if isinstance(kernel, str):
                print(f"    {name}: {kernel}", file=sys.stderr)
                continue
            calls = [lambda stream, a=[*inputs, *out], k=kernel: k.bind(a, stream)() for inputs, out in sets]
            try:
                for out in sets[0][1]:
                    out.fill_(float("nan"))
                calls[0](torch.cuda.current_stream().cuda_stream)
                torch.cuda.synchronize()
            except kernels.KernelError as error:
                print(f"    {name}: {error}", file=sys.stderr)
                continue
            error = max(((out.float() - r).norm() / r.norm()).item() for out, r in zip(sets[0][1], reference))
            if not error <= 2.0**-8:
                print(f"    {name}: off by {error:.3g} in norm, allowed {2.0**-8:.3g}; not timed", file=sys.stderr)
                continue
            found[name] = (calls, error, kernel.choice())
        del reference
        if not found:
            return
        rivals = {"pytorch": [lambda stream, i=inputs: work["function"](*i) for inputs, _ in sets]}
        if number == 1 and not self.arguments.without_compile:
            compiled = torch.compile(work["function"], dynamic=False)
            for inputs, _ in sets:
                compiled(*inputs)
            rivals["torch.compile"] = [lambda stream, i=inputs: compiled(*i) for inputs, _ in sets]
        if copied(*sets[0]):
            rivals["copy"] = [lambda stream, pairs=copied(*each): [to.copy_(of) for to, of in pairs] for each in sets]
        graphs = {n: products.captured(c) for n, c in rivals.items()}
        graphs |= {f"kiln {n}": products.captured(c) for n, (c, _, _) in found.items()}
        times = products.measure(graphs, len(sets), self.arguments.rounds, False)
        best = min(found, key=lambda n: timing.median(times[f"kiln {n}"]))
        _, error, choice = found[best]
        mine = times[f"kiln {best}"]
        for rival in rivals:
            ratio, low, high = timing.paired_ratio(mine, times[rival])
            self.rows.append({
                "work": work["generator"], "shape": work["name"], "type": "bfloat16", "target": "cuda-sm_90a",
                "regime": "sustained", "run": number, "schedule": choice, "knobs": best, "ms": timing.median(mine) * 1e3, "baseline": rival,
                "baseline_ms": timing.median(times[rival]) * 1e3, "ratio": ratio, "ratio_low": low, "ratio_high": high,
                "bytes": work["bytes"], "flops": work["flops"], "error": error, "bound": 2.0**-8,
                "samples": self.arguments.rounds,
                "others": {n: round(timing.median(times[rival]) / timing.median(times[f"kiln {n}"]), 4) for n in found}})
            print(f"  {best:40s} {timing.median(mine) * 1e6:8.1f} us, {ratio:.3f} [{low:.3f}, {high:.3f}] of {rival}",
                  file=sys.stderr, flush=True)


def main():
    parser = products.Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, fromfile_prefix_chars="@")
    parser.add_argument("--schedules", default=str(ROOT / "schedules"))
    parser.add_argument("--candidate", action="append", default=[], dest="candidates", help="SHAPE=FILE[,knob=value]…")
    parser.add_argument("--without-compile", action="store_true", help="leave torch.compile out: it takes seconds a work")
    parser.add_argument("--kiln", default=str(ROOT / "build" / "bin" / "kiln"))
    parser.add_argument("--out", default=str(ROOT / "docs" / "results" / "rows.json"))
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--runs", type=int, default=1, help="torch.compile is in the first only")
    session = Session(parser.parse_args())
    failed = 0
    only = session.arguments.only
    for number in range(1, session.arguments.runs + 1):
        for work in works():
            if only and not any(text in work["name"] for text in only):
                continue
            try:
                session.run(work, number)
            except (kernels.KernelError, RuntimeError) as error:
                failed += 1
                print(f"  failed: {error}", file=sys.stderr)
            products.write(session.arguments.out, session)
    print(session.arguments.out)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
