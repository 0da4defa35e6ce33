"""Training throughput on the CPU: the fused engine compared with the eager one and implicit's BPR.

    python benchmarks/cpu.py [--json FILE] [--data DIR]

All that is compared takes turns, one epoch (or fit) a round, and medians are over rounds, so that
noise on a shared machine meets all of them. Two threads everywhere. Five parts:

    sdgar      SD-GAR's step on Gowalla, fused and eager, by optimiser
    bpr        BPR's step on Gowalla and on a larger synthetic set, fused and implicit
    generator  one update of the generator compared with one epoch of the discriminator
    start      import, first epoch with an empty and with a filled cache of compiled code
    bytes      what a positive moves if nothing is cached, and the bandwidth of a large copy
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from common import (
    THREADS,
    about,
    as_matrix,
    clocked,
    environment,
    epochs,
    gowalla,
    make,
    options_of,
    rate,
    take_turns,
    write_report,
)  # fmt: skip
from sdgar.data.interactions import Interactions
from sdgar.data.synthetic import Shape, generate
from sdgar.systems.bpr import BPR
from sdgar.systems.recipe import recipe_of
from sdgar.systems.sdgar import SDGAR

RATE = {"adagrad": 0.1, "lazy-adam": 4e-3, "sgd": 0.05}
LARGE = Shape(users=200_000, items=100_000, interactions=5_000_000, concentration=0.35)
SMALL = Shape(users=100, items=60, interactions=1_000, concentration=0.3)
LINE = 64
"""Bytes of a cache line."""

# SD-GAR's step, and the generator's update


def sdgar_recipes() -> dict[str, SDGAR]:
    made = {
        f"{optimizer}, private": SDGAR(optimizer=optimizer, learning_rate=rate)
        for optimizer, rate in RATE.items()
    }
    small = SDGAR(optimizer="adagrad", learning_rate=RATE["adagrad"], batch_size=512)
    pooled = SDGAR(
        optimizer="adagrad",
        learning_rate=RATE["adagrad"],
        sampler__positives_per_visit=4,
        n_negatives=8,
    )
    return {**made, "adagrad, private, batch 512": small, "adagrad, 4 share 8": pooled}


def sdgar_step(
    data: Interactions, rounds: int, bandwidth: float, recipes: dict[str, SDGAR]
) -> dict[str, Any]:
    """Time fused and eager epochs, as many of each: more than 20 s on Gowalla."""
    peers = [name for name in recipes if name.endswith("private")]
    engines = {f"fused {name}": make("fused-cpu", recipes[name], data) for name in recipes}
    engines |= {f"eager {name}": make("eager", recipes[name], data) for name in peers}
    runs = {name: epochs(engine) for name, engine in engines.items()}
    with_generator = engines["fused adagrad, private"]
    runs["refit"] = clocked(lambda: with_generator.refit(1))
    seconds = take_turns(runs, rounds)
    rows = []
    for name, recipe in recipes.items():
        fused = rate(len(data), seconds[f"fused {name}"])
        moved = bytes_a_positive(recipe, data)
        row = {
            "name": name,
            "settings": recipe_of(recipe).settings,
            "positives_per_second": fused,
            "bytes_per_positive": moved,
            "share_of_copy_bandwidth": moved * fused / bandwidth,
        }
        if name in peers:
            eager = rate(len(data), seconds[f"eager {name}"])
            row |= {
                "eager_positives_per_second": eager,
                "eager_seconds": sum(seconds[f"eager {name}"]),
                "fused_over_eager": fused / eager,
            }
        rows.append(row)
    refit = statistics.median(seconds["refit"])
    epoch = statistics.median(seconds["fused adagrad, private"])
    return {
        "positives": len(data),
        "rounds": rounds,
        "rows": rows,
        "generator": {
            "states": recipes["adagrad, private"].sampler.states,
            "refit_seconds": refit,
            "epoch_seconds": epoch,
            "refit_over_epoch": refit / epoch,
        },
        "seconds": seconds,
    }


# BPR's step


def bpr_recipes(dim: int) -> dict[str, BPR]:
    made = {}
    for optimizer in ("sgd", "adagrad"):
        same = {"dim": dim, "optimizer": optimizer, "learning_rate": RATE[optimizer]}
        made[f"{optimizer}, private"] = BPR(**same)
        made[f"{optimizer}, 4 share 4"] = BPR(**same, sampler__positives_per_visit=4, n_negatives=4)
    return made


def bpr_step(
    data: Interactions,
    recipes: dict[str, BPR],
    iterations: tuple[int, int],
    rounds: int,
    bandwidth: float,
) -> dict[str, Any]:
    """Time epochs; a private positive meets one negative, as in implicit, a pooled one four."""
    dim = next(iter(recipes.values())).dim
    runs = {name: epochs(make("fused-cpu", r, data)) for name, r in recipes.items()}
    runs["implicit"], skipped = implicit_iteration(data, dim, iterations)
    seconds = take_turns(runs, rounds)
    peer = rate(len(data), seconds["implicit"])
    rows = []
    for name, recipe in recipes.items():
        speed = rate(len(data), seconds[name])
        moved = bytes_a_positive(recipe, data)
        rows.append(
            {
                "name": name,
                "settings": recipe_of(recipe).settings,
                "positives_per_second": speed,
                "pairs_per_second": speed * recipe.n_negatives,
                "positives_over_implicit": speed / peer,
                "pairs_over_implicit": speed * recipe.n_negatives / peer,
                "bytes_per_positive": moved,
                "share_of_copy_bandwidth": moved * speed / bandwidth,
            }
        )
    return {
        "users": data.n_users,
        "items": data.n_items,
        "positives": len(data),
        "dim": dim,
        "rounds": rounds,
        "rows": rows,
        "implicit": {
            "triplets_per_second": peer,
            "skipped_share": skipped,
            "how": "seconds of a fit of {1} iterations less one of {0}, by the difference; skipped "
            "triplets (known negatives) count as done".format(*iterations),
        },
        "seconds": seconds,
    }


def implicit_iteration(
    data: Interactions, dim: int, iterations: tuple[int, int]
) -> tuple[Callable[[], float], float]:
    """(seconds of one iteration each time it is called, share of triplets it skips)."""
    from implicit.cpu.bpr import BayesianPersonalizedRanking

    matrix = as_matrix(data)

    def fit(n: int, callback: Callable[..., None] | None = None) -> float:
        model = BayesianPersonalizedRanking(
            factors=dim, learning_rate=0.05, iterations=n, num_threads=THREADS, random_state=0
        )
        start = time.perf_counter()
        model.fit(matrix, show_progress=False, callback=callback)
        return time.perf_counter() - start

    skipped: list[int] = []
    fit(1, lambda _epoch, _seconds, _correct, n: skipped.append(n))
    short, long = iterations
    return lambda: (fit(long) - fit(short)) / (long - short), skipped[0] / len(data)


# Bytes


def bytes_a_positive(recipe: BPR | SDGAR, data: Interactions) -> float:
    """Bytes an epoch moves for each positive, if none were in a cache.

    Each visit: rows of 4 D bytes of the user, its positives and its N negatives, read and
    written, three times as many with Adam's moments; 8 bytes of ids a positive; for SD-GAR two
    probes of alias tables a negative, a cache line each, and K probabilities of the user and of
    each negative. Biases, sums of squares and the filter of known pairs are left out.
    """
    n, p = recipe.n_negatives, recipe.sampler.positives_per_visit
    visits = int((-(-np.diff(data.indptr_U1) // p)).sum()) / len(data)
    columns = 3 if recipe.optimizer == "lazy-adam" else 1
    moved = 2 * 4 * recipe.dim * columns * (1 + visits * (1 + n)) + 8
    if isinstance(recipe, SDGAR):
        moved += visits * (2 * LINE * n + 4 * recipe.sampler.states * (1 + n))
    return moved


def copy_bandwidth(megabytes: int, repeats: int = 7) -> float:
    """Bytes read and written a second by NumPy's copy of a large array, a part a thread."""
    source: NDArray[np.uint8] = np.ones(megabytes << 20, np.uint8)
    target = np.zeros_like(source)
    halves = (np.array_split(whole, THREADS) for whole in (target, source))
    parts = list(zip(*halves, strict=True))
    times = []
    with ThreadPoolExecutor(THREADS) as pool:
        for _ in range(repeats):
            start = time.perf_counter()
            for done in [pool.submit(np.copyto, a, b) for a, b in parts]:
                done.result()
            times.append(time.perf_counter() - start)
    return 2 * source.size / statistics.median(times[1:])


