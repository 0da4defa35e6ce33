"""Cost of a draw against the size of the catalogue, once the tables exist.

    python benchmarks/sampling.py [--json FILE] [--plot FILE]
    python benchmarks/sampling.py proposals [--json FILE] [--data DIR]

Draws from Q(i|c) = Σ_k x_ck y_ik (K = 64) by the package's own tables, for catalogues of 10^3 to
10^6 items, in three parts: the arithmetic of a draw (addressed random numbers, multiply-shift), the
draw with its table look-ups, and a gather of the same number of random 8-byte words from an array
of the same size as the tables, which is what the look-ups cost when they miss the caches.

``proposals`` looks at negatives near the best item, found by an index, compared with those of
generators: the seconds of an index, its recall, and the share of proposals that are known to be
wrong. Models that are trained with them are the grid ``proposals`` of accuracy.py.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from common import clocked, machine, options_of, write_report
from sdgar.data import splits
from sdgar.data.held_out import HeldOut
from sdgar.data.interactions import Interactions
from sdgar.data.synthetic import synthetic
from sdgar.lab.paper.chosen import settings_of, source
from sdgar.maths.rng import Draws, Stream, index_and_fraction
from sdgar.models.factor_tensors import FactorTensors
from sdgar.models.factors import Factors
from sdgar.samplers.closed_form import Frozen
from sdgar.samplers.decomposable import Decomposable
from sdgar.samplers.nearest_items import NearestItems
from sdgar.systems.learner import Learner
from sdgar.systems.recipe import recipe_of
from sdgar.systems.sdgar import SDGAR
from sdgar.systems.sdsoftmax import SDSoftmax

INDEXES = ("exact", "hnsw", "pq")
SIZES = (10**3, 10**4, 10**5, 10**6)
STATES, USERS, DRAWS, REPEATS = 64, 1000, 1_000_000, 7


def measure(n_items: int, n_draws: int) -> dict[str, float]:
    generator = Decomposable(USERS, n_items, STATES, seed=0, update=Frozen())
    users = torch.arange(n_draws) % USERS
    draws = Draws(0, Stream.NEGATIVES, 1, torch.arange(n_draws))
    slot = torch.zeros(1).long()
    table = torch.zeros(STATES * n_items, dtype=torch.int64)
    place = torch.randint(len(table), (n_draws,), generator=torch.Generator().manual_seed(0))

    def arithmetic() -> None:
        w0, w1, w2, w3 = draws.words(slot)
        index_and_fraction(STATES, w0, w1)
        index_and_fraction(n_items, w2, w3)

    parts = {
        "arithmetic": arithmetic,
        "draw": lambda: generator.draw(users, draws, slot),
        "gather": lambda: table[place],
    }
    times: dict[str, list[float]] = {name: [] for name in parts}
    for _ in range(REPEATS):
        for name, work in parts.items():
            times[name].append(clocked(work)())
    return {name: statistics.median(values) for name, values in times.items()}


def plot(rows: list[dict[str, float]], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained", dpi=150)
    axes = figure.subplots()
    sizes = [row["items"] for row in rows]
    axes.plot(sizes, [r["draw"] for r in rows], "o-", color="#0072B2", label="draw, as it is")
    axes.plot(
        sizes, [r["draw_less_gather"] for r in rows], "s--", color="#009E73",
        label="less the cache misses of its look-ups",
    )  # fmt: skip
    axes.plot(sizes, [r["arithmetic"] for r in rows], "^:", color="#999999", label="arithmetic")
    axes.set_xscale("log")
    axes.set(
        xlabel="items in the catalogue",
        ylabel="seconds for a million draws",
        title="Drawing from the decomposable generator, K = 64, one thread",
        ylim=(0, None),
    )
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path)


class Still:
    """A discriminator that has learned and stays as it is."""

    def __init__(self, model: Factors) -> None:
        tensors = (torch.from_numpy(a) for a in (model.user_UD, model.item_ID, model.bias_I))
        self._factors = FactorTensors(*tensors)
        self.n_items, self.score = self._factors.n_items, self._factors.score

    def factors(self) -> FactorTensors:
        """Return its vectors."""
        return self._factors


def proposals(
    model: Learner, train: Interactions, valid: Interactions, nears: Sequence[int]
) -> list[dict[str, Any]]:
    """Return what would be proposed to the model: by each index, by generators, uniformly.

    "False" is the share of proposals that are validation rows of the same user, so known to be
    wrong; the mean over users with such rows.
    """
    held, still, lines = HeldOut.of(valid, train), Still(recipe_of(model).trained.model), []
    held_T = np.diff(held.indptr_T1)
    users_E = np.repeat(held.users_T, held_T)
    for near in nears:
        for index in INDEXES:
            search = NearestItems(still, train.history, index=index, near=near, explore=0.0)
            start = time.perf_counter()
            recall = search.refit(still.score, seed=0, epoch=1).numbers.get("recall", 1.0)
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
        generator = recipe_of(recipe).compose(train, seed=0).sampler
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
    """Sum Q(i|c) over the rows of each context; no generator proposes an item it does not know."""
    known = items_E < len(generator.y_IK)
    users, items = (torch.from_numpy(a[known].astype(np.int64)) for a in (users_E, items_E))
    q_E = generator.log_q(users, items[:, None])[:, 0].exp().numpy()
    return np.bincount(users_E[known], weights=q_E, minlength=n_users)


def measure_proposals(options: Any) -> None:
    """Look at the proposals for the vectors that SD-GAR ends with."""
    report: dict[str, Any] = {**machine(), "proposals": []}
    how: dict[str, Any] = {
        "epochs": 60,
        "early_stopping__every": 5,
        "early_stopping__patience": 2,
        "device": "cpu",
    }
    for data in ("demo",) if options.quick else ("citeulike", "gowalla"):
        if options.quick:
            how |= {"epochs": 2, "early_stopping__every": 1, "sampler__states": 4, "dim": 8}
            rows = synthetic("demo")
        else:
            rows = source(data, options.data).train
        train, valid = splits.random_rows(rows, share=0.1, seed=0)
        model = SDGAR(**settings_of("sdgar", data), **how).fit(train, valid)
        nears = (1, 5) if options.quick else (1, 10, 50, 500)
        for line in proposals(model, train, valid, nears):
            report["proposals"].append({"data": data, **line})
            print(report["proposals"][-1], flush=True)
    write_report(options.json, report)


def measure_draws(wanted: Any) -> None:
    """Time draws from catalogues of many sizes."""
    torch.set_num_threads(1)
    sizes = (100, 1000) if wanted.quick else SIZES
    draws = 1000 if wanted.quick else DRAWS
    measure(sizes[0], draws)
    rows = [{"items": n, **measure(n, draws)} for n in sizes]
    for row in rows:
        # What the look-ups cost beyond the cost of the smallest catalogue, whose tables fit the
        # cache.
        row["draw_less_gather"] = row["draw"] - (row["gather"] - rows[0]["gather"])
        print(", ".join(f"{k} {v:,.4g}" for k, v in row.items()))
    flat = max(r["draw_less_gather"] for r in rows) / min(r["draw_less_gather"] for r in rows)
    print(f"largest over smallest, less cache misses: {flat:.3f}")
    write_report(
        wanted.json,
        {**machine(), "threads": 1, "draws": draws, "ratio": flat, "rows": rows},
    )
    if wanted.plot:
        plot(rows, wanted.plot)


def main() -> None:
    """Do one of the things that the docstring names."""
    commands = {"draws": measure_draws, "proposals": measure_proposals}
    parser = options_of(__doc__, plot={"type": Path, "metavar": "FILE"})
    parser.add_argument("command", choices=commands, nargs="?", default="draws")
    options = parser.parse_args()
    commands[options.command](options)


if __name__ == "__main__":
    main()
