"""The tables of README.md and docs/, made from the reports: a number stands in its report alone.

    python benchmarks/tables.py            # fills in the pages; ``make tables`` does the same
    python benchmarks/tables.py --check    # prints the pages that differ, and fails if one does

A table stands in its page between <!-- table: NAME --> and <!-- end -->. What it looks like is in
``benchmarks/tables/PAGE.md`` (see ``table_templates.py``). Where its rows or values must be
computed first, a function of this file has the name of the table.
"""

from __future__ import annotations

import itertools
import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from statistics import mean, median, stdev
from typing import Any

import numpy as np

import grids
from grids import DATASETS, DISLIKING, SHARES, SPACES
from sdgar.discriminators.bounded import temperature_of
from sdgar.evaluation.measures import MEASURES
from sdgar.lab.paper.chosen import NAMES, PAPER, REAL, TITLES
from table_templates import (
    EVERY,
    NIGHT_SETS,
    Line,
    Rows,
    best_bold,
    bold,
    commits_of,
    grid,
    grouped,
    lines_of,
    markdown,
    report_of,
    shown,
    templates,
    values_of,
    where,
)

ROOT = Path(__file__).parents[1]

# The paper's systems


def table2_search(_: Any) -> Rows:
    """Return what the search on validation rows chose for each system of Table 2."""

    def cell(system: str, data: str) -> list[str]:
        runs = where(lines_of(f"table2/{data}-search.jsonl"), system=system)
        best = max((r for r in runs if "error" not in r), key=lambda run: run["valid"])
        tried = [name for name, values in SPACES[system].items() if len(values) > 1]
        words = ", ".join(f"{k} {v:g}" for k, v in best["settings"].items() if k in tried)
        return [f"{words} ({best['valid']:.4f})"]

    return grid({system: system for system in SPACES}, REAL, cell)


def engines(_: Any) -> Rows:
    """Return BPR and SD-GAR by the three engines, on CiteULike."""
    found: dict[Any, dict[int, float]] = defaultdict(dict)
    for run in lines_of("engines/citeulike.jsonl"):
        if "5 seeds" in run["name"]:
            found[run["system"], run["engine"]][run["seed"]] = run["test"]

    def cell(system: str, engine: str) -> list[str]:
        eager, values = ([*found[system, one].values()] for one in ("eager", engine))
        gain = f"{mean(values) / mean(eager) - 1:+z.1%}"
        return [shown(values)] if engine == "eager" else [shown(values), gain]

    systems = {system: NAMES[system] for system in ("bpr", "sdgar")}
    return grid(systems, ("eager", "fused-gpu", "fused-cpu"), cell)


def peer_accuracy(report: Any) -> Rows:
    """Return BPR and WARP, and the models of implicit and LightFM."""
    names = {
        "sdgar BPR": "our BPR",
        "implicit BPR": "`implicit` BPR",
        "sdgar WARP": "our WARP, at most 10 tries",
        "LightFM WARP": "LightFM WARP, at most 10 tries",
    }
    rows = [[said, shown(report[name]["test"])] for name, said in names.items()]
    return [*best_bold(rows[:2]), *best_bold(rows[2:])]


# Defaults

POWERS = (0, 0.25, 0.5, 0.75, 1)
FIXED: dict[str, dict[str, float]] = {
    "bpr": {"learning_rate": 0.2},
    "aobpr": {"learning_rate": 0.1, "rank_scale": 0.05},
    "warp": {"learning_rate": 0.2, "max_tries": 30},
    "dns": {"learning_rate": 0.1, "candidates": 10},
    "sa": {"learning_rate": 0.2, "temperature": 0.5},
    "sdgar": {"learning_rate": 0.2, "temperature": 0.5},
}
"""The settings that are held where rules are compared: those with enough values of l2 tried."""


