#!/usr/bin/env python3
"""Runs variants of attention on a GPU as the folder of schedules serves them, and compares them with the formula in double: lengths and
documents with NaN past every end, biases, sinks, ALiBi, a cap, few queries, log-sum-exp. Each runs twice, for the same bits.

usage: attention_variants.py KILN SCHEDULES RESULTS
"""

import concurrent.futures
import datetime
import json
import math
import pathlib
import sys
import tempfile

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import kernel as kernels  # noqa: E402

dev = "cuda"


def cases():
    """(name, sizes, parameters of the generator)"""
    B, H, KH, M, N = 2, 4, 2, 200, 333
    for D in (64, 128):
        base = dict(B=B, H=H, KH=KH, M=M, N=N, D=D)
        yield f"keys D{D}", base, {"lengths": "keys"}
        yield f"batch causal D{D}", base, {"lengths": "batch", "mask": "causal"}
        yield f"documents causal D{D}", base | dict(B=1), {"lengths": "documents", "mask": "causal"}
        yield f"bias scores D{D}", base, {"bias": "scores"}
        yield f"bias distance causal D{D}", base, {"bias": "distance", "mask": "causal"}
        yield f"sink causal D{D}", base, {"sink": "true", "mask": "causal"}
        yield f"alibi causal D{D}", base, {"alibi": "true", "mask": "causal"}
        yield f"softcap D{D}", base, {"softcap": "15"}
        yield f"decode D{D}", base | dict(M=4, H=8, KH=8, N=4099, B=1), {}
        yield f"decode 16 D{D}", base | dict(M=16, H=2, KH=2, N=2500, B=9), {}
        yield f"sink lse causal D{D}", base, {"sink": "true", "mask": "causal", "lse": "true"}


