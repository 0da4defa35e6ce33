"""What the paper's eight systems reach by their defaults, beside what a search reached.

    python benchmarks/accuracy_grid.py pack DATA carry            # Parquet → npz
    python benchmarks/defaults.py make carry/defaults.json
    PYTHONPATH=src python benchmarks/accuracy_grid.py run carry carry/defaults.json OUT.jsonl 14
    python benchmarks/defaults.py show docs/defaults.md           # fills in the page's tables

``show`` also compares rules l2 = c / (rows / (users + items))^p, by the searches on validation rows
of seven data sets (reports/table2, reports/defaults/search.jsonl): for every exponent p the best c
and what it reaches, where settings between two that were tried are interpolated.

The lines of a run belong into reports/defaults/defaults.jsonl. Test rows are read once for every
run. The numbers of the search are those of Table 2 (reports/paper/table2.json): same data, same
seeds, same protocols.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np

from sdgar.experiments.paper.chosen import NAMES, PAPER, REAL
from sdgar.experiments.paper.chosen import SYSTEMS as PAPERS
from sdgar.experiments.paper.sources import TITLES
from sdgar.systems.names import SYSTEMS

REPORTS = Path(__file__).parent / "reports"
SEEDS = (0, 1, 2)
PROTOCOLS = ("validated", "paper")
LONG = {"irgan": 100, "cml": 20, "bpr": 6}
"""Systems whose runs take longest start first."""
POWERS = (0, 0.25, 0.5, 0.75, 1)
FIXED: dict[str, dict[str, float]] = {
    "bpr": {"learning_rate": 0.2},
    "aobpr": {"learning_rate": 0.1, "rank_scale": 0.05},
    "warp": {"learning_rate": 0.2, "max_tries": 30},
    "dns": {"learning_rate": 0.1, "candidates": 10},
    "sa": {"learning_rate": 0.2, "temperature": 0.5},
    "sdgar": {"learning_rate": 0.2, "temperature": 0.5},
}
"""Where the search tried enough values of l2 on all seven data sets to compare rules."""
NOT_SETTINGS = ("seed", "engine", "device", "early_stopping")


def make(path: Path) -> None:
    """Every system with its own defaults, by both protocols."""
    jobs = [
        {
            "name": f"{system}-{data}-{protocol}-{seed}",
            "data": data,
            "system": system,
            "seed": seed,
            "protocol": protocol,
            "settings": {
                name: value
                for name, value in SYSTEMS[system]().plain_params().items()
                if name not in NOT_SETTINGS
            },
        }
        for system in sorted(PAPERS, key=lambda name: -LONG.get(name, 1))
        for data in reversed(REAL)
        for protocol in PROTOCOLS
        for seed in SEEDS
    ]
    path.write_text(json.dumps(jobs))


def table() -> list[str]:
    """Defaults, tuned, and the share of the one in the other."""
    found: dict[tuple[str, str, str], list[float]] = {}
    for run in _lines(REPORTS / "defaults" / "defaults.jsonl"):
        found.setdefault((run["protocol"], run["data"], run["system"]), []).append(run["test"])
    tuned: dict[tuple[str, str, str], list[float]] = {}
    for row in json.loads((REPORTS / "paper" / "table2.json").read_text()):
        key = (row["protocol"], row["data"], row["label"])
        tuned.setdefault(key, []).append(row["ndcg@50"])
    made = []
    for protocol, said in zip(
        PROTOCOLS, ("validated", "paper: the epoch is chosen on test rows"), strict=True
    ):
        head = ["system"]
        for data in REAL:
            head += [f"{TITLES[data]}, defaults", "tuned", "share"]
            if protocol == "paper":
                head.append("the paper's")
        made += [f"Protocol {said}.", "", _line(head), "|---" * len(head) + "|"]
        for system in PAPERS:
            cells = [NAMES[system]]
            for at, data in enumerate(REAL):
                ours, theirs = found.get((protocol, data, system)), tuned[protocol, data, system]
                if not ours:
                    cells += ["–", _shown(theirs), "–"]
                else:
                    cells += [_shown(ours), _shown(theirs), f"{mean(ours) / mean(theirs):.1%}"]
                if protocol == "paper":
                    cells.append(f"{PAPER[system][at]:.4f}")
            made.append(_line(cells))
        made.append("")
    return made[:-1]


def rules() -> list[str]:
    """For each exponent: the mean and the least share of the best of the search, over data sets."""
    sizes = json.loads((REPORTS / "defaults" / "sizes.json").read_text())
    per = {data: n["rows"] / (n["users"] + n["items"]) for data, n in sizes.items()}
    runs = _lines(REPORTS / "defaults" / "search.jsonl")
    for data in REAL:
        runs += [
            run | {"data": data} for run in _lines(REPORTS / "table2" / f"{data}-search.jsonl")
        ]
    made = [_line(["system", *(f"p = {p:g}" for p in POWERS)]), "|---" * (1 + len(POWERS)) + "|"]
    for system, fixed in FIXED.items():
        mine = [
            run for run in runs if run["system"] == system and run.get("valid") and "c" not in run
        ]
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
        made.append(_line(cells))
    return [*made, ""]


def _at(curve: dict[float, list[float]], l2: float) -> float:
    """What a setting reaches, between those that were tried; 0 far beyond them."""
    tried = sorted(curve)
    if not tried[0] * 0.8 <= l2 <= tried[-1] * 1.25:
        return 0.0
    return float(np.interp(np.log(l2), np.log(tried), [mean(curve[one]) for one in tried]))


def show(page: Path) -> None:
    """Fill in the page between its marks."""
    text = page.read_text()
    for mark, made in (("rules", rules()), ("defaults", table())):
        before, start, rest = text.partition(f"<!-- {mark} -->\n")
        _, end, after = rest.partition(f"<!-- end of {mark} -->")
        if not start or not end:
            raise SystemExit(f"{page} has no <!-- {mark} --> … <!-- end of {mark} -->")
        text = before + start + "\n" + "\n".join(made) + "\n" + end + after
    page.write_text(text)


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _shown(values: list[Any]) -> str:
    return f"{mean(values):.4f} ± {stdev(values):.4f}" if len(values) > 1 else f"{values[0]:.4f}"


if __name__ == "__main__":
    command, where = sys.argv[1:]
    (make if command == "make" else show)(Path(where))
