"""Measure the rates of a core here, by a small training of every kind of work, in a second or two.

The code of a real training runs on made-up rows, with the settings of the real one and fewer users
and items. Everything runs once on a few rows before, so that nothing is compiled while it is timed.
One thread computes, and seconds are those of its core, so other work on the machine changes them
little.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from sdgar.data.account import RowAccount
from sdgar.data.held_out import HeldOut
from sdgar.data.history import History
from sdgar.data.ids import Ids
from sdgar.data.interactions import Interactions
from sdgar.engines.fused.cpu import FusedCpuEngine
from sdgar.evaluation.report import evaluate
from sdgar.machine import cores
from sdgar.maths.neighbours import Neighbourhoods
from sdgar.maths.sparse import SparseMatrix
from sdgar.parts.users import for_users
from sdgar.scale.planner import work as count
from sdgar.scale.planner.rates import Rates
from sdgar.scale.planner.workload import Recipe, Sizes, Workload, held_out
from sdgar.settings import KS

if TYPE_CHECKING:
    from sdgar.systems.learner import Learner

_ROWS, _ITEMS = 20_000, 1 << 13
"""The most rows and items of all work but visits and measuring."""
_WIDE = 8
"""How many times as many items these have: their tables are larger than the caches of a core."""
_MORE = 10
"""How many times as many rows are laid out."""
_RANKED = 128
"""The users for whom all items are ranked."""
_SAMPLES, _NEIGHBOURS = 8, 32
"""The most draws of a refit, and neighbours of an item."""
_CPU = torch.device("cpu")
_LEAST = 1e-4
"""The least seconds that count as measured."""


def probe(estimator: Learner, sizes: Sizes) -> Rates:
    """Return the rates of a core for this system and data of about such histories."""
    settled = estimator.settled(made_up(sizes, _ROWS, _ITEMS))
    system = replace(
        settled, **_at_most(settled, generator_samples=_SAMPLES, neighbours=_NEIGHBOURS)
    )
    wide = replace(system, **_at_most(system, sweeps=0, pretrain=0))
    with cores.torch_threads(1):
        few = made_up(sizes, 300, 40)
        _around(system, few)
        _epochs(wide, few, few)
        found = _around(system, made_up(sizes, _ROWS, _ITEMS))
        items = _WIDE * _ITEMS
        found |= _epochs(wide, *(made_up(sizes, n * _ROWS, items) for n in (1, _MORE)))
    return Rates(**found, choose=found["measure"])


def made_up(sizes: Sizes, most: int, most_items: int) -> Interactions:
    """Return at most so many rows with histories of about the mean length, of popular items."""
    random = np.random.default_rng(0)
    rows = max(4, min(most, sizes.events))
    users = max(2, min(sizes.users, round(rows * sizes.users / sizes.events)))
    items = max(3, min(sizes.items, most_items))
    item_E = (items * random.random(rows) ** 2).astype(np.int64)
    pair_E = np.unique(np.arange(rows) % users * items + item_E)
    counts = np.bincount(pair_E // items, minlength=users)
    return Interactions(
        users=Ids(np.arange(users)),
        items=Ids(np.arange(items)),
        indptr_U1=np.concatenate(([0], np.cumsum(counts))),
        items_E=(pair_E % items).astype(np.int32),
        account=RowAccount(read=len(pair_E), kept=len(pair_E)),
    )


def _at_most(system: Learner, **settings: int) -> dict[str, Any]:
    """Return the settings that the system has, and that are larger there, with smaller values."""
    now = system.get_params()
    return {n: most for n, most in settings.items() if now.get(n) is not None and now[n] > most}


def _around(system: Learner, data: Interactions) -> dict[str, float]:
    """Do all work but that of epochs once, and return operations a second."""
    work = _work(system, data)
    start, composed = _clocked(lambda: system.compose(data, seed=0, device=_CPU))
    engine = FusedCpuEngine(composed, data, seed=0, device=_CPU)
    classes, _ = _clocked(lambda: engine.refit(1))
    users, _ = _clocked(lambda: for_users(composed, data, seed=0))
    follow, _ = _clocked(lambda: engine.refit(2))
    following = replace(work, recipe=replace(work.recipe, refit_every=1, pretrain=0))
    k = max(1, work.recipe.neighbours)
    pairs, _ = _clocked(lambda: _weights(data, 1))
    systems, _ = _clocked(lambda: _weights(data, k))
    with_k = replace(work, recipe=replace(work.recipe, neighbours=k))
    return {
        "start": _rate(count.start(work), start),
        "classes": _rate(count.classes(work), classes),
        "users": _rate(count.users(work), users),
        "follow": _rate(count.follow(following) + count.lead(following), follow),
        "pairs": _rate(count.pairs(with_k, 1), pairs),
        "systems": _rate(count.systems(with_k), systems - pairs),
    }


def _epochs(system: Learner, data: Interactions, more: Interactions) -> dict[str, float]:
    """Do the work of an epoch and of measuring once, and return operations a second.

    Rows are laid out so fast that ``more`` of them are needed to tell how fast.
    """
    work = _work(system, data)
    composed = system.compose(data, seed=0, device=_CPU)
    engine = FusedCpuEngine(composed, data, seed=0, device=_CPU)
    others = for_users(composed, more, seed=0)
    laid, _ = _clocked(
        lambda: FusedCpuEngine(others, more, seed=0, device=_CPU, items=engine.items)
    )
    engine.run_epoch(1)
    visits, _ = _clocked(lambda: engine.run_epoch(2))
    _ranked(engine, data)  # other kernels than those for a few users, and compiled by now
    measure, _ = _clocked(lambda: _ranked(engine, data))
    return {
        "prepare": _rate(count.prepare(_work(system, more)), laid),
        "visits": _rate(count.score(work) + count.move(work), visits),
        "measure": _rate(count.judge(work), measure),
    }


def _work(system: Learner, data: Interactions) -> Workload:
    recipe = Recipe.of(system, data, held_out(np.diff(data.indptr_U1)))
    once = replace(recipe, epochs=1, passes=1, valid_users=_RANKED)
    return Workload(_sizes_of(data, once), once)


def _sizes_of(data: Interactions, recipe: Recipe) -> Sizes:
    length_U = np.diff(data.indptr_U1)
    return Sizes(
        users=data.n_users,
        items=data.n_items,
        events=len(data),
        shards=1,
        together=1,
        block_users=0,
        block_rows=0,
        visit_share=float(np.ceil(length_U / recipe.positives).sum() / len(data)),
        pairs=float((length_U.astype(np.float64) ** 2).sum()),
        row_bytes=4,
    )


def _ranked(engine: FusedCpuEngine, data: Interactions) -> None:
    users_T = np.arange(min(_RANKED, data.n_users))
    one = np.arange(len(users_T) + 1)
    held = HeldOut(
        users_T=users_T, indptr_T1=one, items_E=np.zeros(len(users_T), np.int64),
        unknown_users=0, unknown_user_rows=0, cold_items=0, cold_item_rows=0,
    )  # fmt: skip
    seen = History(np.zeros(data.n_users + 1, np.int64), np.empty(0, np.int32))
    evaluate(engine.system.discriminator.factors(), held, seen=seen, ks=KS)


def _weights(data: Interactions, k: int) -> None:
    matrix = SparseMatrix.of(data.indptr_U1, data.items_E, data.n_items, device=_CPU)
    Neighbourhoods.beside_vectors(data.n_items, neighbours=k, l2=20.0).weights(matrix)


def _clocked(what: Callable[[], Any]) -> tuple[float, Any]:
    """Return the seconds that cores spent on something, and what it gave."""
    before = time.process_time()
    found = what()
    return time.process_time() - before, found


def _rate(operations: float, seconds: float) -> float:
    """Return operations a second; what is not done, or takes no time, has a rate of no effect."""
    return max(1.0, operations) / max(_LEAST, seconds)