def rules(_: Any) -> Rows:
    """For each exponent p: the mean and the least share of the best of the search, over data sets.

    The rule is l2 = c / (rows / (users + items))^p; settings between two that were tried are
    interpolated.
    """
    sizes = report_of("defaults/sizes.json")
    per = {data: n["rows"] / (n["users"] + n["items"]) for data, n in sizes.items()}
    runs = [*lines_of("defaults/search.jsonl")]
    for data in REAL:
        runs += [run | {"data": data} for run in lines_of(f"table2/{data}-search.jsonl")]
    rows = []
    for system, fixed in FIXED.items():
        mine = [r for r in where(runs, system=system) if r.get("valid") and "c" not in r]
        best = {d: max(r["valid"] for r in mine if r["data"] == d and not r["seed"]) for d in per}
        curves: dict[str, dict[float, list[float]]] = {data: {} for data in per}
        for run in mine:
            if all(run["settings"].get(name, value) == value for name, value in fixed.items()):
                share = run["valid"] / best[run["data"]]
                curves[run["data"]].setdefault(run["settings"]["l2"], []).append(share)
        cells = [NAMES[system]]
        for p in POWERS:
            reached = [
                (mean(shares), min(shares), c)
                for c in np.geomspace(0.01, 20, 120)
                if all(shares := [_at(curves[d], c / per[d] ** p) for d in per])
            ]
            cells.append("{:.3f} (least {:.3f}, c = {:.2g})".format(*max(reached)))
        rows.append(cells)
    return rows


def _at(curve: dict[float, list[float]], l2: float) -> float:
    """Return what a setting reaches, between two that were tried; 0 far beyond them."""
    tried = sorted(curve)
    if not tried[0] * 0.8 <= l2 <= tried[-1] * 1.25:
        return 0.0
    return float(np.interp(np.log(l2), np.log(tried), [mean(curve[one]) for one in tried]))


def neighbours(_: Any) -> Rows:
    """Return what numbers of neighbours reach on validation rows, and the number of the rule."""
    return _by_neighbours("neighbours.jsonl", (50, 100, 200, 400), 200)


def neighbours_of_quick(_: Any) -> Rows:
    """Return the same for quick."""
    return _by_neighbours("neighbours-of-quick.jsonl", (50, 100, 200), 100)


def _by_neighbours(report: str, counts: tuple[int, ...], most: int) -> Rows:
    rows = []
    for data in grids.NEIGHBOURLY:
        here = where(lines_of(report), data=data)
        each = here[0]["sizes"]["rows"] / here[0]["sizes"]["items"]
        by_count = grouped(here, lambda line: line["settings"]["item_memory__neighbours"])
        found = [mean(values_of(by_count[k], "valid")) for k in counts]
        cells = [bold(f"{value:.4f}", on=value == max(found)) for value in found]
        rows.append([data, f"{each:.0f}", f"{min(max(round(each), 50), most)}", *cells])
    return rows


def temperature(_: Any) -> Rows:
    """For each size, return τ by the rule, and what it, 0.12 and the best τ reach."""
    lines = lines_of("defaults/temperature.jsonl")
    groups = grouped(lines, lambda line: (line["rows"] or 0, line["data"]))
    rows: list[Line] = []
    for (_size, data), group in sorted(groups.items(), key=lambda g: (g[0][0] or 10**9, g[0][1])):
        runs = grouped(group, lambda line: (line["system"], line["settings"].get("tau")))
        test = {key: mean(values_of(some, "test")) for key, some in runs.items()}
        n = round(mean(line["sizes"]["rows"] for line in group))
        rule = temperature_of(range(round(0.72 * n)))  # type: ignore[arg-type]
        taus = [tau for system, tau in runs if system == "sdsoftmax"]
        best = max(taus, key=lambda tau, r=runs: mean(values_of(r["sdsoftmax", tau], "valid")))
        near = min(taus, key=lambda tau, rule=rule: abs(tau - rule))
        at = {"at_usual": 0.12, "at_near": near, "at_best": best}
        values = {name: test.get((name, None)) for name in ("popular", "ease")}
        others = {k: "" if value is None else f"{value:.4f}" for k, value in values.items()}
        rows.append(
            {"data": data, "n": n, "rule": rule, "best": best}
            | {name: test["sdsoftmax", tau] for name, tau in at.items()}
            | others
        )
    return rows


