#!/usr/bin/env python3
"""Times Kiln's products on a GPU against the fastest of cuBLASLt's algorithms for each shape, in one process: CUDA graphs
over rotating buffers, rounds interleaved in rotating order, back to back (sustained: the power limit throttles) and with an
idle pause before each turn (cool). A gated product runs against two of cuBLASLt's and an elementwise kernel.

usage: products.py [@FILE] --schedule NAME=FILE[,knob=value…][@TEXT[|TEXT…]] … [--kiln PATH] [--schedules FOLDER] [--out FILE]
                   [--only TEXT[,TEXT…]] [--layers] [--large] [--regimes R[,R]] [--rounds N] [--runs N]

@FILE holds more arguments, one a line (h200_products.txt, h200_layers.txt). FILE may be a folder of schedules: then the library holds all that it names for the target, and chooses by the call. Behind
@ stand texts, of which a work's name must have one (`^64x`: begin with it); works that are not in 16-bit floats, and gated ones, take only
schedules that name them (`@float32`).

Every schedule that fits a work is timed; the best of them by median is the row's, and the others are in `others`. With
--runs all is measured so many times anew, with new buffers and data.
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
import product_works as works  # noqa: E402
import run as driver  # noqa: E402
import timing  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
COOL_S = 0.025


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


class Schedule:
    def __init__(self, text):
        self.name, _, rest = text.partition("=")
        rest, _, names = rest.partition("@")
        self.file, *self.knobs = rest.split(",")
        self.names = names.split("|") if names else []

    def fits(self, name):
        kinds = [kind for kind in ("float32", "tf32", "gated") if name.endswith(kind)]
        named = [text for text in self.names if works.is_named(name, text)]
        return bool(named) and all(any(kind in text for text in named) for kind in kinds) if self.names or kinds else True


class Session:
    def __init__(self, arguments):
        self.arguments = arguments
        self.folder = tempfile.TemporaryDirectory()
        self.lt = cublaslt.Library()
        self.built, self.rows = {}, []
        self.elementwise = None
        self.fastest = {}  # cuBLASLt's algorithm for a work, by name

    def build(self, key):
        """The library of one schedule (with the loops behind it for calls that it does not fit), or why there is none."""
        schedule, generator, params = key
        folder = pathlib.Path(self.folder.name) / "_".join([schedule.name, generator, *(v for _, v in params)])
        options = ["--target", "cuda-sm_90a", "--schedule", schedule.file]
        for knob in schedule.knobs:
            options += ["--knob", knob]
        if not pathlib.Path(schedule.file).is_dir():
            options += ["--target", "cuda", "--schedule", "default"]
        try:
            return kernels.build(self.arguments.kiln, generator, options, folder, dict(params))
        except (kernels.KernelError, subprocess.CalledProcessError) as error:
            return str(error)

    def prepare(self, wanted):
        """Builds what the works need, as many at a time as there are cores."""
        keys = list(dict.fromkeys((s, *works.key_of(*work[3:])) for work in wanted for s in self.schedules(works.name_of(*work))))
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            pair = None
            if any(work[4] == "gated" for work in wanted):
                pair = pool.submit(kernels.build, self.arguments.kiln, "swiglu",
                                   ["--target", "cuda", "--schedule", self.arguments.schedule_folder],
                                   pathlib.Path(self.folder.name) / "swiglu", {"type": "bfloat16"})
            for key, made in zip(keys, pool.map(self.build, keys)):
                self.built[key] = made if isinstance(made, str) else kernels.Kernel(made)
                if isinstance(made, str):
                    print(f"{key[0].name} {' '.join(v for _, v in key[2])}: {made}", file=sys.stderr)
            self.elementwise = pair and kernels.Kernel(pair.result())

    def schedules(self, name):
        return [s for s in self.arguments.schedules if s.fits(name)]

    def candidates(self, case, params):
        for schedule in self.schedules(case.name):
            kernel = self.built[schedule, case.generator, params]
            if isinstance(kernel, str):
                continue
            calls = [lambda stream, a=a, k=kernel: k.bind(a, stream)() for a in case.sets]
            try:
                for i, call in enumerate(calls):
                    case.sets[i][-1].fill_(float("nan"))
                    call(torch.cuda.current_stream().cuda_stream)
                    torch.cuda.synchronize()
                    error = case.check(i, schedule.name)
                again = case.sets[0][-1].clone()
                calls[0](torch.cuda.current_stream().cuda_stream)
                torch.cuda.synchronize()
                if not torch.equal(again, case.sets[0][-1]):
                    raise kernels.KernelError(f"{case.name}: {schedule.name} gives two results for one input")
            except (kernels.KernelError, RuntimeError) as error:
                print(f"    {schedule.name}: {error}", file=sys.stderr)
                if "CUDA error" in str(error):
                    raise
                continue
            yield schedule.name, calls, error, kernel.choice()

    def large(self, shape):
        """A product with a matrix of more than 2³¹ bytes: some rows, the last among them, against the formula."""
        m, n, k = shape
        x, w = (torch.randn(s, device="cuda", dtype=torch.bfloat16) for s in ((m, k), (n, k)))
        y = torch.full((m, n), float("nan"), device="cuda", dtype=torch.bfloat16)
        for schedule in self.arguments.schedules:
            kernel = self.built[schedule, *works.key_of(True, "none")]
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
            print(f"{m}x{n}x{k} ({gigabytes:.1f} GB) {schedule.name}: off by {error:.3g} in norm, {unwritten} not written, "
                  f"{kernel.choice()}", file=sys.stderr, flush=True)
            self.rows.append({"work": "gemm_large", "shape": f"{m}x{n}x{k} NT", "type": "bfloat16", "target": "cuda-sm_90a",
                              "schedule": schedule.name, "choice": kernel.choice(), "error": error, "bound": works.UNIT,
                              "not_written": unwritten})
            if not error <= works.UNIT or unwritten:
                raise kernels.KernelError(f"{m}x{n}x{k}: {schedule.name} is wrong")

    def rival(self, case, rounds=5):
        """The fastest of cuBLASLt's algorithms for this work, found in the first run."""
        if case.kind == "gated":
            case.elementwise = self.elementwise
        found = case.rivals(self.lt)
        if not found:
            raise kernels.KernelError(f"{case.name}: cuBLASLt proposes no algorithm")
        if case.name not in self.fastest:
            each = [statistics.median(measure({"rival": captured(calls)}, len(calls), rounds, False)["rival"]) for calls in found]
            self.fastest[case.name] = each.index(min(each))
        calls = found[self.fastest[case.name]]
        calls[0](torch.cuda.current_stream().cuda_stream)
        torch.cuda.synchronize()
        case.check(0, "cuBLASLt")
        return calls

    def run(self, work, number):
        case = works.make_case(work)
        print(case.name, file=sys.stderr, flush=True)
        found = list(self.candidates(case, works.key_of(*work[3:])[1]))
        if not found:
            return
        rival = self.rival(case)
        graphs = {"cublaslt": captured(rival), **{name: captured(calls) for name, calls, _, _ in found}}
        for regime in self.arguments.regimes.split(","):
            rounds = self.arguments.rounds if regime == "sustained" else max(9, self.arguments.rounds // 2)
            times = measure(graphs, len(case.sets), rounds, regime == "cool")
            medians = {name: timing.median(t) for name, t in times.items()}
            name, _, error, choice = min(found, key=lambda f: medians[f[0]])
            ratio, low, high = timing.paired_ratio(times[name], times["cublaslt"])
            self.rows.append({
                "work": case.generator, "shape": case.name, "type": "tf32" if case.kind == "tf32" else case.type, "target": "cuda-sm_90a", "regime": regime,
                "run": number, "schedule": name, "choice": choice, "ms": medians[name] * 1e3, "baseline": "cublaslt",
                "baseline_ms": medians["cublaslt"] * 1e3, "ratio": ratio, "ratio_low": low, "ratio_high": high,
                "flops": case.flops, "error": error, "bound": case.bound, "samples": rounds,
                "others": {f[0]: round(medians["cublaslt"] / medians[f[0]], 4) for f in found}})
            print(f"  {regime:9s} {name:16s} {medians[name] * 1e6:9.1f} us {1e-12 * case.flops / medians[name]:7.1f} TFLOP/s, "
                  f"{ratio:.3f} [{low:.3f}, {high:.3f}] of cuBLASLt", file=sys.stderr, flush=True)

    def all_runs(self, wanted):
        """How many works failed."""
        failed = 0
        for number in range(1, self.arguments.runs + 1):
            for work in wanted:
                try:
                    self.large(work) if self.arguments.large else self.run(work, number)
                except (kernels.KernelError, cublaslt.Failure) as error:
                    failed += 1
                    print(f"  failed: {error}", file=sys.stderr)
                write(self.arguments.out, self)
        return failed


def write(path, session):
    version = subprocess.run([session.arguments.kiln, "--version"], capture_output=True, text=True).stdout.strip()
    document = {
        "device": torch.cuda.get_device_name(), "driver": driver.driver(),
        "versions": {"kiln": version, "torch": torch.__version__, "cuda": torch.version.cuda},
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "command": f"bench/{pathlib.Path(sys.argv[0]).name} " + " ".join(sys.argv[1:]), "rows": session.rows}
    driver.save(path, document)


class Parser(argparse.ArgumentParser):
    def convert_arg_line_to_args(self, line):
        return [line.strip()] if line.strip() and not line.startswith("#") else []


def main():
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, fromfile_prefix_chars="@")
    parser.add_argument("--schedule", dest="schedules", action="append", type=Schedule, required=True)
    parser.add_argument("--kiln", default=str(ROOT / "build" / "bin" / "kiln"))
    parser.add_argument("--schedules", dest="schedule_folder", default=str(ROOT / "schedules"), help="of the elementwise kernel")
    parser.add_argument("--out", default=str(ROOT / "docs" / "results" / "products.json"))
    parser.add_argument("--only", help="only works with one of these texts in their name, by commas")
    parser.add_argument("--layers", action="store_true", help="the linear layers of Llama-3-8B instead of the table's works")
    parser.add_argument("--large", action="store_true", help="check products with matrices of more than 2^31 bytes instead")
    parser.add_argument("--regimes", default="sustained,cool", help="one or both of them")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--runs", type=int, default=1)
    session = Session(parser.parse_args())
    only = session.arguments.only
    wanted = [w for w in (works.layers() if session.arguments.layers else works.table())
              if not only or any(works.is_named(works.name_of(*w), text) for text in only.split(","))]
    if session.arguments.large:
        session.prepare([(1, 1, 1, True, "none")])
        wanted = [(65536, 40000, 64), (20480, 192, 65536), (192, 40961, 32768), (50001, 50003, 33)]
    else:
        session.prepare(wanted)
    failed = session.all_runs(wanted)
    print(session.arguments.out)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
