#!/usr/bin/env python3
"""Times Kiln's kernels against the libraries that people use today, in one process and in turn, and writes
docs/results/*.json.

usage: run.py cpu|cuda|opencl [--kiln PATH] [--out FILE] [--only TEXT] [--seconds S] [--threads N,N] [--target T]
              [--schedules FOLDER]

CPU rivals: OpenBLAS (CBLAS through ctypes), PyTorch eager, compiled and its attention (with oneDNN), a plain copy. CUDA:
PyTorch (cuBLASLt, its fused attention, torch.compile) and the device's copy. OpenCL: CLBlast. Rivals' thread pools are
set to wait passively before anything is loaded. A kernel that is not within its tolerance is not timed.
"""

import argparse
import ctypes
import ctypes.util
import datetime
import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile

# Before any library starts its threads: waiting threads sleep at once, so that they take nothing from whoever runs.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("GOMP_SPINCOUNT", "0")
os.environ.setdefault("KMP_BLOCKTIME", "0")

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import openblas_core  # noqa: E402

if openblas_core.core():
    os.environ.setdefault("OPENBLAS_CORETYPE", openblas_core.core())

import torch  # noqa: E402

import kernel as kernels  # noqa: E402
import timing  # noqa: E402
import works  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent


def cpu_works():
    for size in (64, 128, 256, 512, 1000, 1024, 2048):
        yield lambda s=size: works.gemm(s, s, s)
    yield lambda: works.gemm(333, 777, 555)
    yield lambda: works.gemm(16, 4096, 4096)
    if "avx512_bf16" in open("/proc/cpuinfo").read():
        yield lambda: works.gemm(1024, 1024, 1024, torch.bfloat16)
        yield lambda: works.gemm(2048, 2048, 2048, torch.bfloat16)
    for length in (512, 1024, 2048):
        for causal in (False, True):
            yield lambda n=length, c=causal: works.attention(n, c)
    yield lambda: works.chain_relu(1 << 24)
    yield lambda: works.gelu_residual(4096, 4096)
    yield lambda: works.swiglu(4096, 4096)
    yield lambda: works.softmax(4096, 4096)
    yield lambda: works.layer_norm(4096, 4096)
    yield lambda: works.rms_norm(4096, 4096)


def cuda_works():
    for dtype in (torch.float32, torch.bfloat16):
        for bits in (24, 28):
            yield lambda b=bits, t=dtype: works.chain_relu(1 << b, t, "cuda")
    yield lambda: works.softmax(8192, 4096, torch.bfloat16, "cuda")
    yield lambda: works.layer_norm(8192, 4096, torch.bfloat16, "cuda")
    yield lambda: works.rms_norm(8192, 4096, torch.bfloat16, "cuda")
    yield lambda: works.gemm(4096, 4096, 4096, torch.bfloat16, "cuda")
    for causal in (False, True):
        yield lambda c=causal: works.attention(4096, c, torch.bfloat16, "cuda", 4, 16, 128)


def ceilings(kiln, backend):
    """What `kiln device` knows of the device: {"copy": bytes/s, "float32": flop/s …}; empty where it is not
    calibrated."""
    done = subprocess.run([kiln, "device", "--json", "--quiet"], capture_output=True, text=True)
    try:
        text = json.loads(done.stdout)
    except ValueError:
        return {}
    for device in text.get("devices", text if isinstance(text, list) else []):
        if device.get("id", "").startswith(backend) and "ceilings" in device:
            c = device["ceilings"]
            return dict(c["flops"], copy=c["copy_bytes_per_s"])
    return {}


def find_openblas():
    for name in ("openblas", "openblasp"):
        path = ctypes.util.find_library(name)
        if path:
            library = ctypes.CDLL(path)
            library.openblas_get_config.restype = library.openblas_get_corename.restype = ctypes.c_char_p
            return library
    return None


