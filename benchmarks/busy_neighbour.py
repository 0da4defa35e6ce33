"""One and two threads with neighbours that want the same cores, for sdgar and implicit.

    python benchmarks/busy_neighbour.py [--json FILE] [--rounds N] [--before SRC]

0, 1, 2 and 4 processes that do nothing but count run compared with each measurement. Every
contestant is a process that waits until it is its turn: SD-Softmax's epochs, its generator's
updates, a full ranking, and implicit's BPR, by one and by two threads in turns. ``--before`` names
the ``src`` folder of another version of sdgar, which then takes turns with this one.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from sdgar.systems.recipe import recipe_of

ROOT = Path(__file__).parents[1]
LASTFM = ROOT.parent / "shared" / "data" / "lastfm-2k" / "interactions.parquet"
NEIGHBOURS = (0, 1, 2, 4)
THREADS = (1, 2)
DIM, EPOCHS, RANKINGS, ITERATIONS = 64, 6, 6, 48
"""A turn takes seconds: the number of threads is tried again every few tenths of a second."""
COUNT = "import os\nparent = os.getppid()\nwhile os.getppid() == parent:\n    sum(range(100000))"
"""A neighbour ends with the process that started it."""


# What a contestant does when it is its turn


def lastfm(*, quick: bool) -> tuple[str, Any]:
    """Return (source, interactions); a synthetic set of its size if the real one is not there."""
    from sdgar.data.interactions import Interactions
    from sdgar.data.synthetic import Shape, generate

    if quick:
        shape = Shape(users=60, items=40, interactions=600, concentration=0.15)
        return "made up", generate(shape, seed=0)
    if not LASTFM.exists():
        shape = Shape(users=1_892, items=17_632, interactions=92_834, concentration=0.35)
        return "made up, Last.fm's size", generate(shape, seed=0)
    import polars as pl

    rows = pl.read_parquet(LASTFM)
    users, items = (rows[name].to_numpy() for name in rows.columns[:2])
    return "Last.fm", Interactions.from_arrays(users, items)


def sdgar_turns(*, quick: bool) -> Callable[[int], dict[str, float]]:
    import numpy as np
    import torch

    from sdgar.engines.choose import ENGINES
    from sdgar.ranking.topk import top_k
    from sdgar.systems.sdsoftmax import SDSoftmax

    data = lastfm(quick=quick)[1]
    device = torch.device("cpu")
    systems = {n: recipe_of(SDSoftmax(dim=DIM)).compose(data, seed=0) for n in THREADS}
    engines = {
        n: ENGINES["fused-cpu"](system, data, seed=0, device=device)
        for n, system in systems.items()
    }
    epochs = dict.fromkeys(THREADS, 0)

    def turn(threads: int) -> dict[str, float]:
        torch.set_num_threads(threads)
        engine, found = engines[threads], dict.fromkeys(("epochs", "refit", "ranking"), 0.0)
        start = time.perf_counter()
        engine.refit(epochs[threads] + 1)
        found["refit"] = time.perf_counter() - start
        for _ in range(EPOCHS):
            epochs[threads] += 1
            found["epochs"] += engine.run_epoch(epochs[threads]).seconds
        start = time.perf_counter()
        for _ in range(RANKINGS):
            top_k(systems[threads].learned(), np.arange(data.n_users), 50, seen=data.history)
        found["ranking"] = time.perf_counter() - start
        return found

    return turn


def implicit_turns(*, quick: bool) -> Callable[[int], dict[str, float]]:
    import numpy as np
    from implicit.cpu.bpr import BayesianPersonalizedRanking
    from scipy.sparse import csr_matrix
    from threadpoolctl import threadpool_limits

    data = lastfm(quick=quick)[1]
    ones_E, indptr_U1 = np.ones(len(data), np.float32), data.indptr_U1.astype(np.int32)
    matrix = csr_matrix((ones_E, data.items_E, indptr_U1), shape=(data.n_users, data.n_items))
    threadpool_limits(1, "blas")  # as implicit recommends

    def turn(threads: int) -> dict[str, float]:
        model = BayesianPersonalizedRanking(
            factors=DIM, iterations=ITERATIONS, num_threads=threads, random_state=0
        )
        start = time.perf_counter()
        model.fit(matrix, show_progress=False)
        return {"implicit": time.perf_counter() - start}

    return turn


def contestant(name: str, *, quick: bool = False) -> None:
    """Answer each line, a number of threads, with the seconds that its turn took."""
    turn = (implicit_turns if name == "implicit" else sdgar_turns)(quick=quick)
    for threads in THREADS:
        turn(threads)  # uncounted
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        print(json.dumps(turn(int(line))), flush=True)


# Turns


@contextmanager
def started(
    name: str, source: Path, *, quick: bool = False
) -> Iterator[Callable[[int], dict[str, float]]]:
    environment = {**os.environ, "PYTHONPATH": str(source)}
    environment.pop("OMP_NUM_THREADS", None)
    process = subprocess.Popen(
        [sys.executable, __file__, "contestant", name, *["quick"][: int(quick)]],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    assert json.loads(process.stdout.readline()) == "ready"

    def turn(threads: int) -> dict[str, float]:
        process.stdin.write(f"{threads}\n")
        process.stdin.flush()
        return dict(json.loads(process.stdout.readline()))

    try:
        yield turn
    finally:
        process.stdin.close()
        process.stdout.close()
        process.wait()


@contextmanager
def neighbours(n: int) -> Iterator[None]:
    """Processes in separate sessions, as jobs of others are: Linux is fair among sessions."""
    command = [sys.executable, "-S", "-c", COUNT]
    team = [subprocess.Popen(command, start_new_session=True) for _ in range(n)]
    try:
        time.sleep(0.5 if n else 0)
        yield
    finally:
        for process in team:
            process.kill()
            process.wait()


def measure(rounds: int, before: Path | None, *, quick: bool = False) -> list[dict[str, Any]]:
    """One row for each contestant's work and number of neighbours."""
    sources = {"sdgar": ROOT / "src", "implicit": ROOT / "src"}
    if before is not None:
        sources["before"] = before
    seconds: dict[tuple[str, str, int], dict[int, list[float]]] = {}
    with _all_started(sources, quick) as turns:
        for n in NEIGHBOURS:
            with neighbours(n):
                for number in range(rounds):
                    for threads in THREADS if number % 2 == 0 else THREADS[::-1]:
                        for name, turn in turns.items():
                            for work, found in turn(threads).items():
                                lists = seconds.setdefault(
                                    (name, work, n), {t: [] for t in THREADS}
                                )
                                lists[threads].append(found)
            for (name, work, beside), lists in seconds.items():
                if beside == n:
                    found = {k: v for k, v in summary(lists).items() if k != "seconds"}
                    print(n, name, work, found, file=sys.stderr)
    return [
        {"contestant": name, "work": work, "neighbours": n, **summary(of_threads)}
        for (name, work, n), of_threads in seconds.items()
    ]


