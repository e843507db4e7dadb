"""Which of the hand-written schedules a library is built from: schedules/variants.txt and schedules/GENERATOR/TARGET.sched.
The same rule as choose_schedules in dsl/lower/LibraryRequest.h.

usage: schedules.py FOLDER GENERATOR TARGET... [PARAMETER=VALUE...]   prints the options of `kiln build`, one a line
"""

import pathlib
import re
import sys

CPU = ["cpu_avx512_bf16", "cpu_avx512", "cpu_avx2", "cpu_sse41", "cpu"]


def options(folder, generator, target, params=None):
    """Options of `kiln build` for one target and the generator's parameters: `--target`, then a `--schedule` (and `--when`)
    for each variant. Where the folder has none for the target nor for fewer of its features, its default schedule."""
    folder = pathlib.Path(folder)
    slug = target.replace("-", "_").replace(" ", "_").replace(",", "_")
    less = CPU[CPU.index(slug):] if slug in CPU else [slug]
    plain = next((s for s in less if (folder / generator / f"{s}.sched").exists()), slug)
    out = ["--target", target]
    for line in (folder / "variants.txt").read_text().splitlines():
        words = line.split("#")[0].split()
        if len(words) < 4 or words[0] != generator or words[1] not in (slug, plain):
            continue
        needs = [w for w in words[3:] if re.fullmatch(r"\w+=\w+", w)]
        condition = " ".join(w for w in words[3:] if w not in needs)
        if any((params or {}).get(n.split("=")[0]) != n.split("=")[1] for n in needs):
            continue
        out += ["--schedule", str(folder / generator / f"{words[2]}.sched")]
        if not condition:
            return out
        out += ["--when", condition]
    file = folder / generator / f"{plain}.sched"
    return out + ["--schedule", str(file) if file.exists() else "default"]


if __name__ == "__main__":
    given = dict(a.split("=", 1) for a in sys.argv[3:] if "=" in a)
    for target in (a for a in sys.argv[3:] if "=" not in a):
        print("\n".join(options(sys.argv[1], sys.argv[2], target, given)))
