"""Times of pieces of work that run in turn, and what they say. The same rules as dsl/check/Measure.h and Statistics.h:
medians, the 95 % interval of the paired ratio by a block bootstrap, warm and cold caches apart."""

import random
import statistics
import time

L2_BYTES = 256 << 20  # more than any GPU's cache: buffers rotate over so much


def median(values):
    return statistics.median(values) if values else 0.0


def quantile(values, q):
    values = sorted(values)
    at = q * (len(values) - 1)
    low = int(at)
    high = min(low + 1, len(values) - 1)
    return values[low] + (at - low) * (values[high] - values[low])


def paired_ratio(candidate, baseline, seed=1, resamples=2000):
    """(median, low, high) of baseline[i] / candidate[i]."""
    ratios = [b / c for c, b in zip(candidate, baseline)]
    n = len(ratios)
    if n == 0:
        return 0.0, 0.0, 0.0
    block = max(1, round(n ** (1 / 3)))
    rng = random.Random(seed)
    medians = []
    for _ in range(resamples):
        sample = []
        while len(sample) < n:
            start = rng.randrange(n - block + 1)
            sample += ratios[start:start + block]
        medians.append(median(sample[:n]))
    return median(ratios), quantile(medians, 0.025), quantile(medians, 0.975)


def drift(values):
    third = len(values) // 3
    return abs(median(values[-third:]) / median(values[:third]) - 1) if third >= 3 else 0.0


def time_of(run, wait, repeats):
    start = time.perf_counter()
    for _ in range(repeats):
        run()
    wait()
    return (time.perf_counter() - start) / repeats


def repeats_for(run, wait, shortest):
    repeats = 1
    while True:
        each = time_of(run, wait, repeats)
        if each * repeats >= shortest or repeats >= 1 << 16:
            return max(1, int(-(-shortest // max(each, 1e-9))))
        repeats *= 2


def interleave(works, wait=lambda: None, flush=None, seconds=1.0, least_rounds=9, most_rounds=400, shortest=300e-6, seed=1,
               before=None):
    """Runs each of `works` ({name: function}) once a round, in random order. `before(name)` makes ready for a turn (the
    other libraries' threads passive). Returns ({name: warm seconds}, {name: cold seconds})."""
    before = before or (lambda name: None)
    repeats = {}
    for name, run in works.items():
        before(name)
        time_of(run, wait, 2)
        repeats[name] = repeats_for(run, wait, shortest)
    rng = random.Random(seed)
    warm, cold = {n: [] for n in works}, {n: [] for n in works}
    for is_cold, times in ((False, warm), (True, cold)):
        if is_cold and flush is None:
            continue
        end = time.perf_counter() + seconds * len(works) / 2
        rounds = 0
        while rounds < most_rounds and (rounds < least_rounds or time.perf_counter() < end):
            names = list(works)
            rng.shuffle(names)
            for name in names:
                before(name)
                if is_cold:
                    flush()
                    wait()
                else:
                    works[name]()  # its own data back into the caches after the others' turns
                    wait()
                times[name].append(time_of(works[name], wait, 1 if is_cold else repeats[name]))
            rounds += 1
    return warm, cold
