"""The quality of a saved model's lists: for its users or for new ones, and after rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from sdgar.arguments import of_kind
from sdgar.data.held_out import HeldOut, measured_columns
from sdgar.data.history import History
from sdgar.data.ids import Ids, plain
from sdgar.data.interactions import Interactions
from sdgar.errors import DataError, UsageError
from sdgar.evaluation.beyond import Known, newest
from sdgar.evaluation.measures import DEFINITIONS, check_ks, metrics_of
from sdgar.evaluation.report import Report, evaluate, report_of
from sdgar.recommend.indexed_model import IndexedModel
from sdgar.recommend.inputs import find, history_of, several, warn
from sdgar.recommend.lists import Queries
from sdgar.recommend.ranking import ListOptions, rank_in_pieces
from sdgar.recommend.rules import Facts, Reranking, Rules, reranking_of
from sdgar.recommend.update import with_new_users

Table = Mapping[Any, Mapping[str, Any]]
"""The fields of items by id, as ``sdgar.read_facts`` returns them."""
_PIECE = 1 << 20
"""The number of candidates that are re-ranked at once."""


class ItemInputs(TypedDict, total=False):
    """What metrics beyond accuracy need to know of items: see ``Recommender.evaluate``."""

    facts: Table | None
    """The fields of items by id, as ``sdgar.read_facts`` returns them."""
    new_items: Iterable[Any] | None
    """The ids of the items that are new."""
    vectors: NDArray[np.floating] | None
    """The vectors by which items are compared, instead of the model's vectors."""


def _task(
    model: IndexedModel,
    test: Interactions,
    seen: Interactions | None,
    histories: Interactions | None,
) -> tuple[IndexedModel, HeldOut, History]:
    """Return the model that ranks, the rows to find, and the items that lists leave out.

    The model is one of new users if there are ``histories``, and ``seen`` replaces its own.
    """
    if seen is not None and histories is not None:
        raise UsageError(
            "histories are of new users, and seen are rows of users of the model. Pass one of "
            "them.",
            code="which_users",
        )
    if histories is not None:
        model = _folded(model, histories)
    known = model.history
    if seen is not None:
        _require_rows("seen", seen)
        known = history_of(seen, model.users, model.items)
    held_out = HeldOut.of(test, model)
    return model, held_out, held_out.excluded(model, known)


def measured(
    model: IndexedModel,
    test: Interactions,
    *,
    ks: tuple[int, ...],
    seen: Interactions | None = None,
    histories: Interactions | None = None,
    among: Iterable[Any] | None = None,
    metrics: Sequence[str] | None = None,
    **inputs: Unpack[ItemInputs],
) -> Report:
    """Rank the whole catalogue for every test user; see ``Recommender.evaluate``."""
    _require_rows("test", test)
    blocked_I = None
    if among is not None:
        at_N = find(model.items, several(among, "among"), "item", "error")
        blocked_I = np.ones(len(model.items), bool)
        blocked_I[at_N] = False
        test = _only(test, model.items.at(at_N))
    ranked, held_out, left_out = _task(model, test, seen, histories)
    report = evaluate(
        ranked.model,
        held_out,
        seen=left_out,
        ks=ks,
        metrics=metrics,
        known=known_of(ranked, model, seen, **inputs),
        blocked_I=blocked_I,
    )
    folded_in = 0 if histories is None else len(report.users_T)
    return replace(
        report,
        ids=measured_columns(test, ranked),
        counts=replace(report.counts, folded_in=folded_in),
    )


def among_cold(
    model: IndexedModel,
    test: Interactions,
    *,
    ks: tuple[int, ...],
    histories: Interactions | None = None,
    metrics: Sequence[str] | None = None,
) -> Report | None:
    """Rank cold items alone, by their test rows; None if there are no such items or rows.

    Only metrics of accuracy are measured; None, too, if ``metrics`` names none of them.
    """
    if metrics is not None:
        named = metrics_of(metrics, ks)
        metrics = [metric.name for metric in named if metric.kind in DEFINITIONS]
        if not metrics:
            return None
    cold = model.cold_items
    if not (test.items.index_of(cold) >= 0).any():
        return None
    return measured(model, test, ks=ks, histories=histories, among=cold, metrics=metrics)


def _only(test: Interactions, items: NDArray[Any]) -> Interactions:
    """Return the test rows of some items."""
    kept_E = (Ids(np.sort(items)).index_of(test.items.values) >= 0)[test.items_E]
    if not kept_E.any():
        raise DataError(
            f"no test row has one of the {len(items):,} ranked items, such as "
            f"{items[:3].tolist()!r}. Hold out rows of these items.",
            code="no_common_items",
        )
    return test.subset(kept_E, "other items")


