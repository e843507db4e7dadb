#!/usr/bin/env python3
"""Makes Markdown tables from docs/results/*.json.

usage: tables.py [FILE...]              prints a table of every row, one a file (all of docs/results without arguments)
       tables.py --page docs/figures.md replaces what stands between <!-- results --> and <!-- /results --> there by them
       tables.py --into README.md       the same by the summary: a line for each work, type, target and baseline
"""

import json
import math
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def speed(row):
    """GFLOP/s where arithmetic counts, else GB/s of each buffer once."""
    seconds = row["ms"] / 1e3
    if row.get("flops"):
        return f"{row['flops'] / seconds / 1e9:.0f} GFLOP/s"
    return f"{row.get('bytes', 0) / seconds / 1e9:.1f} GB/s" if row.get("bytes") else ""


def line(row):
    roofline = f"{row['roofline'] * 100:.0f} %" if row.get("roofline") else "–"
    threads = f" · {row['threads']}" if row.get("threads") else ""
    ratio = f"**{row['ratio']:.2f}**" if row["ratio_low"] > 1 else f"{row['ratio']:.2f}"
    flags = f" ({', '.join(row['flags'])})" if row.get("flags") else ""
    work = row["work"] + (f", {row['regime']}" if row.get("regime") else "")
    return (f"| {work} | {row['shape']} | {row['type']} | {row['target']}{threads} | {row['ms']:.4g} | {speed(row)} | "
            f"{roofline} | {row['baseline']} | {ratio} [{row['ratio_low']:.2f}, {row['ratio_high']:.2f}]{flags} |")


def spread(rows):
    """The geometric mean of the ratio, and from where to where it goes."""
    ratios = [r["ratio"] for r in rows]
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    return f"{mean:.2f}" + (f" ({min(ratios):.2f} to {max(ratios):.2f})" if len(ratios) > 1 else "")


def summary(documents):
    """A table a device, those with a GPU first: a line a work, with the ratio to each baseline over its shapes."""
    devices = {}
    for document in documents:
        devices.setdefault(document["device"], []).extend(r for r in document["rows"] if r.get("ratio"))
    out = []
    for device, rows in sorted(devices.items(), key=lambda d: all(r["target"].startswith("cpu") for r in d[1])):
        works = {}
        for row in rows:
            work = row["work"] + (f", {row['regime']}" if row.get("regime") else "")
            target = row["target"] + (f" · {row['threads']}" if row.get("threads") else "")
            works.setdefault((work, row["type"], target), {}).setdefault(row["baseline"], []).append(row)
        out += [f"**{device}**", "", "| work | type | target · threads | shapes | ratio to |", "|---|---|---|---|---|"]
        for (work, dtype, target), baselines in works.items():
            shapes = sorted({r["shape"] for members in baselines.values() for r in members})
            out.append(f"| {work} | {dtype} | {target} | {len(shapes) if len(shapes) > 1 else shapes[0]} | "
                       + ", ".join(f"{name} {spread(members)}" for name, members in baselines.items()) + " |")
        out.append("")
    return "\n".join(out).rstrip()


def table(path):
    document = json.loads(pathlib.Path(path).read_text())
    rows = [r for r in document["rows"] if r.get("ratio")]
    out = [f"### {document['device']}", "",
           f"{document['date'][:10]}, `{document['command']}`. Ratio: baseline's time over ours, median and 95 % interval; bold "
           "where the interval lies above 1.", "",
           "| work | shape | type | target · threads | ms | speed | of roofline | baseline | ratio |",
           "|---|---|---|---|---|---|---|---|---|"]
    return "\n".join(out + [line(r) for r in rows])


def replace(page, text):
    """Puts `text` between the markers of the page."""
    old = page.read_text()
    begin, end = "<!-- results -->", "<!-- /results -->"
    if begin not in old or end not in old:
        sys.exit(f"{page} has no line {begin} … {end}")
    head, rest = old.split(begin, 1)
    page.write_text(head + begin + "\n" + text + "\n" + end + rest.split(end, 1)[1])


def main(arguments):
    option, page = (arguments[0], pathlib.Path(arguments[1])) if arguments[:1] in (["--into"], ["--page"]) else ("", None)
    files = arguments[2 if option else 0:] or sorted(str(p) for p in (ROOT / "docs" / "results").glob("*.json")
                                                           if "rows" in json.loads(p.read_text()))
    if option == "--into":
        replace(page, summary([d for d in (json.loads(pathlib.Path(f).read_text()) for f in files) if d.get("rows")]))
        return 0
    text = "\n\n".join(table(f) for f in files)
    if option:
        replace(page, text)
    else:
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
