#!/usr/bin/env python3
"""Proves tile kernels on a GPU: right, the same bits at every launch, on two streams at once, out of a captured graph and
with one warp slowed; then once each under compute-sanitizer.

usage: proof.py [--kiln PATH] [--schedules FOLDER] [--out FILE] [--only TEXT] [--launches N] [--no-sanitizer]
       proof.py --child LIBRARY CASE     one call on host memory, for compute-sanitizer: no PyTorch in the process

A row of the results: {"work", "shape", "choice", "right", "repeat", "streams", "graph", "slow", "memcheck", "synccheck"};
each is "ok", or what went wrong, or why it was not run.
"""

import argparse
import concurrent.futures
import datetime
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import kernel as kernels  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
SIZES = {"bfloat16": 2, "float16": 2, "float32": 4, "int8": 1, "int32": 4}
SLOWED = (0, 5, 8)  # a warp of the first consumer, of the second, and the one that issues copies
SANITIZED_AT_ONCE = 4


class Plain:
    """What kernel.py asks of a tensor, over bytes of this process."""

    def __init__(self, dtype, shape, data=None):
        import ctypes
        self.dtype, self.shape, self.is_cuda = dtype, tuple(shape), False
        count = SIZES[dtype]
        for extent in shape:
            count *= extent
        self.memory = (ctypes.c_char * max(count, 1))()
        if data is not None:
            ctypes.memmove(self.memory, data, count)
        self.count = count

    def dim(self):
        return len(self.shape)

    def stride(self):
        strides, below = [], 1
        for extent in reversed(self.shape):
            strides.insert(0, below)
            below *= extent
        return tuple(strides)

    def data_ptr(self):
        import ctypes
        return ctypes.addressof(self.memory)

    def bytes(self):
        return bytes(self.memory)[:self.count]


def child(library, case):
    """Exit status 0: the call gave the expected bytes; 3: others."""
    folder = pathlib.Path(case).parent
    described = json.loads(pathlib.Path(case).read_text())
    arguments, wanted = [], []
    for a in described:
        if not isinstance(a, dict):
            arguments.append(a)
        elif a["output"]:
            arguments.append(Plain(a["dtype"], a["shape"]))
            wanted.append((arguments[-1], (folder / a["file"]).read_bytes()))
        else:
            arguments.append(Plain(a["dtype"], a["shape"], (folder / a["file"]).read_bytes()))
    kernels.Kernel(library).call_on_host(arguments)
    return 3 if any(tensor.bytes() != data for tensor, data in wanted) else 0


class Work:
    """A generator with a schedule. `make(torch, *shape)` gives inputs, outputs, and what they must be, or None."""

    def __init__(self, name, generator, params, schedule, knobs, shapes, make):
        self.name, self.generator, self.params, self.schedule = name, generator, params, schedule
        self.knobs, self.shapes, self.make = knobs, shapes, make


def integers(torch, *shape, dtype):
    return torch.randint(-2, 3, shape, device="cuda").to(dtype)


def product(dtype_name, transposed, epilogue=""):
    def make(torch, m, n, k):
        dtype = getattr(torch, dtype_name)
        x, w = integers(torch, m, k, dtype=dtype), integers(torch, *((n, k) if transposed else (k, n)), dtype=dtype)
        r = x.double() @ (w.double().T if transposed else w.double())
        inputs = [x, w]
        if "bias" in epilogue:
            inputs.append(integers(torch, n, dtype=dtype))
            r = r + inputs[-1].double()
        if "relu" in epilogue:
            r = r.relu()
        if "residual" in epilogue:
            inputs.append(integers(torch, m, n, dtype=dtype))
            r = r + inputs[-1].double()
        return inputs, [torch.empty(m, n, device="cuda", dtype=dtype)], [r.float().to(dtype)]

    return make


def gated(torch, m, n, k):
    draw = lambda *shape: torch.randn(shape, device="cuda").to(torch.bfloat16)  # noqa: E731
    return [draw(m, k), draw(n, k), draw(n, k)], [torch.empty(m, n, device="cuda", dtype=torch.bfloat16)], None