@contextmanager
def _all_started(
    sources: dict[str, Path], quick: bool
) -> Iterator[dict[str, Callable[[int], dict[str, float]]]]:
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(started(name, source, quick=quick))
            for name, source in sources.items()
        }


def summary(of_threads: dict[int, list[float]]) -> dict[str, Any]:
    one, two = (of_threads[t] for t in THREADS)
    ratios = sorted(a / b for a, b in zip(one, two, strict=True))
    return {
        "seconds_one": statistics.median(one),
        "seconds_two": statistics.median(two),
        "one_over_two": statistics.median(one) / statistics.median(two),
        "least": ratios[0],
        "most": ratios[-1],
        "seconds": {str(t): [round(s, 4) for s in found] for t, found in of_threads.items()},
    }


def main() -> None:
    if sys.argv[1:2] == ["contestant"]:
        contestant(sys.argv[2], quick="quick" in sys.argv[3:])
        return
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--before", type=Path, metavar="SRC")
    parser.add_argument("--quick", action="store_true", help="one round, to see that it runs")
    options = parser.parse_args()
    if options.quick:
        options.rounds = 1
    from common import machine, write_report

    source, data = lastfm(quick=options.quick)
    report = {
        **machine("implicit"),
        "source": source,
        "positives": len(data),
        "dim": DIM,
        "rounds": options.rounds,
        "load_before": os.getloadavg()[0],
        "rows": measure(options.rounds, options.before, quick=options.quick),
    }
    print(json.dumps(report["rows"], indent=1))
    write_report(options.json, report)


if __name__ == "__main__":
    main()
