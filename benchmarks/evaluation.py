"""Full-ranking evaluation at Gowalla's size: bare product, sdgar, implicit, in one run.

The three take turns, so that noise on a shared machine meets all of them:

    .venv/bin/python benchmarks/evaluation.py [--repeats 3] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import torch
from numpy.typing import NDArray

from sdgar.data.held_out import HeldOut
from sdgar.data.interactions import History
from sdgar.evaluation import evaluate
from sdgar.evaluation.topk import block_rows
from sdgar.models.factors import Factors

N_USERS, N_ITEMS, DIM, K = 29_858, 40_988, 32, 50
N_TRAIN, N_TEST = 810_128, 217_336
THREADS = 2
GOWALLA = Path(__file__).parents[2] / "shared" / "data" / "gowalla"


def pairs() -> tuple[str, NDArray[np.int64], NDArray[np.int64]]:
    """(source, train pairs, test pairs) as user · N_ITEMS + item, sorted and distinct."""
    if GOWALLA.exists():
        import polars as pl

        def read(name: str) -> NDArray[np.int64]:
            rows = pl.read_parquet(GOWALLA / f"{name}.parquet")
            return np.unique(
                rows["user"].to_numpy().astype(np.int64) * N_ITEMS + rows["item"].to_numpy()
            )

        return "gowalla", read("train"), read("test")
    keys = np.random.default_rng(0).permutation(
        np.unique(np.random.default_rng(1).integers(0, N_USERS * N_ITEMS, N_TRAIN + N_TEST))
    )
    return "synthetic", np.sort(keys[:N_TRAIN]), np.sort(keys[N_TRAIN:])


def csr(key_E: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    users_E, items_E = np.divmod(key_E, N_ITEMS)
    counts_U = np.bincount(users_E, minlength=N_USERS)
    return np.concatenate(([0], np.cumsum(counts_U))).astype(np.int64), items_E


class PeakMemory:
    """Largest growth of the resident set while the block runs, sampled every 5 ms."""

    def __enter__(self) -> PeakMemory:
        self._process = psutil.Process(os.getpid())
        self._before = self._process.memory_info().rss
        self.growth = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._done.wait(0.005):
            self.growth = max(self.growth, self._process.memory_info().rss - self._before)

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    torch.set_num_threads(THREADS)

    source, train_E, test_E = pairs()
    train_U1, train_items_E = csr(train_E)
    test_U1, test_items_E = csr(test_E)
    seen = History(train_U1, train_items_E.astype(np.int32))
    users_T = np.flatnonzero(np.diff(test_U1))
    held_out = HeldOut(
        users_T=users_T,
        indptr_T1=np.concatenate((test_U1[users_T], test_U1[-1:])),
        items_E=test_items_E,
        unknown_users=0,
        unknown_user_rows=0,
        cold_items=0,
        cold_item_rows=0,
    )
    generator = torch.Generator().manual_seed(0)
    factors = Factors(
        torch.randn(N_USERS, DIM, generator=generator),
        torch.randn(N_ITEMS, DIM, generator=generator),
        torch.zeros(N_ITEMS),
    )
    rows = block_rows(N_ITEMS, memory_bytes=64 << 20, compiled=True)

    def product() -> None:
        for block in torch.tensor(users_T).split(rows):
            torch.mm(factors.user_UD[block], factors.item_ID.T)

    def ours() -> dict[str, float]:
        return evaluate(factors, held_out, seen=seen, ks=(K,)).means()

    runs: dict[str, Callable[[], Any]] = {"bare product": product, "sdgar": ours}
    runs["implicit"] = implicit_evaluator(
        factors, (train_U1, train_items_E), (test_U1, test_items_E)
    )

    # The first call, so that no memory is left from an earlier one to be used again.
    start = time.perf_counter()
    with PeakMemory() as memory:
        values = ours()
    first_call = time.perf_counter() - start
    product()
    peer = runs["implicit"]()
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    cpu_seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(options.repeats):
        for name, run in runs.items():
            start, cpu_start = time.perf_counter(), time.process_time()
            run()
            seconds[name].append(time.perf_counter() - start)
            cpu_seconds[name].append(time.process_time() - cpu_start)

    best = {name: min(times) for name, times in seconds.items()}
    median = {name: statistics.median(times) for name, times in seconds.items()}
    # CPU time hardly feels the neighbours of a shared machine, so it is the steadier comparison.
    cpu = {name: min(times) for name, times in cpu_seconds.items()}
    kinds = {"best": best, "median": median, "CPU": cpu}
    print(
        f"{source}: {len(users_T):,} users × {N_ITEMS:,} items, D = {DIM}, k = {K}, "
        f"{THREADS} threads, blocks of {rows} users, {options.repeats} repeats"
    )
    print(f"{'':14}{'best s':>9}{'median s':>10}{'best CPU s':>12}{'users/s':>10}")
    for name in runs:
        print(
            f"{name:14}{best[name]:9.2f}{median[name]:10.2f}{cpu[name]:12.2f}"
            f"{len(users_T) / best[name]:10,.0f}"
        )
    ratios = {
        f"sdgar / {peer_name}": {kind: t["sdgar"] / t[peer_name] for kind, t in kinds.items()}
        for peer_name in ("implicit", "bare product")
    }
    for name, ratio in ratios.items():
        print(f"{name}: " + ", ".join(f"{kind} {value:.2f}" for kind, value in ratio.items()))
    print(f"first call (import or compile of the kernel included): {first_call:.2f} s")
    print(f"peak growth of the resident set: {memory.growth / 2**20:.0f} MiB")
    # implicit calls this its precision; both must find the same items.
    possible = np.minimum(np.diff(held_out.indptr_T1), K).sum()
    share = values[f"precision@{K}"] * K * len(users_T) / possible
    print(f"hits / possible hits: sdgar {share:.9f}, implicit {peer['precision']:.9f}")
    if options.json:
        result = {
            "source": source,
            "block_rows": rows,
            "seconds": seconds,
            "best": best,
            "median": median,
            "cpu": cpu,
            "ratios": ratios,
            "first_call_s": first_call,
            "peak_rss_growth_bytes": memory.growth,
            "metrics": values,
            "hit_share": {"sdgar": share, "implicit": peer["precision"]},
        }
        options.json.write_text(json.dumps(result, indent=2) + "\n")


def implicit_evaluator(
    factors: Factors,
    train: tuple[NDArray[np.int64], NDArray[np.int64]],
    test: tuple[NDArray[np.int64], NDArray[np.int64]],
) -> Callable[[], dict[str, float]]:
    """Peer that ranks by the same inner products; implicit has no bias, ours is zero here."""
    from implicit.cpu.als import AlternatingLeastSquares
    from implicit.evaluation import ranking_metrics_at_k
    from scipy.sparse import csr_matrix
    from threadpoolctl import threadpool_limits

    def matrix(part: tuple[NDArray[np.int64], NDArray[np.int64]]) -> csr_matrix:
        indptr, items = part
        return csr_matrix(
            (np.ones(len(items), np.float32), items.astype(np.int32), indptr.astype(np.int32)),
            shape=(N_USERS, N_ITEMS),
        )

    with threadpool_limits(1, "blas"):
        model = AlternatingLeastSquares(factors=DIM, num_threads=THREADS)
    model.user_factors = factors.user_UD.numpy()
    model.item_factors = factors.item_ID.numpy()
    train_csr, test_csr = matrix(train), matrix(test)

    def run() -> dict[str, float]:
        # implicit's own advice: one BLAS thread, since it has threads of its own.
        with threadpool_limits(1, "blas"):
            return ranking_metrics_at_k(
                model, train_csr, test_csr, K=K, show_progress=False, num_threads=THREADS
            )

    return run


if __name__ == "__main__":
    main()
