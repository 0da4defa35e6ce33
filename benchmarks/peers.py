"""Compare training with peers: seconds to a quality, accuracy after equal searches, curves.

    python benchmarks/peers.py seconds [--json FILE] [--plot FILE] [--seconds 90] [--data DIR]
    python benchmarks/peers.py accuracy [--json FILE] [--data DIR]
    PYTHONPATH=src python benchmarks/peers.py curves --json OUT.json --packed carry [--only WARP]
    python benchmarks/peers.py plot --json CURVES.json --plot FIGURE.png

``seconds``: Gowalla, D = 32, implicit's BPR, LightFM's WARP and ours. A tenth of the training rows
is split off (seed 0); nothing looks at test rows. Every system gets two settings and the same limit
of training seconds for each. Looks at NDCG@50 of the split-off rows are spaced by a factor of time
and are not counted as training; a setting ends at the limit, or after a third of it once the best
look is PATIENCE times as long ago. Making models and engines counts as training, compiling does
not. Systems take turns by setting. A target is the best value that each peer reaches at its best
setting, and 99 % of it, because the last per cent of a flat curve is chance; the answer is the
training seconds of the first validation at or above it, at a system's own best setting and,
compared with it, at whichever setting is the fastest.

``accuracy``: CiteULike, D = 32, our BPR and implicit's, our WARP and LightFM's. Equal searches: six
settings each, a look every 10 epochs, until four looks bring no gain. The best (setting, epochs) of
each is then trained on all training rows with seeds 0, 1 and 2, and the test rows are read once for
each. Both WARPs try at most 10 negatives, LightFM's default.

``curves``: item-knn, local-ease, quick and SD-Softmax with their defaults compared with EASE, iALS,
implicit's ALS and BPR, and LightFM's WARP, looking at the test rows along the way; nothing is
chosen by those looks. The settings of EASE and iALS are those that the searches of accuracy.py
chose on validation rows, those of implicit's ALS are searched here.
``--only`` measures contestants and data sets whose names have this text in them; what the report
holds of others stays, each with the commit that it was measured at.
"""

from __future__ import annotations

import itertools
import json
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch

from common import (
    DEVICE,
    MOST_ITEMS_FOR_EASE,
    THREADS,
    Watch,
    about,
    as_matrix,
    from_npz,
    from_parquet,
    gowalla,
    has_implicit,
    machine,
    options_of,
    write_report,
)  # fmt: skip
from grids import DATASETS as TITLES
from sdgar.data import splits
from sdgar.data.held_out import HeldOut
from sdgar.data.interactions import Interactions
from sdgar.data.synthetic import synthetic
from sdgar.errors import NumericalError
from sdgar.evaluation.report import evaluate
from sdgar.lab.paper.chosen import settings_of
from sdgar.models.factor_tensors import FactorTensors
from sdgar.models.factors import Factors
from sdgar.models.scorers import Scorer
from sdgar.systems.bpr import BPR
from sdgar.systems.ease import EASE
from sdgar.systems.hinges import WARP
from sdgar.systems.ials import IALS
from sdgar.systems.neighbours import ItemKNN, LocalEASE
from sdgar.systems.quick import Quick
from sdgar.systems.sdgar import SDGAR
from sdgar.systems.sdsoftmax import SDSoftmax
from trainers import DIM, ImplicitBPR, LightfmWARP, Ours, Trainer, grid

# Seconds to a quality

METRIC, K = "ndcg@50", 50
APART, PATIENCE = 1.15, 3.0
"""The least ratio of the times of two validations; how old a best value may be."""
SHARES = (1.0, 0.99)
"""The targets, as shares of a peer's best value."""

OURS: dict[str, tuple[type[BPR | SDGAR], dict[str, Any], dict[str, tuple[Any, ...]]]] = {
    "sdgar SD-GAR": (
        SDGAR,
        {"batch_size": 512, "l2": 0.01},
        {"learning_rate": (0.1, 0.2)},
    ),
    "sdgar weighted loss, uniform draws, 4 share 32": (
        SDGAR,
        {
            "sampler": "uniform",
            "sampler__positives_per_visit": 4,
            "n_negatives": 32,
            "temperature": 0.2,
            "batch_size": 512,
            "l2": 0.01,
        },
        {"learning_rate": (0.1, 0.2)},
    ),
}
"""The name of each of our systems, its recipe, what is fixed, and what is searched."""

PEERS: dict[str, dict[str, tuple[Any, ...]]] = {
    "implicit BPR": {"learning_rate": (0.05, 0.15), "regularization": (0.01,)},
    "LightFM WARP": {"learning_rate": (0.05, 0.1), "alpha": (0.0,)},
}
"""The name of each peer, and what is searched."""
PACKAGES = {"implicit BPR": "implicit", "LightFM WARP": "lightfm"}
PEERS = {name: axes for name, axes in PEERS.items() if find_spec(PACKAGES[name])}

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
    """Training seconds of the first validation at or above the target."""
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


