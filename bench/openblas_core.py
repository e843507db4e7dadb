#!/usr/bin/env python3
"""Prints the kernels that OpenBLAS should take on this CPU, for OPENBLAS_CORETYPE; nothing where its own choice is good.

OpenBLAS knows Intel's CPUs by their model number and takes kernels for SSE on one that is newer than itself: a rival five
times slower than it can be.
"""

import pathlib


def core():
    text = pathlib.Path("/proc/cpuinfo").read_text() if pathlib.Path("/proc/cpuinfo").exists() else ""
    flags = next((line.split(":", 1)[1].split() for line in text.splitlines() if line.startswith("flags")), [])
    if "GenuineIntel" not in text:
        return ""
    return "SKYLAKEX" if "avx512f" in flags else "HASWELL" if "avx2" in flags else ""


if __name__ == "__main__":
    print(core())