def run(name, z, params, so):
    k_ = kernels.Kernel(so)
    g = torch.Generator(dev).manual_seed(1)
    r = lambda *s: torch.randn(s, device=dev, generator=g).to(torch.bfloat16)
    B, H, KH, M, N, D = (z[x] for x in ("B", "H", "KH", "M", "N", "D"))
    q, k, v = r(B, H, M, D), r(B, KH, N, D), r(B, KH, N, D)
    i, j = torch.arange(M, device=dev)[:, None], torch.arange(N, device=dev)[None]
    shift = torch.full((B, 1, 1), N - M, device=dev)
    first = torch.zeros_like(shift)
    end = torch.full((B, 1, 1), N, device=dev)
    held = [N] * B
    args = []
    ints = lambda x: torch.tensor(x, device=dev, dtype=torch.int32)
    L = params.get("lengths")
    if L in ("keys", "batch"):
        kl = [N - 100, 7][:B]
        ql = [M, M] if L == "keys" else [M - 30, 5]
        args.append(ints(kl))
        held = kl
        if L == "batch":
            args.append(ints(ql))
        end = torch.where(
            i[None] < torch.tensor(ql, device=dev)[:, None, None], torch.tensor(kl, device=dev)[:, None, None], 0
        )
        shift = (torch.tensor(kl) - torch.tensor(ql)).to(dev)[:, None, None]
    if L == "documents":
        cq, ck = [0, 1, 60, 60, 190], [0, 3, 100, 120, 300]
        held = [300]
        doc = [sum(c <= x for c in cq[1:]) for x in range(M)]
        args += [ints(doc), ints(cq), ints(ck)]
        d = torch.tensor(doc, device=dev).clamp(max=4)
        ckt, cqt = torch.tensor(ck, device=dev), torch.tensor(cq, device=dev)
        n = (d + 1).clamp(max=4)
        first, end, shift = ckt[d][None, :, None], ckt[n][None, :, None], (ckt[n] - cqt[n])[None, :, None]
    bias = sinks = None
    if params.get("bias") == "scores":
        bias = r(B, H, M, N)
        args.append(bias)
    if params.get("bias") == "distance":
        bias = r(H, 101)
        args.append(bias)
    if "sink" in params:
        sinks = r(H)
        args.append(sinks)
    for b in range(B):
        k[b, :, held[b] :] = math.nan
        v[b, :, held[b] :] = math.nan
    y = torch.full((B, H, M, D), math.nan, device=dev, dtype=torch.bfloat16)
    outs = [y]
    if "lse" in params:
        outs.append(torch.full((B, H, M), math.nan, device=dev))
    k_.bind([q, k, v, *args, *outs], torch.cuda.current_stream().cuda_stream)()
    torch.cuda.synchronize()
    once = y.clone()
    K, V = (torch.nan_to_num(t, nan=0).double().repeat_interleave(H // KH, 1) for t in (k, v))
    s = q.double() @ K.mT / math.sqrt(D)
    if "softcap" in params:
        s = 15 * torch.tanh(s / 15)
    dist = i[None] + shift - j[None]
    if "alibi" in params:
        s = s - torch.exp2(-8.0 * (torch.arange(H, device=dev) + 1) / H)[:, None, None].double() * dist[:, None].abs()
    if params.get("bias") == "scores":
        s = s + bias.double()
    if params.get("bias") == "distance":
        s = s + bias.double()[:, (-dist[0]).clamp(-50, 50) + 50]
    ok = (j[None] >= first) & (j[None] < end)
    if params.get("mask") == "causal":
        ok = ok & (dist >= 0)
    s = s.masked_fill(~ok[:, None], -math.inf)
    if sinks is not None:
        s = torch.cat([s, sinks.double()[None, :, None, None].expand(B, H, M, 1)], -1)
    w = torch.nan_to_num(torch.softmax(s, -1), nan=0)[..., :N]
    ref = w @ V
    err = (y.double() - ref).norm().item() / ref.norm().item()
    worst = (y.double() - ref).abs().max().item()
    none = ~ok.any(-1)
    zero = bool((y.transpose(1, 2)[none.expand(B, M)] == 0).all())
    row = {"work": "attention", "shape": name, "type": "bfloat16", "target": "cuda-sm_90a", "error": err, "bound": 2**-7,
           "worst_element": worst, "empty_rows_are_zero": zero}
    if "lse" in params:
        row["lse_error"] = torch.nan_to_num(outs[1].double() - torch.logsumexp(s, -1), nan=0).abs().max().item()
    k_.bind([q, k, v, *args, *outs], torch.cuda.current_stream().cuda_stream)()
    torch.cuda.synchronize()
    row["bitwise_repeatable"] = torch.equal(once.view(torch.int16), y.view(torch.int16))
    row["schedule"] = k_.choice()
    row["right"] = err < row["bound"] and zero and row["bitwise_repeatable"] and row.get("lse_error", 0) < 1e-4
    return row


def main():
    kiln, schedules, results = sys.argv[1:4]
    works = list(cases())
    base = pathlib.Path(tempfile.mkdtemp())

    def build(params):
        folder = base / ("_".join(f"{a}{b}" for a, b in params) or "plain")
        try:
            return kernels.build(kiln, "attention", ["--target", "cuda-sm_90a", "--schedule", schedules], folder,
                                 {"type": "bfloat16"} | dict(params))
        except kernels.KernelError as error:
            return str(error)

    wanted = sorted({tuple(sorted(params.items())) for _, _, params in works})
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        built = dict(zip(wanted, pool.map(build, wanted)))
    rows = []
    for name, sizes, params in works:
        library = built[tuple(sorted(params.items()))]
        try:
            if isinstance(library, str):
                raise kernels.KernelError(library)
            rows.append(run(name, sizes, params, library))
        except (kernels.KernelError, RuntimeError) as error:
            rows.append({"work": "attention", "shape": name, "right": False, "fault": str(error)[:600]})
        print("ok " if rows[-1]["right"] else "BAD", json.dumps(rows[-1]), flush=True)
    document = {"device": torch.cuda.get_device_name(), "date": datetime.datetime.now(datetime.timezone.utc).isoformat(),
                "versions": {"torch": torch.__version__, "cuda": torch.version.cuda},
                "command": "bench/attention_variants.py KILN SCHEDULES RESULTS", "rows": rows}
    pathlib.Path(results).write_text(json.dumps(document, indent=1) + "\n")
    return 0 if all(row["right"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
