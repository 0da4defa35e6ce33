"""One epoch at 10^6 users × 10^6 items × 10^8 interactions: time a positive and peak memory.

    python benchmarks/scale.py [--users N] [--items N] [--interactions N] [--json FILE]
    python benchmarks/scale.py items [--json FILE]

BPR and SD-GAR with popularity proposals by the fused engine, Adagrad, D = 32, two threads; Gowalla
with the same settings before and after, in the same process, for the time a positive there.

The data is made in blocks of users. A user's degree is log-normal; items come from

    P(rank ≤ r) = ((r + h)^(1-s) - h^(1-s)) / ((I + h)^(1-s) - h^(1-s))      Zipf–Mandelbrot

by inversion, and ranks are dealt to item numbers at random, so that popular items do not share
cache lines. Pairs of a block are sorted as one number each, so repeats are neighbours; what is
missing after they are dropped is drawn again, a few rounds. There is no taste in it: it is for
speed, and its loss means nothing.

``items`` instead takes synthetic data with two million rows of 50,000 users and more and more
items, and reports seconds a pass: SD-Softmax's epoch, its refit (due every second epoch) and its
start, a sweep of implicit's ALS, and EASE's whole solution as long as it fits.
"""

from __future__ import annotations

import itertools
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from common import (
    DEVICE,
    FUSED,
    MOST_ITEMS_FOR_EASE,
    THREADS,
    Watch,
    about,
    as_matrix,
    gowalla,
    has_implicit,
    machine,
    make,
    options_of,
    sdsoftmax_engine,
    write_report,
)  # fmt: skip
from sdgar.data.building import RowAccount
from sdgar.data.ids import Ids
from sdgar.data.interactions import Interactions
from sdgar.data.synthetic import Shape, generate, synthetic
from sdgar.engines.choose import ENGINES
from sdgar.systems.bpr import BPR
from sdgar.systems.ease import EASE
from sdgar.systems.recipe import recipe_of
from sdgar.systems.sdgar import SDGAR
from sdgar.systems.sdsoftmax import SDSoftmax

DIM, BATCH, RATE = 32, 4096, 0.1
RECIPES = {
    "BPR": lambda: BPR(dim=DIM, optimizer="adagrad", learning_rate=RATE, batch_size=BATCH),
    "SD-GAR, popularity": lambda: SDGAR(
        dim=DIM,
        sampler="popularity",
        optimizer="adagrad",
        learning_rate=RATE,
        batch_size=BATCH,
    ),
}
EXPONENT, HEAD = 0.65, 0.002
"""s, and h as a share of the items: the top 5 % of items hold about as much as Gowalla's."""
PAIRS_AT_ONCE, ROUNDS = 1 << 22, 12
LIMIT = 24 << 30


