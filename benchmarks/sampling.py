"""Cost of a draw against the size of the catalogue, once the tables exist.

    python benchmarks/sampling.py [--json FILE] [--plot FILE]

Draws from Q(i|c) = Σ_k x_ck y_ik (K = 64) by the package's own tables, for catalogues of 10^3 to
10^6 items, in three parts: the arithmetic of a draw (addressed random numbers, multiply-shift), the
draw with its table look-ups, and a gather of the same number of random 8-byte words from an array
of the same size as the tables, which is what the look-ups cost when they miss the caches.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch

from sdgar.maths.rng import Draws, Stream, index_and_fraction
from sdgar.samplers.ablations import Frozen
from sdgar.samplers.decomposable import Decomposable

SIZES = (10**3, 10**4, 10**5, 10**6)
STATES, USERS, DRAWS, REPEATS = 64, 1000, 1_000_000, 7


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def measure(n_items: int) -> dict[str, float]:
    generator = Decomposable(USERS, n_items, STATES, seed=0, update=Frozen())
    users = torch.arange(DRAWS) % USERS
    draws = Draws(0, Stream.NEGATIVES, 1, torch.arange(DRAWS))
    slot = torch.zeros(1).long()
    table = torch.zeros(STATES * n_items, dtype=torch.int64)
    place = torch.randint(len(table), (DRAWS,), generator=torch.Generator().manual_seed(0))

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
            times[name].append(seconds(work))
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


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path)
    wanted = parser.parse_args()
    torch.set_num_threads(1)
    measure(SIZES[0])
    rows = [{"items": n, **measure(n)} for n in SIZES]
    for row in rows:
        # What the look-ups cost beyond those of the smallest catalogue, whose tables fit the cache.
        row["draw_less_gather"] = row["draw"] - (row["gather"] - rows[0]["gather"])
        print(", ".join(f"{k} {v:,.4g}" for k, v in row.items()))
    flat = max(r["draw_less_gather"] for r in rows) / min(r["draw_less_gather"] for r in rows)
    print(f"largest over smallest, less cache misses: {flat:.3f}")
    if wanted.json:
        about = {"machine": platform.machine(), "threads": 1, "draws": DRAWS, "ratio": flat}
        wanted.json.write_text(json.dumps({**about, "rows": rows}, indent=2) + "\n")
    if wanted.plot:
        plot(rows, wanted.plot)


if __name__ == "__main__":
    main()