# First use

FIRST_USE = """
import json, time
start = time.perf_counter()
import torch
import sdgar
from sdgar.data.synthetic import synthetic
from sdgar.engines.fused.cpu import FusedCpuEngine
from sdgar.systems.bpr import BPR
from sdgar.systems.recipe import recipe_of
from sdgar.systems.sdgar import SDGAR
found = {"import": time.perf_counter() - start}
torch.set_num_threads(2)
data = synthetic("demo")
for estimator in (SDGAR(optimizer="adagrad"), BPR(optimizer="adagrad")):
    system = recipe_of(estimator).compose(data, seed=0)
    start = time.perf_counter()
    engine = FusedCpuEngine(system, data, seed=0, device=torch.device("cpu"))
    engine.run_epoch(1)
    first = time.perf_counter() - start
    start = time.perf_counter()
    engine.run_epoch(2)
    found[system.name] = first - (time.perf_counter() - start)
print(json.dumps(found))
"""


def first_use() -> dict[str, dict[str, float]]:
    """Import; then making an engine and its first epoch, less a second one: SD-GAR, then BPR."""
    with tempfile.TemporaryDirectory() as cache:
        wanted = environment(NUMBA_CACHE_DIR=cache)

        def run() -> dict[str, float]:
            done = subprocess.run(
                [sys.executable, "-c", FIRST_USE],
                env=wanted, capture_output=True, text=True, check=True,
            )  # fmt: skip
            return dict(json.loads(done.stdout))

        return {"empty cache": run(), "filled cache": run()}


