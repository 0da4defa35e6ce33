"""The fused GPU engine: equality with eager, speed, memory, and what surrounds it in a run.

Needs only torch, NumPy and Triton, and a CUDA device:

    COMMIT=$(git rev-parse HEAD) PYTHONPATH=src python benchmarks/gpu.py --packed carry --json FILE

``carry/gowalla.npz`` is made by ``benchmarks/accuracy.py pack``. Times are medians over repeated
runs after a warm-up, by a host clock around synchronised work. The first use of a kernel compiles
it, which is reported apart. With --quick and TRITON_INTERPRET=1 everything runs on the CPU, on tiny
data: to see that it runs, not how fast.
"""

from __future__ import annotations

import copy
import itertools
import multiprocessing as mp
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import triton

from common import DEVICE, from_npz, machine, options_of, write_report
from sdgar.contracts import System
from sdgar.data import splits, synthetic
from sdgar.data.building import RowAccount
from sdgar.data.held_out import HeldOut
from sdgar.data.ids import Ids
from sdgar.data.interactions import Interactions
from sdgar.discriminators.factorization import MatrixFactorization
from sdgar.engines.choose import ENGINES
from sdgar.engines.protocol import Engine
from sdgar.evaluation import metrics
from sdgar.evaluation.report import evaluate
from sdgar.maths.optimizers import SGD, LazyAdam, RowAdagrad
from sdgar.models.factor_tensors import FactorTensors
from sdgar.objectives import Logistic, PairwiseLogistic, WeightedLogistic
from sdgar.ranking import topk
from sdgar.samplers.alias import AliasTables
from sdgar.samplers.closed_form import Frozen
from sdgar.samplers.decomposable import Decomposable
from sdgar.samplers.health import health
from sdgar.samplers.static import Popularity, Uniform
from sdgar.systems.recipe import recipe_of
from sdgar.systems.sdgar import SDGAR
from sdgar.training.loop import fit
from sdgar.training.records import FitOptions

STARTED = time.perf_counter()
SAMPLERS = ("uniform", "popularity", "decomposable")
OBJECTIVES = (
    PairwiseLogistic(),
    Logistic(),
    WeightedLogistic(0.5),
    WeightedLogistic(0.5, hold_weights=True),
)
TINY = synthetic.Shape(users=20, items=16, interactions=48, concentration=0.15, min_per_user=2)
"""For --quick."""
OPTIMIZERS: tuple[SGD, LazyAdam, RowAdagrad] = (SGD(0.5), LazyAdam(0.004), RowAdagrad(0.1))
"""The last one is the default of SD-GAR."""


def say(*words: object) -> None:
    print(f"[{time.perf_counter() - STARTED:6.1f}]", *words, flush=True)


def synchronize() -> None:
    """Wait until the device is done."""
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()


def wall_ms(work: Callable[[], object], repeats: int = 5 if DEVICE.type == "cuda" else 1) -> float:
    """Return the median milliseconds by the host clock, until the device is done."""
    times = []
    for _ in range(repeats + 1):
        synchronize()
        start = time.perf_counter()
        work()
        synchronize()
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times[1:])


def copy_bandwidth(numbers: int) -> float:
    """Return the bytes read and written a second by a large copy on the device."""
    source = torch.rand(numbers, device=DEVICE)
    target = torch.empty_like(source)
    return 2 * source.numel() * 4 / (wall_ms(lambda: target.copy_(source)) / 1e3)


def fused(system: System, data: Interactions, seed: int) -> Engine:
    """Make the engine that is measured."""
    return ENGINES["fused-gpu"](system, data, seed=seed, device=DEVICE)


def eager(system: System, data: Interactions, seed: int) -> Engine:
    """Make the engine that says what is correct."""
    return ENGINES["eager"](system, data, seed=seed, device=DEVICE)


# Equality


def small_data(*, weighted: bool, quick: bool) -> Interactions:
    """Make about 210,000 rows, which are 51 steps of 4096; one context has every item."""
    rng = np.random.default_rng(0)
    liked = rng.random((8, 6) if quick else (2000, 1000)) < 0.104
    liked[3] = True
    users, items = np.nonzero(liked)
    weight = rng.uniform(0.5, 3, len(users)) if weighted else None
    return Interactions.from_arrays(users, items, weight=weight)


