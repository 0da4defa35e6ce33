"""The milliseconds of an answer in process: one question, and batches as a server makes them.

    python benchmarks/answers.py --before OTHER/src --model RUN [--rounds 30] [--json FILE]
    python benchmarks/answers.py index [--json FILE]

Two versions of sdgar load the same saved model, each in a separate process with one thread of
computing, and take turns with every question. A plain handler takes turns with them: NumPy's
product of all item vectors with those of the users, what they have left out, ``argpartition``, and
a sort of the best. It knows no memory, no fold-in and no ids. Milliseconds are medians of CPU time
over the rounds, which hardly feels other programs on the machine, and stand for one question of a
batch; the median of wall time is in the report too.

``index`` measures catalogues that are synthetic: vectors of clusters, a memory of 50 weights an
item and users with 20 items of three clusters each. It compares exact lists of 10 items with those
that the index finds: milliseconds of CPU a user, one user at a time and 16 at once, and the recall
of lists of 500 users on which the index was not settled.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from common import ROOT, machine, options_of, write_report

K, HISTORY = 10, 20
COMPARED = 1600
"""How many lists of users, and of new users, the two versions are compared by."""
BATCHES = (1, 4, 16, 64)
QUESTIONS = {
    **{f"users {n}": n for n in BATCHES},
    **{f"histories {n}": n for n in BATCHES},
    "top_k 16": 16,
    "fold_in 16": 16,
    "similar item": 1,
    "similar item, by vectors": 1,
    "explain user": 1,
    "explain history": 1,
    **{f"numpy {n}": n for n in BATCHES},
}
"""Every question, and how many users it is about."""


def contestant(folder: str) -> None:
    """Answer each line, the name of a question, with its CPU seconds and its seconds."""
    import torch

    import sdgar
    from sdgar.data.history import History
    from sdgar.models.fold_in import NewContexts
    from sdgar.ranking.topk import top_k

    torch.set_num_threads(1)
    model = sdgar.load(folder)
    known, users, items = model._questions.known, model.users.values, model.items.values
    rng = np.random.default_rng(0)
    long = np.flatnonzero(np.diff(model.history.indptr_U1) >= min(HISTORY, 2))
    factors = model.factors
    user_UD, item_ID = factors.user_UD.numpy(), factors.item_ID.numpy()

    def histories(n: int) -> dict[int, list[Any]]:
        some = rng.choice(long, n)
        return {t: items[model.history.of(u)[:HISTORY]].tolist() for t, u in enumerate(some)}

    def plain(who_T: Any) -> None:
        """Rank as a plain handler would."""
        scores_TI = user_UD[who_T] @ item_ID.T
        for scores_I, user in zip(scores_TI, who_T, strict=True):
            scores_I[known.of(user)] = -np.inf
            best_K = np.argpartition(scores_I, -K)[-K:]
            best_K[np.argsort(-scores_I[best_K])].tolist()

    def work(name: str, n: int) -> Callable[[], object]:
        who_T = rng.choice(len(users), n).astype(np.int64)
        kind = name.split()[0]
        if kind == "users":
            wanted = users[who_T].tolist()
            return lambda: model.recommend_lists(wanted, k=K).dicts()
        if kind == "histories":
            new = histories(n)
            return lambda: model.recommend_lists(histories=new, k=K).dicts()
        if kind == "top_k":
            return lambda: top_k(model.model, who_T, K, seen=known)
        if kind == "fold_in":
            lists = [np.sort(rng.choice(len(items), HISTORY, replace=False)) for _ in range(n)]
            own = History(np.arange(n + 1) * HISTORY, np.concatenate(lists).astype(np.int32))
            new_contexts = NewContexts(own, own.items_E.astype(np.int64))
            return lambda: model.model.fold_in(new_contexts)
        if kind == "similar":
            item, by = items[int(rng.integers(len(items)))], "vectors" if "by" in name else "auto"
            return lambda: model.similar_lists("item", [item], k=K, by=by).dicts()
        if name == "explain user":
            user = users[int(rng.choice(long))]
            return lambda: model.explain_reasons(user, k=K).dicts()
        if name == "explain history":
            (history,) = histories(1).values()
            return lambda: model.explain_reasons(history=history, k=K).dicts()
        return lambda: plain(who_T)

    def lists() -> list[tuple[list[Any], list[Any]]]:
        """Return the lists of some users, and of some who are new."""
        found = []
        for _ in range(COMPARED // 16):
            wanted = users[rng.choice(len(users), 16)].tolist()
            found += [model.recommend_lists(wanted, k=K)]
            found += [model.recommend_lists(histories=histories(16), k=K)]
        return [(one.items_TK.tolist(), one.scores_TK.tolist()) for one in found]

    for name, n in QUESTIONS.items():
        work(name, n)()  # compiles and builds, and is not counted
    print(json.dumps(lists()), flush=True)
    for line in sys.stdin:
        name = line.strip()
        ask = work(name, QUESTIONS[name])
        cpu, start = time.process_time(), time.perf_counter()
        ask()
        print(json.dumps([time.process_time() - cpu, time.perf_counter() - start]), flush=True)


def started(source: Path, folder: str) -> subprocess.Popen[str]:
    """Start a contestant that imports sdgar from this folder, with one thread of computing."""
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return subprocess.Popen(
        [sys.executable, __file__, "contestant", folder],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, **one, "PYTHONPATH": str(source)},
    )  # fmt: skip


def measured(
    sources: dict[str, Path], folder: str, rounds: int
) -> tuple[dict[str, Any], dict[str, float]]:
    """Make both take turns; give the median milliseconds of a question, and how lists differ."""
    processes = {name: started(source, folder) for name, source in sources.items()}

    def answer(name: str, wanted: str | None) -> Any:
        process = processes[name]
        assert process.stdin is not None
        assert process.stdout is not None
        if wanted is not None:
            process.stdin.write(f"{wanted}\n")
            process.stdin.flush()
        if not (line := process.stdout.readline()):
            raise SystemExit(f"the version in {sources[name]} ended before it answered")
        return json.loads(line)

    alike = compared(*(answer(name, None) for name in processes))
    taken: dict[str, dict[str, list[list[float]]]] = {}
    for _ in range(rounds):
        for wanted in QUESTIONS:
            for name in processes:
                taken.setdefault(wanted, {}).setdefault(name, []).append(answer(name, wanted))
    for process in processes.values():
        process.communicate()
    found = {
        wanted: {
            name: {
                kind: 1e3 * statistics.median(one[at] for one in turns) / QUESTIONS[wanted]
                for at, kind in enumerate(("cpu_ms", "ms"))
            }
            for name, turns in both.items()
        }
        for wanted, both in taken.items()
    }
    return found, alike


def compared(before: Any, now: Any) -> dict[str, float]:
    """Return how many lists of both versions differ, and how much scores do."""
    items, scores = (
        [np.concatenate([one[at] for one in version]) for version in (before, now)] for at in (0, 1)
    )
    return {
        "lists": len(items[0]),
        "lists_that_differ": int((items[0] != items[1]).any(axis=1).sum()),
        "largest_difference_of_scores": float(np.nanmax(np.abs(scores[0] - scores[1]))),
    }


def answers(options: Any) -> None:
    """Compare two versions and a plain handler."""
    sources = {"before": options.before or ROOT / "src", "now": ROOT / "src"}
    with tempfile.TemporaryDirectory() as temporary:
        folder, rounds = options.model, options.rounds
        if options.quick:
            folder, rounds = tiny_model(Path(temporary) / "model"), 1
        found, alike = measured(sources, str(folder), rounds)
    for wanted, both in found.items():
        found_out = "".join(f"{name:>9} {one['cpu_ms']:8.3f} ms" for name, one in both.items())
        print(f"{wanted:26}{found_out}")
    print(json.dumps(alike))
    report = {**machine(), "threads": 1, "rounds": rounds, "machine": options.machine}
    report |= {"k": K, "history": HISTORY, "compared": alike}
    write_report(options.json, {**report, "answers": found})


def tiny_model(folder: Path) -> Path:
    """Train a small model, to see that all questions have an answer."""
    from sdgar.data.synthetic import synthetic
    from sdgar.systems.make import estimator_from_text

    few = {"epochs": "1", "dim": "8", "sampler__states": "4", "early_stopping": "false"}
    estimator_from_text("sdsoftmax", few).fit(synthetic("demo"), verbose=False).save(folder)
    return folder


# The index of large catalogues

SIZES, DIM, WEIGHTS, USERS = (100_000, 300_000, 1_000_000), 128, 50, 5_000
TAU, GAMMA, NOISE = 0.12, 1.0, 0.8
JUDGED, TIMED = 500, 40


def made_up(n_items: int, dim: int, seed: int = 0) -> tuple[Any, Any]:
    """Return a model of clustered vectors with a memory, and what its users have."""
    import torch
    from torch.nn.functional import normalize

    from sdgar.data.history import History
    from sdgar.maths.rows import Rows
    from sdgar.models.factor_tensors import FactorTensors
    from sdgar.models.item_weights import LocalItemWeights
    from sdgar.models.sum import Sum

    rng, generator = np.random.default_rng(seed), torch.Generator().manual_seed(seed)

    def directions(n: int) -> Any:
        return normalize(torch.randn(n, dim, generator=generator), dim=1)

    n_clusters = max(4, int(np.sqrt(n_items)))
    size = n_items // n_clusters
    cluster_I = torch.arange(n_items) * n_clusters // n_items  # neighbours in number are alike
    item_ID = directions(n_clusters)[cluster_I]
    item_ID = normalize(item_ID.add_(directions(n_items), alpha=NOISE), dim=1)
    start_UH = rng.integers(0, n_items - size, (USERS, 3)).repeat(HISTORY // 3 + 1, axis=1)
    own_UH = start_UH[:, :HISTORY] + rng.integers(0, size, (USERS, HISTORY))
    known = History.of_pairs(np.repeat(np.arange(USERS), HISTORY), own_UH.reshape(-1), USERS)
    user_UD = normalize(
        item_ID[torch.from_numpy(own_UH)].mean(dim=1) + 0.3 * directions(USERS), dim=1
    )
    named_IW = np.arange(n_items)[:, None] + rng.integers(-size, size, (n_items, WEIGHTS))
    named_IW = np.sort(named_IW.clip(0, n_items - 1), axis=1)
    weight_F = 0.1 * torch.rand(n_items * WEIGHTS, generator=generator).numpy()
    named_F = named_IW.reshape(-1).astype(np.int32)
    weight_II = Rows(np.arange(n_items + 1) * WEIGHTS, named_F, weight_F)
    bias_I = 0.5 * torch.randn(n_items, generator=generator)
    factors = FactorTensors(user_UD / TAU, item_ID, bias_I).model()
    return Sum(factors, LocalItemWeights(known, weight_II), GAMMA), known


def index(options: Any) -> None:
    """Compare exact lists with lists of the index."""
    import torch

    from sdgar.ranking.index import ItemIndex, recall
    from sdgar.ranking.topk import top_k

    sizes = [2_000] if options.quick else [options.items] if options.items else SIZES
    timed = 2 if options.quick else TIMED
    rows = []
    for n_items in sizes:
        model, known = made_up(n_items, 16 if options.quick else DIM)
        start = time.perf_counter()
        made = ItemIndex.of(model, known)
        built = time.perf_counter() - start
        torch.set_num_threads(1)
        rng = np.random.default_rng(1)
        measured_T = rng.choice(USERS, JUDGED, replace=False)
        exact, found = (
            rank(model, measured_T, K, seen=known).items_TK for rank in (top_k, made.top_k)
        )
        row = {
            "items": n_items, "build_s": built, "recall_as_built": made.recall,
            "recall@10": recall(found, exact), "same_lists": float((found == exact).all(1).mean()),
            "lists": made.n_lists, "looked_into": made.looked_into,
        }  # fmt: skip
        for n in (1, 16):
            taken: dict[str, list[float]] = {"exact": [], "index": []}
            for _ in range(timed):
                who_T = rng.choice(USERS, n).astype(np.int64)
                for name, rank in (("exact", top_k), ("index", made.top_k)):
                    cpu = time.process_time()
                    rank(model, who_T, K, seen=known)
                    taken[name].append(time.process_time() - cpu)
            row |= {
                f"{name}_cpu_ms_{n}": 1e3 * statistics.median(values) / n
                for name, values in taken.items()
            }
        print(json.dumps(row))
        rows.append(row)
    report = {**machine("faiss-cpu"), "threads": 1, "machine": options.machine, "dim": DIM}
    write_report(options.json, {**report, "weights": WEIGHTS, "k": K, "rows": rows})


def main() -> None:
    """Do one of the things that the docstring names."""
    commands = {"answers": answers, "index": index}
    parser = options_of(
        __doc__,
        before={"type": Path, "help": "the src folder of another version"},
        model={"type": Path, "help": "the folder of a saved model with vectors"},
        rounds={"type": int, "default": 30, "help": "turns of each"},
        items={"type": int, "help": "the size of a catalogue, instead of several"},
        machine={"default": "quiet", "help": "whether other programs used the machine"},
    )
    parser.add_argument("command", choices=commands, nargs="?", default="answers")
    options = parser.parse_args()
    commands[options.command](options)


if __name__ == "__main__":
    if sys.argv[1:2] == ["contestant"]:
        contestant(*sys.argv[2:])
    else:
        main()