def seconds(options: Any) -> None:
    """Train everyone for some seconds, and say who gets where, and when."""
    torch.set_num_threads(THREADS)
    if options.quick:
        source, data, options.seconds = "demo", synthetic("demo"), 0.1
    else:
        source, data = gowalla(options.data)
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
    write_report(
        options.json,
        {
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
        },
    )
    if options.plot:
        plot(source, runs, found, options.plot)


# Accuracy after equal searches

EVERY, LOOKS_WITHOUT_GAIN, MOST, SEEDS = 10, 4, 400, (0, 1, 2)

Start = Callable[[Interactions, dict[str, Any], int], Trainer]

SEARCHED: dict[str, tuple[Start, dict[str, tuple[Any, ...]]]] = {
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
"""The name of each system, what starts a training of it, and what is searched."""
SEARCHED = {n: how for n, how in SEARCHED.items() if find_spec(PACKAGES.get(n, "sdgar"))}


def looks_of(
    trainer: Trainer, look: Callable[[Trainer], float], most: int
) -> list[tuple[int, float]]:
    """Return (epochs, value) of every validation."""
    looks: list[tuple[int, float]] = []
    for epoch in range(1, most + 1):
        try:
            trainer.train()
        except NumericalError:
            break
        if epoch % EVERY == 0:
            looks.append((epoch, look(trainer)))
            best = max(range(len(looks)), key=lambda at: looks[at][1])
            if len(looks) - 1 - best >= LOOKS_WITHOUT_GAIN:
                break
    return looks


def accuracy(options: Any) -> None:
    """Search everyone alike, and read the test rows with what was chosen."""
    torch.set_num_threads(THREADS)
    most, seeds, searched = MOST, SEEDS, SEARCHED
    if options.quick:
        parts = splits.per_user(synthetic("demo"), seed=0)
        train, test = parts.train, parts.held_out
        most, seeds = EVERY, SEEDS[:2]
        searched = {
            name: (start, {axis: values[:1] for axis, values in axes.items()})
            for name, (start, axes) in SEARCHED.items()
        }
    else:
        folder = options.data / "citeulike-t"
        train, test = (from_parquet(folder / f"{part}.parquet") for part in ("train", "test"))
    split = splits.validation(train, seed=0)
    valid, held_out = HeldOut.of(split.held_out, split.train), HeldOut.of(test, train)

    def ndcg(trainer: Trainer, rows: HeldOut, seen: Interactions) -> float:
        return evaluate(trainer.factors(), rows, seen=seen.history, ks=(50,)).means()["ndcg@50"]

    results: dict[str, Any] = {}
    for name, (start, axes) in searched.items():
        tried = []
        for settings in grid(axes):
            looks = looks_of(
                start(split.train, settings, 0), lambda t: ndcg(t, valid, split.train), most
            )
            epochs, value = max(looks, key=lambda look: look[1], default=(0, 0.0))
            tried.append({"settings": settings, "epochs": epochs, "valid": value, "looks": looks})
            print(f"{name} {settings}: {value:.4f} after {epochs} epochs", flush=True)
        chosen = max(tried, key=lambda one: one["valid"])
        tests = []
        for seed in seeds:
            trainer = start(train, chosen["settings"], seed)
            for _ in range(chosen["epochs"]):
                trainer.train()
            tests.append(ndcg(trainer, held_out, train))
        results[name] = {"chosen": chosen, "test": tests, "tried": tried}
        mean, spread = statistics.mean(tests), statistics.stdev(tests)
        print(f"{name}: test NDCG@50 {mean:.4f} ± {spread:.4f}", flush=True)
    write_report(options.json, {**about(), "dim": DIM} | results)


# Curves

NEIGHBOURS = (20, 50, 200)
"""The neighbours of whole fits of item-kNN."""
EPOCHS = (2, 4, None, 16)
"""The epochs of whole runs of SD-Softmax; None for its defaults."""

IALS_SETTINGS = {
    "citeulike": {"dim": 512, "alpha": 0.005, "l2": 0.02},
    "gowalla": {"dim": 512, "alpha": 0.03, "l2": 0.003},
    "movielens": {"dim": 512, "alpha": 0.03, "l2": 0.01},
}
ALS: dict[str, dict[str, Any]] = {
    "citeulike": {"alpha": 160.0, "regularization": 100.0},
    "gowalla": {"alpha": 20.0, "regularization": 10.0},
    "movielens": {"alpha": 20.0, "regularization": 100.0},
}
"""The best of 24 settings of ALS on validation rows (reports/sdsoftmax/seconds-cpu.json)."""
ALS_DIM, ALS_SWEEPS, BPR_EPOCHS = 128, 15, (5, 10, 20, 40)
WARP_SECONDS = 60
"""The training seconds of LightFM, which is looked at after 1, 2, 4, 8, … epochs."""
TARGETS = {
    "citeulike": (0.168, 0.180),
    "gowalla": (0.180, 0.220, 0.230),
    "movielens": (0.298, 0.330, 0.340, 0.345),
}
"""The accuracies whose seconds are reported."""

Look = tuple[float, float]
"""The training seconds, and the accuracy that they reached."""


def softmax(
    train: Interactions, look: Callable[[Scorer], float], epochs: Iterable[int | None]
) -> list[Look]:
    """Whole fits, each from its start to its model, the weight of the memory chosen."""
    looks = []
    for count in epochs:
        watch = Watch()
        with watch:
            fitted = SDSoftmax(epochs=count, device=str(DEVICE)).fit(train, verbose=False)
        looks.append((watch.seconds, look(fitted.recommender_.model)))
    return looks


def solved(train: Interactions, look: Callable[[Scorer], float], *recipes: Any) -> list[Look]:
    """One fit of each recipe, from nothing."""
    looks: list[Look] = []
    for recipe in recipes:
        watch = Watch()
        with watch:
            model = recipe._solve(train, device=DEVICE)
        looks.append((watch.seconds, look(model)))
    return looks


def als(
    train: Interactions,
    look: Callable[[Scorer], float],
    *,
    iterations: int,
    **settings: Any,
) -> list[Look]:
    from implicit.cpu.als import AlternatingLeastSquares
    from threadpoolctl import threadpool_limits

    matrix = as_matrix(train)
    looks: list[Look] = []
    looking = 0.0

    def callback(iteration: int, *_: object) -> None:
        nonlocal looking
        now = time.perf_counter()
        tables = (torch.from_numpy(t.copy()) for t in (model.user_factors, model.item_factors))
        value = look(FactorTensors(*tables, torch.zeros(train.n_items)).model())
        looks.append((now - start - looking, value))
        looking += time.perf_counter() - now

    with threadpool_limits(1, "blas"):  # as implicit recommends
        model = AlternatingLeastSquares(
            factors=ALS_DIM,
            iterations=iterations,
            num_threads=torch.get_num_threads(),
            random_state=0,
            **settings,
        )
        start = time.perf_counter()
        model.fit(matrix, show_progress=False, callback=callback)
    return looks


def bpr(train: Interactions, look: Callable[[Scorer], float], *, quick: bool) -> list[Look]:
    """implicit's BPR, looked at after some epochs of one run."""
    from implicit.cpu.bpr import BayesianPersonalizedRanking

    matrix, looks = as_matrix(train), []
    for epochs in (1,) if quick else BPR_EPOCHS:
        model = BayesianPersonalizedRanking(
            factors=ALS_DIM, iterations=epochs, num_threads=torch.get_num_threads(), random_state=0
        )
        start = time.perf_counter()
        model.fit(matrix, show_progress=False)
        seconds = time.perf_counter() - start
        tables = (torch.from_numpy(t.copy()) for t in (model.user_factors, model.item_factors))
        looks.append((seconds, look(FactorTensors(*tables, torch.zeros(train.n_items)).model())))
    return looks


def warp(train: Interactions, look: Callable[[Scorer], float], *, quick: bool) -> list[Look]:
    """LightFM's WARP with its own defaults, but for its dimension."""
    trainer = LightfmWARP(as_matrix(train), learning_rate=0.05, alpha=0.0, dim=ALS_DIM)
    looks: list[Look] = []
    watch, epochs = Watch(), 0
    while watch.seconds < (0 if quick else WARP_SECONDS) or not looks:
        with watch:
            trainer.train()
        epochs += 1
        if epochs & (epochs - 1) == 0:
            looks.append((watch.seconds, look(trainer.factors())))
    return looks


def looker(held_out: HeldOut, train: Interactions) -> Callable[[Scorer], float]:
    def look(model: Scorer) -> float:
        return evaluate(model, held_out, seen=train.history, ks=(50,)).means()["ndcg@50"]

    return look


def contenders(
    name: str, train: Interactions, look: Callable[[Scorer], float], *, quick: bool
) -> Iterator[tuple[str, dict[str, Any], Callable[[], list[Look]]]]:
    near = [ItemKNN(neighbours=k) for k in NEIGHBOURS]
    yield "item-knn", {"neighbours": NEIGHBOURS}, lambda: solved(train, look, *near)
    yield "local-ease", {}, lambda: solved(train, look, LocalEASE())
    yield "quick", {}, lambda: solved(train, look, Quick())
    epochs = (2,) if quick else EPOCHS
    yield "SD-Softmax", {"epochs": epochs}, lambda: softmax(train, look, epochs)
    if has_implicit():
        of_als = {} if quick else dict(ALS[name])
        of_als |= {"iterations": 2 if quick else ALS_SWEEPS}
        yield f"implicit ALS, D = {ALS_DIM}", of_als, lambda: als(train, look, **of_als)
        yield f"implicit BPR, D = {ALS_DIM}", {}, lambda: bpr(train, look, quick=quick)
    if DEVICE.type == "cpu" and find_spec("lightfm") is not None:
        yield f"LightFM WARP, D = {ALS_DIM}", {}, lambda: warp(train, look, quick=quick)
    if train.n_items <= MOST_ITEMS_FOR_EASE:
        of_ease = settings_of("ease", name)
        yield "EASE", of_ease, lambda: solved(train, look, EASE(**of_ease))
    if DEVICE.type == "cuda":
        of_ials = IALS_SETTINGS.get(name, {"dim": 8})
        yield f"iALS, D = {of_ials['dim']}", of_ials, lambda: solved(train, look, IALS(**of_ials))


def curves(options: Any) -> None:
    """Train everyone on all training rows, and look at the test rows along the way."""
    report: dict[str, Any] = {**machine("implicit", "lightfm-next"), "device": str(DEVICE)}
    report["threads"] = torch.get_num_threads()
    commit = report.pop("commit")
    report["note"] = "each contestant has the commit that it was measured at"
    kept = options.only is not None and options.json.exists()
    report["data"] = json.loads(options.json.read_text())["data"] if kept else {}
    for name in ("demo",) if options.quick else TARGETS:
        if options.quick:
            train, test = splits.per_user(synthetic("demo"), seed=0)
        else:
            train, test = from_npz(options.packed / f"{name}.npz")
        look = looker(HeldOut.of(test, train), train)
        wanted = [
            one
            for one in contenders(name, train, look, quick=options.quick)
            if options.only is None or options.only.lower() in f"{name} {one[0]}".lower()
        ]
        if wanted:
            SDSoftmax(epochs=2, device=str(DEVICE)).fit(train[:1000], verbose=False)  # compiles
        found = report["data"].setdefault(name, {})
        for label, settings, measure in wanted:
            looks = measure()
            reached = {
                str(target): min((round(s, 2) for s, v in looks if v >= target), default=None)
                for target in TARGETS.get(name, ())
            }
            found[label] = {
                "commit": commit,
                "settings": settings,
                "seconds_to": reached,
                "looks": [(round(s, 2), round(value, 4)) for s, value in looks],
            }
            print(name, label, reached, found[label]["looks"], flush=True)
        write_report(options.json, report)


def plot_curves(options: Any) -> None:
    """Draw a report of curves."""
    import matplotlib.pyplot as plt

    report = json.loads(options.json.read_text())
    fig, axes_S = plt.subplots(1, len(report["data"]), figsize=(12, 4.4), layout="constrained")
    colours = (
        "#F0E442",
        "#009E73",
        "#56B4E9",
        "#0072B2",
        "#D55E00",
        "#CC79A7",
        "#E69F00",
        "#000000",
    )
    labels = dict.fromkeys(label for found in report["data"].values() for label in found)
    colour_of, drawn = dict(zip(labels, colours, strict=False)), {}
    for axes, (name, found) in zip(np.atleast_1d(axes_S), report["data"].items(), strict=True):
        for label, row in found.items():
            seconds, values = zip(*sorted(row["looks"]), strict=True)
            (drawn[label],) = axes.plot(
                seconds, values, marker="o", markersize=4, color=colour_of[label]
            )
        axes.set(xscale="log", xlabel="training seconds", title=TITLES.get(name, name))
        axes.xaxis.set_major_formatter("{x:g}")
        axes.grid(alpha=0.3)
    np.atleast_1d(axes_S)[0].set_ylabel("NDCG@50, test rows")
    fig.legend(drawn.values(), drawn.keys(), loc="outside lower center", ncols=min(4, len(drawn)))
    fig.suptitle(f"{report['device']}, {report['threads']} threads")
    fig.savefig(options.plot, dpi=150)


def main() -> None:
    """Do one of the things that the docstring names."""
    commands = {"seconds": seconds, "accuracy": accuracy, "curves": curves, "plot": plot_curves}
    parser = options_of(
        __doc__,
        plot={"type": Path, "metavar": "FILE"},
        packed={"type": Path, "metavar": "DIR", "help": "where accuracy.py pack wrote"},
        seconds={"type": float, "default": 90.0, "help": "training limit of a setting"},
        users={"type": int, "default": 10_000, "help": "users of a look, chosen once"},
        only={"metavar": "TEXT", "help": "curves: some contestants or data sets, by name"},
    )
    parser.add_argument("command", choices=commands)
    options = parser.parse_args()
    commands[options.command](options)


if __name__ == "__main__":
    main()
