"""Training seconds to an accuracy: SD-Softmax beside EASE, iALS and implicit's ALS, in one run.

    python benchmarks/seconds_to_accuracy.py curves OUT.json carry/citeulike.npz …   # see below
    python benchmarks/seconds_to_accuracy.py items OUT.json
    python benchmarks/seconds_to_accuracy.py plot CURVES.json FIGURE.png

``curves`` trains on all training rows and looks at NDCG@50 of the test rows along the way; nothing
is chosen by those looks. SD-Softmax has its defaults. The settings of EASE and iALS are those that
accuracy_grid.py's searches chose on validation rows (docs/results.md), those of implicit's ALS are
searched here, on validation rows of seed 0. Seconds are of training, with everything from arrays to
a model: starts, tables and refits too; not of looks, nor of compiling, which a first short run has
done. implicit is optional, and on a GPU machine left out.

``items`` takes made-up data with two million rows of 50,000 users and more and more items, and
reports seconds a pass: SD-Softmax's epoch, its refit (due every second epoch) and its start, a
sweep of implicit's ALS, and EASE's whole solution as long as it fits.
"""

from __future__ import annotations

import itertools
import json
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from accuracy_grid import load
from sdgar.data import splits
from sdgar.data.held_out import HeldOut
from sdgar.data.interactions import Interactions
from sdgar.data.synthetic import Shape, generate
from sdgar.engines.fused.cpu import FusedCpuEngine
from sdgar.engines.fused.gpu import FusedGpuEngine
from sdgar.evaluation.report import evaluate
from sdgar.models.factors import Factors
from sdgar.models.model import Scorer
from sdgar.systems.ease import EASE
from sdgar.systems.ials import IALS
from sdgar.systems.sdsoftmax import SDSoftmax

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
ENGINE = FusedGpuEngine if DEVICE.type == "cuda" else FusedCpuEngine
LOOKS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
"""Epochs after which SD-Softmax is looked at, beside its start."""
MOST_EPOCHS = {"movielens": 12}
"""Where fewer tell enough."""

EASE_L2 = {"citeulike": 35.0, "gowalla": 60.0, "movielens": 600.0}
IALS_SETTINGS = {
    "citeulike": {"dim": 512, "alpha": 0.005, "l2": 0.02},
    "gowalla": {"dim": 512, "alpha": 0.03, "l2": 0.003},
    "movielens": {"dim": 512, "alpha": 0.03, "l2": 0.01},
}
ALS = {"alpha": (3, 10, 20, 40, 80, 160), "regularization": (0.01, 1.0, 10.0, 100.0)}
ALS_DIM, ALS_SWEEPS = 128, 15
TARGETS = {
    "citeulike": (0.168, 0.170),
    "gowalla": (0.182, 0.210),
    "movielens": (0.330,),
}
"""Accuracies whose seconds are reported."""
MOST_ITEMS_FOR_EASE = 10_000 if DEVICE.type == "cpu" else 60_000
"""Two cores take some ten minutes for 25,000: M³."""
ITEMS = (10_000, 30_000, 100_000, 300_000, 1_000_000)

Look = tuple[float, float]
"""Training seconds, and what they reached."""


