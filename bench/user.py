#!/usr/bin/env python3
"""Builds users' generators (tests/support/user) with their schedules, runs them on a GPU and compares with PyTorch in
double; times each beside the same work in PyTorch.

usage: user.py --generators user_generators.so --schedules tests/support/user [--kiln PATH] [--out FILE] [--only TEXT]
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import statistics
import sys
import tempfile

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import kernel as kernels  # noqa: E402
import products  # noqa: E402

HALF, UNIT = torch.bfloat16, {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11, torch.float32: 2.0**-20}


def draw(*shape, dtype=HALF):
    return torch.randn(shape, device="cuda").to(dtype)


def empty(*shape, dtype=HALF):
    return torch.empty(shape, device="cuda", dtype=dtype)


def dequantized(m, n, k):
    x, w = draw(m, k), torch.randint(-127, 128, (n, k), device="cuda").to(torch.int8)
    scale, bias = torch.rand(n, device="cuda") * 0.01, draw(n, dtype=torch.float32)
    wide = w.to(HALF)
    return [x, w, scale, bias], [empty(m, n)], [torch.relu((x.double() @ w.double().T) * scale.double() + bias.double())], \
        lambda: torch.relu((x @ wide.T) * scale + bias)


def two_outputs(m, n, k):
    half = torch.float16
    x, w, c = draw(m, k, dtype=half), draw(n, k, dtype=half), draw(n, dtype=half)
    r = x.double() @ w.double().T
    return [x, w, c], [empty(m, n, dtype=half), empty(m, n, dtype=torch.float32)], [r * c.double(), r], \
        lambda: (lambda a: (a * c, a.float()))(x @ w.T)


def row_statistics(m, n, k):
    x, w = draw(m, k), draw(n, k)
    r = x.double() @ w.double().T
    blocks = -(-n // 128)
    padded = torch.nn.functional.pad(r, (0, blocks * 128 - n)).view(m, blocks, 128)
    low = torch.nn.functional.pad(r, (0, blocks * 128 - n), value=-float("inf")).view(m, blocks, 128)
    return [x, w], [empty(m, n), empty(m, blocks, dtype=torch.float32), empty(m, blocks, dtype=torch.float32)], \
        [r, padded.sum(-1), low.amax(-1)], lambda: (lambda a: (a, a.view(m, -1, 128).float().sum(-1), a.view(m, -1, 128).amax(-1)))(x @ w.T)


def product_of_product(m, n, k):
    x, w, v = draw(m, k), draw(128, k), draw(n, 128)
    h = torch.relu((x.double() @ w.double().T).float()).to(HALF)
    return [x, w, v], [empty(m, n)], [h.double() @ v.double().T], lambda: torch.relu(x @ w.T) @ v.T


def log_softmax(m, n, k):
    x, w = draw(m, k), draw(n, k)
    return [x, w], [empty(m, n, dtype=torch.float32)], [torch.log_softmax(x.double() @ w.double().T, -1)], \
        lambda: torch.log_softmax((x @ w.T).float(), -1)


def complex_product(m, n, k):
    xr, xi, wr, wi = draw(m, k), draw(m, k), draw(n, k), draw(n, k)
    a, b, c, d = (t.double() for t in (xr, xi, wr, wi))
    return [xr, xi, wr, wi], [empty(m, n, dtype=torch.float32), empty(m, n, dtype=torch.float32)], \
        [a @ c.T - b @ d.T, a @ d.T + b @ c.T], lambda: (xr @ wr.T - xi @ wi.T, xr @ wi.T + xi @ wr.T)


def four_bits(m, n, k):
    x, q = draw(m, k), torch.randint(0, 16, (n, k), device="cuda")
    packed = (q[:, ::2] | q[:, 1::2] << 4).to(torch.uint8)
    scale = torch.rand(n, device="cuda")
    wide = (q - 8).to(HALF)
    return [x, packed, scale], [empty(m, n)], [(x.double() @ (q - 8).double().T) * scale.double()], lambda: (x @ wide.T) * scale


def outer_product(m, n, k):
    x, w, u, v = draw(m, k), draw(n, k), draw(m, dtype=torch.float32), draw(n, dtype=torch.float32)
    return [x, w, u, v, 20.0], [empty(m, n)], [(x.double() @ w.double().T).clamp(-20, 20) + u.double()[:, None] * v.double()], \
        lambda: (x @ w.T).clamp(-20, 20) + torch.outer(u, v)


WORKS = {"user_dequantized": (dequantized, [(512, 512, 512), (200, 264, 136), (4096, 4096, 4096)]),
         "user_two_outputs": (two_outputs, [(512, 512, 512), (200, 264, 136), (4096, 4096, 4096)]),
         "user_row_statistics": (row_statistics, [(512, 512, 512), (200, 264, 136), (4096, 4096, 4096)]),
         "user_product_of_product": (product_of_product, [(512, 512, 512), (200, 264, 136), (8192, 1024, 1024)]),
         "user_log_softmax": (log_softmax, [(512, 256, 512), (200, 104, 136), (16384, 256, 1024)]),
         "user_complex": (complex_product, [(512, 512, 512), (200, 264, 136), (2048, 2048, 2048)]),
         "user_four_bits": (four_bits, [(64, 512, 512), (200, 264, 128), (64, 4096, 4096)]),
         "user_outer_product": (outer_product, [(512, 512, 512), (200, 264, 136), (4096, 4096, 4096)])}


def error_of(got, wanted):
    """Of the norm: rounding of the output's type plus sums in float32."""
    bound = 1.5 * UNIT[got.dtype]
    error = ((got.double() - wanted).norm() / wanted.norm().clamp_min(1e-30)).item()
    return error, bound


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--generators", required=True)
    parser.add_argument("--schedules", default=str(products.ROOT / "tests" / "support" / "user"))
    parser.add_argument("--kiln", default=str(products.ROOT / "build" / "bin" / "kiln"))
    parser.add_argument("--out", default=str(products.ROOT / "docs" / "results" / "user.json"))
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="kiln-user-"))
    names = [name for name in WORKS if arguments.only in name]

    def build(name):
        file = pathlib.Path(arguments.schedules) / f"{name}.sched"
        options = ["--load", arguments.generators, "--target", "cuda-sm_90a", "--schedule", str(file), "--target", "cuda",
                   "--schedule", "default"]
        try:
            return kernels.build(arguments.kiln, name, options, folder / name)
        except Exception as error:  # noqa: BLE001 whatever it is, it is this program's result
            return str(error)

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        made = dict(zip(names, pool.map(build, names)))
    rows, faults = [], 0
    for name in names:
        for shape in WORKS[name][1]:
            row = {"work": name, "shape": "x".join(map(str, shape))}
            rows.append(row)
            if isinstance(made[name], str):
                row["fault"] = made[name][:600]
                faults += 1
                continue
            kernel = kernels.Kernel(made[name])
            inputs, outputs, wanted, rival = WORKS[name][0](*shape)
            for o in outputs:
                o.fill_(float("nan"))
            try:
                call = lambda stream, k=kernel, a=inputs + outputs: k.bind(a, stream)()  # noqa: E731
                call(torch.cuda.current_stream().cuda_stream)
                torch.cuda.synchronize()
            except (kernels.KernelError, RuntimeError) as error:
                row["fault"] = str(error)[:600]
                faults += 1
                continue
            row["choice"] = kernel.choice()
            row["errors"] = [error_of(o, w) for o, w in zip(outputs, wanted)]
            row["right"] = all(e <= b for e, b in row["errors"])
            faults += not row["right"]
            graphs = {"kiln": products.captured([call]), "torch": products.captured([lambda stream: rival()])}
            times = {k: statistics.median(t) for k, t in products.measure(graphs, 1, 7, False).items()}
            row["ms"], row["torch_ms"] = times["kiln"] * 1e3, times["torch"] * 1e3
            row["ratio"] = times["torch"] / times["kiln"]
            print(row, flush=True)
    pathlib.Path(arguments.out).write_text(json.dumps({"device": torch.cuda.get_device_name(), "rows": rows}, indent=1) + "\n")
    print(f"{len(rows)} cases, {faults} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