# SD-Softmax


@cache
def models() -> list[Line]:
    """Return a line for each run that tables compare: its row, its data set, what it reached."""
    found = [
        {"row": f"table2 {run['label']}", "protocol": run["protocol"], "data": run["data"],
         "test": run["ndcg@50"]}
        for run in report_of("paper/table2.json")
    ]  # fmt: skip
    for system, values in PAPER.items():
        found += [{"row": f"paper {system}", "data": data, "test": value}
                  for data, value in zip(REAL, values, strict=True)]  # fmt: skip
    found += [{"row": name} | dict(zip(("recall@20", "ndcg@20"), both, strict=True))
              for name, both in PUBLISHED.items()]  # fmt: skip
    for data in EVERY:
        found += [run | {"row": row} for row, run in _finals(data)]
    for run in lines_of("memory.jsonl"):
        ours = run["system"] == "sdsoftmax" and run["settings"]["item_memory"] is None
        found.append(run | {"row": "ours" if ours else run["system"]})
    found += [run | {"row": "thorough"} for run in lines_of("thorough.jsonl")]
    for run in lines_of("yardsticks/final.jsonl"):
        tried = [row for row, (system, settings) in grids.TRIES.items()
                 if system == run["system"] and run["settings"] in settings]  # fmt: skip
        measured = "ease-options" if run["system"] == "ease" else run["system"]
        rows = [measured] if run["data"] in grids.MEASURED else tried
        found += [run | {"row": row} for row in rows]
    return found


def _finals(dataset: str) -> Iterator[tuple[str, Line]]:
    """Yield the runs of SD-Softmax, iALS and EASE with their rows."""
    tuned = (
        {
            row: grids.changes_of(run)
            for row, run in grids.chosen(dataset).items()
            if row.startswith("tuned")
        }
        if dataset in DATASETS
        else {}
    )
    for run in lines_of(f"sdsoftmax/{dataset}-final.jsonl"):
        if run["system"] != "sdsoftmax":
            yield run["system"], run | {"data": dataset}
            continue
        dim, changes = run["settings"].get("dim", 128), grids.changes_of(run)
        for row, wanted in ((f"defaults{dim}", {}), (f"tuned{dim}", tuned[f"tuned{dim}"])):
            if changes == wanted:
                yield row, run | {"data": dataset}


PUBLISHED = {"bars": (0.1820, 0.1547), "bsl": (0.1882, 0.1584)}
"""Recall@20 and NDCG@20 that others published for LightGCN's split of Gowalla."""


def lightgcn(_: Any) -> tuple[Rows, Line]:
    """Return the settings of SD-Softmax with a memory that are best on LightGCN's split."""
    lines = lines_of("lightgcn.jsonl")
    tried = where(lines, protocol="valid")
    best = max(tried, key=lambda line: line["valid"])["settings"]
    kept = where(lines, protocol="validated", settings=best)
    return [], {"settings": best, "tried": len(tried), "best": kept}


def sdsoftmax_search(_: Any) -> tuple[Rows, Line]:
    """Return what the search chose for the tuned rows, with NDCG@50 on validation rows."""
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for data in DATASETS:
        for row, run in grids.chosen(data).items():
            changes = grids.changes_of(run) if run["system"] == "sdsoftmax" else run["settings"]
            words = ", ".join(f"{SIGNS[k]} {v:g}" for k, v in changes.items() if k in SIGNS)
            found[row][data] = f"{words or 'the defaults'} ({run['valid']:.4f})"
    return [], found


SIGNS = {"tau": "τ", "learning_rate": "rate", "l2": "λ", "alpha": "α"}