class Watch:
    """Seconds that were spent in training, whatever else happened in between."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __enter__(self) -> None:
        self._start = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        if DEVICE.type == "cuda":
            torch.cuda.synchronize()
        self.seconds += time.perf_counter() - self._start


def softmax(
    train: Interactions, look: Callable[[Scorer], float], most_epochs: int, **settings: Any
) -> list[Look]:
    watch = Watch()
    with watch:
        system = SDSoftmax(**settings).compose(train, seed=0, device=DEVICE)
        engine = ENGINE(system, train, seed=0, device=DEVICE)
    looks = [(watch.seconds, look(system.factors()))]
    for epoch in range(1, most_epochs + 1):
        with watch:
            if (epoch - 1) % system.refit_every == 0:
                engine.refit(epoch)
            engine.run_epoch(epoch)
        if epoch in LOOKS:
            looks.append((watch.seconds, look(system.factors())))
    return looks


def solved(recipe: Any, train: Interactions, look: Callable[[Scorer], float]) -> list[Look]:
    watch = Watch()
    with watch:
        model = recipe.solve(train, device=DEVICE)
    return [(watch.seconds, look(model))]


def als(
    train: Interactions,
    look: Callable[[Scorer], float],
    *,
    iterations: int,
    last_only: bool = False,
    **settings: Any,
) -> list[Look]:
    from implicit.cpu.als import AlternatingLeastSquares
    from scipy.sparse import csr_matrix

    ones = np.ones(len(train), np.float32)
    matrix = csr_matrix((ones, train.items_E, train.indptr_U1), (train.n_users, train.n_items))
    model = AlternatingLeastSquares(
        factors=ALS_DIM,
        iterations=iterations,
        num_threads=torch.get_num_threads(),
        random_state=0,
        **settings,
    )
    looks: list[Look] = []
    looking = 0.0

    def callback(iteration: int, *_: object) -> None:
        nonlocal looking
        now = time.perf_counter()
        if last_only and iteration < iterations - 1:
            return
        tables = (torch.from_numpy(t.copy()) for t in (model.user_factors, model.item_factors))
        value = look(Factors(*tables, torch.zeros(train.n_items)))
        looks.append((now - start - looking, value))
        looking += time.perf_counter() - now

    start = time.perf_counter()
    model.fit(matrix, show_progress=False, callback=callback)
    return looks


def best_als(train: Interactions) -> dict[str, Any]:
    """By the last sweep's NDCG@50 on validation rows."""
    part = splits.validation(train, seed=0)
    held_out = HeldOut.of(part.held_out, part.train).sample(10_000, seed=0)
    look = looker(held_out, part.train)

    def last(settings: dict[str, Any]) -> float:
        return als(part.train, look, iterations=ALS_SWEEPS, last_only=True, **settings)[-1][1]

    every = (dict(zip(ALS, values, strict=True)) for values in itertools.product(*ALS.values()))
    return max(every, key=last)


def looker(held_out: HeldOut, train: Interactions) -> Callable[[Scorer], float]:
    def look(model: Scorer) -> float:
        return evaluate(model, held_out, seen=train.history, ks=(50,)).means()["ndcg@50"]

    return look


def has_implicit() -> bool:
    try:
        import implicit  # noqa: F401
    except ImportError:
        return False
    return DEVICE.type == "cpu"


def contenders(
    name: str, train: Interactions, look: Callable[[Scorer], float]
) -> Iterator[tuple[str, dict[str, Any], list[Look]]]:
    for dim in (64, 128):
        most = MOST_EPOCHS.get(name, LOOKS[-1])
        yield f"SD-Softmax, D = {dim}", {"dim": dim}, softmax(train, look, most, dim=dim)
    if has_implicit():
        settings = best_als(train) | {"iterations": ALS_SWEEPS}
        yield f"implicit ALS, D = {ALS_DIM}", settings, als(train, look, **settings)
    if train.n_items <= MOST_ITEMS_FOR_EASE:
        yield "EASE", {"l2": EASE_L2[name]}, solved(EASE(l2=EASE_L2[name]), train, look)
    if DEVICE.type == "cuda":
        settings = IALS_SETTINGS[name]
        yield f"iALS, D = {settings['dim']}", settings, solved(IALS(**settings), train, look)


