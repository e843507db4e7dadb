#!/usr/bin/env python3
"""Installs PyTorch for CPU baselines from PyPI alone, without the CUDA libraries that its wheel asks for.

PyPI's wheel is the CUDA build: with all it depends on it takes 6 GB. On a machine without a GPU none of that
is ever called, but the dynamic linker wants the symbols. So torch is installed without dependencies (0.9 GB
to download), its pure Python ones beside it, and for each absent library a stub is linked that defines the names that
torch asks for. All of them return 100, cudaErrorNoDevice: torch registers its kernels, asks for a device, and is told
that there is none.

usage: install_torch.py FOLDER     a virtual environment is made there; python: FOLDER/bin/python
"""
import collections
import os
import re
import subprocess
import sys
import tempfile
import venv

TORCH = "torch==2.8.0"
PURE = ["numpy", "filelock", "fsspec", "jinja2", "networkx", "sympy", "typing_extensions", "threadpoolctl", "setuptools"]


def lines(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def needed_and_missing(library_folder):
    """Names of the libraries that those in the folder ask for and nobody has."""
    present = set(os.listdir(library_folder))
    known = {line.split()[0] for line in lines("/sbin/ldconfig", "-p")[1:] if line.strip()}
    needed = set()
    for name in present:
        if ".so" in name:
            for line in lines("readelf", "-d", os.path.join(library_folder, name)):
                match = re.search(r"\(NEEDED\).*\[(.*)\]", line)
                if match:
                    needed.add(match.group(1))
    return sorted(needed - present - known)


def undefined(library_folder):
    """Undefined symbols of all libraries: {version: names}; the version of an unversioned name is ""."""
    symbols = collections.defaultdict(set)
    for name in sorted(os.listdir(library_folder)):
        if ".so" not in name:
            continue
        for line in lines("nm", "-D", "--undefined-only", "--with-symbol-versions", os.path.join(library_folder, name)):
            symbol, _, version = line.split()[-1].partition("@")
            symbols[version.lstrip("@")].add(symbol)
    return symbols


CUDA = re.compile(r"^(cu[A-Z]|cuda|cudnn|cublas|cufft|curand|cusolver|cusparse|cufile|cupti|nccl|nvrtc|nvtx|nvJitLink|nvshmem)")


def make_stubs(library_folder, stub_folder):
    os.makedirs(stub_folder, exist_ok=True)
    missing = needed_and_missing(library_folder)
    symbols = undefined(library_folder)
    # Versions are named after the library that defines them (libcudart.so.12); what has none goes into the
    # first stub, where lookup finds it as well as anywhere.
    unversioned = sorted(s for s in symbols.get("", ()) if CUDA.match(s))
    for i, library in enumerate(missing):
        versions = {v: n for v, n in symbols.items() if v and (v == library or v.split(".")[0] == library.split(".")[0])}
        plain = unversioned if i == 0 else []
        with tempfile.TemporaryDirectory() as work:
            source, script = os.path.join(work, "stub.s"), os.path.join(work, "stub.map")
            with open(source, "w") as out:
                for name in sorted(set(plain).union(*versions.values())):
                    out.write(f".globl {name}\n.type {name}, @function\n{name}: movl $100, %eax\n ret\n")
                out.write('.section .note.GNU-stack,"",@progbits\n')
            with open(script, "w") as out:
                for version, names in versions.items():
                    out.write(f"{version} {{ global: {' '.join(n + ';' for n in sorted(names))} }};\n")
            command = ["gcc", "-shared", "-nostdlib", f"-Wl,-soname,{library}", "-o", os.path.join(stub_folder, library), source]
            if versions:
                command.insert(4, f"-Wl,--version-script,{script}")
            subprocess.run(command, check=True)
    return missing


def main(folder):
    python = os.path.join(folder, "bin", "python")
    if not os.path.exists(python):
        venv.create(folder, with_pip=True)
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run(pip + PURE, check=True)
    subprocess.run(pip + ["--no-deps", TORCH], check=True)
    site = lines(python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])")[0]
    stubs = os.path.join(folder, "stubs")
    make_stubs(os.path.join(site, "torch", "lib"), stubs)
    environment = dict(os.environ, LD_LIBRARY_PATH=stubs)
    version = subprocess.run([python, "-c", "import torch; print(torch.__version__)"], env=environment, check=True,
                             capture_output=True, text=True).stdout.strip()
    print(f"PyTorch {version} in {folder}; run it with LD_LIBRARY_PATH={stubs}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
