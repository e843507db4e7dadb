"""Writes what apps/gpt is checked against: the scores of a text by the same weights in PyTorch, in double, and the likeliest
continuation.

    python reference.py --weights weights.bin --out reference.bin

Little-endian: KILNREF1; int32: characters, characters that follow, vocabulary; int32 tokens; int32 tokens that follow; a row
of `vocabulary` scores a character as float64; and of each score the sum of the sizes of its terms as float32.
"""

import argparse
import struct

import torch

import model

TEXT = """Ps23:1 The LORD is my shepherd; I shall not want.
Ps23:2 He maketh me to lie down in green pastures: he leadeth me beside the still waters.
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", default="weights.bin")
    parser.add_argument("--out", default="reference.bin")
    parser.add_argument("--follow", type=int, default=40)
    options = parser.parse_args()

    shape, weights = model.load(options.weights, torch.float64)
    tokens = model.tokens_of(TEXT)
    text = list(tokens)
    margin = float("inf")
    for _ in range(options.follow):
        best = model.logits(shape, weights, torch.tensor([text]))[0, -1].topk(2)
        margin = min(margin, (best.values[0] - best.values[1]).item())
        text.append(best.indices[0].item())
    state = model.final_state(shape, weights, torch.tensor([tokens]))[0]
    table = weights["embedding"]
    scores, sizes = state @ table.T, state.abs() @ table.abs().T
    with open(options.out, "wb") as out:
        out.write(b"KILNREF1" + struct.pack("<3i", len(tokens), options.follow, shape.vocabulary))
        out.write(struct.pack(f"<{len(text)}i", *text))
        out.write(struct.pack(f"<{scores.numel()}d", *scores.flatten().tolist()))
        out.write(struct.pack(f"<{sizes.numel()}f", *sizes.flatten().tolist()))
    print(f"{len(tokens)} characters, scores of size {scores.abs().max():.1f}, sums of sizes up to {sizes.max():.1f}")
    print(f"followed by, each ahead of the next by {margin:.2g} at least: {model.text_of(text[len(tokens):])!r}")


if __name__ == "__main__":
    main()
