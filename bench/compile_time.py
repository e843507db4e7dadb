#!/usr/bin/env python3
"""Times how long a tile kernel takes from Funcs and schedule to a cubin, and NVRTC alone on the same text.

usage: compile_time.py [--kiln PATH] [--schedules FOLDER] [--nvrtc PATH] [--out FILE] [--rounds N]

A row: {"kernel", "seconds": the least of N processes that build the kernel, "nvrtc": the least of N compilations in this process}.
Needs no GPU.
"""

import argparse
import ctypes
import json
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
KERNELS = (("gemm", "gemm/cuda_sm_90a.sched", "none"), ("gemm", "gemm/cuda_sm_90a_wide.sched", "none"),
           ("gemm", "gemm/cuda_sm_90a.sched", "bias_gelutanh"), ("gemm", "gemm/cuda_sm_90a_small.sched", "none"),
           ("gated_product", "gated_product/cuda_sm_90a.sched", None))


def find_nvrtc():
    for folder in map(pathlib.Path, sys.path):
        found = sorted(folder.glob("nvidia/**/libnvrtc.so.*"))
        if found:
            return found[-1]
    return "libnvrtc.so"


def check(status, what):
    if status:
        raise RuntimeError(f"{what}: NVRTC status {status}")


def compile_text(nvrtc, text):
    """Seconds from text to cubin."""
    program = ctypes.c_void_p()
    options = (ctypes.c_char_p * 2)(b"--gpu-architecture=sm_90a", b"--std=c++17")
    start = time.perf_counter()
    check(nvrtc.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"kernel.cu", 0, None, None), "nvrtcCreateProgram")
    check(nvrtc.nvrtcCompileProgram(program, 2, options), "nvrtcCompileProgram")
    seconds = time.perf_counter() - start
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kiln", default=str(ROOT / "build" / "bin" / "kiln"))
    parser.add_argument("--schedules", default=str(ROOT / "schedules"))
    parser.add_argument("--nvrtc", default=None)
    parser.add_argument("--out", default=None)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    nvrtc = ctypes.CDLL(str(arguments.nvrtc or find_nvrtc()))
    rows = []
    for generator, schedule, epilogue in KERNELS:
        command = [arguments.kiln, "explain", generator, "--quiet", "--target", "cuda-sm_90a", "--schedule",
                   str(pathlib.Path(arguments.schedules) / schedule), "--param", "type=bfloat16", "--param", "transpose_w=true"]
        command += ["--param", f"epilogue={epilogue}"] if epilogue else []
        whole = []
        for _ in range(arguments.rounds):
            start = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True)
            whole.append(time.perf_counter() - start)
        text = subprocess.run([*command, "--code"], check=True, capture_output=True, text=True).stdout
        text = text[text.index("// Kernel `"):text.rindex("\nproblem ")]
        alone = min(compile_text(nvrtc, text) for _ in range(arguments.rounds))
        name = " ".join([generator, pathlib.Path(schedule).stem] + ([epilogue] if epilogue and epilogue != "none" else []))
        rows.append({"kernel": name, "seconds": round(min(whole), 3), "nvrtc": round(alone, 3)})
        print(f"{name:45s} {min(whole):.2f} s, NVRTC {alone:.2f} s", flush=True)
    if arguments.out:
        pathlib.Path(arguments.out).write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
