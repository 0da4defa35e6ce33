"""How good the lists of a model are, for users that it knows or for new ones."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sdgar.arguments import of_kind
from sdgar.data.held_out import HeldOut
from sdgar.data.ids import Ids
from sdgar.data.interactions import Interactions
from sdgar.errors import DataError, UsageError
from sdgar.evaluation.report import Report, evaluate
from sdgar.recommend.histories import history_of
from sdgar.recommend.questions import several
from sdgar.recommend.unknown import index_of, warn

if TYPE_CHECKING:
    from sdgar.recommend.recommender import Recommender


def measured(
    model: Recommender,
    test: Interactions,
    *,
    ks: tuple[int, ...],
    seen: Interactions | None,
    histories: Interactions | None,
    among: Iterable[Any] | None = None,
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
        report = folded(model, histories).evaluate(test, ks=ks, among=among)
        return replace(report, counts=replace(report.counts, folded_in=len(report.users_T)))
    if seen is not None:
        require_rows("seen", seen)
    known = model.history if seen is None else history_of(seen, model.users, model.items)
    held_out = HeldOut.of(test, model)
    seen_by_all = held_out.left_out(model, known)
    return evaluate(model.model, held_out, seen=seen_by_all, ks=ks, blocked_I=blocked_I)


def among_cold(
    model: Recommender,
    test: Interactions,
    *,
    ks: tuple[int, ...],
    histories: Interactions | None = None,
) -> Report | None:
    """Rank cold items alone, by their test rows; None if there are no such items or rows."""
    cold = model.cold_items
    with_rows = test.items.index_of(cold) >= 0
    if not with_rows.any():
        return None
    return measured(model, test, ks=ks, seen=None, histories=histories, among=cold)


def _only(test: Interactions, items: NDArray[Any]) -> Interactions:
    """Give the test rows of some items."""
    kept_E = (Ids(np.sort(items)).index_of(test.items.values) >= 0)[test.items_E]
    if not kept_E.any():
        raise DataError(
            f"no test row is of one of the {len(items):,} items that are ranked, such as "
            f"{items[:3].tolist()!r}. Hold out rows of these items.",
            code="no_common_items",
        )
    return test.subset(kept_E, "other items")


def folded(model: Recommender, histories: Interactions) -> Recommender:
    """Give a model for all of these users who have an item that it knows."""
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