def curves(out: Path, paths: list[Path]) -> None:
    report: dict[str, Any] = {"about": about(), "data": {}}
    for path in paths:
        train, test = load(path)
        look = looker(HeldOut.of(test, train), train)
        for dim in (64, 128):
            warm_up(train, dim)
        found = {}
        for label, settings, looks in contenders(path.stem, train, look):
            seconds = {
                str(target): next((round(s, 2) for s, value in looks if value >= target), None)
                for target in TARGETS[path.stem]
            }
            found[label] = {
                "settings": settings,
                "seconds_to": seconds,
                "looks": [(round(s, 2), round(value, 4)) for s, value in looks],
            }
            print(path.stem, label, seconds, found[label]["looks"], flush=True)
        report["data"][path.stem] = found
        out.write_text(json.dumps(report, indent=1) + "\n")


def warm_up(train: Interactions, dim: int) -> None:
    """Compile for this shape: kernels are chosen by types, and on a GPU by sizes too."""
    system = SDSoftmax(dim=dim, sweeps=1).compose(train, seed=0, device=DEVICE)
    engine = ENGINE(system, train, seed=0, device=DEVICE)
    engine.refit(1)
    engine.run_epoch(1)
    engine.refit(2)


def items(out: Path) -> None:
    report: dict[str, Any] = {"about": about(), "items": {}}
    for n_items in ITEMS:
        data = generate(
            Shape(users=50_000, items=n_items, interactions=2_000_000, concentration=0.3), seed=0
        )
        warm_up(data, 64)
        seconds: dict[str, float | None] = {}

        def timed(name: str, work: Callable[[], Any], into: dict = seconds) -> Any:
            watch = Watch()
            with watch:
                made = work()
            into[name] = round(watch.seconds, 3)
            return made

        system = timed("start", lambda d=data: SDSoftmax(dim=64).compose(d, seed=0, device=DEVICE))
        engine = ENGINE(system, data, seed=0, device=DEVICE)
        timed("latent classes and refit", lambda e=engine: e.refit(1))
        timed("epoch", lambda e=engine: e.run_epoch(1))
        timed("refit", lambda e=engine: e.refit(2))
        del engine, system
        if has_implicit():
            two = als(data, lambda _: 0.0, iterations=2)
            seconds["implicit ALS, a sweep at D = 128"] = round(two[1][0] - two[0][0], 3)
        if n_items <= MOST_ITEMS_FOR_EASE:
            timed("EASE", lambda d=data: EASE(l2=100.0).solve(d, device=DEVICE))
        report["items"][n_items] = seconds
        print(n_items, seconds, flush=True)
        out.write_text(json.dumps(report, indent=1) + "\n")


def about() -> dict[str, Any]:
    git = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    name = torch.cuda.get_device_name() if DEVICE.type == "cuda" else platform.machine()
    return {
        "command": "benchmarks/seconds_to_accuracy.py " + sys.argv[1],
        "commit": git.stdout.strip() or None,
        "device": name,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "seed": 0,
    }


def plot(source: Path, figure: Path) -> None:
    import matplotlib.pyplot as plt

    report = json.loads(source.read_text())
    fig, axes_S = plt.subplots(1, len(report["data"]), figsize=(12, 4), layout="constrained")
    colours = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00")
    for axes, (name, found) in zip(np.atleast_1d(axes_S), report["data"].items(), strict=True):
        for (label, row), colour in zip(found.items(), colours, strict=False):
            seconds, values = zip(*row["looks"], strict=True)
            axes.plot(seconds, values, marker="o", markersize=4, color=colour, label=label)
        axes.set(xscale="log", xlabel="training seconds", title=name)
        axes.xaxis.set_major_formatter("{x:g}")
        axes.grid(alpha=0.3)
    np.atleast_1d(axes_S)[0].set_ylabel("NDCG@50, test rows")
    np.atleast_1d(axes_S)[0].legend()
    fig.suptitle(f"{report['about']['device']}, {report['about']['threads']} threads")
    fig.savefig(figure, dpi=150)


if __name__ == "__main__":
    command, *words = sys.argv[1:]
    if command == "curves":
        curves(Path(words[0]), [Path(word) for word in words[1:]])
    elif command == "items":
        items(Path(words[0]))
    else:
        plot(Path(words[0]), Path(words[1]))