def rows(*extra):
    def make(torch, count, columns):
        draw = lambda *shape: torch.randn(shape, device="cuda").to(torch.bfloat16)  # noqa: E731
        inputs = [draw(count, columns)] + [draw(columns) if e == "column" else e for e in extra]
        return inputs, [torch.empty(count, columns, device="cuda", dtype=torch.bfloat16)], None

    return make


def works():
    half = {"type": "bfloat16"}
    nt, nn = {**half, "transpose_w": "true"}, {**half, "transpose_w": "false"}
    square, ragged = (512, 384, 320), (136, 200, 72)
    for file in ("cuda_sm_90a", "cuda_sm_90a_wide", "cuda_sm_90a_small"):
        yield Work(f"gemm NT {file}", "gemm", nt, f"gemm/{file}.sched", {}, [square, ragged, (1024, 1024, 1024)],
                   product("bfloat16", True))
        yield Work(f"gemm NN {file}", "gemm", nn, f"gemm/{file}.sched", {}, [square, ragged], product("bfloat16", False))
    for depth in (3, 4, 6):
        yield Work(f"gemm stages {depth}", "gemm", nt, "gemm/cuda_sm_90a.sched", {"depth": depth}, [(1024, 1024, 1024)],
                   product("bfloat16", True))
    yield Work("gemm float16", "gemm", {**nt, "type": "float16"}, "gemm/cuda_sm_90a.sched", {}, [square], product("float16", True))
    yield Work("gemm bias relu residual", "gemm", {**nt, "epilogue": "bias_relu_residual"}, "gemm/cuda_sm_90a.sched", {},
               [square, ragged], product("bfloat16", True, "bias_relu_residual"))
    yield Work("gemm skinny", "gemm", nt, "gemm/cuda_sm_90a_skinny.sched", {}, [(16, 512, 1024), (1, 264, 136)],
               product("bfloat16", True))
    yield Work("gemm split", "gemm", nt, "gemm/cuda_sm_90a_split.sched", {}, [(64, 512, 4096), (3, 264, 2056)],
               product("bfloat16", True))
    yield Work("gemm float32", "gemm", {**nt, "type": "float32"}, "gemm/cuda_sm_90a_f32.sched", {}, [square, ragged],
               product("float32", True))
    yield Work("gemm tf32", "gemm", {**nt, "type": "float32"}, "gemm/cuda_sm_90a_tf32.sched", {}, [square, ragged],
               product("float32", True))
    yield Work("gated_product", "gated_product", nt, "gated_product/cuda_sm_90a.sched", {}, [square, ragged], gated)
    yield Work("softmax", "softmax", half, "softmax/cuda_sm_90a.sched", {}, [(300, 4096)], rows())
    yield Work("rms_norm", "rms_norm", half, "rms_norm/cuda_sm_90a.sched", {}, [(300, 4096)], rows("column", 1e-5))
    yield Work("layer_norm", "layer_norm", half, "layer_norm/cuda_sm_90a.sched", {}, [(300, 4096)],
               rows("column", 1e-5, "column"))


def same(torch, a, b):
    whole = {1: torch.int8, 2: torch.int16, 4: torch.int32}
    return all(torch.equal(x.view(whole[x.element_size()]), y.view(whole[y.element_size()])) for x, y in zip(a, b))


