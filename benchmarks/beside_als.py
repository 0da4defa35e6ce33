"""Training on shards and implicit's ALS: seconds and memory to a quality, on the same rows.

    python benchmarks/beside_als.py [--rows 2e7] [--json FILE]

Events with a taste that can be learned are synthetic and written as shards. ``sdgar train`` learns
from them in bounded memory; implicit's ALS has the same training rows as one matrix. Both have
vectors of D numbers, and are measured on the same held-out rows of the same users. The settings of
ALS are the best of a grid on the validation rows of other users after a few sweeps. Each contestant
is a separate process, whose memory is looked at every 50 ms. Its own looks at the held-out rows
are in no number of seconds.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch

from common import THREADS, machine, options_of, write_report
from sdgar.data.synthetic import Shape, generate
from sdgar.evaluation.report import evaluate
from sdgar.maths.rng import Stream
from sdgar.models.factor_tensors import FactorTensors
from sdgar.scale.run import TEST_SHARE
from sdgar.scale.shards import Shards
from sdgar.scale.shards.views import Held, Without, hold
from sdgar.scale.training import VALID_SHARE
from shards import watched

GRID = {"alpha": (1.0, 10.0, 100.0), "regularization": (1.0, 100.0)}
TRIED, SWEEPS, LOOKS = 3, 15, (1, 2, 3, 5, 8, 11, 15)
"""The sweeps for which a setting is tried, the sweeps of the run, and when it is evaluated."""
VALID_USERS, ROWS_A_SHARD, K = 5_000, 1_000_000, 50


def make(args: Any, work: Path) -> None:
    """Make synthetic events, and write them as shards."""
    shape = Shape(
        users=args.users, items=args.items, interactions=int(args.rows), concentration=0.4
    )
    n_shards = max(2, int(args.rows) // ROWS_A_SHARD)
    Shards.write(generate(shape, seed=0), work / "data.shards", n_shards)


def ndcg(model: Any, held: Held) -> float:
    """Return NDCG@50 of ALS on held-out rows."""
    tables = (model.user_factors[held.users_T], model.item_factors)
    users_TD, item_ID = (torch.from_numpy(np.ascontiguousarray(t, np.float32)) for t in tables)
    factors = FactorTensors(users_TD, item_ID, torch.zeros(len(item_ID))).model()
    return evaluate(factors, held.held_out, seen=held.seen, ks=(K,)).means()[f"ndcg@{K}"]


def als(args: Any, work: Path) -> None:
    """Choose the settings of implicit's ALS, and run it with looks at the test rows."""
    from implicit.cpu.als import AlternatingLeastSquares
    from threadpoolctl import threadpool_limits

    threadpool_limits(1, "blas")  # as implicit recommends
    torch.set_num_threads(THREADS)
    shards = Shards.open(work / "data.shards")
    test = hold(shards, users=args.test_users, share=TEST_SHARE, seed=0)
    train = Without(shards, test.rows_E)
    valid = hold(train, users=VALID_USERS, share=VALID_SHARE, seed=0, stream=Stream.SPLIT_VALID)

    def fitted(data: Shards, sweeps: int, looks: tuple[int, ...], held: Held, **settings: float):  # type: ignore[no-untyped-def]
        found, matrix = [], matrix_of(data)
        start, cpu, aside, aside_cpu = time.perf_counter(), time.process_time(), 0.0, 0.0

        def look(sweep: int, *_: object) -> None:
            nonlocal aside, aside_cpu
            if sweep + 1 not in looks:
                return
            now, now_cpu = time.perf_counter(), time.process_time()
            value = ndcg(model, held)
            spent = {"seconds": now - start - aside, "cpu_seconds": now_cpu - cpu - aside_cpu}
            found.append({"sweeps": sweep + 1, "ndcg@50": value, **spent})
            print(json.dumps({**settings, **found[-1]}), file=sys.stderr, flush=True)
            aside += time.perf_counter() - now
            aside_cpu += time.process_time() - now_cpu

        model = AlternatingLeastSquares(
            factors=args.dim, iterations=sweeps, num_threads=THREADS, random_state=0, **settings
        )
        model.fit_callback = look
        model.fit(matrix, show_progress=False)
        return found

    rest = Without(train, valid.rows_E)
    tried = [
        {**settings, **fitted(rest, TRIED, (TRIED,), valid, **settings)[-1]}
        for settings in (dict(zip(GRID, values, strict=True)) for values in product(*GRID.values()))
    ]
    best = max(tried, key=lambda one: one["ndcg@50"])
    settings = {name: best[name] for name in GRID}
    looks = fitted(train, SWEEPS, LOOKS, test, **settings)
    write_report(work / "als.json", {"tried": tried, "settings": settings, "looks": looks})


