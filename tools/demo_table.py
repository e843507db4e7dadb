"""One table from the lines of JSON that the programs of apps/tour print.

usage: demo_table.py DEVICES_JSON LINES...   DEVICES_JSON is what `kiln device --json` printed; LINES are files.
"""

import json
import pathlib
import sys

ABOVE = " (1)"
HEAD = ["kernel", "target", "shape", "checked", "ms", "roofline", "ratio"]


def ceilings_of(devices):
    """The first calibrated device of each backend."""
    found = {}
    for device in devices:
        backend = device["target"].split()[0]
        if device.get("ceilings") and backend not in found:
            found[backend] = device["ceilings"]
    return found


def roofline_ms(row, ceilings):
    """The least time that the measured ceilings allow."""
    seconds = row["bytes"] / ceilings["copy_bytes_per_s"]
    peak = ceilings.get("flops", {}).get(row["type"])
    if peak:
        seconds = max(seconds, row["flops"] / peak)
    return 1e3 * seconds


def cells(row, ceilings):
    first = [row["work"], row["target"], row["shape"]]
    if "skipped" in row:
        return first + [f"compiled, not run: {row['skipped']}", "", "", ""]
    if "failed" in row:
        return first + [f"FAILED: {row['failed']}", "", "", ""]
    checked = f"{'ok' if row['right'] else 'WRONG'}: {row['error']:.1e} of {row['bound']:.1e}"
    backend = row["target"].split()[0]
    share = "-"
    if backend in ceilings:
        reached = roofline_ms(row, ceilings[backend]) / row["ms"]
        share = f"{reached:.0%}" + (ABOVE if reached > 1.03 else "")
    return first + [checked, f"{row['ms']:.3f}", share, f"{row['ratio']:.2f} of {row['baseline']}"]


def main():
    devices = json.loads(pathlib.Path(sys.argv[1]).read_text())["devices"]
    rows = [json.loads(line) for path in sys.argv[2:] for line in pathlib.Path(path).read_text().splitlines()]
    table = [HEAD] + [cells(row, ceilings_of(devices)) for row in rows]
    # A note in place of numbers may run over the columns after it.
    noted = [row for row in table if not row[4]]
    widths = [max(len(row[i]) for row in table if i < 3 or row not in noted) for i in range(len(HEAD))]
    for row in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
    if any(row[5].endswith(ABOVE) for row in table):
        print(
            "\n(1) Faster than the measured ceilings allow: a cache holds this shape, or the machine was busy when the\n"
            "    ceilings were measured (`kiln device --calibrate` does it again)."
        )
    wrong = [row for row in rows if "failed" in row or row.get("right") is False]
    print(f"\n{len(rows)} kernels built, {sum('right' in row for row in rows)} run, {len(wrong)} wrong")
    return 1 if wrong or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