class Session:
    def __init__(self, arguments):
        self.arguments = arguments
        self.backend = arguments.backend
        self.device = "cuda" if self.backend == "cuda" else "cpu"
        self.folder = tempfile.TemporaryDirectory()
        self.built = {}
        self.openblas = find_openblas() if self.backend == "cpu" else None
        self.ceilings = ceilings(arguments.kiln, self.backend)
        self.rows = []
        if self.device == "cuda":
            torch.cuda.init()
            self.scratch = torch.empty(512 << 20, dtype=torch.uint8, device="cuda")
        else:
            self.scratch = torch.empty(256 << 20, dtype=torch.uint8)

    def wait(self):
        if self.device == "cuda":
            torch.cuda.synchronize()

    def flush(self):
        self.scratch.add_(1)

    def kernel(self, work, threads):
        key = (work.generator, tuple(sorted(work.params.items())), threads)
        if key not in self.built:
            folder = pathlib.Path(self.folder.name) / str(len(self.built))
            variants = ["--target", self.arguments.target, "--schedule", str(self.arguments.schedules)]
            shared = kernels.build(self.arguments.kiln, work.generator, variants, folder, work.params)
            self.built[key] = kernels.Kernel(shared, threads)
        return self.built[key]

    def run(self, make, threads):
        work = make()
        label = f"{work.name} {work.shape} {work.params.get('type', '')}"
        if self.arguments.only and self.arguments.only not in label:
            return
        print(f"{label}, {threads} threads" if threads else label, file=sys.stderr, flush=True)
        torch.set_num_threads(threads or 1)
        if self.openblas:
            self.openblas.openblas_set_num_threads(threads)
        kernel = self.kernel(work, threads)
        stream = torch.cuda.current_stream().cuda_stream if self.device == "cuda" else None
        candidate = kernel.bind(work.arguments, stream)
        work.output.fill_(float("nan"))
        candidate()
        self.wait()
        error, bound = works.error_and_bound(work)
        if not error <= bound:
            raise kernels.KernelError(f"{label}: off by {error:.3g}, allowed {bound:.3g}; not timed")
        candidates = {"kiln": candidate, **work.rivals}
        if self.openblas and work.name == "gemm" and work.output.dtype == torch.float32:
            candidates["openblas"] = works.openblas(work, self.openblas)
        warm, cold = timing.interleave(candidates, self.wait, self.flush, self.arguments.seconds)
        best = max(work.bytes / self.ceilings.get("copy", 1e30),
                   work.flops / self.ceilings.get(work.params.get("type"), self.ceilings.get("float32", 1e30)))
        for rival in candidates:
            if rival == "kiln":
                continue
            ratio, low, high = timing.paired_ratio(warm["kiln"], warm[rival])
            ms = timing.median(warm["kiln"]) * 1e3
            flags = [name for name, on in (("clock drift", timing.drift(warm["kiln"]) > 0.1),
                                           ("above the roofline", best > 1e-12 and best * 1e3 > ms * 1.03)) if on]
            self.rows.append({
                "work": work.name, "shape": work.shape, "type": work.params.get("type", ""),
                "target": self.arguments.target, "schedule": kernel.choice(), "threads": threads,
                "ms": ms, "cold_ms": timing.median(cold["kiln"]) * 1e3, "baseline": rival,
                "baseline_ms": timing.median(warm[rival]) * 1e3, "baseline_cold_ms": timing.median(cold[rival]) * 1e3,
                "ratio": ratio, "ratio_low": low, "ratio_high": high, "flops": work.flops, "bytes": work.bytes,
                "roofline": best * 1e3 / ms if best > 1e-12 else 0.0, "error": error, "bound": bound,
                "samples": len(warm["kiln"]), "flags": flags})
            print(f"  {ms:9.4f} ms, {ratio:5.2f} [{low:.2f}, {high:.2f}] of {rival} {' '.join(flags)}", file=sys.stderr,
                  flush=True)


def driver():
    """Of the GPU, or the kernel of the operating system."""
    try:
        return subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"], capture_output=True,
                              text=True, check=True).stdout.split()[0]
    except (OSError, IndexError, subprocess.CalledProcessError):
        return platform.release()


def save(path, document):
    """A results file, whole or not at all."""
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(document, indent=2) + "\n")
    os.replace(temporary, path)


def write(path, session):
    arguments = session.arguments
    name = torch.cuda.get_device_name() if session.device == "cuda" else next(
        (l.split(":", 1)[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")), platform.machine())
    version = subprocess.run([arguments.kiln, "--version"], capture_output=True, text=True).stdout.strip()
    document = {
        "device": name, "driver": driver() if session.backend != "cpu" else platform.release(),
        "versions": {"kiln": version, "torch": torch.__version__, "cuda": torch.version.cuda, "python": platform.python_version(),
                     "openblas": session.openblas and session.openblas.openblas_get_config().decode()
                     + " as " + session.openblas.openblas_get_corename().decode()},
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "command": "bench/run.py " + " ".join(sys.argv[1:]), "rows": session.rows}
    save(path, document)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("backend", choices=["cpu", "cuda", "opencl"])
    parser.add_argument("--kiln", default=str(ROOT / "build" / "bin" / "kiln"))
    parser.add_argument("--out")
    parser.add_argument("--only", help="only works with this text in their name, shape or type")
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--target")
    parser.add_argument("--schedules", default=str(ROOT / "schedules"), help="the folder of schedules by generator")
    parser.add_argument("--try", action="append", default=[], dest="attempts",
                        help="OpenCL: a folder of more schedules by generator to time")
    arguments = parser.parse_args()
    features = open("/proc/cpuinfo").read() if os.path.exists("/proc/cpuinfo") else ""
    arguments.target = arguments.target or {"cuda": "cuda", "opencl": "opencl"}.get(
        arguments.backend, "cpu-amx" if "amx_bf16" in features else "cpu-avx512_bf16" if "avx512_bf16" in features else
        "cpu-avx512" if "avx512bw" in features else "cpu-avx2")
    if arguments.backend == "opencl":
        import clblast
        return clblast.main(arguments)
    session = Session(arguments)
    failed = 0
    out = arguments.out or ROOT / "docs" / "results" / f"{arguments.backend}_{platform.node()}.json"
    for threads in [int(t) for t in arguments.threads.split(",")] if arguments.backend == "cpu" else [0]:
        for make in cpu_works() if arguments.backend == "cpu" else cuda_works():
            try:
                session.run(make, threads)
            except kernels.KernelError as error:
                failed += 1
                print(f"  failed: {error}", file=sys.stderr)
            write(out, session)  # after each work, so that an interrupt loses one at most
    print(out)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
