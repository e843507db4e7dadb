#!/usr/bin/env python3
"""Times Kiln's tile kernels for products against the best algorithm that cuBLASLt's heuristics propose, in one process:
CUDA graphs over rotating buffers, rounds interleaved in rotating order, back to back (sustained: the power limit
throttles) and with an idle pause before each turn (cool).

usage: products.py --schedule NAME=FILE[,knob=value…] … [--f32-schedule NAME=FILE…] … [--kiln PATH] [--out FILE]
                   [--only TEXT] [--layers] [--large] [--regimes R] [--rounds N]

FILE may be a folder of schedules: then the library holds all that it names for the target, and chooses by the call.

Every schedule that fits a work is timed; the best of them by median is the row's, and the others are in `others`.
"""

import argparse
import concurrent.futures
import datetime
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import cublaslt  # noqa: E402
import kernel as kernels  # noqa: E402
import run as driver  # noqa: E402
import timing  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
COOL_S = 0.025


def works():
    """(m, n, k, w transposed in memory, epilogue[, type]); bfloat16 where nothing is said"""
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
    yield 4096, 4096, 4096, True, "none", torch.float32


def layers():
    """The linear layers of Llama-3-8B (queries, keys and values; output; gate and up; down) for so many tokens."""
    for m in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192):
        for n, k in (6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336):
            yield m, n, k, True, "none"


def params_of(transposed, epilogue, dtype=torch.bfloat16):
    return (("epilogue", epilogue), ("transpose_w", str(transposed).lower()), ("type", str(dtype).removeprefix("torch.")))


def name_of(m, n, k, transposed, epilogue, dtype=torch.bfloat16):
    return (f"{m}x{n}x{k} {'NT' if transposed else 'NN'}" + ("" if epilogue == "none" else " " + epilogue) +
            (" float32" if dtype == torch.float32 else ""))


