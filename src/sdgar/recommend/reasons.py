"""The reasons for scores: the items of a history that contribute most to each score."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdgar.data.ids import Ids
from sdgar.errors import UsageError
from sdgar.models.contributions import Contributions
from sdgar.models.model import Model
from sdgar.recommend.lists import Queries, table


@dataclass(frozen=True, slots=True)
class Reasons:
    """For each of B items the R items of the history that contribute most to its score."""

    context: Mapping[str, Any]
    """The context of the scores: its id, or the value of each of its fields."""
    items_B: NDArray[np.int64]
    """The indices of the items whose scores are explained."""
    score_B: NDArray[np.float64]
    """Their scores, which are the sums of all contributions and of the rest."""
    because_BR: NDArray[np.int64]
    """The indices of the items of the history, the largest contribution first."""
    weights_BR: NDArray[np.float64]
    """Their contributions by weights between items, which are exact."""
    vectors_BR: NDArray[np.float64]
    """Their contributions by inner products of vectors."""
    ids: Ids
    """The ids of items, by index."""

    @property
    def share_BR(self) -> NDArray[np.float64]:
        """The whole contribution of each reason."""
        return self.weights_BR + self.vectors_BR

    @property
    def rest_B(self) -> NDArray[np.float64]:
        """The rest of each score: other items of the history, biases, the rest of a vector."""
        rest_B: NDArray[np.float64] = self.score_B - self.share_BR.sum(axis=1)
        return rest_B

    def dicts(self, names: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
        """Return one object for each item, as JSON can hold it, with names if there are some."""

        def item_at(index: int) -> dict[str, Any]:
            own = self.ids.at(np.array([index])).tolist()[0]
            return {"item": own, **({} if names is None else {"name": names.get(str(own), own)})}

        def reasons_at(b: int) -> list[dict[str, Any]]:
            parts = (self.because_BR[b], self.weights_BR[b], self.vectors_BR[b])
            return [
                {**item_at(index), "share": w + v, "by_weights": w, "by_vectors": v}
                for index, w, v in zip(*(part.tolist() for part in parts), strict=True)
            ]

        columns = (self.items_B.tolist(), self.score_B.tolist(), self.rest_B.tolist())
        return [
            {
                **self.context,
                **item_at(item),
                "score": score,
                "because": reasons_at(b),
                "rest": rest,
            }
            for b, (item, score, rest) in enumerate(zip(*columns, strict=True))
        ]

    def frame(self, like: object = None) -> Any:
        """Return a table with a row for each reason, and one for the rest of each score.

        The columns are the context, item, score, place, because, share, by_weights and by_vectors.
        A rest has no item in ``because``; the shares of an item add up to its score.
        """
        own = ("place", "because", "share", "by_weights", "by_vectors")
        names = (*self.context, "item", "score", *own)
        rows: list[tuple[Any, ...]] = []
        for one in self.dicts():
            head = (*(one[name] for name in self.context), one["item"], one["score"])
            reasons = enumerate(one["because"], 1)
            rows += [(*head, place, *reason.values()) for place, reason in reasons]
            rows.append((*head, None, None, one["rest"], None, None))
        columns = dict(zip(names, np.array(rows, object).T, strict=True))
        kind = self.ids.kind
        types: dict[str, str] = {"item": kind, "because": kind, "place": "int64"}
        types |= dict.fromkeys(own[2:], "float64")
        for name, value in self.context.items():
            number = "int64" if isinstance(value, str) or value < 2**63 else "uint64"
            types[name] = "text" if isinstance(value, str) else number
        return table(columns, types, like=like)


def contributions(queries: Queries, row: int, items_B: NDArray[np.int64]) -> Contributions:
    """Return the contribution of each item of the history to the scores of some items."""
    model: Model = queries.model
    found = model.contributions(int(queries.index_T[row]), items_B, queries.own_of(row))
    if found is None:
        raise UsageError(
            f"this model has {model.holds}, and its scores cannot be split among the items of a "
            "history. Models with vectors or with weights between items can be explained.",
            code="no_reasons",
        )
    return found


def explained(queries: Queries, items_B: NDArray[np.int64], most: int, ids: Ids) -> Reasons:
    """Return the reasons for the scores of some items, for the only query."""
    found = contributions(queries, 0, items_B)
    history_H, total_BH = queries.own_of(0), found.total_BH
    order_BR = np.argsort(-total_BH, axis=1, kind="stable")[:, :most]
    return Reasons(
        context={name: values[:1].tolist()[0] for name, values in queries.columns.items()},
        items_B=items_B,
        score_B=total_BH.sum(axis=1) + found.rest_B,
        because_BR=history_H[order_BR],
        weights_BR=np.take_along_axis(found.weights_BH, order_BR, axis=1),
        vectors_BR=np.take_along_axis(found.vectors_BH, order_BR, axis=1),
        ids=ids,
    )


def first_reasons(queries: Queries, items_TK: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return the index of the item of the history that contributes most to each entry.

    It is -1 if no contribution is positive, or if the list is not by the model.
    """
    why_TK = np.full(items_TK.shape, -1, np.int64)
    for t in np.flatnonzero(queries.by_model_T).tolist():
        listed = items_TK[t] >= 0
        history_H = queries.own_of(t)
        if not listed.any() or not len(history_H):
            continue
        total_BH = contributions(queries, t, items_TK[t, listed].astype(np.int64)).total_BH
        best_B = total_BH.argmax(axis=1)
        positive_B = total_BH[np.arange(len(best_B)), best_B] > 0
        why_TK[t, listed] = np.where(positive_B, history_H[best_B], -1)
    return why_TK
