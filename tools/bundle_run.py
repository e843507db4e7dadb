"""Checks and times the kernels of a bundle that `./dev gpu-bundle` made. Started by run.sh.

usage: run.sh list                          the kernels in this folder
       run.sh check [what...] [--out FILE]  each against a reference in double
       run.sh bench [what...] [--out FILE]  each beside a device copy, and what it reaches of the roofline
       run.sh rivals [ARGUMENT...]          bench/run.py: beside PyTorch; builds kernels, so it needs a C compiler
       run.sh kiln ARGUMENT...              the command line itself

`what` is a part of a kernel's name: `gemm`, `cuda`, `chain_relu_bfloat16`. JSON goes to FILE or to the standard output,
progress to the standard error. Exit code 0: all kernels that could run here were right.
"""

import datetime
import glob
import json
import os
import pathlib
import platform
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
KILN = HERE / "bin" / "kiln"


def environment():
    """As it is, with NVRTC found inside PyTorch's packages and Kiln's cache in a folder of its own."""
    env = dict(os.environ)
    env.setdefault("KILN_CACHE_DIR", str(HERE / "cache"))
    if "KILN_NVRTC" not in env:
        for folder in sys.path:
            found = sorted(glob.glob(os.path.join(folder, "nvidia", "*", "lib", "libnvrtc.so.*")))
            if found:
                env["KILN_NVRTC"] = found[-1]
                break
    return env


def kernels(what):
    """(name, its manifest) of each kernel whose name has a part of `what` in it; all where that is empty."""
    found = []
    for path in sorted((HERE / "kernels").glob("*.bundle.json")):
        name = path.name.removesuffix(".bundle.json")
        if not what or any(part in name for part in what):
            found.append((name, json.loads(path.read_text())))
    if not found:
        sys.exit(f"run.sh: no kernel's name has any of {what} in it; `run.sh list` shows them")
    return found


def kiln(arguments, env):
    run = subprocess.run([KILN, *arguments, "--json"], env=env, capture_output=True, text=True)
    try:
        return run.returncode, json.loads(run.stdout)
    except json.JSONDecodeError:
        return run.returncode or 1, {"fault": (run.stderr or run.stdout)[-2000:]}


def run_kernels(command, what, env):
    _, devices = kiln(["device", *(["--calibrate"] if command == "bench" else [])], env)
    backends = {device["target"].split()[0] for device in devices.get("devices", [])}
    rows, failed = [], 0
    for name, manifest in kernels(what):
        if manifest["target"].split("-")[0] not in backends:
            rows.append({"kernel": name, "skipped": f"no {manifest['target']} device here"})
            continue
        print(f"{command} {name}", file=sys.stderr)
        parameters = [word for pair in manifest["params"] for word in ("--param", pair)]
        baseline = ["--baseline", "copy"] if command == "bench" else []
        code, report = kiln([command, manifest["generator"], "--target", manifest["target"], *parameters, *baseline,
                             "--archive", str(HERE / "kernels" / f"{name}.so")], env)
        failed += code != 0
        rows.append({"kernel": name, "ok": code == 0, "report": report})
    return failed, {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
                    "host": platform.node(), "python": platform.python_version(),
                    "command": " ".join(["run.sh", command, *what]), "devices": devices, "rows": rows}


def main():
    arguments = sys.argv[1:]
    command = arguments.pop(0) if arguments else "help"
    env = environment()
    if command == "kiln":
        os.execve(KILN, [str(KILN), *arguments], env)
    if command == "rivals":
        script = HERE / "bench" / "run.py"
        os.execve(sys.executable, [sys.executable, str(script), *(arguments or ["cuda"]), "--kiln", str(KILN)], env)
    if command == "list":
        for name, manifest in kernels(arguments):
            print(f"{name:40} {manifest['generator']} for {manifest['target']} {' '.join(manifest['params'])}")
        return 0
    if command not in ("check", "bench"):
        print(__doc__, file=sys.stdout if command in ("help", "-h", "--help") else sys.stderr)
        return 0 if command in ("help", "-h", "--help") else 2
    out = None
    if "--out" in arguments:
        at = arguments.index("--out")
        if at + 1 == len(arguments):
            sys.exit("run.sh: --out wants a file")
        out = arguments[at + 1]
        del arguments[at:at + 2]
    failed, result = run_kernels(command, arguments, env)
    text = json.dumps(result, indent=1) + "\n"
    if out:
        pathlib.Path(out).write_text(text)
    else:
        sys.stdout.write(text)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
