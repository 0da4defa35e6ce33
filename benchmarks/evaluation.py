"""Full-ranking evaluation at Gowalla's size: bare product, sdgar, implicit, in one run.

    python benchmarks/evaluation.py [--repeats 3] [--json FILE]
    python benchmarks/evaluation.py fold-in --dataset gowalla [--set epochs=12] [--json FILE]

The three take turns, so that noise on a shared machine meets all of them.

``fold-in`` asks how close fold-in comes to training, and how fast it is. Of the users with test
rows, 2,000 (seed 0) are held out. SD-Softmax is trained twice with the same settings, for the same
fixed number of epochs: on all training rows, and without those users. Then those users' test rows
are ranked by the first model, and by the second with the users' training rows folded in.
"""

from __future__ import annotations

import json
import os
import statistics
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import torch
from numpy.typing import NDArray

from common import THREADS, from_parquet, machine, options_of, write_report
from sdgar.data import splits
from sdgar.data.held_out import HeldOut
from sdgar.data.history import History
from sdgar.data.interactions import Interactions
from sdgar.data.synthetic import synthetic
from sdgar.evaluation import evaluate
from sdgar.models.factor_tensors import FactorTensors
from sdgar.models.factors import Factors
from sdgar.ranking.topk import block_rows
from sdgar.recommend.recommender import Recommender
from sdgar.systems.make import estimator_from_text

DIM, K = 32, 50
HELD_OUT = 2000
"""The users that are folded in."""


@dataclass(frozen=True)
class Size:
    """How many of everything there are."""

    users: int
    items: int
    train: int
    test: int


GOWALLA = Size(29_858, 40_988, 810_128, 217_336)
TINY = Size(300, 200, 3000, 900)


def pairs(size: Size, folder: Path) -> tuple[str, NDArray[np.int64], NDArray[np.int64]]:
    """Return (source, train pairs, test pairs) as user · items + item, sorted and distinct."""
    if size == GOWALLA and folder.exists():
        import polars as pl

        def read(name: str) -> NDArray[np.int64]:
            rows = pl.read_parquet(folder / f"{name}.parquet")
            return np.unique(
                rows["user"].to_numpy().astype(np.int64) * size.items + rows["item"].to_numpy()
            )

        return "gowalla", read("train"), read("test")
    keys = np.random.default_rng(0).permutation(
        np.unique(
            np.random.default_rng(1).integers(0, size.users * size.items, size.train + size.test)
        )
    )
    return "synthetic", np.sort(keys[: size.train]), np.sort(keys[size.train :])


def csr(key_E: NDArray[np.int64], size: Size) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    users_E, items_E = np.divmod(key_E, size.items)
    counts_U = np.bincount(users_E, minlength=size.users)
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


def ranking(options: Any) -> None:
    """Rank all items for every user, and count hits."""
    torch.set_num_threads(THREADS)
    size = TINY if options.quick else GOWALLA
    source, train_E, test_E = pairs(size, options.data / "gowalla")
    train_U1, train_items_E = csr(train_E, size)
    test_U1, test_items_E = csr(test_E, size)
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
    factors = FactorTensors(
        torch.randn(size.users, DIM, generator=generator),
        torch.randn(size.items, DIM, generator=generator),
        torch.zeros(size.items),
    ).model()
    rows = block_rows(size.items, 64 << 20)

    def product() -> None:
        for first in range(0, len(users_T), rows):
            np.matmul(factors.user_UD[users_T[first : first + rows]], factors.item_ID.T)

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
        f"{source}: {len(users_T):,} users × {size.items:,} items, D = {DIM}, k = {K}, "
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
    write_report(
        options.json,
        {
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
        },
    )


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
            shape=(len(factors.user_UD), len(factors.item_ID)),
        )

    with threadpool_limits(1, "blas"):
        model = AlternatingLeastSquares(factors=DIM, num_threads=THREADS)
    model.user_factors = factors.user_UD.numpy()
    model.item_factors = factors.item_ID.numpy()
    train_csr, test_csr = matrix(train), matrix(test)

    def run() -> dict[str, float]:
        # implicit's own advice: one BLAS thread, since it has its own threads.
        with threadpool_limits(1, "blas"):
            return ranking_metrics_at_k(
                model, train_csr, test_csr, K=K, show_progress=False, num_threads=THREADS
            )

    return run


def fold_in(options: Any) -> None:
    """Compare users who were folded in with the same users trained."""
    if options.quick:
        train, test = splits.per_user(synthetic("demo"), seed=0)
        held_out, settings = 50, {"epochs": "2", "dim": "8", "n_negatives": "4"}
    else:
        folder = options.data / options.dataset
        train, test = (from_parquet(folder / f"{part}.parquet") for part in ("train", "test"))
        held_out, settings = HELD_OUT, dict(word.split("=", 1) for word in options.set or ())
    chosen = np.random.default_rng(0).choice(test.users.values, held_out, replace=False)
    theirs_E = np.isin(train.users.at(train.users_E), chosen)
    new = train.subset(theirs_E, "not held out")
    rest = train.subset(~theirs_E, "held out")
    wanted = test.subset(np.isin(test.users.at(test.users_E), chosen), "not held out")
    settings["early_stopping"] = "false"
    report: dict[str, object] = {
        **machine(),
        "threads": torch.get_num_threads(),
        "users": held_out,
        "history_rows": len(new),
    }
    models = {}
    for name, rows in (("trained", train), ("folded", rest)):
        start = time.perf_counter()
        models[name] = estimator_from_text("sdsoftmax", settings).fit(rows).recommender_
        report[f"{name}_training_seconds"] = round(time.perf_counter() - start, 1)
    model = models["folded"]
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        folded = model.fold_in(new, skip_unknown=True)
        seconds.append(time.perf_counter() - start)
    reached = ndcg(models["trained"], wanted), ndcg(folded, wanted)
    report |= {
        "history_rows_of_unknown_items": int(
            (model.items.index_of(new.items.values)[new.items_E] < 0).sum()
        ),
        "ndcg@50_trained": reached[0],
        "ndcg@50_folded": reached[1],
        "ratio": reached[1] / reached[0],
        "users_per_second": round(held_out / float(np.median(seconds))),
    }
    print(json.dumps(report, indent=2))
    write_report(options.json, report)


def ndcg(model: Recommender, wanted: Interactions) -> float:
    """Return the NDCG@50 of some users."""
    return model.evaluate(wanted, ks=(K,)).means()[f"ndcg@{K}"]


def main() -> None:
    """Do one of the things that the docstring names."""
    commands = {"ranking": ranking, "fold-in": fold_in}
    parser = options_of(
        __doc__,
        repeats={"type": int, "default": 3},
        dataset={"default": "gowalla"},
        set={"action": "append", "metavar": "NAME=VALUE", "help": "a setting of sdsoftmax"},
    )
    parser.add_argument("command", choices=commands, nargs="?", default="ranking")
    options = parser.parse_args()
    commands[options.command](options)


if __name__ == "__main__":
    main()