def seconds_to_accuracy(reports: Any) -> Rows:
    """Return training seconds until test NDCG@50 reaches some values, on two cores and a GPU."""
    rows = []
    for machine, data in (("2 cores", reports["0"]["data"]), ("H200", reports["1"]["data"])):
        goals = [(d, goal) for d in data for goal in data[d]["SD-Softmax"]["seconds_to"]]

        def cell(system: str, goal: tuple[str, str], data: Any = data) -> list[str]:
            runs = data[goal[0]]
            if system not in runs:
                return ["–"]
            if seconds := runs[system]["seconds_to"][goal[1]]:
                every = (run["seconds_to"][goal[1]] for run in runs.values())
                return [bold(f"{seconds:.2f}", on=seconds == min(filter(None, every)))]
            spent, best = max(runs[system]["looks"], key=lambda look: look[1])
            return [f"never ({best:.4f} in {spent:.2f} s)"]

        systems = dict.fromkeys(system for runs in data.values() for system in runs)
        rows += grid({system: f"{system}, {machine}" for system in systems}, goals, cell)
    return rows


def dislikes(_: Any) -> tuple[Rows, Line]:
    """Return the share of dislikes that validation rows choose for each system."""
    lines = lines_of("dislikes.jsonl")
    shares = grouped(
        lines, lambda run: (run["system"], run["settings"].get("sampler__dislikes", 0))
    )
    chosen = {
        s: max(SHARES, key=lambda p: mean(values_of(shares[s, p], "valid"))) for s in DISLIKING
    }
    return [], {s: "none" if p == 0 else f"p = {p:g}" for s, p in chosen.items()}


def baselines(_: Any) -> tuple[Rows, Line]:
    """Return on which sets fewer settings of ELSA were tried."""
    tries = Counter(values_of(where(lines_of("yardsticks/search.jsonl"), system="elsa"), "data"))
    few = ", ".join(f"{DATASETS[d]} {tries[d]}" for d in grids.MEASURED if tries[d] < 12)
    return [], {"few": few}


# The memory of SD-Softmax


def memory_parts(report: Any) -> tuple[Rows, Line]:
    """Return what each weight of the memory is worth."""
    found = report["sets"]

    def cells(weight: str, data: str) -> list[str]:
        chosen = " (chosen)" if found[data]["chosen"] == float(weight) else ""
        return ["", f"{found[data]['weights'][weight]:.4f}{chosen}"]

    weights = {one: f"γ = {float(one):g}" for one in next(iter(found.values()))["weights"]}
    return [], {"weights": markdown(grid(weights, found, cells))}


def memory_weights(_: Any) -> tuple[Rows, Line]:
    """Return what three rules for γ choose on validation rows, and their value on test rows."""
    pairs: dict[tuple[str, str], Line] = defaultdict(dict)
    for line in lines_of("memory-weights.jsonl"):
        pairs[line["split"], EVERY.get(line["data"], line["data"])][line["rows"]] = line
    rows: list[Line] = []
    for (split, title), line in sorted(pairs.items()):
        valid, test = line["valid"]["ndcg@50"], line["test"]["ndcg@50"]
        lost = line["valid"]["loss_and_error"]
        chosen = {"best": max(valid, key=lambda g, v=valid: v[g])}
        gain = valid[chosen["best"]] - valid["0"]
        chosen["enough"] = next(g for g in valid if valid[g] - valid["0"] >= 0.9 * gain)
        chosen["within"] = next(g for g in valid if lost[g][0] <= lost[g][1])
        at = {f"at_{rule}": test[g] for rule, g in chosen.items()}
        none = {"test": [test["0"]], "about": line["test"]["about"]}
        rows.append({"title": title, "split": split} | none | chosen | at)
    return rows, {"about": rows[-1]["about"]}


# Every night

NIGHT_SYSTEMS = {"sdsoftmax": "SD-Softmax", "sdgar": "SD-GAR", "bpr": "BPR"}


