"""SD-Softmax beside EASE and iALS on seven data sets: grids, choice, and tables as Markdown.

    python benchmarks/sdsoftmax_tables.py make FOLDER      # FOLDER/DATASET-search.json
    python benchmarks/sdsoftmax_tables.py choose FOLDER    # the best of each → DATASET-final.json
    python benchmarks/sdsoftmax_tables.py show             # from reports/sdsoftmax/*.jsonl

accuracy_grid.py runs the grids. The search looks at validation rows only, with seed 0; SD-Softmax
has 12 settings in it, 60 epochs each. The best at D = 64 and at D = 128, the defaults at both, and
the best of EASE and of iALS are then run by the validated protocol, with seeds 0, 1 and 2.
"""

from __future__ import annotations

import itertools
import json
import statistics
import sys
from pathlib import Path
from typing import Any

from table2_search import read

REPORTS = Path(__file__).parent / "reports"
DATASETS = {
    "citeulike": "CiteULike",
    "gowalla": "Gowalla",
    "movielens": "MovieLens-10M",
    "lightgcn": "Gowalla, LightGCN's split",
    "movies": "Amazon-Movies",
    "kgat": "Amazon-Book, KGAT's split",
    "douban": "Douban-Book",
}
SEARCH = {"epochs": 60, "early_stopping": False}
CHANGES: tuple[dict[str, Any], ...] = (
    {},
    {"tau": 0.1},
    {"tau": 0.15},
    {"learning_rate": 0.1},
    {"learning_rate": 0.03},
    {"l2": 0.3},
)
"""Of the defaults, one at a time."""
DIMS = (64, 128)
IALS = {"dim": (128, 256, 512), "alpha": (0.003, 0.01, 0.03, 0.1), "l2": (0.001, 0.003, 0.01, 0.03)}
EASE = (30.0, 60.0, 100.0, 200.0, 300.0, 500.0, 1000.0)
ROWS = {
    "defaults64": "SD-Softmax, D = 64, defaults",
    "tuned64": "SD-Softmax, D = 64, tuned",
    "defaults128": "**SD-Softmax, D = 128, defaults**",
    "tuned128": "SD-Softmax, D = 128, tuned",
    "ials": "iALS, D = 512, tuned",
    "ease": "EASE, tuned",
}


def job(system: str, seed: int, protocol: str, settings: dict[str, Any]) -> dict[str, Any]:
    name = ",".join([system, *(f"{k}={v}" for k, v in settings.items() if k not in SEARCH)])
    return {
        "name": name, "system": system, "seed": seed, "protocol": protocol, "settings": settings,
    }  # fmt: skip


def make(folder: Path) -> None:
    for dataset in DATASETS:
        jobs = [
            job("sdsoftmax", 0, "valid", {**SEARCH, "dim": dim, **changes})
            for dim, changes in itertools.product(DIMS, CHANGES)
        ]
        jobs += [job("ease", 0, "valid", {"l2": l2}) for l2 in EASE]
        jobs += [
            job("ials", 0, "valid", dict(zip(IALS, values, strict=True)))
            for values in itertools.product(*IALS.values())
        ]
        (folder / f"{dataset}-search.json").write_text(json.dumps(jobs))


def searched(dataset: str) -> list[dict[str, Any]]:
    """EASE was searched on the paper's three sets for its Table 2."""
    runs = read(REPORTS / "sdsoftmax" / f"{dataset}-search.jsonl")
    earlier = read(REPORTS / "table2" / f"{dataset}-search.jsonl")
    runs += [run for run in earlier if run["system"] == "ease"]
    return [run for run in runs if "error" not in run]


def of_row(run: dict[str, Any]) -> str | None:
    """The row that a line of the search competes for."""
    if run["system"] != "sdsoftmax":
        return run["system"]
    dim = run["settings"]["dim"]
    return f"tuned{dim}" if changes_of(run) in CHANGES else None


