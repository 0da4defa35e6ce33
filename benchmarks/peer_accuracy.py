"""Accuracy beside peers on CiteULike, D = 32: our BPR and implicit's, our WARP and LightFM's.

    python benchmarks/peer_accuracy.py [--json FILE] [--data DIR]

Equal searches: six settings each, NDCG@50 of a tenth of the training rows (split off with seed 0)
looked at every 10 epochs, until four looks bring no gain. The best (setting, epochs) of each is
then trained on all training rows with seeds 0, 1 and 2, and the test rows are read once for each.
Both WARPs try at most 10 negatives, LightFM's default.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from cpu_engine import SHARED, THREADS, about
from sdgar.data import splits
from sdgar.data.held_out import HeldOut
from sdgar.data.interactions import Interactions
from sdgar.data.synthetic import synthetic
from sdgar.errors import NumericalError
from sdgar.evaluation.report import evaluate
from sdgar.systems.bpr import BPR
from sdgar.systems.warp import WARP
from trainers import DIM, ImplicitBPR, LightfmWARP, Ours, Trainer, as_matrix, grid

EVERY, PATIENCE, MOST, SEEDS = 10, 4, 400, (0, 1, 2)

Start = Callable[[Interactions, dict[str, Any], int], Trainer]

SYSTEMS: dict[str, tuple[Start, dict[str, tuple[Any, ...]]]] = {
    "sdgar BPR": (
        lambda data, s, seed: Ours(BPR(dim=DIM, **s), data, seed=seed),
        {"learning_rate": (0.2, 0.4), "l2": (0.02, 0.03, 0.05)},
    ),
    "implicit BPR": (
        lambda data, s, seed: ImplicitBPR(as_matrix(data), seed=seed, **s),
        {"learning_rate": (0.05, 0.1), "regularization": (0.01, 0.03, 0.1)},
    ),
    "sdgar WARP": (
        lambda data, s, seed: Ours(WARP(dim=DIM, max_tries=10, **s), data, seed=seed),
        {"learning_rate": (0.1, 0.2), "l2": (0.5, 1.0, 2.0)},
    ),
    "LightFM WARP": (
        lambda data, s, seed: LightfmWARP(as_matrix(data), seed=seed, **s),
        {"learning_rate": (0.05, 0.1), "alpha": (0.0, 1e-4, 1e-3)},
    ),
}
"""Name → what starts a training, and what is searched."""


def curve(trainer: Trainer, look: Callable[[Trainer], float], most: int) -> list[tuple[int, float]]:
    """(epochs, value) of every look."""
    looks: list[tuple[int, float]] = []
    for epoch in range(1, most + 1):
        try:
            trainer.train()
        except NumericalError:
            break
        if epoch % EVERY == 0:
            looks.append((epoch, look(trainer)))
            best = max(range(len(looks)), key=lambda at: looks[at][1])
            if len(looks) - 1 - best >= PATIENCE:
                break
    return looks


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--data", type=Path, metavar="DIR", default=SHARED)
    parser.add_argument("--quick", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(THREADS)
    most = MOST
    if options.quick:
        parts = splits.per_user(synthetic("demo"), seed=0)
        train, test = parts.train, parts.held_out
        most = 2 * EVERY
    else:
        import polars as pl

        frames = (pl.read_parquet(options.data / "citeulike-t" / f"{p}.parquet")
                  for p in ("train", "test"))  # fmt: skip
        train, test = (
            Interactions.from_arrays(f["user"].to_numpy(), f["item"].to_numpy()) for f in frames
        )
    split = splits.validation(train, seed=0)
    valid, held_out = HeldOut.of(split.held_out, split.train), HeldOut.of(test, train)

    def ndcg(trainer: Trainer, rows: HeldOut, seen: Interactions) -> float:
        return evaluate(trainer.factors(), rows, seen=seen.history, ks=(50,)).means()["ndcg@50"]

    results: dict[str, Any] = {}
    for name, (start, axes) in SYSTEMS.items():
        tried = []
        for settings in grid(axes):
            looks = curve(
                start(split.train, settings, 0), lambda t: ndcg(t, valid, split.train), most
            )
            epochs, value = max(looks, key=lambda look: look[1], default=(0, 0.0))
            tried.append({"settings": settings, "epochs": epochs, "valid": value, "looks": looks})
            print(f"{name} {settings}: {value:.4f} after {epochs} epochs", flush=True)
        chosen = max(tried, key=lambda one: one["valid"])
        tests = []
        for seed in SEEDS:
            trainer = start(train, chosen["settings"], seed)
            for _ in range(chosen["epochs"]):
                trainer.train()
            tests.append(ndcg(trainer, held_out, train))
        results[name] = {"chosen": chosen, "test": tests, "tried": tried}
        mean, spread = statistics.mean(tests), statistics.stdev(tests)
        print(f"{name}: test NDCG@50 {mean:.4f} ± {spread:.4f}", flush=True)
    if options.json:
        report = {**about(), "dim": DIM} | results
        options.json.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