def matrix_of(shards: Shards) -> Any:
    """Return the rows of all shards as the matrix that implicit takes."""
    from scipy.sparse import csr_matrix

    counts, items = [], []
    for shard in shards:
        counts.append(np.diff(shard.indptr_U1))
        items.append(np.asarray(shard.items_E))
    indptr = np.concatenate(([0], np.cumsum(np.concatenate(counts)))).astype(np.int32)
    joined = np.concatenate(items)
    ones = np.ones(len(joined), np.float32)
    return csr_matrix((ones, joined, indptr), shape=(shards.n_users, shards.n_items))


def ours(args: Any, folder: Path, run: Path) -> dict[str, Any]:
    """Train on the shards by the command, and read what the run says of itself."""
    words = ["train", str(folder), "--out", str(run), "--ram", args.memory, "--overwrite"]
    words += ["--test-users", str(args.test_users), "--json", "--set", f"dim={args.dim}"]
    for setting in args.set:
        words += ["--set", setting]
    used = watched([sys.executable, "-m", "sdgar", *words], quick=args.quick)
    about = json.loads((run / "manifest.json").read_text())["about"]["report"]
    return {
        **used,
        "parts": about["seconds"],
        "ndcg@50": about["test"]["ndcg@50"],
        "popular": about["most_popular"]["ndcg@50"],
    }


STEPS = {"make": make, "als": als}


def alone(step: str, args: Any, work: Path) -> dict[str, float]:
    """Do a step in a separate process, except to see that it runs."""
    if args.quick:
        STEPS[step](args, work)
        return {}
    words = [sys.executable, __file__, f"--step={step}", f"--work={work}"]
    for name in ("rows", "users", "items", "dim", "test_users"):
        words.append(f"--{name.replace('_', '-')}={getattr(args, name)}")
    return watched(words, quick=False)


def main() -> None:
    """Measure both, or do one step alone."""
    parser = options_of(
        __doc__,
        rows={"type": float, "default": 2e7},
        users={"type": int, "default": 1_000_000},
        items={"type": int, "default": 100_000},
        dim={"type": int, "default": 64},
        memory={"default": "4GiB"},
        test_users={"type": int, "default": 10_000},
        set={"action": "append", "default": []},
        work={"type": Path, "help": "a folder for shards, which are kept"},
        step={"help": "one step alone, as a process of its own"},
    )
    args = parser.parse_args()
    if args.quick:
        args.rows, args.users, args.items, args.dim, args.test_users = 2e4, 1000, 300, 8, 100
    if args.step is not None:
        STEPS[args.step](args, args.work)
        return
    with tempfile.TemporaryDirectory() as temporary:
        work = args.work or Path(temporary)
        folder = work / "data.shards"
        if not folder.exists():
            alone("make", args, work)
        shards = Shards.open(folder)
        report = {
            **machine("implicit"),
            "threads": THREADS,
            "load": os.getloadavg()[1],
            "rows": shards.n_rows, "users": shards.n_users, "items": shards.n_items,
            "dim": args.dim, "test_users": args.test_users, "limit": args.memory,
            "set": args.set, "sweeps_tried": TRIED,
            "sdgar": ours(args, folder, work / "run"),
        }  # fmt: skip
        write_report(args.json, report)
        used = alone("als", args, work)
        report["als"] = {**used, **json.loads((work / "als.json").read_text())}
        report["load_after"] = os.getloadavg()[1]
        words = [w for w in sys.argv if not w.startswith("--work")]
        report["command"] = " ".join(["python", *words])
        write_report(args.json, report)


if __name__ == "__main__":
    main()
