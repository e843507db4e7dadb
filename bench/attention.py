#!/usr/bin/env python3
"""Times Kiln's attention on a GPU against PyTorch's: cuDNN, FlashAttention and flex_attention, each forced. One process, CUDA
graphs over rotating buffers, rounds interleaved in rotating order, back to back (under the power limit).

usage: attention.py [--schedule NAME=FILE[,knob=value…]] … [--schedules FOLDER] [--kiln PATH] [--out FILE] [--only TEXT] …
                    [--rounds N] [--runs N] [--without-flex] [--libraries FOLDER [--build-only]]

Without --schedule each work runs as the folder of schedules serves it. With it every one that fits is timed too; the best is
the row's, the others are in `others` (cuDNN's, or else the first rival's, time over theirs).
"""

import argparse
import concurrent.futures
import math
import os
import pathlib
import sys
import tempfile

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import kernel as kernels  # noqa: E402
import products  # noqa: E402
import timing  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent


class Work:
    """Queries of `length`, as many keys; `window`: keys before the query that it sees beside itself (with causal). `decode`: one
    query for `length` keys; the heads that share keys go in as the queries of one head, which is a view of the same memory."""

    def __init__(self, batch, heads, kv_heads, length, d, causal=False, window=0, softcap=0.0, alibi=False, decode=False):
        self.shape = (batch, heads, kv_heads, length, d)
        self.decode = decode
        self.causal, self.window, self.softcap, self.alibi = causal, window, softcap, alibi
        kind = " decode" if decode else f" window{window}" if window else " causal" if causal else " full"
        kind += f" softcap{softcap:g}" if softcap else ""
        kind += " alibi" if alibi else ""
        group = f"/{kv_heads}" if kv_heads != heads else ""
        self.name = f"B{batch} H{heads}{group} N{length} D{d}{kind}"
        self.params = {"type": "bfloat16", "mask": "window" if window else "causal" if causal else "none"}
        if window:
            self.params |= {"window_left": str(window), "window_right": "0"}
        if softcap:
            self.params["softcap"] = f"{softcap:g}"
        if alibi:
            self.params["alibi"] = "true"
        seen = length * (length + 1) / 2 if causal else length * length
        if window:
            w = min(window, length)
            seen = w * (w + 1) / 2 + (length - w) * (w + 1)
        if decode:
            seen = length
        self.flops = 4.0 * batch * heads * seen * d
        self.bytes = 2.0 * d * batch * (2 * heads * (1 if decode else length) + 2 * kv_heads * length)

    def sets(self):
        batch, heads, kv_heads, n, d = self.shape
        rows = (kv_heads, heads // kv_heads) if self.decode else (heads, n)
        for _ in range(max(2, min(8, -(-timing.L2_BYTES // int(self.bytes))))):
            q, y = (torch.empty(batch, *rows, d, device="cuda", dtype=torch.bfloat16).normal_() for _ in range(2))
            k, v = (torch.empty(batch, kv_heads, n, d, device="cuda", dtype=torch.bfloat16).normal_() for _ in range(2))
            yield q, k, v, y

    def mask(self, rows, n):
        i, j = rows[:, None], torch.arange(n, device="cuda")[None, :]
        seen = torch.ones(len(rows), n, dtype=torch.bool, device="cuda")
        if self.causal or self.window:
            seen &= j <= i
        if self.window:
            seen &= j >= i - self.window
        return seen, (i - j).abs()

    def slopes(self):
        heads = self.shape[1]
        return torch.exp2(-8.0 * (torch.arange(heads, device="cuda", dtype=torch.float32) + 1) / heads)

    def error(self, q, k, v, y):
        """Greatest relative error in norm over the heads of some rows of the last batch, in float32 from the inputs."""
        batch, heads, kv_heads, n, d = self.shape
        if self.decode:
            s = q[-1].double() @ k[-1].double().mT / math.sqrt(d)
            r = torch.softmax(s, -1) @ v[-1].double()
            norm = torch.linalg.matrix_norm
            return (norm(y[-1].double() - r) / norm(r)).max().item()
        rows = torch.arange(0, n, max(1, n // 256), device="cuda")
        seen, distance = self.mask(rows, n)
        worst = 0.0
        for h in range(0, heads, max(1, heads // 4)):
            kh = h * kv_heads // heads
            s = q[-1, h, rows].double() @ k[-1, kh].double().T / math.sqrt(d)
            if self.softcap:
                s = self.softcap * torch.tanh(s / self.softcap)
            if self.alibi:
                s = s - self.slopes()[h].double() * distance
            s = s.masked_fill(~seen, -math.inf)
            r = torch.softmax(s, -1) @ v[-1, kh].double()
            worst = max(worst, ((y[-1, h, rows].double() - r).norm() / r.norm()).item())
        return worst

    def rivals(self, with_flex):
        batch, heads, kv_heads, n, d = self.shape
        gqa = heads != kv_heads
        plain = not self.window and not self.softcap and not self.alibi
        if self.decode:
            return self.decode_rivals()
        found = {}
        if plain:
            for name, backend in (("cudnn", SDPBackend.CUDNN_ATTENTION), ("flash", SDPBackend.FLASH_ATTENTION)):
                def run(q, k, v, backend=backend):
                    with sdpa_kernel(backend):
                        return F.scaled_dot_product_attention(q, k, v, is_causal=self.causal, enable_gqa=gqa)
                found[name] = run
        if with_flex:
            from torch.nn.attention.flex_attention import create_block_mask, flex_attention
            torch._dynamo.config.recompile_limit = 1000  # one for each work; beyond it flex_attention fails
            torch._dynamo.config.accumulated_recompile_limit = 1000
            compiled = torch.compile(flex_attention, dynamic=False)
            mask = None
            if self.window:
                mask = create_block_mask(lambda b, h, i, j: (j <= i) & (j >= i - self.window), None, None, n, n, device="cuda")
            elif self.causal:
                mask = create_block_mask(lambda b, h, i, j: j <= i, None, None, n, n, device="cuda")
            slopes = self.slopes()
            change = None
            if self.softcap:
                cap = self.softcap
                change = lambda s, b, h, i, j: cap * torch.tanh(s / cap)  # noqa: E731
            if self.alibi:
                change = lambda s, b, h, i, j: s - slopes[h] * (i - j).abs()  # noqa: E731
            found["flex_attention"] = lambda q, k, v: compiled(q, k, v, score_mod=change, block_mask=mask, enable_gqa=gqa)
        return found


    def decode_rivals(self):
        """PyTorch's own choice, its backends, and the device's copy of as many bytes: half are read, half written."""
        batch, heads, kv_heads, n, d = self.shape
        copied = torch.empty(batch, kv_heads, n, d, device="cuda", dtype=torch.bfloat16)

        def attend(q, k, v):
            return F.scaled_dot_product_attention(q.view(batch, heads, 1, d), k, v, enable_gqa=heads != kv_heads)

        def forced(backend):
            def run(q, k, v):
                with sdpa_kernel(backend):
                    return attend(q, k, v)
            return run
        return {"sdpa": attend, "cudnn": forced(SDPBackend.CUDNN_ATTENTION), "flash": forced(SDPBackend.FLASH_ATTENTION),
                "copy": lambda q, k, v: copied.copy_(k)}


def works():
    for heads, d in ((16, 128), (32, 64), (8, 256)):
        for batch, n in ((16, 1024), (4, 4096), (1, 16384)):
            for causal in (False, True):
                yield Work(batch, heads, heads, n, d, causal)
    yield Work(4, 16, 16, 4096, 128, True, window=1024)
    yield Work(2, 16, 16, 8192, 128, True, window=1024)
    yield Work(4, 16, 16, 4096, 128, softcap=30.0)
    yield Work(4, 16, 16, 4096, 128, True, alibi=True)
    yield Work(2, 16, 16, 8192, 128, True, alibi=True)
    yield Work(4, 32, 8, 4096, 128, True)
    yield Work(16, 32, 8, 8192, 128, decode=True)
    yield Work(1, 32, 8, 32768, 128, decode=True)


class Comparison:
    def __init__(self, arguments):
        self.arguments = arguments
        self.folder = None if arguments.libraries else tempfile.TemporaryDirectory()
        self.rows = []
        self.given = {}
        for text in arguments.schedule:
            name, rest = text.split("=", 1)
            file, *knobs = rest.split(",")
            self.given[name] = ["--target", "cuda-sm_90a", "--schedule", file, *(o for k in knobs for o in ("--knob", k))]

    def choices(self, work):
        folder = {} if self.arguments.schedule else {"as written": ["--target", "cuda-sm_90a", "--schedule",
                                                                    self.arguments.schedules]}
        d = f"d{work.shape[4]}"
        return folder | {n: o for n, o in self.given.items() if not n.startswith("d") or n.split("_")[0] == d}

    def build(self, work, options, folder):
        if (folder / "attention.so").exists():
            return folder / "attention.so"
        try:
            return kernels.build(self.arguments.kiln, "attention", options, folder, work.params)
        except kernels.KernelError as error:
            return str(error)

    def build_all(self, chosen):
        """{(params, name): library or message}, each built once, several at a time."""
        jobs = {}
        for work in chosen:
            for name, options in self.choices(work).items():
                jobs.setdefault((tuple(sorted(work.params.items())), name), (work, options))
        base = pathlib.Path(self.arguments.libraries or self.folder.name)

        def build(job):
            params, name = job
            folder = "_".join([name.replace(" ", "_"), *(f"{k}={v}" for k, v in params)])
            return self.build(*jobs[job], base / folder)

        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            return dict(zip(jobs, pool.map(build, jobs)))

    def run(self, work, libraries, number):
        print(work.name, file=sys.stderr, flush=True)
        sets = list(work.sets())
        found = {}
        for name in self.choices(work):
            built = libraries[tuple(sorted(work.params.items())), name]
            if isinstance(built, str):
                print(f"    {name}: {built}", file=sys.stderr)
                continue
            kernel = kernels.Kernel(built)
            calls = [lambda stream, a=s, k=kernel: k.bind(list(a), stream)() for s in sets]
            try:
                sets[0][3].fill_(float("nan"))
                calls[0](torch.cuda.current_stream().cuda_stream)
                torch.cuda.synchronize()
                error = work.error(*sets[0])
                if not error <= 2.0**-7:
                    print(f"    {name}: off by {error:.3g} in norm, allowed {2.0**-7:.3g}; not timed", file=sys.stderr)
                    continue
                found[name] = (products.captured(calls), error, kernel.choice())
            except (kernels.KernelError, RuntimeError) as error:
                print(f"    {name}: {error}", file=sys.stderr)
        if not found:
            return
        graphs = {}
        for name, function in work.rivals(not self.arguments.without_flex).items():
            try:
                for s in sets[:2]:
                    function(*s[:3])
                graphs[name] = products.captured([lambda stream, i=s[:3], f=function: f(*i) for s in sets])
            except Exception as error:  # a backend that does not take the work
                print(f"    {name}: {str(error).splitlines()[0]}", file=sys.stderr)
        rivals = list(graphs)
        graphs |= {f"kiln {n}": g for n, (g, _, _) in found.items()}
        times = products.measure(graphs, len(sets), self.arguments.rounds, False)
        best = min(found, key=lambda n: timing.median(times[f"kiln {n}"]))
        _, error, choice = found[best]
        mine = times[f"kiln {best}"]
        ms = timing.median(mine) * 1e3
        first = times[rivals[0]] if rivals else mine
        others = {n: timing.median(first) / timing.median(times[f"kiln {n}"]) for n in found}
        print(f"  {best:34s} {ms * 1e3:8.1f} us {work.flops / ms * 1e-9:6.0f} TFLOP/s {work.bytes / ms * 1e-6:5.0f} GB/s  " +
              " ".join(f"{n}={r:.3f}" for n, r in others.items()), file=sys.stderr, flush=True)
        for rival in rivals or [""]:
            ratio, low, high = timing.paired_ratio(mine, times[rival]) if rival else (0.0, 0.0, 0.0)
            theirs = timing.median(times[rival]) * 1e3 if rival else 0.0
            self.rows.append({
                "work": "attention decode" if work.decode else "attention", "shape": work.name, "type": "bfloat16",
                "target": "cuda-sm_90a", "regime": "sustained", "schedule": choice, "knobs": best, "ms": ms, "baseline": rival,
                "baseline_ms": theirs, "ratio": ratio, "ratio_low": low, "ratio_high": high, "flops": work.flops,
                "tflops": work.flops / ms * 1e-9, "bytes": work.bytes, "gbps": work.bytes / ms * 1e-6, "error": error, "bound": 2.0**-7, "samples": self.arguments.rounds, "run": number,
                "others": others})
            if rival:
                print(f"    {ratio:.3f} [{low:.3f}, {high:.3f}] of {rival} ({work.flops / theirs * 1e-9:.0f} TFLOP/s)",
                      file=sys.stderr, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schedules", default=str(ROOT / "schedules"))
    parser.add_argument("--schedule", action="append", default=[], help="a name that begins with dN serves heads of N alone")
    parser.add_argument("--without-flex", action="store_true", help="leave flex_attention out: it takes seconds to compile")
    parser.add_argument("--kiln", default=str(ROOT / "build" / "bin" / "kiln"))
    parser.add_argument("--out", default=str(ROOT / "docs" / "results" / "attention.json"))
    parser.add_argument("--libraries", help="a folder that keeps the libraries: what is there is not built again")
    parser.add_argument("--build-only", action="store_true", help="no GPU is needed")
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--runs", type=int, default=1, help="times that all works are measured, one pass after the other")
    comparison = Comparison(parser.parse_args())
    wanted = comparison.arguments.only
    chosen = [w for w in works() if not wanted or any(text in w.name for text in wanted)]
    libraries = comparison.build_all(chosen)
    if comparison.arguments.build_only:
        for (params, name), built in libraries.items():
            print(f"{name} {dict(params)}: {built}")
        return 0
    failed = 0
    for number in range(1, comparison.arguments.runs + 1):
        for work in chosen:
            try:
                comparison.run(work, libraries, number)
            except (kernels.KernelError, RuntimeError) as error:
                failed += 1
                print(f"  failed: {error}", file=sys.stderr, flush=True)
            products.write(comparison.arguments.out, comparison)
    print(comparison.arguments.out)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
