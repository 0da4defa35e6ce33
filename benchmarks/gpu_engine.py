"""The fused GPU engine: equality with eager, speed, memory, and what surrounds it in a run.

Needs only torch, NumPy and Triton, and a CUDA device:

    PYTHONPATH=src python benchmarks/gpu_engine.py --gowalla carry/gowalla.npz \
        --commit $(git rev-parse HEAD) --out gpu_engine.json

``carry/gowalla.npz`` is made by ``benchmarks/accuracy_grid.py pack``. Times are medians over
repeated runs after a warm-up, by a host clock around synchronised work or by device events. The
first use of a kernel compiles it, which is reported apart.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import json
import multiprocessing as mp
import platform
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import triton

from sdgar.contracts import System
from sdgar.data import synthetic
from sdgar.data.held_out import HeldOut
from sdgar.data.ids import Ids
from sdgar.data.interactions import Interactions, RowAccount
from sdgar.discriminators.factorization import MatrixFactorization
from sdgar.engines.eager import EagerEngine
from sdgar.engines.fused.gpu import FusedGpuEngine
from sdgar.evaluation import metrics, topk
from sdgar.evaluation.report import evaluate
from sdgar.maths.optimizers import SGD, LazyAdam, RowAdagrad
from sdgar.objectives import Logistic, PairwiseLogistic, WeightedLogistic
from sdgar.samplers.ablations import Frozen
from sdgar.samplers.alias import AliasTables
from sdgar.samplers.decomposable import Decomposable
from sdgar.samplers.health import health
from sdgar.samplers.static import Popularity, Uniform
from sdgar.systems.sdgar import SDGAR
from sdgar.training.fit import FitOptions, fit

DEVICE = torch.device("cuda")
STARTED = time.perf_counter()
SAMPLERS = ("uniform", "popularity", "decomposable")
OBJECTIVES = (
    PairwiseLogistic(),
    Logistic(),
    WeightedLogistic(0.5),
    WeightedLogistic(0.5, hold_weights=True),
)
OPTIMIZERS = (SGD(0.5), LazyAdam(0.004), RowAdagrad(0.1))


def say(*words: object) -> None:
    print(f"[{time.perf_counter() - STARTED:6.1f}]", *words, flush=True)


def events_ms(work: Callable[[], object], repeats: int = 5) -> float:
    """Median milliseconds between two device events."""
    work()
    times = []
    for _ in range(repeats):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        work()
        stop.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(stop))
    return statistics.median(times)


def wall_ms(work: Callable[[], object], repeats: int = 5) -> float:
    """Median milliseconds by the host clock, until the device is done."""
    times = []
    for _ in range(repeats + 1):
        torch.cuda.synchronize()
        start = time.perf_counter()
        work()
        torch.cuda.synchronize()
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times[1:])


def copy_bandwidth() -> float:
    """Bytes read and written a second by a large copy on the device."""
    source = torch.rand(1 << 30, device=DEVICE)
    target = torch.empty_like(source)
    return 2 * source.numel() * 4 / (events_ms(lambda: target.copy_(source)) / 1e3)


# Equality


def small_data(*, weighted: bool) -> Interactions:
    """About 210,000 rows: 51 steps of 4096; one context knows every item."""
    rng = np.random.default_rng(0)
    liked = rng.random((2000, 1000)) < 0.104
    liked[3] = True
    users, items = np.nonzero(liked)
    weight = rng.uniform(0.5, 3, len(users)) if weighted else None
    return Interactions.from_arrays(users, items, weight=weight)


def one_equality(job: tuple[str, int, int, int]) -> dict[str, Any]:
    """How far the engine is from eager after one epoch, and after the same epoch once more."""
    sampler, objective, optimizer, positives = job
    data = small_data(weighted=(objective + optimizer + positives) % 2 == 0)

    def system() -> System:
        return System(
            name="equality",
            discriminator=MatrixFactorization(
                data.n_users, data.n_items, 32, seed=0, sparse=OPTIMIZERS[optimizer].row_wise
            ),
            sampler={
                "uniform": Uniform,
                "popularity": lambda: Popularity(
                    torch.from_numpy(np.bincount(data.items_E, minlength=data.n_items))
                ),
                "decomposable": lambda: Decomposable(
                    data.n_users, data.n_items, 16, seed=1, update=Frozen()
                ),
            }[sampler](),
            objective=OBJECTIVES[objective],
            optimizer=OPTIMIZERS[optimizer],
            n_negatives=5,
            batch_size=4096,
            l2=0.01,
            positives_per_visit=positives,
        )

    eager = EagerEngine(system(), data, seed=5, device=DEVICE)
    expected = eager.run_epoch(1)
    states = []
    for _ in range(2):
        engine = FusedGpuEngine(system(), data, seed=5, device=DEVICE)
        stats = engine.run_epoch(1)
        states.append(engine.state())
    # Where the gradient of a row nearly cancels, Adam and Adagrad blow up the last digits of any
    # float32 sum, eager's too: float64 tells how far eager itself is from the truth.
    exact = system()
    exact.discriminator.double()
    double = EagerEngine(exact, data, seed=5, device=DEVICE)
    double.run_epoch(1)
    truth = {k: v for k, v in double.state().items() if k.startswith("model.")}

    def apart(a: dict[str, Any], b: dict[str, Any]) -> float:
        return max(float((a[k] - b[k]).norm() / b[k].norm()) for k in truth)

    return {
        "sampler": sampler,
        "objective": repr(OBJECTIVES[objective]),
        "optimizer": repr(OPTIMIZERS[optimizer]),
        "positives_per_visit": positives,
        "weighted": data.weight_E is not None,
        "steps": engine._room.n_steps,
        "largest_relative_error": apart(states[0], eager.state()),
        "from_float64": apart(states[0], truth),
        "eager_from_float64": apart(eager.state(), truth),
        "relative_error_of_the_loss": abs(stats.loss / expected.loss - 1),
        "same_unanswered": stats.unanswered == expected.unanswered,
        "same_bytes_twice": all(torch.equal(v, states[1][k]) for k, v in states[0].items()),
    }


def equality() -> dict[str, Any]:
    """All combinations, in many processes because most of the time is compilation."""
    jobs = list(itertools.product(SAMPLERS, range(4), range(3), (1, 3)))
    with mp.get_context("spawn").Pool(12) as pool:
        rows = pool.map(one_equality, jobs, chunksize=6)
    return {
        "combinations": len(rows),
        "largest_relative_error": max(r["largest_relative_error"] for r in rows),
        "below_1e-5": sum(r["largest_relative_error"] < 1e-5 for r in rows),
        "below_1e-5_or_as_close_to_float64_as_eager": sum(
            r["largest_relative_error"] < 1e-5 or r["from_float64"] < 1.1 * r["eager_from_float64"]
            for r in rows
        ),
        "all_same_unanswered": all(r["same_unanswered"] for r in rows),
        "all_same_bytes_twice": all(r["same_bytes_twice"] for r in rows),
        "worst": sorted(rows, key=lambda r: -r["largest_relative_error"])[:5],
    }


# Speed


def generator_on_device(n_users: int, n_items: int, states: int = 64) -> Decomposable:
    """A random generator, made on the device because its tables are large."""
    generator = Decomposable.__new__(Decomposable)
    generator.update = Frozen()
    generator.set_x(torch.rand(n_users, states, device=DEVICE))
    generator.set_y(torch.rand(n_items, states, device=DEVICE))
    return generator


def system_of(
    model: MatrixFactorization, generator: Decomposable, batch: int, positives: int = 1
) -> System:
    return System(
        name="speed",
        discriminator=copy.deepcopy(model),
        sampler=generator,
        objective=WeightedLogistic(0.5),
        optimizer=LazyAdam(0.004),
        n_negatives=5,
        batch_size=batch,
        l2=0.01,
        positives_per_visit=positives,
    )


def bytes_a_positive(engine: FusedGpuEngine) -> dict[str, float]:
    """What an epoch touches for each positive, if no byte of it were in a cache.

    Draws: ids of the visit, two alias bins a try, x_c and y_j; entries and log Q written and read.
    Steps: θ of every entry read; θ, m and v of every distinct row of a step read and written; the
    gradient of every entry added, and that of every distinct row read and cleared, all as int64.
    """
    n, p = engine._system.n_negatives, engine._system.positives_per_visit
    dim, states = engine._room.theta_RD.shape[1], engine._system.sampler.x_UK.shape[1]
    per_visit = engine._room.n_rows / engine._room.n_visits
    row_VW = engine._room.row_VW.view(engine._room.chunk_steps, -1)[:8]
    distinct = entries = 0
    for code_L in row_VW:
        row_L = torch.where(code_L < -1, ~code_L, code_L)
        row_L = row_L[row_L >= 0]
        entries += len(row_L)
        distinct += len(row_L.unique())
    positives = len(row_VW) * engine._room.size * per_visit
    draws = (24 + 8 * p + n * 16 + 4 * states * (1 + n) + 8 * (1 + p + n) + 8 * n) / per_visit
    steps = (24 * dim * distinct + 4 * dim * entries) / positives
    sums = 16 * dim * (entries + distinct) / positives
    return {
        "draws": round(draws),
        "parameters_and_moments": round(steps),
        "gradient_sums": round(sums),
        "total": round(draws + steps + sums),
        "distinct_rows_a_step": round(distinct / len(row_VW)),
        "entries_a_step": round(entries / len(row_VW)),
    }


def epoch_speed(
    data: Interactions,
    model: MatrixFactorization,
    generator: Decomposable,
    batch: int,
    bandwidth: float,
    positives: int = 1,
) -> dict[str, Any]:
    system = system_of(model, generator, batch, positives)
    start = time.perf_counter()
    engine = FusedGpuEngine(system, data, seed=1, device=DEVICE)
    torch.cuda.synchronize()
    made = time.perf_counter()
    engine.run_epoch(1)
    first = time.perf_counter()
    seconds = [engine.run_epoch(epoch).seconds for epoch in range(2, 9)]
    median = statistics.median(seconds)
    touched = bytes_a_positive(engine)
    rate = len(data) / median
    found = {
        "batch_size": batch,
        "positives_per_visit": positives,
        "steps": engine._room.n_steps,
        "engine_made_seconds": made - start,
        "first_epoch_seconds": first - made,
        "epoch_ms": 1e3 * median,
        "epoch_ms_all": [1e3 * s for s in seconds],
        "positives_per_second": rate,
        "draw_ms": events_ms(lambda: engine._draw(0)),
        "steps_ms": events_ms(lambda: engine._graph.replay()),
        "bytes_per_positive": touched,
        "share_of_copy_bandwidth": touched["total"] * rate / bandwidth,
    }
    say(f"batch {batch}, P = {positives}: {rate / 1e6:.0f} million positives/s", found)
    return found


def echonest(bandwidth: float) -> dict[str, Any]:
    shape = replace(synthetic.PRESETS["echonest"], interactions=3_537_976)
    data = synthetic.generate(shape, seed=0)
    model = MatrixFactorization(data.n_users, data.n_items, 32, seed=0, sparse=True)
    generator = generator_on_device(data.n_users, data.n_items)
    say("Echonest's shape is made")
    runs = [
        epoch_speed(data, model, generator, batch, bandwidth, positives)
        for batch, positives in ((4096, 1), (16384, 1), (4096, 4))
    ]
    eager = EagerEngine(system_of(model, generator, 4096), data, seed=1, device=DEVICE)
    start = time.perf_counter()
    eager.run_epoch(1)
    return {
        "users": data.n_users,
        "items": data.n_items,
        "positives": len(data),
        "dim": 32,
        "negatives": 5,
        "states": 64,
        "runs": runs,
        "eager_first_epoch_seconds_at_4096": time.perf_counter() - start,
    }


def large() -> dict[str, Any]:
    """10^6 contexts × 10^6 items × 10^8 interactions: one epoch."""
    n, degree = 1_000_000, 100
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    # Sorted numbers plus 0, 1, 2, …: distinct items, more of the low ones.
    items = torch.rand(n, degree, device=DEVICE).square_().mul_(n - degree).int().sort(dim=1).values
    items += torch.arange(degree, dtype=torch.int32, device=DEVICE)
    ids = Ids(np.arange(n))
    data = Interactions(
        users=ids,
        items=ids,
        indptr_U1=np.arange(n + 1) * degree,
        items_E=items.view(-1).cpu().numpy(),
        account=RowAccount(read=n * degree, kept=n * degree),
    )
    del items
    model = MatrixFactorization(1, 1, 32, seed=0, sparse=True).to(DEVICE)
    model.user_UD = torch.nn.Parameter(0.02 * torch.randn(n, 32, device=DEVICE))
    model.item_ID = torch.nn.Parameter(0.02 * torch.randn(n, 32, device=DEVICE))
    model.bias_I = torch.nn.Parameter(torch.zeros(n, device=DEVICE))
    system = system_of(model, generator_on_device(n, n), 16384)
    say("10^8 interactions are made")
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    start = time.perf_counter()
    engine = FusedGpuEngine(system, data, seed=1, device=DEVICE)
    torch.cuda.synchronize()
    made = time.perf_counter()
    stats = [engine.run_epoch(epoch) for epoch in (1, 2)]
    found = {
        "positives": len(data),
        "batch_size": 16384,
        "chunks": -(-engine._room.n_steps // engine._room.chunk_steps),
        "engine_made_seconds": made - start,
        "first_epoch_seconds": stats[0].seconds,
        "second_epoch_seconds": stats[1].seconds,
        "positives_per_second": len(data) / stats[1].seconds,
        "losses": [s.loss for s in stats],
        "peak_memory_bytes": torch.cuda.max_memory_allocated(),
        "of_which_model_and_generator": before,
    }
    say("10^8:", found)
    return found


# A whole run


def gowalla(path: Path) -> dict[str, Any]:
    file = np.load(path)
    train, test = (
        Interactions.from_arrays(file[f"{part}_user"], file[f"{part}_item"])
        for part in ("train", "test")
    )
    held_out = HeldOut.of(test, train)
    found: dict[str, Any] = {"users": train.n_users, "items": train.n_items, "rows": len(train)}
    options = FitOptions(epochs=75, evaluate_every=5, early_stopping=False, metric="ndcg@50")
    for name in ("first", "warm"):
        system = SDGAR().compose(train, seed=0)
        start = time.perf_counter()
        engine = FusedGpuEngine(system, train, seed=0, device=DEVICE)
        torch.cuda.synchronize()
        made = time.perf_counter()
        fitted = fit(system, engine, options, held_out=held_out, seen=train.history)
        found[f"{name}_run"] = {
            "engine_made_seconds": made - start,
            "fit_seconds": time.perf_counter() - made,
            "train_seconds": sum(r.train_seconds for r in fitted.log),
            "refit_seconds": sum(r.refit_seconds for r in fitted.log),
            "evaluate_seconds": sum(r.evaluate_seconds for r in fitted.log),
            "best_epoch": fitted.best_epoch,
            "best_ndcg@50": max(r.metric for r in fitted.log if r.metric is not None),
            "last_epoch_ms": 1e3 * fitted.log[-1].train_seconds,
        }
        say(f"Gowalla, {name} run:", found[f"{name}_run"])
    sampler, factors = system.sampler, system.discriminator.factors()
    users_T, k = held_out.users_T, 50
    best = topk.top_k(factors, users_T, k, seen=train.history)

    @torch.no_grad()
    def check_health() -> object:
        return health(sampler, system.discriminator.score, temperature=0.5, seed=0, epoch=80)

    found["refit_ms"] = {
        "all": wall_ms(lambda: engine.refit(80)),
        "health": wall_ms(check_health),
        "alias_tables_of_x": wall_ms(lambda: AliasTables.of(sampler.x_UK)),
        "alias_tables_of_y": wall_ms(lambda: AliasTables.of(sampler.y_IK.T)),
    }
    found["evaluate_ms"] = {
        "all": wall_ms(lambda: evaluate(factors, held_out, seen=train.history, ks=(k,))),
        "top_k": wall_ms(lambda: topk.top_k(factors, users_T, k, seen=train.history)),
        "metrics": wall_ms(lambda: metrics.per_user(best.items_TK, held_out, (k,))),
    }
    say("Gowalla:", found["refit_ms"], found["evaluate_ms"])
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--commit", required=True)
    parser.add_argument("--gowalla", type=Path, required=True)
    parser.add_argument("--only", nargs="*", choices=("equality", "echonest", "gowalla", "large"))
    options = parser.parse_args()
    device = torch.cuda.get_device_properties(0)
    report: dict[str, Any] = {
        "command": " ".join([Path(sys.executable).name, *sys.argv]),
        "commit": options.commit,
        "device": device.name,
        "device_memory_bytes": device.total_memory,
        "multiprocessors": device.multi_processor_count,
        "l2_bytes": device.L2_cache_size,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "triton": triton.__version__,
        "cuda": torch.version.cuda,
    }
    bandwidth = copy_bandwidth()
    report["copy_bytes_per_second"] = bandwidth
    for name, part in (
        ("equality", equality),
        ("echonest", lambda: echonest(bandwidth)),
        ("gowalla", lambda: gowalla(options.gowalla)),
        ("large", large),
    ):
        if options.only and name not in options.only:
            continue
        start = time.perf_counter()
        report[name] = part()
        report[name]["seconds_to_measure"] = time.perf_counter() - start
        options.out.write_text(json.dumps(report, indent=1) + "\n")
        say(name, "is done")
    say(json.dumps(report))


if __name__ == "__main__":
    main()
