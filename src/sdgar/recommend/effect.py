"""What rules do to the lists of a model: all metrics without them and with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sdgar.data.held_out import HeldOut
from sdgar.data.interactions import Interactions
from sdgar.errors import DataError, UsageError
from sdgar.evaluation.measures import meanings
from sdgar.evaluation.metrics import DEFINITIONS, check_ks
from sdgar.evaluation.report import Report, evaluate, report_of
from sdgar.recommend.histories import history_of
from sdgar.recommend.lists import Lists
from sdgar.recommend.measuring import folded, known_of, require_rows
from sdgar.recommend.questions import Asked
from sdgar.recommend.reranked import facts_of, reranked_in_pieces
from sdgar.recommend.rules import Reranking, Rules

if TYPE_CHECKING:
    from sdgar.recommend.recommender import Recommender

_PIECE = 1 << 20


@dataclass(frozen=True, slots=True)
class Effect:
    """The lists of a model without rules and with them, on the same held-out rows."""

    without: Report
    """The metrics of the lists of the model."""
    ruled: Report
    """The metrics of the lists after the rules have acted."""

    def means(self) -> tuple[dict[str, float], dict[str, float]]:
        """Return all metrics without rules, and with them."""
        return self.without.means(), self.ruled.means()


def effect_of(
    rules: Rules | Reranking,
    model: Recommender,
    test: Interactions,
    *,
    ks: tuple[int, ...],
    seen: Interactions | None = None,
    histories: Interactions | None = None,
    metrics: Sequence[str] | None = None,
) -> Effect:
    """Measure lists without rules and with them; the options are those of ``evaluate``.

    Without ``metrics``, all of accuracy are measured, and coverage, popular and diversity.
    Contexts that are new combinations of known values are left out.
    """
    require_rows("test", test)
    if seen is not None and histories is not None:
        raise UsageError("give seen or histories, not both.", code="whom")
    ks, reranking = check_ks(ks), Reranking.from_any(rules)
    facts = facts_of(reranking, model.model, model.history, model.items)
    whom = model if histories is None else folded(model, histories)
    known = whom.history if seen is None else history_of(seen, whom.users, whom.items)
    held_out = _of_known(HeldOut.of(test, whom), len(whom.users))
    left_out = held_out.left_out(whom, known)
    users_T, n_items = held_out.users_T, len(whom.items)
    asked = Asked(whom.model, left_out, {"user": users_T}, users_T, whom.history)
    beside = known_of(whom, model, seen, facts=reranking.table)
    if metrics is None:
        compared = facts.item_ID is not None or bool(facts.coded("category").names)
        metrics = [*DEFINITIONS, "coverage", "popular"]
        metrics += [f"diversity@{k}" for k in ks if compared and k > 1]
    without = evaluate(whom.model, held_out, seen=left_out, ks=ks, metrics=metrics, known=beside)
    assert without.ranked is not None
    longest = min(max(metric.k for metric in without.ranked.metrics), n_items)
    ruled_TK = _together(
        reranked_in_pieces(
            asked, longest, whom.items, _PIECE, reranking, facts,
            blocked_I=None, popular=None, why=False,
        )
    )  # fmt: skip
    # Rules may leave lists so short that they have no diversity.
    ruled = report_of(replace(without.ranked, items_TK=ruled_TK), without.counts, strict=False)
    return Effect(without, ruled)


def _of_known(held_out: HeldOut, n_users: int) -> HeldOut:
    if held_out.unseen_XF is None:
        return held_out
    places = np.flatnonzero(held_out.users_T < n_users)
    if not len(places):
        raise DataError(
            "no held-out context occurs in the training data, so rules cannot be measured.",
            code="no_common_users",
        )
    return replace(held_out.only(places), unseen_XF=None)


def _together(pieces: Iterator[Lists]) -> NDArray[np.int32]:
    return np.concatenate([lists.items_TK for lists in pieces])


def as_dict(effect: Effect) -> dict[str, Any]:
    """Return plain values, for JSON."""
    without, ruled = effect.means()
    return {"without": without, "with": ruled, "definitions": meanings(list(ruled))}
