"""Writes docs/errors.md: each code, what it says, and an example that a test asserts. --check compares instead.

What a code says is the message of the source that reports it; the example is the longest text rendered in a test.
"""

import collections
import re
import sys

from tree_files import ROOT, source_files

PAGE = ROOT / "docs/errors.md"
LINES_OF_AN_EXAMPLE = 14
FAMILIES = {
    "K00": "The text of a schedule",
    "K01": "Names and loops",
    "K02": "What loops, splits and tails may do",
    "K03": "Placement: compute_at, store_at, storage, memory",
    "K04": "GPUs and targets",
    "K05": "What only Halide finds",
    "K06": "Knobs and requirements",
    "K07": "Building a library",
    "K08": "Checks, benchmarks and measurements",
    "K09": "Targets, devices and the command line",
    "K10": "Generators and their shared objects",
    "K11": "Tile kernels",
    "K12": "Attention: tile kernels and the generator's parameters",
    "K13": "Searching for schedules: space, search, cost model",
}
INTRODUCTION = """# Errors

Made by `python3 tools/errors_page.py` from the sources and their tests; do not edit. `…` stands for names and
numbers of the case at hand.
"""

LITERAL = re.compile(r'R"(?P<mark>\w*)\((?P<raw>.*?)\)(?P=mark)"|"(?P<plain>(?:\\.|[^"\\\n])*)"', re.DOTALL)
COMMENT = re.compile(r"^\s*(//|\*).*$|\s///?<? .*$", re.MULTILINE)
REPORTED = re.compile(r'"(K\d{4})"')
# Between two parts of one string: nothing, or a value that is put in.
JOINT = re.compile(r"\s*(\+?[\s\w.:()\[\]>+-]*)\s*")
# From a code to its message: further arguments of one call, or the assignments of a Diagnostic.
CALL = re.compile(r"[\s,\w.:>()*&+-]*")
ASSIGNED = re.compile(r";[^\"{}]*?\bmessage\s*=\s*[\s\w:(?,.()!=>-]*")
RENDERED = re.compile(r"(error|warning)\[(K\d{4})\]: ")
ESCAPES = {"n": "\n", "t": "\t", "0": "\0", '"': '"', "\\": "\\"}


def plain(text):
    return re.sub(r"\\(.)", lambda m: ESCAPES.get(m[1], m[1]), text)


def strings(code):
    """Yields (start, text) of each C++ string; what is joined to it at run time becomes `…`."""
    start, end, text = 0, None, ""
    for m in LITERAL.finditer(code):
        part = m["raw"] if m["raw"] is not None else plain(m["plain"])
        joint = JOINT.fullmatch(code, end, m.start()) if end is not None else None
        if joint and (not joint[1].strip() or "+" in joint[1] or re.fullmatch(r"[A-Z_]+\s*", joint[1])):
            text += ("…" if joint[1].strip(" +\n") else "") + part
        else:
            if end is not None:
                yield start, text
            start, text = m.start(), part
        end = m.end()
    if end is not None:
        yield start, text


def blanks(text):
    return re.sub(r"\{[^{}\s]*\}", "…", text.replace("{{", "\x01").replace("}}", "\x02")).translate({1: "{", 2: "}"})


def meanings():
    """What the sources say with each code: the templates of its messages."""
    found = collections.defaultdict(list)
    for path in source_files():
        if path.parts[0] not in ("dsl", "apps", "generators") or path.suffix not in (".cpp", ".h"):
            continue
        code = COMMENT.sub("", (ROOT / path).read_text())
        texts = list(strings(code))
        for m in REPORTED.finditer(code):
            messages = found[m[1]]
            for start, text in texts:
                if start < m.end():
                    continue
                between = code[m.end() : start]
                if (CALL.fullmatch(between) or ASSIGNED.fullmatch(between)) and " " in text.strip():
                    messages.append(blanks(text.strip()))
                break
    return found


def blocks(text):
    """Yields (code, rendered diagnostic) of a text that holds rendered diagnostics."""
    starts = list(RENDERED.finditer(text))
    for m, following in zip(starts, [*(s.start() for s in starts[1:]), len(text)]):
        yield m[2], text[m.start() : following].split("\n\n")[0].rstrip()


def examples():
    found = {}

    def offer(code, text):
        lines = text.count("\n") + 1
        if lines <= LINES_OF_AN_EXAMPLE and len(text) > len(found.get(code, "")):
            found[code] = text

    golden = set()
    for path in sorted(source_files(), key=lambda p: (p.suffix != ".txt", p)):
        if path.parts[0] != "tests" or path.suffix not in (".txt", ".cpp"):
            continue
        text = (ROOT / path).read_text(errors="replace")
        if path.suffix == ".txt":
            for code, block in blocks(text):
                if path.name == f"{code}.txt" and code not in golden:
                    golden.add(code)
                    offer(code, block)
        else:
            for _, string in strings(text):
                # A regular expression that a message must match.
                string = re.sub(r"\\([\[\]().+?])", r"\1", string)
                for code, block in blocks(string):
                    if code not in golden:
                        offer(code, blanks(block))
    return found


def page():
    says, shown = meanings(), examples()
    out, family = [INTRODUCTION], ""
    for code in sorted(says):
        if code[:3] != family:
            family = code[:3]
            out.append(f"## {FAMILIES[family]}\n")
        example = shown.get(code, "")
        headline = example.split("\n")[0].partition("]: ")[2]
        messages = sorted(set(says[code]), key=says[code].index) or [headline]
        out.append(f"### {code}\n\n" + "; or: ".join(messages) + "\n")
        if example:
            out.append("".join(f"    {line}".rstrip() + "\n" for line in example.split("\n")))
    return "\n".join(out)


def main():
    text = page()
    if sys.argv[1:] != ["--check"]:
        PAGE.write_text(text)
        return 0
    if not PAGE.exists() or PAGE.read_text() != text:
        print("docs/errors.md is not what the sources say; run `python3 tools/errors_page.py`", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