def _nights(what: str = "measure") -> list[Line]:
    """Return the nights on a GPU, many seeds of each."""
    return [n for n in lines_of("nights-gpu.jsonl") if n["about"]["what"] == what]


def _night_mean(lines: list[Line], how: str) -> float:
    """Return the mean of NDCG@50 over all users of some nights."""
    return sum(n[how]["sum of ndcg@50"] for n in lines) / sum(n["users"] for n in lines)


def _night_error(lines: list[Line]) -> float | None:
    """Return the standard error of the gain over users, in percent, with one seed."""
    if "squares" not in lines[0]:
        return None
    users = sum(n["users"] for n in lines)
    gain = _night_mean(lines, "warm_start") - _night_mean(lines, "from_scratch")
    spread = sum(n["squares"] for n in lines) / users - gain**2
    return 100 * (spread / users) ** 0.5 / _night_mean(lines, "from_scratch")


def nights(_: Any) -> tuple[Rows, Line]:
    """Return models that continue every night, and models that are trained from scratch."""
    found = grouped(_nights(), lambda n: (n["system"], n["data"]))
    rows: list[Line] = []
    for system, data in itertools.product(NIGHT_SYSTEMS, NIGHT_SETS):
        if lines := found[system, data]:
            by_seed = grouped(lines, lambda n: n["seed"])
            seeds = [by_seed[seed] for seed in sorted(by_seed)]
            gains = [100 * (_night_mean(own, "warm_start") / _night_mean(own, "from_scratch") - 1)
                     for own in seeds]  # fmt: skip
            error = stdev(gains) / len(gains) ** 0.5 if len(gains) > 1 else None
            rows.append(
                {"title": NIGHT_SETS[data], "system": NIGHT_SYSTEMS[system], "seeds": len(seeds),
                 "users": sum(n["users"] for n in seeds[0]), "gain": mean(gains), "error": error,
                 "on": _night_mean(lines, "warm_start"),
                 "from_scratch": _night_mean(lines, "from_scratch"),
                 "users_error": _night_error(seeds[0])}
            )  # fmt: skip
    return rows, {"commits": ", ".join(commits_of(n["about"] for n in _nights()))}


def nights_weights(_: Any) -> tuple[Rows, Line]:
    """Return SD-Softmax with each weight of its memory, and how often it was chosen."""
    lines = lines_of("nights-weights.jsonl")
    users = sum(n["users"] for n in lines)
    rows: list[Line] = []
    for weight in lines[0]["from_scratch"]:
        ndcg = {
            how: sum(n[how][weight] for n in lines) / users
            for how in ("warm_start", "from_scratch")
        }
        often = {
            which: 100 * Counter(values_of(lines, which))[float(weight)] / len(lines)
            for which in ("first", "chosen")
        }
        rows.append({"weight": weight} | ndcg | often)
    return rows, {"seeds": len({n["seed"] for n in lines})}


# New items, networks, proposals by search

NEW_ITEMS = {
    "movielens-1m-ordered": "MovieLens-1M, genres and titles",
    "s3rec-beauty": "Beauty, attributes",
    "s3rec-sports": "Sports, attributes",
}


def new_items_cold(_: Any) -> tuple[Rows, Line]:
    """Return the runs with new items, by data set and system."""
    sets = list(NEW_ITEMS)
    by = lambda r: (sets.index(r["data"]), r["system"], r["seed"])  # noqa: E731
    runs = sorted(lines_of("new_items.jsonl"), key=by)
    about = [run["about"] for run in runs]
    made = "`python benchmarks/new_items.py --set … --system … --seed 0`, commit "
    made += (
        f"{', '.join(commits_of(about))} on {', '.join(dict.fromkeys(a['cpu'] for a in about))}."
    )
    few = [{"found": r["few"]["among_chosen"], "others": r["few"]["others"]} for r in runs]
    rows = [run | {"title": NEW_ITEMS[run["data"]]} | more for run, more in
            zip(runs, few, strict=True)]  # fmt: skip
    return rows, {"made": made}


