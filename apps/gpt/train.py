"""Trains the weights of apps/gpt on the King James Bible, on a CPU, from a seed.

    apt-get install bible-kjv          # the text: public domain, 4.4 MB
    python train.py --steps 1200       # PyTorch 2.8; 15 minutes of one core, 1.14 nats a character on verses not seen
"""

import argparse
import math
import subprocess
import time

import torch
import torch.nn.functional as F

import model


def text_of_package(command):
    """One verse a line, with its place: `Ge1:1 In the beginning God created the heaven and the earth.`"""
    done = subprocess.run([*command.split(), "-f", "Gen1:1-Rev22:21"], capture_output=True, check=True)
    return done.stdout.decode("ascii", "ignore")


def learning_rate(step, steps, peak):
    warm = min(1, (step + 1) / 50)
    return peak * warm * (0.05 + 0.95 * (0.5 + 0.5 * math.cos(math.pi * step / steps)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="weights.bin")
    parser.add_argument("--bible", default="bible", help="the program of Debian's bible-kjv, with options if need be")
    parser.add_argument("--steps", type=int, default=1200)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--peak", type=float, default=4e-3, help="learning rate")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    torch.manual_seed(options.seed)
    shape = model.Shape()
    tokens = torch.tensor(model.tokens_of(text_of_package(options.bible)))
    # The last verses of every hundred thousand characters are kept from training, to see what was learned.
    held = torch.arange(len(tokens)) % 100_000 >= 98_000
    starts = (~held).nonzero().flatten()
    starts = starts[(starts + shape.context + 1 < len(tokens))]
    starts = starts[~held[starts + shape.context]]
    tests = torch.arange(98_000, len(tokens) - 2_000, 100_000)

    def windows(first):
        return tokens[first[:, None] + torch.arange(shape.context + 1)]

    def loss_of(window):
        scores = model.logits(shape, weights, window[:, :-1])
        return F.cross_entropy(scores.flatten(0, 1), window[:, 1:].flatten())

    weights = {name: w.requires_grad_() for name, w in model.initial_weights(shape).items()}
    matrices = [w for w in weights.values() if w.ndim == 2]
    vectors = [w for w in weights.values() if w.ndim == 1]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}], betas=(0.9, 0.95))
    begin = time.time()
    for step in range(options.steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, options.steps, options.peak)
        loss = loss_of(windows(starts[torch.randint(len(starts), (options.batch,))]))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights.values(), 1.0)
        optimizer.step()
        if step % 50 == 0 or step == options.steps - 1:
            with torch.no_grad():
                test = loss_of(windows(tests))
            print(f"step {step}: {loss.item():.3f} nats a character, {test.item():.3f} on verses not seen, "
                  f"{time.time() - begin:.0f} s", flush=True)
            model.save(options.out, shape, weights)


if __name__ == "__main__":
    main()
