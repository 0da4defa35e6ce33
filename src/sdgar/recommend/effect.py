"""What rules do to the lists of a model: metrics, coverage, popular items and diversity beside."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sdgar.data.held_out import HeldOut
from sdgar.data.interactions import Interactions
from sdgar.errors import DataError, UsageError
from sdgar.evaluation.metrics import check_ks, per_user
from sdgar.evaluation.report import Report, evaluate
from sdgar.recommend.histories import history_of
from sdgar.recommend.lists import Lists
from sdgar.recommend.measuring import folded, require_rows
from sdgar.recommend.questions import Asked
from sdgar.recommend.ranking import ranked_in_pieces
from sdgar.recommend.reranked import facts_of, reranked_in_pieces
from sdgar.recommend.rules import Facts, Reranking, Rules
from sdgar.recommend.rules.diversity import likeness

if TYPE_CHECKING:
    from sdgar.recommend.recommender import Recommender

BEYOND = {
    "coverage": "items that are in the first k of at least one list, divided by all items",
    "popular": "entries among the first k that are of the tenth of the items that most users have, "
    "divided by all entries",
    "diversity": "1 minus the likeness of two items (cosine of vectors, or shared categories), "
    "mean over the pairs of the first k, and then over lists",
}
"""The meaning of what is measured beside the metrics."""
_HEAD = 0.1
"""The share of the items that count as popular."""
_PIECE = 1 << 20


@dataclass(frozen=True, slots=True)
class Effect:
    """The lists of a model without rules and with them, on the same held-out rows."""

    without: Report
    """The metrics of the lists of the model."""
    ruled: Report
    """The metrics of the lists after the rules have acted."""
    beyond_without: dict[str, float]
    """The measures of ``BEYOND`` for the lists of the model, keyed ``coverage@10``."""
    beyond_ruled: dict[str, float]
    """The same for the lists after the rules have acted."""

    def means(self) -> tuple[dict[str, float], dict[str, float]]:
        """Return all measures without rules, and with them."""
        return (
            {**self.without.means(), **self.beyond_without},
            {**self.ruled.means(), **self.beyond_ruled},
        )


def effect_of(
    rules: Rules | Reranking,
    model: Recommender,
    test: Interactions,
    *,
    ks: tuple[int, ...],
    seen: Interactions | None = None,
    histories: Interactions | None = None,
) -> Effect:
    """Measure lists without rules and with them; the options are those of ``evaluate``.

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
    without = evaluate(whom.model, held_out, seen=left_out, ks=ks)
    users_T, n_items = held_out.users_T, len(whom.items)
    asked = Asked(whom.model, left_out, {"user": users_T}, users_T, whom.history)
    longest = min(ks[-1], n_items)
    own_TK = _together(
        ranked_in_pieces(
            asked, longest, whom.items, _PIECE, blocked_I=None, popular=None, why=False, index=None
        )
    )
    ruled_TK = _together(
        reranked_in_pieces(
            asked, longest, whom.items, _PIECE, reranking, facts,
            blocked_I=None, popular=None, why=False,
        )
    )  # fmt: skip
    measured = per_user(ruled_TK, held_out, ks, whom.model.device, n_items=n_items)
    return Effect(
        without,
        replace(without, per_user=measured),
        _beyond(own_TK, ks, facts, n_items),
        _beyond(ruled_TK, ks, facts, n_items),
    )


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


def _beyond(
    items_TK: NDArray[np.int32], ks: tuple[int, ...], facts: Facts, n_items: int
) -> dict[str, float]:
    """Return the measures of ``BEYOND`` at each k; diversity only if items can be compared."""
    assert facts.popularity_I is not None
    head_I = np.zeros(n_items, bool)
    most = max(1, round(_HEAD * n_items))
    head_I[np.argsort(-facts.popularity_I, kind="stable")[:most]] = True
    found: dict[str, float] = {}
    for k in ks:
        listed = items_TK[:, :k][items_TK[:, :k] >= 0]
        found[f"coverage@{k}"] = len(np.unique(listed)) / n_items
        found[f"popular@{k}"] = float(head_I[listed].mean()) if len(listed) else 0.0
    if facts.item_ID is not None or facts.coded("category").names:
        found |= _diversity(items_TK, ks, facts)
    return {
        f"{name}@{k}": found[f"{name}@{k}"] for name in BEYOND for k in ks if f"{name}@{k}" in found
    }


def _diversity(items_TK: NDArray[np.int32], ks: tuple[int, ...], facts: Facts) -> dict[str, float]:
    """mean over lists of Σ_{i<j≤k} (1 - c_ij) / pairs."""
    sums: dict[int, list[float]] = {k: [] for k in ks}
    for row_K in items_TK:
        items_N = row_K[row_K >= 0].astype(np.int64)
        if len(items_N) < 2:
            continue
        like = likeness(items_N, facts, "auto")
        apart_NN = 1 - np.stack([like.to(at) for at in range(len(items_N))])
        for k in ks:
            n = min(k, len(items_N))
            if n > 1:
                sums[k].append(float(apart_NN[:n, :n].sum() / (n * (n - 1))))
    return {f"diversity@{k}": float(np.mean(values)) for k, values in sums.items() if values}


def as_dict(effect: Effect) -> dict[str, Any]:
    """Return plain values, for JSON."""
    without, ruled = effect.means()
    return {"without": without, "with": ruled, "definitions": dict(BEYOND)}