def changes_of(run: dict[str, Any]) -> dict[str, Any]:
    defaults = {"tau": 0.12, "learning_rate": 0.05, "l2": 0.1, "bias": True, "refit_every": 2,
                "positives_per_visit": 2}  # fmt: skip
    held = (*SEARCH, "evaluate_every", "dim")
    return {k: v for k, v in run["settings"].items() if k not in held and defaults.get(k) != v}


def chosen(dataset: str) -> dict[str, dict[str, Any]]:
    best: dict[str, dict[str, Any]] = {}
    for run in searched(dataset):
        row = of_row(run)
        if row is not None and run["valid"] > best.get(row, {"valid": 0})["valid"]:
            best[row] = run
    return best


def choose(folder: Path) -> None:
    for dataset in DATASETS:
        jobs = [
            job("sdsoftmax", seed, "validated", {"dim": dim})
            for dim, seed in itertools.product(DIMS, range(3))
        ]
        for row, run in chosen(dataset).items():
            settings = run["settings"]
            if run["system"] == "sdsoftmax":
                settings = {"dim": settings["dim"], **changes_of(run)}
            seeds = range(1 if row == "ease" else 3)
            jobs += [job(run["system"], seed, "validated", settings) for seed in seeds]
        (folder / f"{dataset}-final.json").write_text(json.dumps(jobs))


def finals(dataset: str) -> dict[str, list[dict[str, Any]]]:
    runs = read(REPORTS / "sdsoftmax" / f"{dataset}-final.jsonl")
    best = {row: changes_of(run) for row, run in chosen(dataset).items() if row.startswith("tuned")}
    found: dict[str, list[dict[str, Any]]] = {row: [] for row in ROWS}
    for run in runs:
        if run["system"] != "sdsoftmax":
            found[run["system"]].append(run)
            continue
        dim = run["settings"].get("dim", 128)
        changes = changes_of(run)
        for row, wanted in ((f"defaults{dim}", {}), (f"tuned{dim}", best[f"tuned{dim}"])):
            if changes == wanted:
                found[row].append(run)
    return found


def show() -> None:
    every = {dataset: finals(dataset) for dataset in DATASETS}
    print("| NDCG@50 | " + " | ".join(DATASETS.values()) + " |\n" + "|---" * 8 + "|")
    for row, name in ROWS.items():
        cells = [mean([r["test"] for r in every[d][row]]) for d in DATASETS]
        print(f"| {name} | " + " | ".join(cells) + " |")
    print("\nLightGCN's split\n\n| | recall@20 | NDCG@20 | NDCG@50 |\n|---|---|---|---|")
    for row, name in ROWS.items():
        runs = every["lightgcn"][row]
        metrics = ("recall@20", "ndcg@20", "ndcg@50")
        cells = [mean([r["metrics"][m] for r in runs]) for m in metrics]
        print(f"| {name} | " + " | ".join(cells) + " |")
    print("\n| chosen | " + " | ".join(DATASETS.values()) + " |\n" + "|---" * 8 + "|")
    for row in ("tuned64", "tuned128", "ials", "ease"):
        cells = []
        for dataset in DATASETS:
            run = chosen(dataset)[row]
            settings = changes_of(run) if row.startswith("tuned") else run["settings"]
            words = ", ".join(f"{k} {v:g}" for k, v in settings.items()) or "the defaults"
            cells.append(f"{words} ({run['valid']:.4f})")
        print(f"| {ROWS[row]} | " + " | ".join(cells) + " |")
    print("\n| epochs | " + " | ".join(DATASETS.values()) + " |\n" + "|---" * 8 + "|")
    for row in list(ROWS)[:4]:
        cells = [", ".join(str(r["best_epoch"]) for r in every[d][row]) or "–" for d in DATASETS]
        print(f"| {ROWS[row]} | " + " | ".join(cells) + " |")


def mean(values: list[float]) -> str:
    if not values:
        return "–"
    spread = f" ± {statistics.stdev(values):.4f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.4f}{spread}"


if __name__ == "__main__":
    command, *rest = sys.argv[1:]
    if command == "show":
        show()
    else:
        {"make": make, "choose": choose}[command](Path(rest[0]))
