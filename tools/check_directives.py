"""Checks that docs/directives.md is what `kiln schedule doc` prints. Argument: the program."""

import difflib
import itertools
import subprocess
import sys

from tree_files import ROOT


def main():
    page = (ROOT / "docs/directives.md").read_text().splitlines()
    printed = subprocess.run([sys.argv[1], "schedule", "doc"], capture_output=True, text=True, check=True)
    difference = difflib.unified_diff(page, printed.stdout.splitlines(), "docs/directives.md", "kiln schedule doc")
    lines = list(itertools.islice(difference, 40))
    for line in lines:
        print(line.rstrip("\n"), file=sys.stderr)
    if lines:
        print("run `kiln schedule doc > docs/directives.md`", file=sys.stderr)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
