"""Measure ranked lists of another system by the same code as a model's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sdgar.data.building import RowAccount
from sdgar.data.held_out import HeldOut
from sdgar.data.history import History
from sdgar.data.ids import Ids
from sdgar.data.interactions import Interactions
from sdgar.data.trec import read_qrels, read_run
from sdgar.errors import UsageError
from sdgar.evaluation.beyond import Known
from sdgar.evaluation.measures import Metric, metrics_of
from sdgar.evaluation.ranked import Counts, Ranked
from sdgar.evaluation.report import Report, report_of
from sdgar.recommend.evaluating import new_among
from sdgar.recommend.inputs import history_of
from sdgar.recommend.rules.facts import Facts
from sdgar.settings import KS

_OF_TRAINING = (
    "popularity", "popular", "tail", "novelty", "serendipity", "calibration", "new_hit", "cold_hit",
)  # fmt: skip
"""The metrics that need the histories of users."""


def evaluate_run(
    run: str | Path,
    qrels: str | Path,
    *,
    ks: Sequence[int] | None = None,
    metrics: Sequence[str] | None = None,
    train: Interactions | None = None,
    facts: Mapping[Any, Mapping[str, Any]] | None = None,
) -> Report:
    r"""Measure ranked lists of a TREC run by the relevant items of a qrels file.

    Every user with a relevant item counts; a user without a list has found nothing. Without
    ``train`` the catalogue is what occurs in the two files, and metrics that need histories cannot
    be computed. The options of ``Recommender.evaluate`` are allowed.

    >>> from pathlib import Path
    >>> _ = Path("run.txt").write_text("ann Q0 a 1 2.5 x\nann Q0 b 2 1.5 x\n")
    >>> _ = Path("qrels.txt").write_text("ann 0 b 1\n")
    >>> sdgar.evaluate_run("run.txt", "qrels.txt", metrics=["mrr@2"]).means()
    {'mrr@2': 0.5}
    """
    lists, relevant = read_run(run), read_qrels(qrels)
    longest = max(map(len, lists.values()))
    if ks is None:
        ks = [k for k in KS if k <= longest] or [longest]
    wanted_metrics = metrics_of(metrics, ks)
    _require(wanted_metrics, longest, train)
    listed = {item for items in lists.values() for item in items}
    known_items = set() if train is None else set(map(str, train.items.values.tolist()))
    rows = Interactions.from_arrays(
        *zip(*((user, item) for user, found in relevant.items() for item in found), strict=True)
    )
    users, wanted = rows.users, set(rows.items.values)
    names = sorted(listed | (wanted if train is None else known_items))
    items = Ids.of(np.array([*names, None], dtype=object)[:-1])
    k = max(metric.k for metric in wanted_metrics)
    items_TK = np.full((len(users), k), -1, np.int64)
    for t, user in enumerate(users.values.tolist()):
        found = items.index_of(lists.get(user, [])[:k])
        items_TK[t, : len(found)] = found
    none = History(np.zeros(len(users) + 1, np.int64), np.zeros(0, np.int32))
    nothing = Interactions(users, items, none.indptr_U1, none.items_E, RowAccount(0, 0))
    held_out = HeldOut.of(rows, nothing)
    known = Known(
        n_items=len(items),
        history=none if train is None else history_of(train, train.users, items),
        own=none if train is None else history_of(train, users, items),
        coded=None if facts is None else Facts.of(facts, items).coded,
        new_I=new_among(items, train),
        items=items,
    )
    missed = len(relevant.keys() - lists.keys())
    others = len(lists.keys() - relevant.keys())
    how = (
        f"Lists of the run {Path(run).name}, by score and then by rank; mean over {len(users):,} "
        f"users with relevant items in {Path(qrels).name}, of which {missed:,} have no list and "
        f"count as missed; {others:,} other lists are left out; the catalogue is {len(items):,} "
        f"items."
    )
    counts = Counts(
        items=len(items), users=len(users), rows=len(held_out.items_E), unknown_users=0,
        unknown_user_rows=0, cold_items=held_out.cold_items, cold_item_rows=held_out.cold_item_rows,
    )  # fmt: skip
    report = report_of(Ranked(items_TK, held_out, known, wanted_metrics), counts, how)
    return replace(report, ids={"user": users.values})


def _require(metrics: Sequence[Metric], longest: int, train: Interactions | None) -> None:
    for metric in metrics:
        if metric.k > longest:
            raise UsageError(
                f"{metric.name} needs lists of {metric.k:,} items, and the longest of the run has "
                f"{longest:,}. Ask for at most @{longest}.",
                code="bad_k",
            )
        if metric.kind in _OF_TRAINING and train is None:
            raise UsageError(
                f"{metric.name} needs the histories of users. Give the training events with "
                "--train FILE (train=… in Python).",
                code="nothing_to_go_by",
            )