def known_of(
    ranked: IndexedModel,
    trained: IndexedModel,
    seen: Interactions | None = None,
    *,
    facts: Table | None = None,
    new_items: Iterable[Any] | None = None,
    vectors: NDArray[np.floating] | None = None,
) -> Known:
    """Return what metrics know of users and items; the times of ``seen`` show which are new.

    Users are ``ranked``, and items are as popular as the ``trained`` model has them.
    """
    items = trained.items
    return Known(
        n_items=len(items),
        history=trained.history,
        own=ranked.history,
        item_ID=trained.model.item_vectors() if vectors is None else vectors,
        coded=None if facts is None else Facts.of(facts, items).coded,
        new_I=new_among(items, seen, new_items),
        items=items,
    )


def new_among(
    items: Ids, seen: Interactions | None, named: Iterable[Any] | None = None
) -> NDArray[np.bool_] | None:
    """Return whether each item is new, by name or by the times of rows; None without either."""
    if named is None:
        new_J = None if seen is None else newest(seen)
        if seen is None or new_J is None:
            return None
        named = seen.items.values[new_J].tolist()
    at = items.index_of([plain(one) for one in several(named, "new_items")])
    new_I = np.zeros(len(items), bool)
    new_I[at[at >= 0]] = True
    return new_I


def _folded(model: IndexedModel, histories: Interactions) -> IndexedModel:
    """Return a model of the new users who have a known item."""
    _require_rows("histories", histories)
    rows = histories
    known_E = (model.items.index_of(rows.items.values) >= 0)[rows.items_E]
    if not known_E.any():
        raise DataError(
            f"the model contains no item of the histories, whose items are such as "
            f"{rows.items.values[:3].tolist()!r}. Are both of the same data?",
            code="no_common_items",
        )
    if not known_E.all():
        lost = f"{int((~known_E).sum()):,} of {len(rows):,} rows of histories"
        warn(f"{lost} have items that the model does not contain, and are left out.")
        rows = rows.subset(known_E, "unknown_items")
    return IndexedModel(with_new_users(model, rows, skip_unknown=False))


def _require_rows(name: str, rows: Any) -> None:
    of_kind(name, rows, Interactions, "Read files and frames with sdgar.read(source).")


def effect_of(
    rules: Rules | Reranking,
    model: IndexedModel,
    test: Interactions,
    *,
    ks: tuple[int, ...],
    seen: Interactions | None = None,
    histories: Interactions | None = None,
    metrics: Sequence[str] | None = None,
) -> tuple[Report, Report]:
    """Measure lists without rules and with them, on the same rows; see ``evaluate`` for options.

    Without ``metrics``, all of accuracy are measured, and coverage, popular and diversity.
    Contexts that are new combinations of known values are left out.
    """
    ks, reranking = check_ks(ks), reranking_of(rules)
    facts = model.facts_for(reranking)
    _require_rows("test", test)
    users, held_out, left_out = _task(model, test, seen, histories)
    held_out = _trained(held_out, len(users.users))
    if metrics is None:
        compared = facts.item_ID is not None or bool(facts.coded("category").names)
        metrics = [*DEFINITIONS, "coverage", "popular"]
        metrics += [f"diversity@{k}" for k in ks if compared and k > 1]
    known = known_of(users, model, seen, facts=reranking.table)
    without = evaluate(users.model, held_out, seen=left_out, ks=ks, metrics=metrics, known=known)
    assert without.ranked is not None
    longest = min(max(metric.k for metric in without.ranked.metrics), len(users.items))
    users_T = held_out.users_T
    queries = Queries(users.model, left_out, {"user": users_T}, users_T, users.history)
    options = ListOptions(longest, reranking=reranking, facts=facts)
    pieces = rank_in_pieces(queries, options, users.items, _PIECE, (0, 1))
    ruled_TK = np.concatenate([lists.items_TK for lists in pieces])
    # Rules may leave lists so short that they have no diversity.
    ruled = report_of(replace(without.ranked, items_TK=ruled_TK), without.counts, strict=False)
    return without, ruled


def _trained(held_out: HeldOut, n_users: int) -> HeldOut:
    """Return the held-out rows of contexts that the model was trained on."""
    if held_out.unseen_XF is None:
        return held_out
    places = np.flatnonzero(held_out.users_T < n_users)
    if not len(places):
        raise DataError(
            "no held-out context occurs in the training data, so rules cannot be measured.",
            code="no_common_users",
        )
    return replace(held_out.only(places), unseen_XF=None)