new_items_all = new_items_few = new_items_cold


# Speed and scale


def command(report: Any) -> Rows:
    """Return the seconds of the whole command, in multiples of ALS."""
    return [
        {"title": TITLES[data], "name": name} | row
        for data, found in report["data"].items()
        for name, row in found.items()
    ]


def time_to_quality(report: Any) -> Rows:
    """Return training seconds on two cores until a model is as good as a peer's best."""
    names = {
        "implicit BPR": "implicit 0.7.3 BPR",
        "LightFM WARP": "LightFM (lightfm-next 1.19.0) WARP",
        "sdgar SD-GAR": "SD-GAR",
        "sdgar weighted loss, uniform draws, 4 share 32":
            "SD-GAR's loss with uniform draws, 4 positives share 32 negatives, T = 0.2",
    }  # fmt: skip
    rows = best_bold(
        [[said, f"{report['best'][name]['ndcg@50']:.4f}"] for name, said in names.items()]
    )
    for peer in ("implicit BPR", "LightFM WARP"):
        goal = report["reached"][f"100% of {peer}'s best"]
        taken = [goal["systems"][name]["seconds_at_best_setting"] for name in names]
        least = min(filter(None, taken))
        for row, seconds in zip(rows, taken, strict=True):
            row.append(bold(f"{seconds:.1f}", on=seconds == least) if seconds else "never")
    return rows


READ_FILES = {
    "integers.parquet": "Parquet, integer ids",
    "integers.csv": "CSV, integer ids",
    "text.parquet": "Parquet, text ids",
    "text.csv": "CSV, text ids",
}


def reading(reports: Any) -> tuple[Rows, Line]:
    """Return seconds of files read to interactions, of a Polars read, and of an earlier version."""
    rows: list[Line] = []
    before = reports["2"]
    for report in (reports["0"], reports["1"]):
        same = report["rows"] == before["rows"]
        for file, name in READ_FILES.items():
            earlier = before["reads"][file]["sdgar"]["seconds"] if same else None
            about = {"rows": report["rows"], "name": name, "bytes": report["bytes"][file]}
            rows.append(about | {"before": earlier} | report["reads"][file])
    repeats = [reports[n]["repeats"] for n in "012"]
    return rows, {"turns": ["one turn" if n == 1 else f"{n} turns" for n in repeats]}


def sequence_epochs(report: Any) -> tuple[Rows, Line]:
    """Return the rows a second of an epoch."""
    return [], {name: report["rows"] / median(each) for name, each in report["seconds"].items()}


def serving(_: Any) -> Rows:
    """Return requests a second over HTTP that keep a p99, and of a plain handler."""
    rows: list[Line] = []
    for name, what in (("serving.json", "Gowalla"), ("serving-large.json", "made up")):
        report = report_of(name)
        for bound, found in report["within_p99_ms"].items():
            theirs = max(n for key, n in found.items() if key.startswith("FastAPI"))
            if found["sdgar serve"] and bound != "100":
                rows.append({"what": what, "items": report["items"], "bound": bound,
                             "ours": found["sdgar serve"], "theirs": theirs or None,
                             "ratio": found["ratio"] or None})  # fmt: skip
    return rows


def shards(report: Any) -> Rows:
    """Return the cost of sharding events, step by step."""
    steps = {"make": "make up", "shard": "`sdgar data shard`", "verify": "open, all sums"}
    sizes = {"make": "event_bytes", "shard": "shard_bytes"}
    return [
        {"rows": run["rows"], "name": name,
         "written": f"{run[sizes[step]] / 1e9:.2f}" if step in sizes else ""} | run[step]
        for run in report["runs"]
        for step, name in steps.items() if step in run
    ]  # fmt: skip


def shards_compared(report: Any) -> Rows:
    """Return the cost of sharding, and of the core of the work in DuckDB and Polars."""
    names = {"shard": "`sdgar data shard`", "duckdb": "DuckDB", "polars": "Polars, streaming"}
    return [
        {"rows": run["rows"], "name": name} | run[key]
        for run in report["runs"] if "duckdb" in run
        for key, name in names.items()
    ]  # fmt: skip


