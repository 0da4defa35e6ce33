"""How good the lists of a model are, for users that it knows or for new ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from sdgar.arguments import of_kind
from sdgar.data.held_out import HeldOut, measured_columns
from sdgar.data.ids import Ids, plain
from sdgar.data.interactions import Interactions
from sdgar.errors import DataError, UsageError
from sdgar.evaluation.known import Known, newest
from sdgar.evaluation.metrics import DEFINITIONS
from sdgar.evaluation.report import Report, evaluate, metrics_of
from sdgar.recommend.histories import history_of
from sdgar.recommend.questions import several
from sdgar.recommend.rules.facts import Facts
from sdgar.recommend.unknown import index_of, warn

if TYPE_CHECKING:
    from typing import Unpack

    from sdgar.recommend.recommender import Recommender


class Beside(TypedDict, total=False):
    """What metrics beyond accuracy need of items, beside a model: see ``Recommender.evaluate``."""

    facts: Mapping[Any, Mapping[str, Any]] | None
    """The fields of items by id, as ``sdgar.read_facts`` gives them."""
    new_items: Iterable[Any] | None
    """The ids of the items that are new."""
    vectors: NDArray[np.floating] | None
    """The vectors by which items are compared, instead of those of the model."""


def measured(
    model: Recommender,
    test: Interactions,
    *,
    ks: tuple[int, ...],
    seen: Interactions | None,
    histories: Interactions | None,
    among: Iterable[Any] | None = None,
    metrics: Sequence[str] | None = None,
    **beside: Unpack[Beside],
) -> Report:
    """Rank the whole catalogue for every test user; see ``Recommender.evaluate``."""
    require_rows("test", test)
    blocked_I = None
    if among is not None:
        at_N = index_of(model.items, several(among, "among"), "item", "error")
        blocked_I = np.ones(len(model.items), bool)
        blocked_I[at_N] = False
        test = _only(test, model.items.at(at_N))
    if histories is not None:
        if seen is not None:
            raise UsageError(
                "histories are what new users have, and seen are rows of users that the model "
                "knows. Give one of them.",
                code="whom",
            )
        whom = folded(model, histories)
        report = _measured(whom, model, test, ks, None, metrics, blocked_I, beside)
        return replace(report, counts=replace(report.counts, folded_in=len(report.users_T)))
    if seen is not None:
        require_rows("seen", seen)
    return _measured(model, model, test, ks, seen, metrics, blocked_I, beside)


def among_cold(
    model: Recommender,
    test: Interactions,
    *,
    ks: tuple[int, ...],
    histories: Interactions | None = None,
    metrics: Sequence[str] | None = None,
) -> Report | None:
    """Rank cold items alone, by their test rows; None if there are no such items or rows.

    Of ``metrics`` only those of accuracy are measured; None, too, if there are no such ones.
    """
    if metrics is not None:
        asked = metrics_of(metrics, ks)
        metrics = [metric.name for metric in asked if metric.kind in DEFINITIONS]
        if not metrics:
            return None
    cold = model.cold_items
    with_rows = test.items.index_of(cold) >= 0
    if not with_rows.any():
        return None
    return measured(model, test, ks=ks, seen=None, histories=histories, among=cold, metrics=metrics)


def _only(test: Interactions, items: NDArray[Any]) -> Interactions:
    """Return the test rows of some items."""
    kept_E = (Ids(np.sort(items)).index_of(test.items.values) >= 0)[test.items_E]
    if not kept_E.any():
        raise DataError(
            f"no test row is of one of the {len(items):,} items that are ranked, such as "
            f"{items[:3].tolist()!r}. Hold out rows of these items.",
            code="no_common_items",
        )
    return test.subset(kept_E, "other items")


def _measured(
    whom: Recommender,
    trained: Recommender,
    test: Interactions,
    ks: tuple[int, ...],
    seen: Interactions | None,
    metrics: Sequence[str] | None,
    blocked_I: NDArray[np.bool_] | None,
    beside: Beside,
) -> Report:
    """Measure the lists of some users; items are as popular as in what the model was trained on."""
    left_out = whom.history if seen is None else history_of(seen, whom.users, whom.items)
    held_out = HeldOut.of(test, whom)
    report = evaluate(
        whom.model,
        held_out,
        seen=held_out.left_out(whom, left_out),
        ks=ks,
        metrics=metrics,
        known=known_of(whom, trained, seen, **beside),
        blocked_I=blocked_I,
    )
    return replace(report, ids=measured_columns(test, whom))


def known_of(
    whom: Recommender,
    trained: Recommender,
    seen: Interactions | None = None,
    *,
    facts: Mapping[Any, Mapping[str, Any]] | None = None,
    new_items: Iterable[Any] | None = None,
    vectors: NDArray[np.floating] | None = None,
) -> Known:
    """Collect what metrics know of users and items; ``seen`` tells by its times which are new."""
    items = trained.items
    return Known(
        n_items=len(items),
        history=trained.history,
        own=whom.history,
        item_ID=trained.model.item_vectors() if vectors is None else vectors,
        coded=None if facts is None else Facts.of(facts, items).coded,
        new_I=new_among(items, seen, new_items),
        items=items,
    )


def new_among(
    items: Ids, seen: Interactions | None, named: Iterable[Any] | None = None
) -> NDArray[np.bool_] | None:
    """Return whether each item is new, by name or by the times of rows; None if nobody knows."""
    if named is None:
        new_J = None if seen is None else newest(seen)
        if seen is None or new_J is None:
            return None
        named = seen.items.values[new_J].tolist()
    at = items.index_of([plain(one) for one in several(named, "new_items")])
    new_I = np.zeros(len(items), bool)
    new_I[at[at >= 0]] = True
    return new_I


def folded(model: Recommender, histories: Interactions) -> Recommender:
    """Return a model for all of these users who have an item that it knows."""
    require_rows("histories", histories)
    known_E = (model.items.index_of(histories.items.values) >= 0)[histories.items_E]
    if known_E.all():
        return model.fold_in(histories)
    lost = f"{int((~known_E).sum()):,} of {len(histories):,} rows of histories"
    if not known_E.any():
        raise DataError(
            f"the model knows no item of the histories, whose items are such as "
            f"{histories.items.values[:3].tolist()!r}. Are both of the same data?",
            code="no_common_items",
        )
    warn(f"{lost} hold items that the model does not know, and are left out.")
    return model.fold_in(histories.subset(known_E, "unknown_items"))


def require_rows(name: str, rows: Any) -> None:
    """Refuse anything that is no ``Interactions``."""
    of_kind(name, rows, Interactions, "Read files and frames with sdgar.read(source).")
