"""Training seconds to a quality on Gowalla: implicit's BPR, LightFM's WARP and ours, D = 32.

    python benchmarks/time_to_quality.py [--json FILE] [--plot FILE] [--seconds 90] [--data DIR]

A tenth of the training rows is split off (seed 0); nothing looks at test rows. Every system gets
two settings and the same limit of training seconds for each. Looks at NDCG@50 of the split-off
rows are spaced by a factor of time and are not counted as training; a setting ends at the limit, or
after a third of it once the best look is PATIENCE times as long ago. Ingredients models and engines
counts as training, compiling does not: compiled code is loaded before. Systems take turns by
setting.

A target is the best value that each peer reaches at its best setting, and 99 % of it, because the
last per cent of a flat curve is chance; the answer is the training seconds of the first look at or
above it, at a system's own best setting and, beside it, at whichever setting is the fastest.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from cpu_engine import SHARED, THREADS, about, gowalla
from sdgar.data import splits
from sdgar.data.held_out import HeldOut
from sdgar.data.interactions import Interactions
from sdgar.data.synthetic import synthetic
from sdgar.errors import NumericalError
from sdgar.evaluation.report import evaluate
from sdgar.models.factors import Factors
from sdgar.systems.bpr import BPR
from sdgar.systems.sdgar import SDGAR
from trainers import DIM, ImplicitBPR, LightfmWARP, Ours, Trainer, as_matrix, grid

METRIC, K = "ndcg@50", 50
APART, PATIENCE = 1.15, 3.0
"""Time of a look over that of the one before, at least; time that a best value may be old."""
SHARES = (1.0, 0.99)
"""Of a peer's best value, the targets."""

OURS: dict[str, tuple[type[BPR | SDGAR], dict[str, Any], dict[str, tuple[Any, ...]]]] = {
    "sdgar SD-GAR": (
        SDGAR,
        {"batch_size": 512, "l2": 0.01},
        {"learning_rate": (0.1, 0.2)},
    ),
    "sdgar weighted loss, uniform draws, 4 share 32": (
        SDGAR,
        {
            "proposal": "uniform",
            "positives_per_visit": 4,
            "n_negatives": 32,
            "temperature": 0.2,
            "batch_size": 512,
            "l2": 0.01,
        },
        {"learning_rate": (0.1, 0.2)},
    ),
}
"""Name → recipe, what is fixed, and what is searched."""

PEERS: dict[str, dict[str, tuple[Any, ...]]] = {
    "implicit BPR": {"learning_rate": (0.05, 0.15), "regularization": (0.01,)},
    "LightFM WARP": {"learning_rate": (0.05, 0.1), "alpha": (0.0,)},
}
"""Name → what is searched."""

