"""The item memory: seconds, size, and what each of its settings is worth.

    python benchmarks/memory.py seconds [--rounds 3] [--json FILE]
    python benchmarks/memory.py parts [--sets citeulike,movies] [--json FILE]
    python benchmarks/memory.py items [--json FILE]

``seconds``: ``local-ease`` and implicit's ALS (D = 128, 15 sweeps) take turns on Gowalla's training
rows; the test rows then say how good each of them is. Nothing is chosen by them.

``parts``: SD-Softmax is trained once on nine tenths of the training rows, and memories with other
settings are added to it. The other tenth says what each is worth; test rows play no part.

``items``: seconds and peak memory of ``local-ease`` for two million rows of 50,000 users and more
and more items, each in a separate process.
"""

from __future__ import annotations

import json
import multiprocessing as mp
import resource
import time
from typing import Any

import numpy as np
import torch

from common import (
    DEVICE,
    SHARED,
    THREADS,
    about,
    as_matrix,
    clocked,
    from_parquet,
    has_implicit,
    machine,
    options_of,
    take_turns,
    write_report,
)  # fmt: skip
from sdgar.data import splits
from sdgar.data.held_out import HeldOut
from sdgar.data.interactions import Interactions
from sdgar.data.synthetic import Shape, generate, synthetic
from sdgar.evaluation.report import evaluate
from sdgar.maths.neighbours import Neighbourhoods
from sdgar.models.factor_tensors import FactorTensors
from sdgar.models.factors import Factors
from sdgar.models.item_weights import LocalItemWeights
from sdgar.models.model import Model
from sdgar.models.sum import weighted_sum
from sdgar.ranking.topk import top_k
from sdgar.systems.neighbours import LocalEASE
from sdgar.systems.sdsoftmax import SDSoftmax
from sdgar.training.item_memory import WEIGHTS, ItemMemorySolver, WeightSearch

METRIC, K = "ndcg@50", 50
FOLDERS = {"citeulike": "citeulike-t", "gowalla": "gowalla", "movies": "amazon-movies"}
ALS = {"factors": 128, "iterations": 15, "regularization": 100.0, "alpha": 160.0}
ITEMS = (10_000, 30_000, 100_000, 300_000, 1_000_000)
USUAL = {"k": 50, "l2": 20.0, "shrink": 10.0, "beta": 0.5}
CHANGES: dict[str, tuple[float, ...]] = {
    "k": (20, 50, 100, 200),
    "l2": (5.0, 20.0, 80.0),
    "beta": (0.0, 0.5, 1.0),
}
"""The settings of the memory that are changed, one at a time."""


def rows_of(name: str, *, quick: bool) -> splits.Split:
    """Return training and test rows; tiny synthetic ones to see that it runs."""
    if quick:
        return splits.split(synthetic("demo"), "paper", seed=0)
    train, test = (
        from_parquet(SHARED / FOLDERS[name] / f"{part}.parquet") for part in ("train", "test")
    )
    return splits.Split(train, test, "as published")


# Seconds


def als(train: Interactions) -> Factors:
    """Fit implicit's ALS with as many threads as ours has."""
    from implicit.cpu.als import AlternatingLeastSquares
    from threadpoolctl import threadpool_limits

    model = AlternatingLeastSquares(**ALS, num_threads=THREADS, random_state=0)
    with threadpool_limits(1, "blas"):  # as implicit itself recommends
        model.fit(as_matrix(train), show_progress=False)
    vectors = (torch.from_numpy(np.asarray(v)) for v in (model.user_factors, model.item_factors))
    return FactorTensors(*vectors, torch.zeros(train.n_items)).model()


def seconds(options: Any) -> dict[str, Any]:
    """Report the seconds of both, in turns, and the test NDCG@50 of each."""
    torch.set_num_threads(THREADS)
    part = rows_of("gowalla", quick=options.quick)
    held_out, made = HeldOut.of(part.held_out, part.train), {}

    def local_ease() -> None:
        made["local-ease"] = LocalEASE().fit(part.train, verbose=False).recommender_.model

    def implicit_als() -> None:
        made["implicit ALS"] = als(part.train)

    runs = {"local-ease": clocked(local_ease)}
    if has_implicit():
        runs["implicit ALS"] = clocked(implicit_als)
    take_turns(runs, 1)  # compiles, and is not counted
    found = take_turns(runs, 1 if options.quick else options.rounds)
    reached = {
        name: evaluate(model, held_out, seen=part.train.history, ks=(K,)).means()[METRIC]
        for name, model in made.items()
    }
    return {**about(), "als": ALS, "seconds": found, METRIC: reached}


# What each part is worth


def parts(options: Any) -> dict[str, Any]:
    """Report validation NDCG@50 by settings of the memory, and by kinds of users and items."""
    report: dict[str, Any] = {**machine(), "usual": USUAL, "sets": {}}
    for name in ("demo",) if options.quick else options.sets.split(","):
        train = rows_of(name, quick=options.quick).train
        split = splits.validation(train, seed=0)
        report["sets"][name] = _worth(split.train, split.held_out, quick=options.quick)
        print(name, json.dumps(report["sets"][name]), flush=True)
    return report