def degrees(n_users: int, n_items: int, total: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """About ``total`` in all, at least 1 and at most a quarter of the items each."""
    weight_U = rng.lognormal(sigma=1.0, size=n_users)
    degree_U = np.rint(weight_U * (total / weight_U.sum())).astype(np.int64)
    return degree_U.clip(1, max(1, n_items // 4))


def draw_items(n: int, n_items: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Ranks, most popular first."""
    h, power = HEAD * n_items, 1 - EXPONENT
    low, high = h**power, (n_items + h) ** power
    rank_N = (low + rng.random(n) * (high - low)) ** (1 / power) - h
    return rank_N.astype(np.int64).clip(0, n_items - 1)


def blocks(degree_U: NDArray[np.int64]) -> Iterator[slice]:
    """Users in runs of about PAIRS_AT_ONCE pairs."""
    end_U = np.cumsum(degree_U)
    cuts = np.searchsorted(end_U, np.arange(PAIRS_AT_ONCE, end_U[-1], PAIRS_AT_ONCE)) + 1
    bounds = np.unique(np.concatenate(([0], cuts.clip(max=len(degree_U)), [len(degree_U)])))
    yield from (slice(a, b) for a, b in itertools.pairwise(bounds.tolist()))


def distinct_pairs(
    degree_V: NDArray[np.int64], item_of_I: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.int64]:
    """Sorted numbers user · I + item, each once; users from 0."""
    n_items = len(item_of_I)
    pair_N = np.empty(0, np.int64)
    missing_V = degree_V
    for _ in range(ROUNDS):
        users_N = np.repeat(np.arange(len(degree_V)), missing_V)
        new_N = users_N * n_items + item_of_I[draw_items(len(users_N), n_items, rng)]
        new_N.sort()
        # A stable sort merges two sorted runs in one pass.
        pair_N = np.sort(np.concatenate((pair_N, new_N)), kind="stable")
        pair_N = pair_N[np.append(True, pair_N[1:] != pair_N[:-1])]
        missing_V = degree_V - np.bincount(pair_N // n_items, minlength=len(degree_V))
        if not missing_V.any():
            break
    return pair_N


def interactions(n_users: int, n_items: int, total: int, seed: int = 0) -> Interactions:
    """The record's own constructor: arrays in CSR order are taken as they are, without a copy."""
    rng = np.random.default_rng(seed)
    degree_U = degrees(n_users, n_items, total, rng)
    item_of_I = rng.permutation(n_items)
    items_E = np.empty(int(degree_U.sum()), np.int32)
    count_U = np.empty(n_users, np.int64)
    end = 0
    for users in blocks(degree_U):
        pair_N = distinct_pairs(degree_U[users], item_of_I, rng)
        count_U[users] = np.bincount(pair_N // n_items, minlength=users.stop - users.start)
        items_E[end : end + len(pair_N)] = pair_N % n_items
        end += len(pair_N)
    return Interactions(
        users=Ids.of(np.arange(n_users)),
        items=Ids.of(np.arange(n_items)),
        indptr_U1=np.concatenate(([0], np.cumsum(count_U))),
        items_E=items_E[:end],
        account=RowAccount(read=end, kept=end),
    )


def peak_bytes() -> int:
    """Largest resident set so far; the kernel counts KiB, but bytes on macOS."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak << 10


def epoch_seconds(name: str, data: Interactions, epochs: int) -> dict[str, Any]:
    start = time.perf_counter()
    engine = make("fused-cpu", RECIPES[name](), data)
    made = time.perf_counter() - start
    stats = [engine.run_epoch(epoch) for epoch in range(1, epochs + 1)]
    return {"made_seconds": made, "epochs": [s.seconds for s in stats], "loss": stats[-1].loss}


ITEMS = (10_000, 30_000, 100_000, 300_000, 1_000_000)


def items(options: Any) -> None:
    """Report seconds a pass of SD-Softmax, implicit's ALS and EASE for more and more items."""
    report: dict[str, Any] = {**machine("implicit"), "items": {}}
    for n_items in (200, 400) if options.quick else ITEMS:
        users, rows = (300, 4_000) if options.quick else (50_000, 2_000_000)
        shape = Shape(users=users, items=n_items, interactions=rows, concentration=0.3)
        data = generate(shape, seed=0)
        sdsoftmax_engine(data, dim=64, similarity__sweeps=1)  # compiles for this shape
        seconds: dict[str, float] = {}

        def timed(name: str, work: Callable[[], Any], into: dict[str, float] = seconds) -> Any:
            watch = Watch()
            with watch:
                made = work()
            into[name] = round(watch.seconds, 3)
            return made

        system = timed(
            "start", lambda d=data: recipe_of(SDSoftmax(dim=64)).compose(d, seed=0, device=DEVICE)
        )
        engine = ENGINES[FUSED](system, data, seed=0, device=DEVICE)
        timed("latent classes and refit", lambda e=engine: e.refit(1))
        timed("epoch", lambda e=engine: e.run_epoch(1))
        timed("refit", lambda e=engine: e.refit(2))
        del engine, system
        if has_implicit():
            seconds["implicit ALS, a sweep at D = 128"] = round(_sweep(data), 3)
        if n_items <= MOST_ITEMS_FOR_EASE:
            timed("EASE", lambda d=data: EASE(l2=100.0)._solve(d, device=DEVICE))
        report["items"][n_items] = seconds
        print(n_items, seconds, flush=True)
        write_report(options.json, report)


def _sweep(data: Interactions) -> float:
    """Return the seconds of implicit's second sweep."""
    from implicit.cpu.als import AlternatingLeastSquares

    model = AlternatingLeastSquares(
        factors=128, iterations=2, num_threads=torch.get_num_threads(), random_state=0
    )
    ends: list[float] = []
    model.fit(as_matrix(data), show_progress=False, callback=lambda *_: ends.append(time.time()))
    return ends[1] - ends[0]


def main() -> None:
    size = {"type": int}
    parser = options_of(
        __doc__,
        users=size | {"default": 1_000_000},
        items=size | {"default": 1_000_000},
        interactions=size | {"default": 100_000_000},
    )
    parser.add_argument("command", choices=("epoch", "items"), nargs="?", default="epoch")
    options = parser.parse_args()
    if options.command == "items":
        items(options)
        return
    if options.quick:
        options.users, options.items, options.interactions = 300, 200, 3000
    torch.set_num_threads(THREADS)

    source, small = ("demo", synthetic("demo")) if options.quick else gowalla(options.data)
    for name in RECIPES:
        epoch_seconds(name, small, 1)  # compiles
    before = {name: epoch_seconds(name, small, 3)["epochs"] for name in RECIPES}
    start = time.perf_counter()
    large = interactions(options.users, options.items, options.interactions)
    generated = time.perf_counter() - start
    peaks = {"after generating": peak_bytes()}
    size = large.stats()
    print(
        f"{size['users']:,} users × {size['items']:,} items, {size['interactions']:,} pairs, top "
        f"5 % hold {size['concentration']:.2f}: made in {generated:.1f} s",
        flush=True,
    )
    rows = {}
    for name in RECIPES:
        found = epoch_seconds(name, large, 1)
        peaks[f"after {name}"] = peak_bytes()
        again = epoch_seconds(name, small, 3)["epochs"]
        here = found["epochs"][0] / len(large)
        there = statistics.median(before[name] + again) / len(small)
        rows[name] = {
            "made_seconds": found["made_seconds"],
            "epoch_seconds": found["epochs"][0],
            "positives_per_second": 1 / here,
            "small_positives_per_second": 1 / there,
            "time_per_positive_over_small": here / there,
            "loss": found["loss"],
        }
    print(
        f"{'':22}{'make s':>8}{'epoch s':>9}{'positives/s':>13}{source + ' pos/s':>18}{'time':>7}"
    )
    for name, row in rows.items():
        print(
            f"{name:22}{row['made_seconds']:8.1f}{row['epoch_seconds']:9.1f}"
            f"{row['positives_per_second']:13,.0f}{row['small_positives_per_second']:18,.0f}"
            f"{row['time_per_positive_over_small']:6.2f}×"
        )
    peak = peak_bytes()
    print("peak memory: " + ", ".join(f"{k} {v / 2**30:.2f} GiB" for k, v in peaks.items()))
    if options.json:
        report = {
            **about(),
            "size": size,
            "generate_seconds": generated,
            "settings": {"dim": DIM, "batch_size": BATCH, "optimizer": "adagrad"},
            "small": source,
            "rows": rows,
            "peak_bytes": peaks,
            "limit_bytes": LIMIT,
            "within_limit": peak < LIMIT,
        }
        write_report(options.json, report)
    if peak >= LIMIT:
        sys.exit(f"peak memory is {peak / 2**30:.1f} GiB, more than {LIMIT / 2**30:.0f} GiB")


if __name__ == "__main__":
    main()
