#!/usr/bin/env python3
"""Makes Markdown tables from docs/results/*.json.

usage: tables.py [FILE...]              prints one table a file (all of docs/results without arguments)
       tables.py --into README.md       replaces what stands between <!-- results --> and <!-- /results --> there
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


def means(rows):
    """The geometric mean of the ratio for each work and baseline with several shapes."""
    groups = {}
    for row in rows:
        if row.get("ratio"):
            groups.setdefault((row["work"], row["type"], row["target"], row.get("threads"), row["baseline"], row.get("regime", "")),
                              []).append(row)
    for (work, dtype, target, threads, baseline, regime), members in groups.items():
        if len(members) > 1:
            mean = math.exp(sum(math.log(r["ratio"]) for r in members) / len(members))
            least = min(members, key=lambda r: r["ratio"])
            yield (f"{work}{' ' + regime if regime else ''} {dtype}, {target}{f', {threads} threads' if threads else ''}, of {baseline}: {mean:.2f} in the "
                   f"geometric mean of {len(members)} shapes, least {least['ratio']:.2f} ({least['shape']}).")


def table(path):
    document = json.loads(pathlib.Path(path).read_text())
    rows = [r for r in document["rows"] if r.get("ratio")]
    out = [f"### {document['device']}", "",
           f"{document['date'][:10]}, `{document['command']}`. Ratio: baseline's time over ours, median and 95 % interval; bold "
           "where the interval lies above 1.", "",
           "| work | shape | type | target · threads | ms | speed | of roofline | baseline | ratio |",
           "|---|---|---|---|---|---|---|---|---|"]
    out += [line(r) for r in rows]
    summary = list(means(rows))
    if summary:
        out += [""] + [f"- {s}" for s in summary]
    return "\n".join(out)


def main(arguments):
    into = None
    if arguments[:1] == ["--into"]:
        into, arguments = pathlib.Path(arguments[1]), arguments[2:]
    files = arguments or sorted(str(p) for p in (ROOT / "docs" / "results").glob("*.json"))
    text = "\n\n".join(table(f) for f in files)
    if not into:
        print(text)
        return 0
    page = into.read_text()
    begin, end = "<!-- results -->", "<!-- /results -->"
    if begin not in page or end not in page:
        sys.exit(f"{into} has no line {begin} … {end}")
    head, rest = page.split(begin, 1)
    into.write_text(head + begin + "\n" + text + "\n" + end + rest.split(end, 1)[1])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