# Output


def show(report: dict[str, Any]) -> None:
    part = report["sdgar"]
    print(f"SD-GAR's step on {report['source']}: {part['positives']:,} positives, {_how(part)}")
    print(f"{'':30}{'fused pos/s':>13}{'eager pos/s':>13}{'ratio':>7}{'B/pos':>8}{'of copy':>9}")
    for row in part["rows"]:
        eager = row.get("eager_positives_per_second")
        print(
            f"{row['name']:30}{row['positives_per_second']:13,.0f}"
            + (f"{eager:13,.0f}{row['fused_over_eager']:7.1f}" if eager else " " * 20)
            + f"{row['bytes_per_positive']:8,.0f}{row['share_of_copy_bandwidth']:9.0%}"
        )
    for name in ("bpr_gowalla", "bpr_large"):
        part = report[name]
        print(
            f"\nBPR's step: {part['users']:,} users × {part['items']:,} items, "
            f"{part['positives']:,} positives, D = {part['dim']}, {_how(part)}"
        )
        print(
            f"{'':30}{'positives/s':>13}{'pairs/s':>13}{'pos ratio':>11}{'pair ratio':>12}"
            f"{'B/pos':>8}{'of copy':>9}"
        )
        peer = part["implicit"]["triplets_per_second"]
        print(f"{'implicit':30}{peer:13,.0f}{peer:13,.0f}{1:11.2f}{1:12.2f}")
        for row in part["rows"]:
            print(
                f"{row['name']:30}{row['positives_per_second']:13,.0f}"
                f"{row['pairs_per_second']:13,.0f}{row['positives_over_implicit']:11.2f}"
                f"{row['pairs_over_implicit']:12.2f}{row['bytes_per_positive']:8,.0f}"
                f"{row['share_of_copy_bandwidth']:9.0%}"
            )
    g = report["sdgar"]["generator"]
    print(
        f"\ngenerator's update {g['refit_seconds']:.2f} s, an epoch of the discriminator "
        f"{g['epoch_seconds']:.2f} s: {g['refit_over_epoch']:.2f} times"
    )
    for name, found in report["first_use_seconds"].items():
        print(f"first use, {name}: " + ", ".join(f"{k} {v:.2f} s" for k, v in found.items()))
    print(f"copy bandwidth, read and written: {report['copy_bytes_per_second'] / 1e9:.1f} GB/s")


def _how(part: dict[str, Any]) -> str:
    return f"{THREADS} threads, median of {part['rounds']} rounds"


def main() -> None:
    options = options_of(__doc__).parse_args()
    torch.set_num_threads(THREADS)

    rounds, iterations, large, megabytes = (5, 4), ((2, 12), (1, 4)), LARGE, 1024
    ours, bpr = sdgar_recipes(), {dim: bpr_recipes(dim) for dim in (32, 64)}
    if options.quick:
        source, data = "made up", generate(SMALL, seed=0)
        rounds, iterations, large, megabytes = (1, 1), ((1, 2), (1, 2)), SMALL, 1
        ours = {"adagrad, private": ours["adagrad, private"]}
        bpr = {dim: {"adagrad, private": of["adagrad, private"]} for dim, of in bpr.items()}
    else:
        source, data = gowalla(options.data)
    report: dict[str, Any] = {**about(), "source": source}
    bandwidth = report["copy_bytes_per_second"] = copy_bandwidth(megabytes)
    report["sdgar"] = sdgar_step(data, rounds[0], bandwidth, ours)
    report["bpr_gowalla"] = bpr_step(data, bpr[32], iterations[0], rounds[0], bandwidth)
    synthetic_data = generate(large, seed=0)
    report["bpr_large"] = bpr_step(synthetic_data, bpr[64], iterations[1], rounds[1], bandwidth)
    report["first_use_seconds"] = {} if options.quick else first_use()
    show(report)
    write_report(options.json, report)


if __name__ == "__main__":
    main()
