"""Negatives near the best item, by search, beside SD-GAR: accuracy, seconds, false negatives.

    python benchmarks/search_proposals.py DATA OUT.jsonl citeulike gowalla
    python benchmarks/search_proposals.py show OUT.jsonl
    python benchmarks/search_proposals.py plot OUT.jsonl PICTURE.png

Validation rows, seed 0, D = 32, at most 60 epochs with a look at every fifth and early stopping.
First the proposals alone, for the vectors that SD-GAR ends with: seconds of an index and its
recall, and the share of proposals that are validation rows of the same user, so known to be wrong.
Then models trained with them.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sdgar.data import splits
from sdgar.data.held_out import HeldOut
from sdgar.data.interactions import Interactions
from sdgar.experiments.paper.chosen import settings_of
from sdgar.experiments.paper.sources import TITLES, source
from sdgar.models.factors import Factors
from sdgar.samplers.decomposable import Decomposable
from sdgar.samplers.nearest_items import NearestItems
from sdgar.systems.bpr import BPR
from sdgar.systems.composed import Composed
from sdgar.systems.dns import DNS
from sdgar.systems.learner import Learner
from sdgar.systems.sdgar import SDGAR
from sdgar.systems.sdsoftmax import SDSoftmax

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
        "m = 500, exact": near("exact", 500, 0.0),
        "m = 50, half uniform, exact": near("exact", 50, 0.5),
        "m = 50, half uniform, HNSW": near("hnsw", 50, 0.5),
        "m = 50, half uniform, PQ": near("pq", 50, 0.5),
        "m = 500, half uniform, exact": near("exact", 500, 0.5),
        "m = 50, half uniform, HNSW, SD-GAR's weights, 5 draws": near("hnsw", 50, 0.5, "sdgar", 5),
    }


class Still:
    """A discriminator that has learned."""

    def __init__(self, factors: Factors) -> None:
        self._factors, self.n_items, self.score = factors, factors.n_items, factors.score

    def factors(self) -> Factors:
        """As they are."""
        return self._factors


def proposals(model: Learner, train: Interactions, valid: Interactions) -> list[dict[str, Any]]:
    """What would be proposed to the model: by each index, uniformly, by SD-GAR's generator.

    "False" is the mean over users with validation rows.
    """
    held, still, lines = HeldOut.of(valid, train), Still(model.trained_.model), []
    held_T = np.diff(held.indptr_T1)
    users_E = np.repeat(held.users_T, held_T)
    for near in (1, 10, 50, 500):
        for index in ("exact", "hnsw", "pq"):
            search = NearestItems(still, train.history, index=index, near=near, explore=0.0)
            start = time.perf_counter()
            recall = search.refit(still.score, seed=0, epoch=1).get("recall", 1.0)
            seconds = time.perf_counter() - start
            best_UM = search.best_UM.numpy()
            hit_E = (best_UM[users_E] == held.items_E[:, None]).any(axis=1)
            listed_U = np.maximum((best_UM >= 0).sum(axis=1), 1)
            false = (hit_E / listed_U[users_E]).sum() / len(held)
            name = "the best" if near == 1 else f"the {near} best"
            lines.append(
                {"proposal": name, "index": index, "seconds": seconds, "recall": recall,
                 "false": float(false)}
            )  # fmt: skip
    for name, recipe in (("SD-GAR's generator", model), ("a generator by EM", SDSoftmax())):
        generator = recipe.compose(train, seed=0).sampler
        start = time.perf_counter()
        for epoch in range(1, 11):
            generator.refit(still.score, seed=0, epoch=epoch)
        seconds = (time.perf_counter() - start) / 10
        unknown_U = 1 - _mass(generator, train.users_E, train.items_E, train.n_users)
        false_U = _mass(generator, users_E, held.items_E, train.n_users) / unknown_U
        false = float(false_U[held.users_T].mean())
        lines.append(
            {"proposal": f"{name}, refitted ten times", "seconds": seconds, "false": false}
        )
    uniform = float((held_T / (train.n_items - np.diff(train.indptr_U1))[held.users_T]).mean())
    return [*lines, {"proposal": "uniform", "false": uniform}]


def _mass(
    generator: Decomposable, users_E: np.ndarray, items_E: np.ndarray, n_users: int
) -> np.ndarray:
    """Σ_i Q(i|c) over the rows of each context; no generator proposes an item it does not know."""
    known = items_E < len(generator.y_IK)
    users, items = (torch.from_numpy(a[known].astype(np.int64)) for a in (users_E, items_E))
    q_E = generator.log_q(users, items[:, None])[:, 0].exp().numpy()
    return np.bincount(users_E[known], weights=q_E, minlength=n_users)


def measure(name: str, model: Learner, train: Interactions, valid: Interactions) -> dict[str, Any]:
    start = time.perf_counter()
    model.fit(train, valid)
    trained = model.trained_
    records = [record for _, record in trained.log]
    refits = [record.refit_seconds for record in records if record.refit_seconds]
    return {
        "name": name,
        "valid": trained.valid["ndcg@50"],
        "best_epoch": trained.best_epoch,
        "epoch_seconds": float(np.median([record.train_seconds for record in records])),
        "refit_seconds": float(np.median(refits)) if refits else None,
        "recall": trained.generator.get("recall"),
        "engine": trained.engine,
        "seconds": round(time.perf_counter() - start, 1),
    }


def show(path: Path) -> None:
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for data in dict.fromkeys(row["data"] for row in rows):
        mine = [row for row in rows if row["data"] == data]
        print(f"\n| {data} | index | seconds | recall | false |\n|---|---|---|---|---|")
        for row in (row for row in mine if "proposal" in row):
            print(
                f"| {row['proposal']} | {row.get('index', '')} | "
                f"{_text(row.get('seconds'), '.2f')} | {_text(row.get('recall'), '.1%')} | "
                f"{row['false']:.3%} |"
            )
        print(f"\n| {data} | NDCG@50 | epoch | refit | recall |\n|---|---|---|---|---|")
        for row in (row for row in mine if "name" in row):
            print(
                f"| {row['name']} | {row['valid']:.4f} | {row['epoch_seconds']:.2f} s | "
                f"{_text(row['refit_seconds'], '.2f')} | {_text(row['recall'], '.1%')} |"
            )


REACH = {
    "best": ("the best", "the best item (m = 1), HNSW"),
    "50 best": ("the 50 best", "m = 50, HNSW"),
    "500 best": ("the 500 best", "m = 500, exact"),
    "any": ("uniform", "BPR, uniform"),
}
"""How far down proposals reach: the proposals alone, and the model that learns from them."""


def plot(path: Path, picture: Path) -> None:
    from matplotlib.figure import Figure

    rows = [json.loads(line) for line in path.read_text().splitlines()]
    sets = list(dict.fromkeys(row["data"] for row in rows))
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    for data, axes in zip(sets, figure.subplots(1, len(sets)), strict=True):
        mine = [row for row in rows if row["data"] == data]
        exact = {
            r["proposal"]: r["false"]
            for r in mine
            if r.get("index", "exact") == "exact" and "proposal" in r
        }
        ndcg = {row["name"]: row["valid"] for row in mine if "name" in row}
        false = [100 * exact[proposal] for proposal, _ in REACH.values()]
        axes.bar(list(REACH), false, color="tab:red", alpha=0.35)
        axes.set(
            yscale="log",
            ylabel="known false negatives, %",
            xlabel="uniform among",
            title=TITLES[data],
        )
        other = axes.twinx()
        other.plot(list(REACH), [ndcg[name] for _, name in REACH.values()], "o-", color="tab:blue")
        for name, style in (("SD-GAR", "--"), ("DNS", ":")):
            other.axhline(ndcg[name], color="tab:blue", linestyle=style, linewidth=1, label=name)
        other.set(ylim=(0, None), ylabel="NDCG@50 of the model")
        other.legend(loc="lower center", frameon=False)
    figure.savefig(picture, dpi=130)


def _text(value: float | None, form: str) -> str:
    return "–" if value is None else f"{value:{form}}"


def main(folder: Path, out: Path, names: list[str]) -> None:
    done = [json.loads(x) for x in out.read_text().splitlines()] if out.exists() else []
    kept = {(line["data"], line.get("name")) for line in done}

    def write(*lines: dict[str, Any]) -> None:
        with out.open("a") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
        print(*lines, sep="\n", flush=True)

    for data in names:
        train, valid = splits.random_rows(source(data, folder).train, share=0.1, seed=0)
        for name, model in entrants(data).items():
            if (data, name) in kept:
                continue
            line = {"data": data, **measure(name, model, train, valid)}
            if name == "SD-GAR":
                write(*({"data": data, **row} for row in proposals(model, train, valid)))
            write(line)


if __name__ == "__main__":
    if sys.argv[1] == "show":
        show(Path(sys.argv[2]))
    elif sys.argv[1] == "plot":
        plot(Path(sys.argv[2]), Path(sys.argv[3]))
    else:
        main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
