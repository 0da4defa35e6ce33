"""How good the lists of a model are, for users that it knows or for new ones."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sdgar.arguments import of_kind
from sdgar.data.held_out import HeldOut
from sdgar.data.interactions import Interactions
from sdgar.errors import DataError, UsageError
from sdgar.evaluation.report import Report, evaluate
from sdgar.recommend.histories import history_of
from sdgar.recommend.unknown import warn

if TYPE_CHECKING:
    from sdgar.recommend.recommender import Recommender


def measured(
    model: Recommender,
    test: Interactions,
    *,
    ks: tuple[int, ...],
    seen: Interactions | None,
    histories: Interactions | None,
) -> Report:
    """Rank the whole catalogue for every test user; see ``Recommender.evaluate``."""
    require_rows("test", test)
    if histories is not None:
        if seen is not None:
            raise UsageError(
                "histories are what new users have, and seen are rows of users that the model "
                "knows. Give one of them.",
                code="whom",
            )
        report = folded(model, histories).evaluate(test, ks=ks)
        return replace(report, counts=replace(report.counts, folded_in=len(report.users_T)))
    if seen is not None:
        require_rows("seen", seen)
    known = model.history if seen is None else history_of(seen, model.users, model.items)
    held_out = HeldOut.of(test, model)
    return evaluate(model.model, held_out, seen=held_out.left_out(model, known), ks=ks)


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
