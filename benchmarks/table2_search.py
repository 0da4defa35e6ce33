"""The search behind the paper's Table 2: the settings in experiments/paper/chosen.py.

    python benchmarks/table2_search.py make FOLDER     # grids: FOLDER/search-SYSTEM.json
    python benchmarks/accuracy_grid.py run carry/gowalla.npz FOLDER/search-dns.json OUT.jsonl 8
    python benchmarks/table2_search.py show            # the best of reports/table2/*-search.jsonl

It looks at validation rows only, with seed 0: 24 settings for each learned system, 8 to 24 for a
yardstick. ``sdgar paper table2`` runs the best one of each with several seeds by both protocols.
"""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path
from typing import Any

from sdgar.experiments.paper.chosen import NAMES, YARDSTICKS

REPORTS = Path(__file__).parent / "reports" / "table2"
DATASETS = {"citeulike": "CiteULike", "gowalla": "Gowalla", "movielens": "MovieLens-10M"}

SPACES: dict[str, dict[str, list[Any]]] = {
    "bpr": {"l2": [0.002, 0.005, 0.01, 0.02, 0.03, 0.05], "learning_rate": [0.05, 0.1, 0.2, 0.4]},
    "aobpr": {
        "l2": [0.01, 0.02, 0.05, 0.1],
        "rank_scale": [0.02, 0.05, 0.15],
        "learning_rate": [0.1, 0.2],
    },
    "warp": {
        "l2": [0.2, 0.5, 1.0, 2.0],
        "max_tries": [10, 30],
        "learning_rate": [0.1, 0.2, 0.4],
    },
    "cml": {
        "margin": [0.5, 1.0, 1.5, 2.0],
        "learning_rate": [0.05, 0.1, 0.2],
        "n_negatives": [5, 20],
    },
    "dns": {
        "l2": [0.01, 0.02, 0.05, 0.1],
        "candidates": [2, 5, 10],
        "learning_rate": [0.1, 0.2],
    },
    "irgan": {
        "generator_l2": [0.1, 0.15, 0.2, 0.3, 0.45, 0.6],
        "pretrain": [40, 120],
        "pretrain_rate": [0.01, 0.03],
        "generator_batch": [1024],
        "batch_size": [8192],
        "evaluate_every": [1],
    },
    "sa": {
        "l2": [0.01, 0.02, 0.05],
        "temperature": [0.1, 0.25, 0.5, 1.0],
        "learning_rate": [0.1, 0.2],
    },
    "sdgar": {
        "l2": [0.01, 0.02, 0.05],
        "temperature": [0.1, 0.25, 0.5, 1.0],
        "learning_rate": [0.1, 0.2],
    },
    "popular": {},
    "item-knn": {"neighbours": [20, 50, 100, 200, 500], "shrink": [0.0, 5.0, 20.0, 100.0]},
    "ials": {
        "dim": [32],
        "alpha": [0.003, 0.01, 0.03, 0.1],
        "l2": [0.001, 0.003, 0.01, 0.03, 0.1, 0.3],
    },
    "ease": {"l2": [3.0, 10.0, 30.0, 100.0, 200.0, 300.0, 500.0, 1000.0]},
}
MOST_EPOCHS = {"irgan": 4}
"""300 for the others. IRGAN's generator is best before the game or soon after its start."""


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def make(folder: Path) -> None:
    for system, space in SPACES.items():
        jobs = [
            {
                "name": f"{system}-{number}",
                "system": system,
                "seed": 0,
                "protocol": "valid",
                "settings": dict(zip(space, values, strict=True))
                | ({} if system in YARDSTICKS else {"epochs": MOST_EPOCHS.get(system, 300)}),
            }
            for number, values in enumerate(itertools.product(*space.values()))
        ]
        (folder / f"search-{system}.json").write_text(json.dumps(jobs))


def chosen(dataset: str) -> dict[str, dict[str, Any]]:
    """The best line of the search for each system."""
    best: dict[str, dict[str, Any]] = {}
    for run in read(REPORTS / f"{dataset}-search.jsonl"):
        system = run["system"]
        if "error" not in run and run["valid"] > best.get(system, {"valid": 0})["valid"]:
            best[system] = run
    return best


def show() -> None:
    names = list(DATASETS.values())
    print("| system | " + " | ".join(names) + " |\n" + "|---" * (1 + len(names)) + "|")
    best = {dataset: chosen(dataset) for dataset in DATASETS}
    for system in SPACES:
        cells = [
            ", ".join(f"{k} {v:g}" for k, v in best[d][system]["settings"].items() if k not in
                      ("epochs", "dim")) + f" ({best[d][system]['valid']:.4f})"
            for d in DATASETS
        ]  # fmt: skip
        print(f"| {NAMES[system]} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    command, *rest = sys.argv[1:]
    if command == "show":
        show()
    else:
        make(Path(rest[0]))