def one_equality(job: tuple[str, int, int, int], quick: bool = False) -> dict[str, Any]:
    """Return how far the engine is from eager after one epoch, and after the same one again."""
    sampler, objective, optimizer, positives = job
    weighted = (objective + optimizer + positives) % 2 == 0
    data = small_data(weighted=weighted, quick=quick)
    dim, batch = (4, 8) if quick else (32, 4096)

    def system() -> System:
        return System(
            name="equality",
            discriminator=MatrixFactorization(
                data.n_users, data.n_items, dim, seed=0, sparse=OPTIMIZERS[optimizer].row_wise
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
            batch_size=batch,
            l2=0.01,
            positives_per_visit=positives,
        )

    model = eager(system(), data, 5)
    expected = model.run_epoch(1)
    states = []
    for _ in range(2):
        engine = fused(system(), data, 5)
        stats = engine.run_epoch(1)
        states.append(engine.state())
    # Where the gradient of a row nearly cancels, Adam and Adagrad blow up the last digits of any
    # float32 sum, eager's too: float64 tells how far eager itself is from the truth.
    exact = system()
    exact.discriminator.double()
    double = eager(exact, data, 5)
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
        "largest_relative_error": apart(states[0], model.state()),
        "from_float64": apart(states[0], truth),
        "eager_from_float64": apart(model.state(), truth),
        "relative_error_of_the_loss": abs(stats.loss / expected.loss - 1),
        "same_unanswered": stats.unanswered == expected.unanswered,
        "same_bytes_twice": all(torch.equal(v, states[1][k]) for k, v in states[0].items()),
    }


def equality(quick: bool) -> dict[str, Any]:
    """Compare all combinations, in many processes because most of the time is compilation."""
    jobs = list(itertools.product(SAMPLERS, range(4), range(3), (1, 3)))
    if quick:
        rows = [one_equality(job, quick=True) for job in jobs[-1:]]
    else:
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
    """Make a random generator, on the device because its tables are large."""
    generator = Decomposable(1, 1, states, seed=0, update=Frozen())
    generator.set_x(torch.rand(n_users, states, device=DEVICE))
    generator.set_y(torch.rand(n_items, states, device=DEVICE))
    return generator


def system_of(
    model: MatrixFactorization,
    generator: Decomposable,
    batch: int,
    positives: int = 1,
    optimizer: LazyAdam | RowAdagrad = OPTIMIZERS[1],
) -> System:
    return System(
        name="speed",
        discriminator=copy.deepcopy(model),
        sampler=generator,
        objective=WeightedLogistic(0.5),
        optimizer=optimizer,
        n_negatives=5,
        batch_size=batch,
        l2=0.01,
        positives_per_visit=positives,
    )


def epoch_speed(
    data: Interactions,
    model: MatrixFactorization,
    generator: Decomposable,
    batch: int,
    positives: int = 1,
    optimizer: LazyAdam | RowAdagrad = OPTIMIZERS[1],
) -> dict[str, Any]:
    """Time the epochs of a system."""
    system = system_of(model, generator, batch, positives, optimizer)
    start = time.perf_counter()
    engine = fused(system, data, 1)
    synchronize()
    made = time.perf_counter()
    engine.run_epoch(1)
    first = time.perf_counter()
    seconds = [engine.run_epoch(epoch).seconds for epoch in range(2, 3 if len(data) < 100 else 9)]
    median = statistics.median(seconds)
    rate = len(data) / median
    found = {
        "optimizer": type(optimizer).__name__,
        "batch_size": batch,
        "positives_per_visit": positives,
        "engine_made_seconds": made - start,
        "first_epoch_seconds": first - made,
        "epoch_ms": 1e3 * median,
        "epoch_ms_all": [1e3 * s for s in seconds],
        "positives_per_second": rate,
    }
    say(f"batch {batch}, P = {positives}: {rate / 1e6:.0f} million positives/s", found)
    return found


def echonest(quick: bool) -> dict[str, Any]:
    """Time SD-GAR's epoch on data of Echonest's shape."""
    shape = replace(synthetic.PRESETS["echonest"], interactions=3_537_976)
    if quick:
        shape = TINY
    dim, states, batches = (4, 4, (8,)) if quick else (32, 64, (4096, 8192, 16384))
    data = synthetic.generate(shape, seed=0)
    model = MatrixFactorization(data.n_users, data.n_items, dim, seed=0, sparse=True)
    generator = generator_on_device(data.n_users, data.n_items, states)
    say("Echonest's shape is made")
    pairs = [*((batch, 1) for batch in batches), (batches[0], 4)][-1 if quick else None :]
    runs = [
        epoch_speed(data, model, generator, batch, shared, optimizer)
        for optimizer in OPTIMIZERS[1:]
        for batch, shared in pairs
    ]
    slow = eager(system_of(model, generator, batches[0]), data, 1)
    start = time.perf_counter()
    slow.run_epoch(1)
    return {
        "users": data.n_users,
        "items": data.n_items,
        "positives": len(data),
        "dim": dim,
        "negatives": 5,
        "states": states,
        "runs": runs,
        "eager_first_epoch_seconds": time.perf_counter() - start,
    }