COLOURS = ("#000000", "#E69F00", "#0072B2", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")
MARKS = "sD^ov<>"


def curve(
    start_trainer: Callable[[], Trainer], look: Callable[[Factors], float], limit: float
) -> list[dict[str, float]]:
    """Looks as (training seconds, epochs, value), until the limit or no gain."""
    next_look, epochs = 0.0, 0
    looks: list[dict[str, float]] = []
    start = time.perf_counter()
    trainer = start_trainer()
    spent = time.perf_counter() - start
    while spent < limit and (spent < limit / 3 or spent < PATIENCE * best(looks)["seconds"]):
        start = time.perf_counter()
        try:
            trainer.train()
        except NumericalError:
            break
        spent += time.perf_counter() - start
        epochs += 1
        if spent >= min(next_look, limit):
            looks.append({"seconds": spent, "epochs": epochs, "value": look(trainer.factors())})
            next_look = APART * spent
    return looks


def best(points: list[dict[str, float]]) -> dict[str, float]:
    """The look with the best value; without one, a value that anything is better than."""
    nothing = {"seconds": 0.0, "epochs": 0, "value": float("-inf")}
    return max(points, key=lambda point: point["value"], default=nothing)


def candidates(
    train: Interactions,
) -> dict[str, list[tuple[dict[str, Any], Callable[[], Trainer]]]]:
    """For each system, its settings and what starts a training with them."""
    matrix = as_matrix(train)
    kinds = {"implicit BPR": ImplicitBPR, "LightFM WARP": LightfmWARP}
    made: dict[str, list[tuple[dict[str, Any], Callable[[], Trainer]]]] = {}
    for name, axes in PEERS.items():
        made[name] = [(s, lambda k=kinds[name], s=s: k(matrix, **s)) for s in grid(axes)]
    for name, (recipe, fixed, axes) in OURS.items():
        made[name] = [
            (fixed | s, lambda r=recipe, s=fixed | s: Ours(r(dim=DIM, **s), train))
            for s in grid(axes)
        ]
    return made


def first_at(points: list[dict[str, float]], target: float) -> float | None:
    """Training seconds of the first look at or above the target."""
    return next((point["seconds"] for point in points if point["value"] >= target), None)


def at_best_setting(of: list[dict[str, Any]]) -> dict[str, Any]:
    return max(of, key=lambda run: best(run["curve"])["value"])


def answer(runs: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Who gets where, and when; a system's best setting is the one with its best value."""
    chosen = {name: at_best_setting(of) for name, of in runs.items()}
    reached: dict[str, dict[str, Any]] = {}
    for peer, share in itertools.product(PEERS, SHARES):
        target = share * best(chosen[peer]["curve"])["value"]
        own = first_at(chosen[peer]["curve"], target)
        systems: dict[str, dict[str, float | None]] = {}
        for name, of in runs.items():
            seconds = first_at(chosen[name]["curve"], target)
            times = [t for run in of if (t := first_at(run["curve"], target)) is not None]
            systems[name] = {
                "seconds_at_best_setting": seconds,
                "seconds_at_fastest_setting": min(times, default=None),
                "peer_seconds_over_seconds": own / seconds if own and seconds else None,
            }
        reached[f"{share:.0%} of {peer}'s best"] = {"target": target, "systems": systems}
    return {
        "best": {
            name: {"settings": run["settings"], METRIC: best(run["curve"])["value"]}
            for name, run in chosen.items()
        },
        "reached": reached,
    }


def show(found: dict[str, Any]) -> None:
    print(f"{'':30}{'best ' + METRIC:>14}  settings")
    for name, row in found["best"].items():
        print(f"{name:30}{row[METRIC]:14.4f}  {row['settings']}")
    for goal, row in found["reached"].items():
        print(f"\ntraining seconds to {row['target']:.4f}, {goal}")
        print(f"{'':30}{'best setting':>14}{'fastest':>10}{'faster':>9}")
        for name, times in row["systems"].items():
            at_best, fastest, ratio = times.values()
            print(
                f"{name:30}{'never' if at_best is None else f'{at_best:.2f}':>14}"
                f"{'never' if fastest is None else f'{fastest:.2f}':>10}"
                + (f"{ratio:8.1f}×" if ratio else "")
            )


def plot(
    source: str, runs: dict[str, list[dict[str, Any]]], found: dict[str, Any], path: Path
) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), layout="constrained", dpi=150)
    axes = figure.subplots()
    for (name, of), colour, mark in zip(runs.items(), COLOURS, MARKS, strict=False):
        points = at_best_setting(of)["curve"]
        axes.plot(
            [p["seconds"] for p in points], [p["value"] for p in points],
            marker=mark, markersize=3.5, color=colour, label=name,
        )  # fmt: skip
        if name in PEERS:
            axes.axhline(found["best"][name][METRIC], color=colour, linestyle="--", linewidth=0.8)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set(
        xlabel=f"training seconds, {THREADS} threads",
        ylabel="NDCG@50 on split-off rows",
        title=f"{source.capitalize()}, D = {DIM}: best setting of each; dashed: the peers' best",
        ylim=(0, None),
    )
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--plot", type=Path, metavar="FILE")
    parser.add_argument("--seconds", type=float, default=90.0, help="training limit of a setting")
    parser.add_argument("--users", type=int, default=10_000, help="users of a look, chosen once")
    parser.add_argument("--data", type=Path, metavar="DIR", default=SHARED)
    parser.add_argument("--quick", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(THREADS)

    source, data = gowalla(options.data)
    if options.quick:
        source, data = "demo", synthetic("demo")
        options.seconds = min(options.seconds, 3.0)
    split = splits.validation(data, seed=0)
    train = split.train
    held_out = HeldOut.of(split.held_out, train).sample(options.users, seed=0)

    def look(factors: Factors) -> float:
        return evaluate(factors, held_out, seen=train.history, ks=(K,)).means()[METRIC]

    # Compiled code is loaded here, so that no curve waits for it.
    small = synthetic("demo")
    for recipe, fixed, _ in OURS.values():
        Ours(recipe(dim=DIM, **fixed), small).train()

    everyone = candidates(train)
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in everyone}
    for turn in range(max(map(len, everyone.values()))):
        for name, of in everyone.items():
            if turn < len(of):
                settings, start_trainer = of[turn]
                points = curve(start_trainer, look, options.seconds)
                runs[name].append({"settings": settings, "curve": points})
                print(
                    f"{name} {settings}: {best(points)['value']:.4f} in {len(points)} looks, "
                    f"{points[-1]['seconds'] if points else 0:.1f} s",
                    flush=True,
                )
    found = answer(runs)
    print()
    show(found)
    if options.json:
        report = {
            **about(),
            "source": source,
            "split": split.how,
            "users": len(held_out),
            "positives": len(train),
            "dim": DIM,
            "metric": METRIC,
            "limit_seconds": options.seconds,
            "patience": PATIENCE,
            **found,
            "runs": runs,
        }
        options.json.write_text(json.dumps(report, indent=2) + "\n")
    if options.plot:
        plot(source, runs, found, options.plot)


if __name__ == "__main__":
    main()
