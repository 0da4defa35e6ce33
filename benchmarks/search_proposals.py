"""Negatives near the best item, by search, beside SD-GAR: accuracy, seconds, false negatives.

    python benchmarks/search_proposals.py DATA OUT.jsonl citeulike gowalla
    python benchmarks/search_proposals.py show OUT.jsonl

Validation rows, seed 0, D = 32, at most 60 epochs with a look at every fifth and early stopping.
"False" is the share of proposals that are validation rows of the same user: known to be wrong.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from sdgar.data import splits
from sdgar.data.interactions import Interactions
from sdgar.estimators import BPR, DNS, SDGAR, Composed, Learner
from sdgar.experiments.paper.chosen import settings_of
from sdgar.experiments.paper.sources import source

EPOCHS = {"epochs": 60, "evaluate_every": 5, "patience": 2, "seed": 0, "device": "cpu"}


def entrants(data: str) -> dict[str, Learner]:
    l2 = settings_of("sdgar", data)["l2"]
    search = {
        "discriminator": "factorization", "sampler": "search", "optimizer": "adagrad",
        "learning_rate": 0.1, "l2": l2, "dim": 32, "refit_every": 2, **EPOCHS,
    }  # fmt: skip

    def near(index: str, m: int, explore: float, objective: str = "bpr", n: int = 1) -> Composed:
        settings = {"sampler.index": index, "sampler.near": m, "sampler.explore": explore}
        return Composed(objective=objective, n_negatives=n, settings=settings, **search)

    return {
        "BPR, uniform": BPR(**settings_of("bpr", data), **EPOCHS),
        "DNS": DNS(**settings_of("dns", data), **EPOCHS),
        "SD-GAR": SDGAR(**settings_of("sdgar", data), **EPOCHS),
        "the best item (m = 1), HNSW": near("hnsw", 1, 0.0),
        "m = 50, HNSW": near("hnsw", 50, 0.0),
        "m = 500, HNSW": near("hnsw", 500, 0.0),
        "m = 50, half uniform, exact": near("exact", 50, 0.5),
        "m = 50, half uniform, HNSW": near("hnsw", 50, 0.5),
        "m = 50, half uniform, PQ": near("pq", 50, 0.5),
        "m = 500, half uniform, HNSW": near("hnsw", 500, 0.5),
        "m = 50, half uniform, HNSW, SD-GAR's weights, 5 draws": near("hnsw", 50, 0.5, "sdgar", 5),
    }


def false_share(model: Learner, train: Interactions, valid: Interactions, m: int) -> float:
    """Of the m best items that a user does not have, the share that are validation rows."""
    means = model.recommender_.evaluate(valid, ks=(m,)).means()
    return means[f"precision@{m}"]


def measure(name: str, model: Learner, train: Interactions, valid: Interactions) -> dict[str, Any]:
    start = time.perf_counter()
    model.fit(train, valid)
    trained = model.trained_
    records = [record for _, record in trained.log]
    refits = [record.refit_seconds for record in records if record.refit_seconds]
    m = model.settings["sampler.near"] if isinstance(model, Composed) else None
    return {
        "name": name,
        "valid": trained.valid["ndcg@50"],
        "best_epoch": trained.best_epoch,
        "epoch_seconds": float(np.median([record.train_seconds for record in records])),
        "refit_seconds": float(np.median(refits)) if refits else None,
        "recall": trained.generator.get("recall"),
        "false": None if m is None else false_share(model, train, valid, min(m, train.n_items)),
        "engine": trained.engine,
        "seconds": round(time.perf_counter() - start, 1),
    }


def show(path: Path) -> None:
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for data in dict.fromkeys(row["data"] for row in rows):
        print(f"\n| {data} | NDCG@50 | epoch | refit | recall | false among the m best |")
        print("|---|---|---|---|---|---|")
        for row in (row for row in rows if row["data"] == data):
            refit = "–" if row["refit_seconds"] is None else f"{row['refit_seconds']:.2f} s"
            recall = "–" if row["recall"] is None else f"{row['recall']:.1%}"
            false = "–" if row["false"] is None else f"{row['false']:.2%}"
            print(
                f"| {row['name']} | {row['valid']:.4f} | {row['epoch_seconds']:.2f} s | {refit} | "
                f"{recall} | {false} |"
            )


def main(folder: Path, out: Path, names: list[str]) -> None:
    done = [json.loads(x) for x in out.read_text().splitlines()] if out.exists() else []
    kept = {(line["data"], line["name"]) for line in done}
    for data in names:
        train, valid = splits.random_rows(source(data, folder).train, share=0.1, seed=0)
        for name, model in entrants(data).items():
            if (data, name) in kept:
                continue
            line = {"data": data, **measure(name, model, train, valid)}
            with out.open("a") as file:
                file.write(json.dumps(line) + "\n")
            print(line, flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "show":
        show(Path(sys.argv[2]))
    else:
        main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
