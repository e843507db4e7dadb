"""Checks that clang-format 14 leaves every C and C++ source as it is; with --fix it formats them."""

import os
import pathlib
import shutil
import subprocess
import sys

from tree_files import ROOT, source_files

SUFFIXES = {".c", ".cpp", ".h", ".hpp"}
VERSION = "14.0.6"  # other versions lay out the same code differently


def find_clang_format():
    candidates = [pathlib.Path(sys.executable).parent / "clang-format", "clang-format-14", "clang-format"]
    for candidate in candidates:
        path = shutil.which(candidate)
        if path and VERSION in subprocess.run([path, "--version"], capture_output=True, text=True).stdout:
            return path
    sys.exit(f"clang-format {VERSION} not found; `./dev setup` installs it into .kiln/py")


def main():
    os.chdir(ROOT)
    fix = sys.argv[1:] == ["--fix"]
    files = [str(path) for path in source_files() if path.suffix in SUFFIXES]
    command = [find_clang_format(), "--style=file", *(["-i"] if fix else ["--dry-run", "--Werror"])]
    run = subprocess.run([*command, *files], capture_output=True, text=True)
    if run.returncode != 0:
        places = [line for line in run.stderr.splitlines() if "[-Wclang-format-violations]" in line]
        first_of_file = {line.split(":")[0]: line for line in reversed(places)}
        print("\n".join(sorted(first_of_file.values())) or run.stderr, file=sys.stderr)
        print(f"{len(first_of_file)} of {len(files)} files are not formatted; run `./dev format`", file=sys.stderr)
        return 1
    print(f"{'formatted' if fix else 'checked'} {len(files)} files")
    return 0


if __name__ == "__main__":
    sys.exit(main())
