#!/usr/bin/env python3
"""Gradient-boosted trees (XGBoost) beside Kiln's cost model: same samples, same features, same parts held out.

usage: cost_model.py PREDICTIONS RESULTS DATA...
  DATA         files of samples (`kiln model collect`)
  PREDICTIONS  what `kiln model evaluate --predictions` wrote for them
  RESULTS      what `kiln model evaluate --output` wrote: the trees' figures are added to it

The trees see of each candidate, for each feature, the sum over its rows, the largest, and that of the row with the largest
estimate, all as sign(v) log(1 + |v|), and the roofline's estimate. They learn log(ms / estimate) ("trees") or the order
of each problem's candidates ("trees_ranking", where time is not predicted). Measures are those of
dsl/search/model/Metrics.h; for the roofline they are computed here too and must agree with the file's.

XGBoost is taken from this Python; where it has none, the first run installs it into a virtual environment under the
temporary folder. HOLD_OUT=operation|shape|device says which of RESULTS' ways to hold out PREDICTIONS are of.
"""
import importlib.util
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import venv

FOLDER = pathlib.Path(tempfile.gettempdir()) / "kiln-xgboost"
PACKAGE = "xgboost-cpu==3.0.5"


def enter_environment():
    """Runs this script again under the Python that has XGBoost."""
    python = FOLDER / "bin/python"
    if importlib.util.find_spec("xgboost"):
        return
    if not python.exists():
        venv.create(FOLDER, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--disable-pip-version-check", "-q", PACKAGE], check=True)
    os.execv(python, [str(python), *sys.argv])


def read_samples(paths):
    samples = []
    for path in paths:
        with open(path, encoding="utf-8") as lines:
            next(lines)  # names of the features
            for line in lines:
                try:
                    samples.append(json.loads(line))
                except json.JSONDecodeError:
                    break  # cut short
    return samples


def inputs_of(samples):
    import numpy as np

    rows = []
    for s in samples:
        values = np.array([r["values"] for r in s["rows"]], dtype=np.float64)
        estimates = np.maximum([r["estimate_ms"] for r in s["rows"]], 1e-9)
        total = estimates.sum()
        parts = np.concatenate([values.sum(0), values.max(0), values[int(estimates.argmax())]])
        rows.append(np.concatenate([np.sign(parts) * np.log1p(np.abs(parts)),
                                    [math.log(total), len(s["rows"]), estimates.max() / total]]))
    return np.array(rows, dtype=np.float32)


def groups_of(samples, least=1):
    groups = {}
    for i, s in enumerate(samples):
        groups.setdefault((s["device"], s["problem"]), []).append(i)
    return [g for g in groups.values() if len(g) >= least]


def metrics(samples, predicted):
    """As metrics_of of dsl/search/model/Metrics.cpp."""
    pairwise, tops, within = [], {1: [], 5: [], 16: []}, []
    for group in groups_of(samples, 8):
        right = pairs = 0
        for i in group:
            for j in group:
                if samples[j]["ms"] >= samples[i]["ms"] * 1.1:
                    pairs += 1
                    right += 1 if predicted[i] < predicted[j] else 0.5 if predicted[i] == predicted[j] else 0
        if pairs:
            pairwise.append(right / pairs)
        order = sorted(group, key=lambda i: predicted[i])
        best = min(samples[i]["ms"] for i in group)
        for k, list_ in tops.items():
            list_.append(math.log(min(samples[i]["ms"] for i in order[:k]) / best))
        within.append(tops[16][-1] <= math.log(1.03))

    def mean(v):
        return sum(v) / max(1, len(v))

    return {"pairwise": round(mean(pairwise), 3), "top1": round(math.exp(mean(tops[1])), 3),
            "top5": round(math.exp(mean(tops[5])), 3), "top16": round(math.exp(mean(tops[16])), 3),
            "top16_within_3_percent": round(mean(within), 3)}


def train_and_predict(samples, inputs, parts):
    import numpy as np
    import xgboost as xgb

    estimate = np.array([math.log(sum(max(r["estimate_ms"], 1e-9) for r in s["rows"])) for s in samples])
    measured = np.log([s["ms"] for s in samples])
    by_time, by_rank = np.zeros(len(samples)), np.zeros(len(samples))
    shape = {"max_depth": 6, "eta": 0.06, "subsample": 0.8, "colsample_bytree": 0.5, "min_child_weight": 3, "seed": 1,
             "nthread": os.cpu_count()}
    for part in sorted(set(parts)):
        seen = [g for g in groups_of([{**s, "part": p} for s, p in zip(samples, parts)]) if parts[g[0]] != part]
        train = [i for g in seen for i in g]
        test = [i for i, p in enumerate(parts) if p == part]
        # Each problem counts as the root of its samples, as for the networks.
        weights = [1 / math.sqrt(len(g)) for g in seen for _ in g]
        data = xgb.DMatrix(inputs[train], measured[train] - estimate[train], weight=weights)
        booster = xgb.train({**shape, "objective": "reg:pseudohubererror"}, data, 400)
        by_time[test] = estimate[test] + booster.predict(xgb.DMatrix(inputs[test]))
        relevance = np.concatenate([np.argsort(np.argsort(-measured[g])) * 31 // max(1, len(g) - 1) for g in seen])
        ranking = xgb.DMatrix(inputs[train], relevance)
        ranking.set_group([len(g) for g in seen])
        booster = xgb.train({**shape, "objective": "rank:pairwise"}, ranking, 200)
        by_rank[test] = -booster.predict(xgb.DMatrix(inputs[test]))
    return by_time, by_rank


def main():
    enter_environment()
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    predictions, results_path, data = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3:]
    samples = read_samples(data)
    told = json.loads(pathlib.Path(predictions).read_text(encoding="utf-8"))
    if [(s["problem"], s["device"]) for s in samples] != [(t["problem"], t["device"]) for t in told]:
        sys.exit("cost_model.py: the predictions are of other samples than the data")
    parts = [t["part"] for t in told]
    results = json.loads(results_path.read_text(encoding="utf-8"))
    own = metrics(samples, [t["roofline_ms"] for t in told])
    mode = [m for m, r in results.items() if abs(r["results"]["roofline"]["pairwise"] - own["pairwise"]) < 2e-3 and
            len(set(parts)) == r["results"]["parts"]]
    wanted = os.environ.get("HOLD_OUT")
    mode = [m for m in mode if not wanted or m == wanted]
    if not mode:
        sys.exit(f"cost_model.py: the roofline's figures disagree: {own}")
    by_time, by_rank = train_and_predict(samples, inputs_of(samples), parts)
    results[mode[0]]["results"]["trees"] = metrics(samples, list(by_time))
    results[mode[0]]["results"]["trees_ranking"] = metrics(samples, list(by_rank))
    results_path.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    for name in ("model", "trees", "trees_ranking", "roofline", "chance"):
        m = results[mode[0]]["results"][name]
        print(f"{mode[0]:<10} {name:<14} pairs {m['pairwise']:.3f}  first {m['top1']:.3f}  of 5 {m['top5']:.3f}  of 16 "
              f"{m['top16']:.3f}  within 3 % {m['top16_within_3_percent']:.2f}")


if __name__ == "__main__":
    main()
