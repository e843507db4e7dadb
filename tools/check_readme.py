"""Keeps the files that README.md shows equal to the files it names: with --fix it copies them in, else it checks.

A line `<!-- file: PATH -->` is followed by the file as a code block.
"""

import re
import sys

from tree_files import ROOT

MARK = re.compile(r"^<!-- file: (\S+) -->\n(?:\n?```\w*\n.*?^```\n)?", re.MULTILINE | re.DOTALL)
LANGUAGES = {".cpp": "cpp", ".txt": "cmake", ".sched": "", ".h": "cpp"}


def with_files(text):
    def block(match):
        path = ROOT / match[1]
        return f"{match[0].splitlines()[0]}\n```{LANGUAGES[path.suffix]}\n{path.read_text()}```\n"

    return MARK.sub(block, text)


def main():
    readme = ROOT / "README.md"
    text = readme.read_text()
    wanted = with_files(text)
    if sys.argv[1:] == ["--fix"]:
        readme.write_text(wanted)
    elif text != wanted:
        print("README.md shows an example that is not the one in apps/; run tools/check_readme.py --fix", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