class Case:
    """One work with as many sets of buffers as are needed to get past the L2 cache."""

    def __init__(self, m, n, k, transposed, epilogue, dtype=torch.bfloat16):
        self.name = name_of(m, n, k, transposed, epilogue, dtype)
        self.shape, self.transposed, self.epilogue = (m, n, k), transposed, epilogue
        self.params = params_of(transposed, epilogue, dtype)
        each = 2 * (m * k + n * k + m * n)
        count = max(2, min(8, -(-(256 << 20) // each)))
        draw = lambda *shape: torch.randn(shape, device="cuda").to(dtype)  # noqa: E731
        self.sets = [(draw(m, k), draw(n, k) if transposed else draw(k, n), draw(n),
                      torch.empty((m, n), device="cuda", dtype=dtype)) for _ in range(count)]

    def reference(self, i):
        x, w, bias, _ = self.sets[i]
        y = x.float() @ (w.float().T if self.transposed else w.float())
        if self.epilogue == "bias_gelutanh":
            y = torch.nn.functional.gelu(y + bias.float(), approximate="tanh")
        return y

    def check(self, i, name):
        """A wrong result is never timed. bf16's unit roundoff is 2⁻⁸; sums of k products are in float32."""
        y, r = self.sets[i][3].float(), self.reference(i)
        error = ((y - r).norm() / r.norm()).item()
        bound = 2.0**-8
        if not error <= bound:
            raise kernels.KernelError(f"{self.name}: {name} is off by {error:.3g} in norm, allowed {bound:.3g}")
        return error, bound


def captured(functions):
    """One CUDA graph of all calls."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for f in functions:
            f(stream.cuda_stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for f in functions:
            f(stream.cuda_stream)
    return graph


def measure(graphs, per_graph, rounds, cool, shortest=0.002):
    """{name: [seconds a call]}: each graph once a round, in rotating order."""
    names, times = list(graphs), {n: [] for n in graphs}
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)

    def once(name, repeats):
        start.record()
        for _ in range(repeats):
            graphs[name].replay()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) * 1e-3 / repeats / per_graph

    repeats = {}
    for n in names:
        once(n, 3)
        repeats[n] = 1 if cool else max(1, int(shortest / (once(n, 3) * per_graph)))
    for r in range(rounds):
        for i in range(len(names)):
            n = names[(i + r) % len(names)]
            if cool:
                torch.cuda.synchronize()
                time.sleep(COOL_S)
            times[n].append(once(n, repeats[n]))
    return times


class Session:
    def __init__(self, arguments):
        self.arguments = arguments
        self.folder = tempfile.TemporaryDirectory()
        self.lt = cublaslt.Library()
        self.built, self.rows = {}, []

    def build(self, key):
        """The library of one schedule (with the loops behind it for calls that it does not fit), or why there is none."""
        (name, file, knobs), params = key
        folder = pathlib.Path(self.folder.name) / f"{name}_{'_'.join(v for _, v in params)}"
        options = ["--target", "cuda-sm_90a", "--schedule", file]
        for knob in knobs:
            options += ["--knob", knob]
        options += ["--target", "cuda", "--schedule", "default"]
        try:
            return kernels.build(self.arguments.kiln, "gemm", options, folder, dict(params))
        except (kernels.KernelError, subprocess.CalledProcessError) as error:
            return str(error)

    def prepare(self, wanted):
        """Builds what the works need, as many at a time as there are cores."""
        keys = sorted({(schedule, params_of(*work[3:])) for work in wanted for schedule in self.schedules(work[5:])})
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for key, made in zip(keys, pool.map(self.build, keys)):
                self.built[key] = made if isinstance(made, str) else kernels.Kernel(made)
                if isinstance(made, str):
                    print(f"{key[0][0]} {' '.join(v for _, v in key[1])}: {made}", file=sys.stderr)

    def schedules(self, dtype):
        return self.arguments.f32_schedules if torch.float32 in dtype else self.arguments.schedules

    def candidates(self, case):
        for schedule in self.schedules([case.sets[0][0].dtype]):
            kernel = self.built[schedule, case.params]
            if isinstance(kernel, str):
                continue
            calls = []
            for i, (x, w, bias, y) in enumerate(case.sets):
                arguments = [x, w] + ([bias] if case.epilogue != "none" else []) + [y]
                calls.append(lambda stream, a=arguments, k=kernel: k.bind(a, stream)())
            try:
                for i, call in enumerate(calls):
                    case.sets[i][3].fill_(float("nan"))
                    call(torch.cuda.current_stream().cuda_stream)
                    torch.cuda.synchronize()
                    error = case.check(i, schedule[0])
                again = case.sets[0][3].clone()
                calls[0](torch.cuda.current_stream().cuda_stream)
                torch.cuda.synchronize()
                if not torch.equal(again, case.sets[0][3]):
                    raise kernels.KernelError(f"{case.name}: {schedule[0]} gives two results for one input")
            except (kernels.KernelError, RuntimeError) as error:
                print(f"    {schedule[0]}: {error}", file=sys.stderr)
                if "CUDA error" in str(error):
                    raise
                continue
            yield schedule[0], calls, error, kernel.choice()

    def large(self, shape):
        """A product with a matrix of more than 2³¹ bytes: some rows, the last among them, against the formula."""
        m, n, k = shape
        x, w = (torch.randn(s, device="cuda", dtype=torch.bfloat16) for s in ((m, k), (n, k)))
        y = torch.full((m, n), float("nan"), device="cuda", dtype=torch.bfloat16)
        for schedule in self.arguments.schedules:
            kernel = self.built[schedule, params_of(True, "none")]
            if isinstance(kernel, str):
                raise kernels.KernelError(kernel)
            y.fill_(float("nan"))
            kernel.bind([x, w, y], torch.cuda.current_stream().cuda_stream)()
            torch.cuda.synchronize()
            rows = torch.cat([torch.randint(0, m, (62,), device="cuda"), torch.tensor([0, m - 1], device="cuda")])
            got, wanted = y[rows].float(), x[rows].float() @ w.float().T
            error = ((got - wanted).norm() / wanted.norm()).item()
            unwritten = int(torch.isnan(y.view(-1)[::4097]).sum()) + int(torch.isnan(y[-1]).sum())
            gigabytes = 2e-9 * max(m * k, n * k, m * n)
            print(f"{m}x{n}x{k} ({gigabytes:.1f} GB) {schedule[0]}: off by {error:.3g} in norm, {unwritten} not written, {kernel.choice()}",
                  file=sys.stderr, flush=True)
            self.rows.append({"work": "gemm_large", "shape": f"{m}x{n}x{k} NT", "type": "bfloat16", "target": "cuda-sm_90a",
                              "schedule": schedule[0], "choice": kernel.choice(), "error": error, "bound": 2.0**-8,
                              "not_written": unwritten})
            if not error <= 2.0**-8 or unwritten:
                raise kernels.KernelError(f"{m}x{n}x{k}: {schedule[0]} is wrong")

    def rival(self, case, rounds=5):
        """The fastest of cuBLASLt's algorithms for this work."""
        x, w, bias, y = case.sets[0]
        epilogue = cublaslt.EPILOGUE_GELU_BIAS if case.epilogue == "bias_gelutanh" else 0
        best = None
        for algorithm in self.lt.products(x, w, y, case.transposed, bias, epilogue):
            calls = [lambda stream, s=s, f=algorithm: f(s[0], s[1], s[3], s[2]) for s in case.sets]
            graph = captured(calls)
            each = statistics.median(measure({"rival": graph}, len(calls), rounds, False)["rival"])
            if best is None or each < best[0]:
                best = (each, calls)
        if best is None:
            raise kernels.KernelError(f"{case.name}: cuBLASLt proposes no algorithm")
        best[1][0](torch.cuda.current_stream().cuda_stream)
        torch.cuda.synchronize()
        case.check(0, "cuBLASLt")
        return best[1]

    def run(self, work):
        case = Case(*work)
        print(case.name, file=sys.stderr, flush=True)
        found = list(self.candidates(case))
        if not found:
            return
        rival = self.rival(case)
        graphs = {"cublaslt": captured(rival), **{name: captured(calls) for name, calls, _, _ in found}}
        m, n, k = case.shape
        for regime in self.arguments.regimes.split(","):
            rounds = self.arguments.rounds if regime == "sustained" else max(9, self.arguments.rounds // 2)
            times = measure(graphs, len(case.sets), rounds, regime == "cool")
            medians = {name: timing.median(t) for name, t in times.items()}
            name, _, (error, bound), choice = min(found, key=lambda f: medians[f[0]])
            ratio, low, high = timing.paired_ratio(times[name], times["cublaslt"])
            self.rows.append({
                "work": "gemm", "shape": case.name, "type": dict(case.params)["type"], "target": "cuda-sm_90a", "regime": regime,
                "schedule": name, "choice": choice, "ms": medians[name] * 1e3, "baseline": "cublaslt",
                "baseline_ms": medians["cublaslt"] * 1e3, "ratio": ratio, "ratio_low": low, "ratio_high": high,
                "flops": 2.0 * m * n * k, "error": error, "bound": bound, "samples": rounds,
                "others": {f[0]: medians["cublaslt"] / medians[f[0]] for f in found}})
            print(f"  {regime:9s} {name:16s} {medians[name] * 1e6:9.1f} us {2e-12 * m * n * k / medians[name]:7.1f} TFLOP/s, "
                  f"{ratio:.3f} [{low:.3f}, {high:.3f}] of cuBLASLt", file=sys.stderr, flush=True)


def schedule_of(text):
    name, _, rest = text.partition("=")
    file, *knobs = rest.split(",")
    return name, file, tuple(knobs)


def write(path, session):
    version = subprocess.run([session.arguments.kiln, "--version"], capture_output=True, text=True).stdout.strip()
    document = {
        "device": torch.cuda.get_device_name(), "driver": driver.driver(),
        "versions": {"kiln": version, "torch": torch.__version__, "cuda": torch.version.cuda},
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "command": f"bench/{pathlib.Path(sys.argv[0]).name} " + " ".join(sys.argv[1:]), "rows": session.rows}
    driver.save(path, document)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schedule", dest="schedules", action="append", type=schedule_of, required=True)
    parser.add_argument("--f32-schedule", dest="f32_schedules", action="append", type=schedule_of, default=[])
    parser.add_argument("--kiln", default=str(ROOT / "build" / "bin" / "kiln"))
    parser.add_argument("--out", default=str(ROOT / "docs" / "results" / "products.json"))
    parser.add_argument("--only", help="only works with one of these texts in their name, by commas")
    parser.add_argument("--layers", action="store_true", help="the linear layers of Llama-3-8B instead of the table's works")
    parser.add_argument("--large", action="store_true", help="check products with matrices of more than 2^31 bytes instead")
    parser.add_argument("--regimes", default="sustained,cool", help="one or both of them")
    parser.add_argument("--rounds", type=int, default=21)
    session = Session(parser.parse_args())
    failed = 0
    only = session.arguments.only
    wanted = [w for w in (layers() if session.arguments.layers else works()) if not only or any(text in name_of(*w) for text in only.split(","))]
    if session.arguments.large:
        session.prepare([(1, 1, 1, True, "none")])
        wanted = [(65536, 40000, 64), (20480, 192, 65536), (192, 40961, 32768), (50001, 50003, 33)]
    else:
        session.prepare(wanted)
    for work in wanted:
        try:
            session.large(work) if session.arguments.large else session.run(work)
        except (kernels.KernelError, cublaslt.Failure) as error:
            failed += 1
            print(f"  failed: {error}", file=sys.stderr)
        write(session.arguments.out, session)
    print(session.arguments.out)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
