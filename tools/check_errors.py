"""Checks that a test holds the rendered message of each error code that the sources report."""

import re
import sys

from tree_files import ROOT, source_files

RENDERED = re.compile(r"(?:error|warning)\\*\[(K\d{4})\\*\]: ")
COMMENT = re.compile(r"^\s*(//|\*).*$|\s///?<? .*$", re.MULTILINE)
REPORTED = re.compile(r"\"(K\d{4})\"")


def main():
    reported, tested = {}, set()
    for path in source_files():
        top = path.parts[0]
        if top == "tests":
            tested.update(RENDERED.findall((ROOT / path).read_text(errors="replace")))
        elif top in ("dsl", "apps", "generators", "bench", "autoscheduler") and path.suffix in (".cpp", ".h", ".py"):
            for code in REPORTED.findall(COMMENT.sub("", (ROOT / path).read_text())):
                reported.setdefault(code, path)
    untested = sorted(reported.keys() - tested)
    for code in untested:
        print(f"{reported[code]}: no test holds a message of {code}", file=sys.stderr)
    print(f"{len(reported)} codes, {len(untested)} without a test")
    return 1 if untested else 0


if __name__ == "__main__":
    sys.exit(main())
