"""What the paper's eight systems reach by their defaults, beside what a search reached.

    python benchmarks/accuracy_grid.py pack DATA carry            # Parquet → npz
    python benchmarks/defaults.py make carry/defaults.json
    PYTHONPATH=src python benchmarks/accuracy_grid.py run carry carry/defaults.json OUT.jsonl 14
    python benchmarks/defaults.py show docs/results-more.md       # fills in the page's table

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

from sdgar.estimators import ESTIMATORS
from sdgar.experiments.paper.chosen import NAMES, PAPER, REAL, SYSTEMS
from sdgar.experiments.paper.sources import TITLES

REPORTS = Path(__file__).parent / "reports"
SEEDS = (0, 1, 2)
PROTOCOLS = ("validated", "paper")
LONG = {"irgan": 100, "cml": 20, "bpr": 6}
"""Systems whose runs take longest start first."""
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
                for name, value in ESTIMATORS[system]().plain_params().items()
                if name not in NOT_SETTINGS
            },
        }
        for system in sorted(SYSTEMS, key=lambda name: -LONG.get(name, 1))
        for data in reversed(REAL)
        for protocol in PROTOCOLS
        for seed in SEEDS
    ]
    path.write_text(json.dumps(jobs))


def table() -> list[str]:
    """Defaults, tuned, and the share of the one in the other."""
    lines = (REPORTS / "defaults" / "defaults.jsonl").read_text().splitlines()
    found: dict[tuple[str, str, str], list[float]] = {}
    for run in map(json.loads, lines):
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
        for system in SYSTEMS:
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
    return made


def show(page: Path) -> None:
    """Fill in the page between its two marks."""
    before, start, rest = page.read_text().partition("<!-- defaults -->\n")
    _, end, after = rest.partition("<!-- end of defaults -->")
    if not start or not end:
        raise SystemExit(f"{page} has no <!-- defaults --> … <!-- end of defaults -->")
    page.write_text(before + start + "\n" + "\n".join(table()) + end + after)


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _shown(values: list[Any]) -> str:
    return f"{mean(values):.4f} ± {stdev(values):.4f}" if len(values) > 1 else f"{values[0]:.4f}"


if __name__ == "__main__":
    command, where = sys.argv[1:]
    (make if command == "make" else show)(Path(where))
