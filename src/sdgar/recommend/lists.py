"""The answer to a question: for each one who was asked about, a list of items, best first.

An answer is a record of arrays. It becomes a frame for those who work with frames, or plain lists
for JSON, and only a frame imports Polars.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdgar.data.ids import Ids


@dataclass(frozen=True, slots=True)
class Lists:
    """The lists of T questions, each with at most K entries."""

    asked: Mapping[str, NDArray[Any]]
    """Who or what each list is for: a column of ids, or a column for each field of a context."""
    items_TK: NDArray[np.int32]
    """The numbers of what is listed, best first; -1 behind the end of a shorter list."""
    scores_TK: NDArray[np.float32]
    """The score of each entry; -inf behind the end of a shorter list."""
    basis_T: NDArray[Any]
    """What each list rests on: "model", "popular" or "unknown"."""
    k: int
    """How many entries were asked for, which may be more than K."""
    ids: Ids
    """The ids of what is listed, by number."""
    what: str = "item"
    """The name for an entry: "item", or "user" for a list of similar users."""
    why_TK: NDArray[np.int64] | None = None
    """The numbers of the items of the history that speak most for each entry, -1 where there is
    none; None if nobody asked why."""
    notes: tuple[tuple[tuple[str, ...], ...], ...] | None = None
    """What the rules of the house did to each entry of each list, in words; None without rules."""
    cold_I: NDArray[np.bool_] | None = None
    """Whether each item is cold, known by its features alone; None if there is no such item."""

    def __len__(self) -> int:
        return len(self.items_TK)

    @property
    def short_T(self) -> NDArray[np.bool_]:
        """Whether a list has fewer entries than were asked for."""
        short_T: NDArray[np.bool_] = (self.items_TK >= 0).sum(axis=1) < self.k
        return short_T

    def dicts(self, names: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
        """Return one object for each question, as JSON can hold it.

        With ``names`` each entry has a name too; one that has none goes by its id.
        """
        found_TK = self.ids.at(self.items_TK.clip(min=0)).tolist() if len(self.ids) else []
        ends_T = (self.items_TK >= 0).sum(axis=1).tolist()
        asked = {name: values.tolist() for name, values in self.asked.items()}
        scores_TK, short_T, basis_T = (
            array.tolist() for array in (self.scores_TK, self.short_T, self.basis_T)
        )
        why_TK = None if self.why_TK is None else self._because().tolist()
        cold_TK = None if self.cold_I is None else self.cold_I[self.items_TK].tolist()
        return [
            {
                **{name: values[t] for name, values in asked.items()},
                f"{self.what}s": [
                    {
                        self.what: one,
                        **({} if names is None else {"name": names.get(str(one), str(one))}),
                        "score": score,
                        **({} if cold_TK is None else {"cold": cold_TK[t][at]}),
                        **({} if why_TK is None else {"because": why_TK[t][at]}),
                        **({} if self.notes is None else {"rules": list(self.notes[t][at])}),
                    }
                    for at, (one, score) in enumerate(
                        zip(found_TK[t][:end], scores_TK[t][:end], strict=True)
                    )
                ],
                "short": short_T[t],
                "basis": basis_T[t],
            }
            for t, end in enumerate(ends_T)
        ]

    def _said(self, row_R: NDArray[np.int64], place_R: NDArray[np.int64]) -> NDArray[Any]:
        """Return the words of the rules about each entry as one text."""
        assert self.notes is not None
        said_R = np.empty(len(row_R), object)
        for at, (row, place) in enumerate(zip(row_R.tolist(), place_R.tolist(), strict=True)):
            said_R[at] = "; ".join(self.notes[row][place]) if place < len(self.notes[row]) else ""
        return said_R

    def _cold(self, row_R: NDArray[np.int64], place_R: NDArray[np.int64]) -> NDArray[Any]:
        """Say of each entry whether it is cold."""
        assert self.cold_I is not None
        listed_R = self.items_TK[row_R, place_R]
        return self.cold_I[listed_R] & (listed_R >= 0)

    def _because(self) -> NDArray[Any]:
        """Return the ids of the reasons, and None where there is none."""
        assert self.why_TK is not None
        flat = self.why_TK.reshape(-1)
        return _where(flat >= 0, self.ids.at(flat.clip(min=0))).reshape(self.why_TK.shape)

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return the columns of a table with a row for each entry.

        They are those of the query, then rank, item, score, short and basis, cold if some items of
        the model are, because if reasons were wanted, and rules if there were some. A list without
        any entry is a row without an item.
        """
        found_TK = self.items_TK >= 0
        shown_TK = found_TK.copy()
        shown_TK[:, 0] = True
        row_R, place_R = np.nonzero(shown_TK)
        has_R = found_TK[row_R, place_R]
        listed_R = self.ids.at(self.items_TK[row_R, place_R].clip(min=0))
        return {
            **{name: values[row_R] for name, values in self.asked.items()},
            "rank": _where(has_R, place_R + 1),
            self.what: _where(has_R, listed_R),
            "score": _where(has_R, self.scores_TK[row_R, place_R]),
            "short": self.short_T[row_R],
            "basis": self.basis_T[row_R],
            **({} if self.cold_I is None else {"cold": self._cold(row_R, place_R)}),
            **({} if self.why_TK is None else {"because": self._because()[row_R, place_R]}),
            **({} if self.notes is None else {"rules": self._said(row_R, place_R)}),
        }

    def frame(self, like: object = None) -> Any:
        """Return ``columns`` as a frame of Polars, or of pandas if ``like`` is of pandas."""
        kind = self.ids.kind
        types = {"rank": "int64", self.what: kind, "because": kind, "rules": "text"}
        return table(self.columns(), types, like=like)


def table(
    columns: dict[str, NDArray[Any]], types: Mapping[str, str] | None = None, *, like: object
) -> Any:
    """Return a frame whose columns have the same types however many rows there are."""
    from sdgar.data.tables import to_table

    said = {"score": "float64", "short": "bool", "basis": "text", "cold": "bool", **(types or {})}
    return to_table(
        {name: values.tolist() for name, values in columns.items()},
        types={name: said.get(name) or _kind(values) for name, values in columns.items()},
        like=like,
    )


def _kind(values: NDArray[Any]) -> str:
    return {"i": "int64", "u": "uint64"}.get(values.dtype.kind, "text")


def _where(has_R: NDArray[np.bool_], values_R: NDArray[Any]) -> NDArray[Any]:
    """Return the values, and None where there is none."""
    column_R = np.full(len(has_R), None, dtype=object)
    column_R[has_R] = values_R[has_R].tolist()
    return column_R