def sharded_gpu(report: Any) -> Rows:
    """Return how fast a GPU trains on shards, by where users wait meanwhile."""
    waiting = {"on the GPU", "in memory", "in files"}
    rows: list[Line] = []
    for run in report["runs"]:
        whole = run["ways"]["all rows at once"]["positives_per_second"]
        for way in ("all rows at once", "one block", "on the GPU", "in memory", "in files"):
            name = f"users wait {way}" if way in waiting else way
            rows.append({"rows": run["rows"], "name": name, "whole": whole} | run["ways"][way])
    return rows


def kills(report: Any) -> Rows:
    """Return how many trainings ended in the bytes of one process after a worker was killed."""
    found = [
        one | {"same": same} for one, same in zip(report["kills"], report["same"], strict=True)
    ]
    return [
        {"by": by, "workers": workers, "kills": len(own), "same": sum(values_of(own, "same"))}
        for (by, workers), own in grouped(found, lambda k: (k["by"], k["workers"])).items()
    ]


# Metrics and rules


def metrics(_: Any) -> Rows:
    """Return what each metric is, from the register of metrics."""
    about = {
        "accuracy": "held-out items", "held-out": "held-out items", "list": "each list",
        "catalogue": "all lists together",
    }  # fmt: skip
    return [
        [f"`{kind}`", f"`{one.equation}`".replace("|", "\\|"), one.span, one.good,
         about[one.about], one.same_as]
        for kind, one in MEASURES.items()
    ]  # fmt: skip


def metric_words(_: Any) -> tuple[Rows, Line]:
    """Return the meaning of each metric, as --explain-metrics prints it."""
    words = "\n".join(f"- `{kind}@k`: {one.meaning}." for kind, one in MEASURES.items())
    return [], {"words": words}


def agreed(_: Any) -> Rows:
    """Return which metrics agree with which version of a public implementation."""
    found = json.loads((ROOT / "tests/evaluation/peers/agreed.json").read_text())
    rows = []
    for peer, values in found["values"].items():
        kinds = dict.fromkeys(name.partition("@")[0] for name in values)
        rows.append([peer, found["versions"][peer], ", ".join(f"`{kind}`" for kind in kinds)])
    return rows


WAYS = {
    "none": "no rule", "mmr": "`mmr`", "dpp": "`dpp`", "popularity": "`popularity` dial",
    "turns": "genres in turn, candidates",
}  # fmt: skip


def diversity(report: Any) -> Rows:
    """Return NDCG and the diversity of lists, for every rule and setting."""
    return [
        one | {"data": name, "by": f"{WAYS[one['way']]} {one['setting'] or ''}".strip()}
        for name, found in report["data"].items()
        for one in found["points"]
    ]


def filled(page: str, text: str) -> str:
    """Return a page with all its tables filled in again."""
    for template in templates().values():
        if template.page != page:
            continue
        name = template.name
        marks = re.compile(rf"<!-- table: {re.escape(name)} -->\n.*?<!-- end -->", re.DOTALL)
        if len(marks.findall(text)) != 1:
            raise SystemExit(f"{page} needs <!-- table: {name} --> … <!-- end -->, once")
        made = f"<!-- table: {name} -->\n{template.filled(globals())}\n<!-- end -->"
        text = marks.sub(made.replace("\\", r"\\"), text)
    return text


def main() -> None:
    """Fill in the pages, or with --check print which of them differ."""
    changed = []
    for page in dict.fromkeys(template.page for template in templates().values()):
        before = (ROOT / page).read_text()
        after = filled(page, before)
        if after != before:
            changed.append(page)
            if "--check" not in sys.argv:
                (ROOT / page).write_text(after)
    print("\n".join(changed) or "all tables match the reports")
    if changed and "--check" in sys.argv:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