class Session:
    def __init__(self, arguments):
        self.arguments, self.rows = arguments, []
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="kiln-proof-"))
        self.sanitizer = None if arguments.no_sanitizer else find_sanitizer()

    def build(self, work, warp=None):
        """The library, or why there is none. With `warp` that one sleeps now and then."""
        file = pathlib.Path(self.arguments.schedules) / work.schedule
        name = re.sub(r"\W+", "_", work.name) + ("" if warp is None else f"_slow{warp}")
        folder = self.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        if not file.exists():
            return f"no {file}"
        if warp is not None:
            text = file.read_text().replace(".tile_kernel()", f".tile_kernel().slow_warp({warp})")
            file = folder / file.name
            file.write_text(text)
        options = ["--target", "cuda-sm_90a", "--schedule", str(file)]
        for knob, value in work.knobs.items():
            options += ["--knob", f"{knob}={value}"]
        options += ["--target", "cuda", "--schedule", "default"]
        try:
            return kernels.build(self.arguments.kiln, work.generator, options, folder, work.params)
        except (kernels.KernelError, subprocess.CalledProcessError) as error:
            return str(error)

    def prepare(self, wanted):
        keys = [(w, warp) for w in wanted for warp in (None,) + SLOWED]
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            made = list(pool.map(lambda key: self.build(*key), keys))
        return {(w.name, warp): m for (w, warp), m in zip(keys, made)}

    def prove(self, work, shape, libraries):
        import torch
        row = {"work": work.name, "shape": "x".join(map(str, shape))}
        library = libraries[work.name, None]
        if isinstance(library, str):
            row["right"] = library
            return row, None
        kernel = kernels.Kernel(library)
        inputs, outputs, wanted = work.make(torch, *shape)

        def launch(outs, stream=None, of=kernel):
            of.bind(inputs + outs, (stream or torch.cuda.current_stream()).cuda_stream)()

        def fresh():
            return [torch.full_like(o, 77) for o in outputs]

        first = fresh()
        launch(first)
        torch.cuda.synchronize()
        row["choice"] = kernel.choice()
        row["right"] = ("not compared" if wanted is None else "ok" if same(torch, first, wanted) else
                        f"{sum(int((a != b).sum()) for a, b in zip(first, wanted))} elements are wrong")
        again, bad = fresh(), 0
        for _ in range(self.arguments.launches):
            for o in again:
                o.fill_(55)
            launch(again)
            bad += not same(torch, again, first)
        row["repeat"] = "ok" if bad == 0 else f"{bad} of {self.arguments.launches} launches differ"
        streams = [torch.cuda.Stream(), torch.cuda.Stream()]
        outs = [[fresh() for _ in range(20)] for _ in streams]
        torch.cuda.synchronize()
        for i in range(20):
            for stream, mine in zip(streams, outs):
                with torch.cuda.stream(stream):
                    launch(mine[i], stream)
        torch.cuda.synchronize()
        bad = sum(not same(torch, o, first) for mine in outs for o in mine)
        row["streams"] = "ok" if bad == 0 else f"{bad} of 40 launches differ"
        graphed = [fresh() for _ in range(3)]
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=streams[0]):
            for o in graphed:
                launch(o, streams[0])
        bad = 0
        for _ in range(10):
            for o in graphed:
                for t in o:
                    t.fill_(33)
            graph.replay()
            launch(again)  # beside the graph
            torch.cuda.synchronize()
            bad += sum(not same(torch, o, first) for o in graphed + [again])
        row["graph"] = "ok" if bad == 0 else f"{bad} of 40 results differ"
        slow = []
        for warp in SLOWED:
            made = libraries[work.name, warp]
            if isinstance(made, str):
                slow.append(f"warp {warp}: {made}")
                continue
            other, outs = kernels.Kernel(made), fresh()
            launch(outs, of=other)
            torch.cuda.synchronize()
            if not same(torch, outs, first):
                slow.append(f"warp {warp}: another result")
        row["slow"] = "; ".join(slow) or "ok"
        return row, self.case(work, shape, inputs, first)

    def case(self, work, shape, inputs, outputs):
        """Files for --child."""
        folder = self.folder / (re.sub(r"\W+", "_", work.name) + "_" + "x".join(map(str, shape)))
        folder.mkdir(exist_ok=True)
        described = []
        for i, (t, output) in enumerate([(t, False) for t in inputs] + [(t, True) for t in outputs]):
            if isinstance(t, float):
                described.append(t)
                continue
            import torch
            data = t.contiguous().view(torch.uint8).cpu().flatten()
            (folder / f"{i}.bin").write_bytes(data.numpy().tobytes())
            described.append({"dtype": str(t.dtype).removeprefix("torch."), "shape": list(t.shape), "file": f"{i}.bin",
                              "output": output})
        path = folder / "case.json"
        path.write_text(json.dumps(described))
        return path

    def sanitize(self, library, case, tool):
        if not self.sanitizer:
            return "not run: no compute-sanitizer"
        command = [self.sanitizer, "--tool", tool, "--target-processes", "all", "--error-exitcode", "9", sys.executable,
                   str(pathlib.Path(__file__).resolve()), "--child", str(library), str(case)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        except subprocess.TimeoutExpired:
            return "took more than 120 s"
        text = done.stdout + done.stderr
        if done.returncode == 0 and "ERROR SUMMARY: 0 errors" in text:
            return "ok"
        if done.returncode == 0:
            return "no summary: " + " ".join(text.split())[-200:]
        lines = [line for line in text.splitlines() if line.strip(" =")]
        return f"status {done.returncode}: " + " | ".join(lines[:6])[:600]


def find_sanitizer():
    found = shutil.which("compute-sanitizer")
    for base in sorted(pathlib.Path("/usr/local").glob("cuda*/bin/compute-sanitizer")):
        found = found or str(base)
    for base in sorted(pathlib.Path("/usr/local").glob("cuda*/compute-sanitizer/compute-sanitizer")):
        found = found or str(base)
    return found


def main():
    if len(sys.argv) == 4 and sys.argv[1] == "--child":
        return child(sys.argv[2], sys.argv[3])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kiln", default=str(ROOT / "build" / "bin" / "kiln"))
    parser.add_argument("--schedules", default=str(ROOT / "schedules"))
    parser.add_argument("--out", default=str(ROOT / "docs" / "results" / "proof.json"))
    parser.add_argument("--only", default="")
    parser.add_argument("--launches", type=int, default=300)
    parser.add_argument("--no-sanitizer", action="store_true")
    session = Session(parser.parse_args())
    wanted = [w for w in works() if session.arguments.only in w.name]
    libraries = session.prepare(wanted)
    cases = []
    try:
        import torch

        import run as driver
        for work in wanted:
            for i, shape in enumerate(work.shapes):
                try:
                    row, case = session.prove(work, shape, libraries)
                except (kernels.KernelError, RuntimeError) as error:
                    row, case = {"work": work.name, "shape": "x".join(map(str, shape)), "right": str(error)[:600]}, None
                    if "CUDA error" in str(error):
                        session.rows.append(row)
                        raise
                session.rows.append(row)
                print(row, flush=True)
                if case and i < 2:
                    cases.append((row, libraries[work.name, None], case))
        jobs = [(row, library, case, tool) for row, library, case in cases for tool in ("memcheck", "synccheck")]
        with concurrent.futures.ThreadPoolExecutor(SANITIZED_AT_ONCE) as pool:
            for (row, _, _, tool), said in zip(jobs, pool.map(lambda j: session.sanitize(*j[1:]), jobs)):
                row[tool] = said
                print(row["work"], row["shape"], tool, said, flush=True)
    finally:
        version = subprocess.run([session.arguments.kiln, "--version"], capture_output=True, text=True).stdout.strip()
        document = {"device": torch.cuda.get_device_name(), "driver": driver.driver(),
                    "versions": {"kiln": version, "torch": torch.__version__, "cuda": torch.version.cuda},
                    "sanitizer": session.sanitizer,
                    "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
                    "command": "bench/proof.py " + " ".join(sys.argv[1:]), "rows": session.rows}
        pathlib.Path(session.arguments.out).write_text(json.dumps(document, indent=1) + "\n")
        shutil.rmtree(session.folder, ignore_errors=True)
    faults = [r for r in session.rows for key in ("right", "repeat", "streams", "graph", "slow", "memcheck", "synccheck")
              if key in r and r[key] not in ("ok", "not compared") and not r[key].startswith("not run")]
    print(f"{len(session.rows)} cases, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