def _worth(data: Interactions, held: Interactions, *, quick: bool) -> dict[str, Any]:
    settings = {"dim": 8, "epochs": 2, "sampler__states": 4} if quick else {}
    start = time.perf_counter()
    learned = SDSoftmax(item_memory=0.0, early_stopping=False, **settings).fit(data, verbose=False)
    vectors = learned.recommender_.model
    held_out = HeldOut.of(held, data)
    seen = held_out.excluded(data)

    def of(model: Model) -> np.ndarray:
        return evaluate(model, held_out, seen=seen, ks=(K,)).per_user[METRIC]

    alone_T = of(vectors)
    found: dict[str, Any] = {"seconds_of_vectors": time.perf_counter() - start}
    found["vectors"] = float(alone_T.mean())
    for name, values in CHANGES.items():
        found[name] = {}
        for value in values:
            rule = Neighbourhoods(**(USUAL | {name: value}))  # type: ignore[arg-type]
            memory = LocalItemWeights.solved(data, rule, device=DEVICE)
            by_weight = {w: float(of(weighted_sum(vectors, memory, w)).mean()) for w in WEIGHTS}
            best = max(by_weight, key=lambda w: by_weight[w])
            found[name][value] = {"memory": float(of(memory).mean()), "both": by_weight[best],
                                  "weight": best}  # fmt: skip
    usual = ItemMemorySolver(Neighbourhoods(**USUAL), None)  # type: ignore[arg-type]
    memory = usual.solve(data, DEVICE)
    weight = WeightSearch(vectors, memory, held_out, seen, METRIC).chosen(WEIGHTS)
    both = weighted_sum(vectors, memory, weight)
    found["chosen"] = weight
    found["weights"] = {w: float(of(weighted_sum(vectors, memory, w)).mean()) for w in WEIGHTS}
    models = {"vectors": vectors, "memory": memory, "both": both}
    length_T = np.diff(data.indptr_U1)[held_out.users_T]
    third_T = np.searchsorted(np.quantile(length_T, (1 / 3, 2 / 3)), length_T)
    found["histories"] = {
        name: [float(of(model)[third_T == t].mean()) for t in range(3) if (third_T == t).any()]
        for name, model in models.items()
    }
    found["items"] = {name: _found(m, held_out, seen, data) for name, m in models.items()}
    return found


def _found(model: Model, held_out: HeldOut, seen: Any, data: Interactions) -> list[float]:
    """Return the share of held-out rows in the first 50, by thirds of rows from rare to popular."""
    top = top_k(model, held_out.users_T, K, seen=seen)
    who_E = np.repeat(np.arange(len(held_out.users_T)), np.diff(held_out.indptr_T1))
    known_E = held_out.items_E < data.n_items
    who_E, item_E = who_E[known_E], held_out.items_E[known_E]
    listed_E = (top.items_TK[who_E] == item_E[:, None]).any(axis=1)
    count_E = np.bincount(data.items_E, minlength=data.n_items)[item_E]
    third_E = np.searchsorted(np.quantile(count_E, (1 / 3, 2 / 3)), count_E)
    return [float(listed_E[third_E == t].mean()) for t in range(3) if (third_E == t).any()]


# More and more items


def items(options: Any) -> dict[str, Any]:
    """Report seconds and peak memory for each number of items."""
    sizes = [(200, 100, 2_000)] if options.quick else [(n, 50_000, 2_000_000) for n in ITEMS]
    found = {}
    for size in sizes:
        if options.quick:
            found[size[0]] = _fit(size)
            continue
        with mp.get_context("spawn").Pool(1) as pool:
            found[size[0]] = pool.apply(_fit, (size,))
        print(size, found[size[0]], flush=True)
    return {**machine(), "threads": THREADS, "items": found}


def _fit(size: tuple[int, int, int]) -> dict[str, float]:
    n_items, users, interactions = size
    torch.set_num_threads(THREADS)
    small = generate(Shape(users=60, items=40, interactions=600, concentration=0.15), seed=0)
    LocalEASE().fit(small, verbose=False)  # compiles
    shape = Shape(users=users, items=n_items, interactions=interactions, concentration=0.3)
    data = generate(shape, seed=0)
    before, start = _peak(), time.perf_counter()
    LocalEASE().fit(data, verbose=False)
    spent = time.perf_counter() - start
    return {"rows": len(data), "seconds": spent, "data_gib": before, "peak_gib": _peak()}


def _peak() -> float:
    """Return the most memory that this process has held, in GiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main() -> None:
    """Measure what is requested."""
    parser = options_of(
        __doc__,
        rounds={"type": int, "default": 3},
        sets={"default": "citeulike,movies"},
    )
    parser.add_argument("command", choices=("seconds", "parts", "items"))
    options = parser.parse_args()
    report = {"seconds": seconds, "parts": parts, "items": items}[options.command](options)
    print(json.dumps({k: v for k, v in report.items() if k not in ("versions", "cpu")}))
    write_report(options.json, report)


if __name__ == "__main__":
    main()
