"""Checks the shape of the checkout: a short README in each folder and no file, but generated pages, too long to read."""

import collections
import sys

from tree_files import ROOT, source_files

LINES_OF_A_FILE = 800
LINES_OF_A_README = 20
# Made by a program, which a test runs again: nobody reads them from end to end.
GENERATED = {"docs/directives.md", "docs/errors.md"}
# Folders down to this depth explain themselves; deeper ones, and those of schedules alone, belong to the part above.
DEPTH_WITH_README = 2
CODE = {".c", ".cpp", ".h", ".hpp", ".py", ".sh", ".cmake", ".sched", ".md", ".txt", ".ebnf"}


def faults():
    folders = collections.defaultdict(set)
    for path in source_files():
        for depth in range(1, len(path.parts)):
            folders[path.parts[:depth]].add(path.parts[depth])
        if path.suffix not in CODE:
            continue
        lines = (ROOT / path).read_text(errors="replace").count("\n")
        if lines > LINES_OF_A_FILE and path.as_posix() not in GENERATED:
            yield f"{path}: {lines} lines; split it before {LINES_OF_A_FILE}"
        if path.name == "README.md" and len(path.parts) in (2, 3) and lines > LINES_OF_A_README:
            yield f"{path}: {lines} lines; a folder's README has at most {LINES_OF_A_README}"
    for folder, names in sorted(folders.items()):
        schedules_alone = all(name.endswith(".sched") for name in names)
        if len(folder) > DEPTH_WITH_README or folder[0] == ".ci" or schedules_alone:
            continue
        if "README.md" not in names:
            yield f"{'/'.join(folder)}: no README.md"


def main():
    found = list(faults())
    for fault in found:
        print(fault, file=sys.stderr)
    print(f"{len(found)} faults in the shape of the tree")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
