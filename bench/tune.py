#!/usr/bin/env python3
"""Tunes works by `kiln tune` and times what came out against Halide's own searchers, which get as much time, and against
the schedules written by hand, in turn; writes docs/results/tune_*.json.

usage: tune.py [--kiln PATH] [--target T] [--budget S] [--only TEXT] [--out FILE] [--database FILE] [--resume]
               [--load FILE] [--device N] [--rivals NAME,NAME|none] [--schedules FOLDER] [--folder DIR] [--list]

Each work is tuned from nothing but the weights that ship with Kiln, unless the database knows it. A searcher that gives no
schedule in the budget, or a wrong one, has no row, and its fault stands in `failed` of the last line printed.
"""

import argparse
import datetime
import json
import math
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
F32 = {"type": "float32"}
# (name, generator, parameters, work)
CPU = ([(f"matmul {n}", "gemm", F32, n) for n in ("256", "512", "1024", "2048")] +
       [("chain", "chain_relu", F32, "2^24"), ("softmax", "softmax", F32, "4096x4096"),
        ("rms_norm", "rms_norm", F32, "4096x4096"), ("layer_norm", "layer_norm", F32, "4096x4096"),
        ("attention 1024", "attention", F32, "N1024"), ("attention 1024 causal", "attention", F32, "N1024 causal"),
        ("conv layer", "conv_layer", {}, "128x128x100x80x5"), ("blur", "blur", {}, "1536x2560"),
        ("unsharp", "unsharp", {}, "1536x2560"), ("harris", "harris", {}, "1530x2554"),
        ("stencil chain", "stencil_chain", {}, "1536x2560"),
        ("local laplacian", "local_laplacian", {}, "1536x2560")])
BF16 = {"type": "bfloat16"}
# A tuple is a shape by buffer in place of a work's name.
GEMM_4096 = ("x=4096x4096", "w=4096x4096", "y=4096x4096")
ROWS_16384 = ("x=8192x16384", "gamma=8192", "y=8192x16384")
HEADS_4096 = tuple(f"{name}=128x4096x16x4" for name in "qkvy")
SWIGLU = ("x=4096x4096", "wg=4096x14336", "wu=4096x14336", "y=14336x4096")
SKINNY = ("x=4096x64", "w=12288x4096", "y=12288x64")
CUDA = [("gemm 4096", "gemm", BF16, GEMM_4096), ("gemm 64x12288x4096", "gemm", BF16, SKINNY),
        ("gated product", "gated_product", {**BF16, "transpose_w": "true"}, SWIGLU),
        ("attention 4096 causal", "attention", {**BF16, "mask": "causal"}, HEADS_4096),
        ("attention 4096 softcap", "attention", {**BF16, "softcap": "30"}, HEADS_4096),
        ("rms_norm 16384x8192", "rms_norm", BF16, ROWS_16384), ("softmax 8192x4096", "softmax", BF16, "8192x4096 bf16"),
        ("chain 2^28", "chain_relu", BF16, "2^28 bf16"), ("gemm 1024 f32", "gemm", F32, "1024"),
        ("attention f32", "attention", F32, "N1024"), ("softmax f32", "softmax", F32, "4096x4096")]


def run(command, timeout):
    """The JSON of a `kiln` command, or its diagnostics as text."""
    try:
        done = subprocess.run([str(c) for c in command] + ["--json", "--quiet"], capture_output=True, text=True,
                              timeout=timeout)
        document = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        return None, f"no answer in {timeout:.0f} s"
    except ValueError:
        return None, (done.stderr or done.stdout)[-400:]
    if not document.get("ok"):
        return document, "; ".join(d["code"] + " " + d["message"] for d in document["diagnostics"])[:400]
    return document, ""


def options(args, params):
    out = ["--load", args.load] if args.load else []
    for name, value in params.items():
        out += ["--param", f"{name}={value}"]
    return out


def dashed(target):
    return target.replace(" ", "-")


def sizes(work):
    if isinstance(work, str):
        return ["--work", work]
    return [word for shape in work for word in ("--shape", shape)]


def tune(args, generator, params, work, folder):
    command = [args.kiln, "tune", generator, "--target", args.target, *sizes(work), "--budget", args.budget,
               "-o", folder, "--database", args.database, *options(args, params)]
    if args.device:
        command += ["--device", args.device]
    if args.resume:
        command.append("--resume")
    for path in args.start:
        command += ["--start", path]
    return run(command, args.budget * 3 + 120)


def time(args, generator, params, work, found, baseline):
    command = [args.kiln, "bench", generator, "--target", dashed(found["target"]), *sizes(work), "--archive",
               found["archive"], "--seconds", args.seconds, *options(args, params)]
    if baseline:
        command += ["--baseline", baseline]
    document, fault = run(command, args.budget + 120)
    rows = (document or {}).get("rows") or []
    return (rows[0] if rows else None), fault


