"""Which of the hand-written schedules a library is built from: schedules/variants.txt and schedules/GENERATOR/TARGET.sched.

usage: schedules.py FOLDER GENERATOR TARGET...   prints the options of `kiln build`, one a line
"""

import pathlib
import sys


def options(folder, generator, target):
    """Options of `kiln build` for one target: `--target`, then a `--schedule` (and `--when`) for each variant. Where the
    folder has none for the target, its default schedule."""
    folder = pathlib.Path(folder)
    slug = target.replace("-", "_").replace(" ", "_")
    out = ["--target", target]
    for line in (folder / "variants.txt").read_text().splitlines():
        words = line.split("#")[0].split(maxsplit=3)
        if words[:2] == [generator, slug]:
            out += ["--schedule", str(folder / generator / f"{words[2]}.sched"), "--when", words[3]]
    file = folder / generator / f"{slug}.sched"
    return out + ["--schedule", str(file) if file.exists() else "default"]


if __name__ == "__main__":
    for target in sys.argv[3:]:
        print("\n".join(options(sys.argv[1], sys.argv[2], target)))