def large(quick: bool) -> dict[str, Any]:
    """Run an epoch of 10^6 contexts × 10^6 items × 10^8 interactions."""
    n, degree, dim, batch = (20, 2, 4, 8) if quick else (1_000_000, 100, 32, 16384)
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
    model = MatrixFactorization(1, 1, dim, seed=0, sparse=True).to(DEVICE)
    model.user_UD = torch.nn.Parameter(0.02 * torch.randn(n, dim, device=DEVICE))
    model.item_ID = torch.nn.Parameter(0.02 * torch.randn(n, dim, device=DEVICE))
    model.bias_I = torch.nn.Parameter(torch.zeros(n, device=DEVICE))
    model.n_items = n
    system = system_of(model, generator_on_device(n, n, 4 if quick else 64), batch)
    say("10^8 interactions are made")
    before = 0
    if DEVICE.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
    start = time.perf_counter()
    engine = fused(system, data, 1)
    synchronize()
    made = time.perf_counter()
    stats = [engine.run_epoch(epoch) for epoch in (1, 2)]
    found = {
        "positives": len(data),
        "batch_size": batch,
        "engine_made_seconds": made - start,
        "first_epoch_seconds": stats[0].seconds,
        "second_epoch_seconds": stats[1].seconds,
        "positives_per_second": len(data) / stats[1].seconds,
        "losses": [s.loss for s in stats],
        "peak_memory_bytes": torch.cuda.max_memory_allocated() if before else 0,
        "of_which_model_and_generator": before,
    }
    say("10^8:", found)
    return found


# A whole run


def gowalla(packed: Path | None) -> dict[str, Any]:
    """Time a whole run of SD-GAR as the paper has it, and its parts; without data, a tiny one."""
    if packed is None:
        shape = TINY
        train, test = splits.per_user(synthetic.generate(shape, seed=0), seed=0)
        settings, last, k = (
            {"dim": 4, "sampler__states": 4, "batch_size": 16, "sampler__samples": 2},
            1,
            5,
        )
    else:
        train, test = from_npz(packed / "gowalla.npz")
        settings, last, k = {}, 75, 50
    held_out = HeldOut.of(test, train)
    found: dict[str, Any] = {"users": train.n_users, "items": train.n_items, "rows": len(train)}
    options = FitOptions(
        epochs=last, evaluate_every=min(last, 5), early_stopping=False, metric=f"ndcg@{k}"
    )
    for name in ("first",) if packed is None else ("first", "warm"):
        system = recipe_of(SDGAR(**settings)).compose(train, seed=0)
        start = time.perf_counter()
        engine = fused(system, train, 0)
        synchronize()
        made = time.perf_counter()

        def measure(model: FactorTensors) -> float:
            found = evaluate(model.scorer(), held_out, seen=train.history, ks=(options.k,))
            return found.means()[options.metric]

        fitted = fit(system, engine, options, measure=measure)
        found[f"{name}_run"] = {
            "engine_made_seconds": made - start,
            "fit_seconds": time.perf_counter() - made,
            "train_seconds": sum(r.train_seconds for r in fitted.log),
            "refit_seconds": sum(r.refit_seconds for r in fitted.log),
            "evaluate_seconds": sum(r.evaluate_seconds for r in fitted.log),
            "best_epoch": fitted.best_epoch,
            f"best_ndcg@{k}": max(r.metric for r in fitted.log if r.metric is not None),
            "last_epoch_ms": 1e3 * fitted.log[-1].train_seconds,
        }
        say(f"Gowalla, {name} run:", found[f"{name}_run"])
    sampler, factors = system.sampler, system.discriminator.factors()
    users_T = held_out.users_T
    best = topk.top_k(factors, users_T, k, seen=train.history)

    @torch.no_grad()
    def check_health() -> object:
        target = sampler.update.log_target
        tables = sampler.x_UK, sampler.y_IK
        return health(*tables, system.discriminator.score, target=target, seed=0, epoch=80)

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
    """Measure all parts, or the ones that --only names."""
    parser = options_of(
        __doc__,
        packed={"type": Path, "metavar": "DIR", "help": "where accuracy.py pack wrote"},
        only={"nargs": "*", "choices": ("equality", "echonest", "gowalla", "large")},
    )
    options = parser.parse_args()
    report: dict[str, Any] = {**machine(), "triton": triton.__version__, "device": str(DEVICE)}
    if DEVICE.type == "cuda":
        device = torch.cuda.get_device_properties(0)
        report |= {
            "device": device.name,
            "device_memory_bytes": device.total_memory,
            "multiprocessors": device.multi_processor_count,
            "l2_bytes": device.L2_cache_size,
            "cuda": torch.version.cuda,
        }
    quick: bool = options.quick
    report["copy_bytes_per_second"] = copy_bandwidth(1 << 10 if quick else 1 << 30)
    parts: dict[str, Callable[[], dict[str, Any]]] = {
        "equality": lambda: equality(quick),
        "echonest": lambda: echonest(quick),
        "gowalla": lambda: gowalla(None if quick else options.packed),
        "large": lambda: large(quick),
    }
    for name in options.only or parts:
        start = time.perf_counter()
        report[name] = parts[name]()
        report[name]["seconds_to_measure"] = time.perf_counter() - start
        write_report(options.json, report)
        say(name, "is done")


if __name__ == "__main__":
    main()
