"""The reasons for scores: the items of a history that speak most for each item."""

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
from sdgar.recommend.lists import table
from sdgar.recommend.questions import Asked


@dataclass(frozen=True, slots=True)
class Reasons:
    """For each of B items the R items of the history with the largest shares of its score."""

    asked: Mapping[str, Any]
    """The context that the scores are for: its id, or the value of each of its fields."""
    items_B: NDArray[np.int64]
    """The numbers of the items whose scores are explained."""
    score_B: NDArray[np.float64]
    """Their scores, which are the sums of all shares and of the rest."""
    because_BR: NDArray[np.int64]
    """The numbers of the items of the history, the largest share first."""
    weights_BR: NDArray[np.float64]
    """Their shares by weights between items, which are exact."""
    vectors_BR: NDArray[np.float64]
    """Their shares by inner products of vectors."""
    ids: Ids
    """The ids of items, by number."""

    @property
    def share_BR(self) -> NDArray[np.float64]:
        """The whole share of each reason."""
        return self.weights_BR + self.vectors_BR

    @property
    def rest_B(self) -> NDArray[np.float64]:
        """What is left of each score: other items of the history, biases, the rest of a vector."""
        rest_B: NDArray[np.float64] = self.score_B - self.share_BR.sum(axis=1)
        return rest_B

    def dicts(self, names: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
        """Return one object for each item, as JSON can hold it, with names if there are some."""

        def said(number: int) -> dict[str, Any]:
            own = self.ids.at(np.array([number])).tolist()[0]
            return {"item": own, **({} if names is None else {"name": names.get(str(own), own)})}

        return [
            {
                **self.asked,
                **said(item),
                "score": score,
                "because": [
                    {**said(number), "share": w + v, "by_weights": w, "by_vectors": v}
                    for number, w, v in zip(because, weights, vectors, strict=True)
                ],
                "rest": rest,
            }
            for item, score, because, weights, vectors, rest in zip(
                *(
                    array.tolist()
                    for array in (
                        self.items_B, self.score_B, self.because_BR, self.weights_BR,
                        self.vectors_BR, self.rest_B,
                    )
                ),
                strict=True,
            )
        ]  # fmt: skip

    def frame(self, like: object = None) -> Any:
        """Return a table with a row for each reason, and one for the rest of each score.

        The columns are the context, item, score, place, because, share, by_weights and by_vectors.
        A rest has no item in ``because``; the shares of an item add up to its score.
        """
        rows: list[tuple[Any, ...]] = []
        for one in self.dicts():
            head = (*(one[name] for name in self.asked), one["item"], one["score"])
            rows += [
                (*head, place, r["item"], r["share"], r["by_weights"], r["by_vectors"])
                for place, r in enumerate(one["because"], 1)
            ]
            rows.append((*head, None, None, one["rest"], None, None))
        names = (
            *self.asked, "item", "score", "place", "because", "share", "by_weights", "by_vectors",
        )  # fmt: skip
        columns = {name: np.empty(len(rows), object) for name in names}
        for name, values in zip(names, zip(*rows, strict=True), strict=True):
            columns[name][:] = values
        kind, share = self.ids.kind, dict.fromkeys(names[-3:], "float64")
        types = {"item": kind, "because": kind, "place": "int64", **share}
        types |= {name: kind_of(value) for name, value in self.asked.items()}
        return table(columns, types, like=like)


def kind_of(value: str | int) -> str:
    """Name the type of a column that holds this id."""
    return "text" if isinstance(value, str) else "int64" if value < 2**63 else "uint64"


def shares_of(asked: Asked, number: int, items_B: NDArray[np.int64]) -> Contributions:
    """Split up the scores of some items for one of those who are asked about."""
    model: Model = asked.model
    shares = model.contributions(int(asked.index_T[number]), items_B, asked.own_of(number))
    if shares is None:
        raise UsageError(
            f"this model holds {model.holds}, and its scores cannot be split up among the items of "
            "a history. Models with vectors or with weights between items can be explained.",
            code="no_reasons",
        )
    return shares


def explained(asked: Asked, items_B: NDArray[np.int64], most: int, ids: Ids) -> Reasons:
    """Return the reasons for the scores of some items, for the one who is asked about."""
    shares = shares_of(asked, 0, items_B)
    history_H = asked.own_of(0)
    total_BH, weights_BH, vectors_BH = shares.total_BH, shares.weights_BH, shares.vectors_BH
    order_BR = np.argsort(-total_BH, axis=1, kind="stable")[:, :most]
    return Reasons(
        asked={name: values[:1].tolist()[0] for name, values in asked.columns.items()},
        items_B=items_B,
        score_B=total_BH.sum(axis=1) + shares.rest_B,
        because_BR=history_H[order_BR],
        weights_BR=np.take_along_axis(weights_BH, order_BR, axis=1),
        vectors_BR=np.take_along_axis(vectors_BH, order_BR, axis=1),
        ids=ids,
    )


def first_reasons(asked: Asked, items_TK: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return the number of the item of the history that speaks most for each entry of the lists.

    It is -1 where nothing in the history speaks for an entry, or a list is not by the model.
    """
    why_TK = np.full(items_TK.shape, -1, np.int64)
    for t in np.flatnonzero(asked.by_model_T).tolist():
        listed = items_TK[t] >= 0
        history_H = asked.own_of(t)
        if not listed.any() or not len(history_H):
            continue
        total_BH = shares_of(asked, t, items_TK[t, listed].astype(np.int64)).total_BH
        best_B = total_BH.argmax(axis=1)
        speaks_B = total_BH[np.arange(len(best_B)), best_B] > 0
        why_TK[t, listed] = np.where(speaks_B, history_H[best_B], -1)
    return why_TK