def by_hand(args, generator, params, target, folder):
    """The library of Kiln's own schedule for the target, or ""."""
    schedules = pathlib.Path(args.schedules)
    if not (schedules / generator).is_dir():
        return ""
    document, fault = run([args.kiln, "build", generator, "--target", target, "--schedule", schedules, "-o",
                           folder, *options(args, params)], 120)
    return "" if fault or not document else document["archive"]


def write(args, rows, command):
    path = pathlib.Path(args.out)
    document = json.loads(path.read_text()) if path.exists() else {"rows": []}
    key = [(r["work"], r["shape"], r["type"], r["baseline"]) for r in rows]
    document["rows"] = [r for r in document["rows"] if (r["work"], r["shape"], r["type"], r["baseline"]) not in key] + rows
    device = run([args.kiln, "device", "--target", args.target], 60)[0] or {"devices": [{}]}
    document.update({"device": device["devices"][0].get("name", ""), "driver": device["devices"][0].get("driver", ""),
                     "versions": {"kiln": "0.1.0"}, "date": datetime.datetime.now(datetime.timezone.utc).isoformat(),
                     "command": command})
    path.write_text(json.dumps(document, indent=2) + "\n")


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values)) if values else 0.0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kiln", default=str(ROOT / "build" / "bin" / "kiln"))
    parser.add_argument("--target", default="cpu-avx2")
    parser.add_argument("--device", default="", help="which GPU")
    parser.add_argument("--budget", type=float, default=60)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--only", default="", help="works whose name holds this text; several by `|`")
    parser.add_argument("--out", default="")
    parser.add_argument("--database", default="")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--load", default="")
    parser.add_argument("--rivals", default="", help="searchers by name, or `none`: only schedules by hand")
    parser.add_argument("--schedules", default=str(ROOT / "schedules"))
    parser.add_argument("--start", action="append", default=[])
    parser.add_argument("--folder", default="", help="where libraries stay; else they go")
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()
    is_cpu = args.target.startswith("cpu")
    works = CPU if is_cpu else CUDA
    if args.list:
        print("\n".join(w[0] for w in works))
        return 0
    pipelines = ROOT / "build" / "lib" / "kiln_bench_pipelines.so"
    args.load = args.load or (str(pipelines) if is_cpu and pipelines.exists() else "")
    args.rivals = (args.rivals or ("adams2019,mullapudi2016,li2018" if is_cpu else "anderson2021")).split(",")
    args.out = args.out or str(ROOT / "docs" / "results" / ("tune_cpu.json" if is_cpu else "tune_cuda.json"))
    temporary = tempfile.TemporaryDirectory()
    base = pathlib.Path(args.folder or temporary.name)
    args.database = args.database or str(base / "tune.db")
    command = "bench/tune.py " + " ".join(sys.argv[1:])
    ratios, hand = [], []
    for name, generator, params, work in works:
        if args.only and not any(part in name for part in args.only.split("|")):
            continue
        folder = base / name.replace(" ", "_")
        found, fault = tune(args, generator, params, work, folder / "tuned")
        if not found or "archive" not in found:
            print(f"{name}: {fault or 'no library'}", flush=True)
            continue
        search = {"trials": found["progress"]["trials"], "seconds": found["progress"]["seconds"],
                  "default_ms": found["progress"]["baseline_ms"], "ended": found["ended"],
                  "origin": found["best"][0]["origin"] if found["best"] else "plain, not measured", "failed": found["progress"]["failed"],
                  "rejected": sum(found["progress"]["rejected"].values()), "model_error": found["model_error"],
                  "budget": args.budget}
        rows, failed = [], {}
        baselines = {r: r for r in args.rivals if r != "none"}
        mine = by_hand(args, generator, params, dashed(found["target"]), folder / "hand")
        if mine:
            baselines["hand"] = f"archive:{mine}"
        for rival, baseline in baselines.items():
            row, fault = time(args, generator, params, work, found, baseline)
            if row:
                rows.append({**row, "baseline": rival, "schedule": "tuned", "search": search})
            else:
                failed[rival] = fault
        if not rows:
            row, fault = time(args, generator, params, work, found, "")
            rows = [{**row, "schedule": "tuned", "search": search}] if row else []
        write(args, rows, command)
        against = {r["baseline"]: r["ratio"] for r in rows}
        searchers = [v for k, v in against.items() if k in args.rivals]
        if searchers:
            ratios.append(min(searchers))
        if "hand" in against:
            hand.append(against["hand"])
        print(f"{name}: {rows[0]['ms'] if rows else 0:.4f} ms after {search['trials']} trials in "
              f"{search['seconds']:.0f} s, default {search['default_ms']:.4f}; "
              f"times as fast as {', '.join(f'{k} {v:.2f}' for k, v in against.items())}"
              f"{'; failed: ' + str(failed) if failed else ''}", flush=True)
    if ratios:
        print(f"geometric mean over the best searcher {geometric_mean(ratios):.2f}, least {min(ratios):.2f} of "
              f"{len(ratios)} works")
    if hand:
        print(f"geometric mean over schedules by hand {geometric_mean(hand):.2f} of {len(hand)} works")
    return 0


if __name__ == "__main__":
    sys.exit(main())
