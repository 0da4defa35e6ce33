"""Queries and their ranked lists, as records of arrays.

Lists become a frame, or plain values for JSON. Only a frame imports Polars.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdgar.data.history import History
from sdgar.data.ids import Ids
from sdgar.models.model import Model


@dataclass(frozen=True, slots=True)
class Queries:
    """Queries for ranked lists, in the indices of a model."""

    model: Model
    """The model that scores the items."""
    seen: History | None
    """The items that are left out for each context of the model; None leaves out none."""
    columns: Mapping[str, NDArray[Any]]
    """The ids of the queries: one column, or one for each field of a context."""
    index_T: NDArray[np.int64]
    """The index of each query in the model, -1 for unknown ones."""
    own: History
    """The positive items of each context of the model, which can be reasons for a score."""
    trained_T: NDArray[np.bool_] | None = None
    """Whether the model was trained on rows of each query, as it was not for users with low ratings
    alone; None if it was for all known ones."""

    @property
    def by_model_T(self) -> NDArray[np.bool_]:
        """Whether the model ranks each query; the others get popular items, or none."""
        known_T = self.index_T >= 0
        return known_T if self.trained_T is None else known_T & self.trained_T

    def __len__(self) -> int:
        return len(self.index_T)

    def own_of(self, row: int) -> NDArray[np.int64]:
        """Return the positive items of one query."""
        return self.own.of(int(self.index_T[row])).astype(np.int64)

    def rows(self, part: slice | NDArray[Any]) -> Queries:
        """Return some of the queries."""
        columns = {name: values[part] for name, values in self.columns.items()}
        trained_T = None if self.trained_T is None else self.trained_T[part]
        return replace(self, columns=columns, index_T=self.index_T[part], trained_T=trained_T)

    def unless_skipped(self, fallback: str) -> Queries:
        """Return the queries, without unknown ones if the fallback is "skip"."""
        return self.rows(self.index_T >= 0) if fallback == "skip" else self

    def with_seen_items(self) -> Queries:
        """Return the same queries, with no item left out."""
        return replace(self, seen=None)


@dataclass(frozen=True, slots=True)
class RankedLists:
    """The ranked lists of T queries, each with at most K entries."""

    queried: Mapping[str, NDArray[Any]]
    """The query of each list: a column of ids, or a column for each field of a context."""
    items_TK: NDArray[np.int32]
    """The indices of the entries, best first; -1 after the end of a shorter list."""
    scores_TK: NDArray[np.float32]
    """The score of each entry; -inf after the end of a shorter list."""
    basis_T: NDArray[Any]
    """The basis of each list: "model", "popular" or "unknown"."""
    k: int
    """The requested number of entries, which may be more than K."""
    ids: Ids
    """The ids of the entries, by index."""
    what: str = "item"
    """The name of an entry: "item", or "user" for a list of similar users."""
    why_TK: NDArray[np.int64] | None = None
    """The index of the item of the history that contributes most to each entry, -1 for none; None
    if it was not requested."""
    notes: tuple[tuple[tuple[str, ...], ...], ...] | None = None
    """The notes of the rules on each entry of each list; None without rules."""
    cold_I: NDArray[np.bool_] | None = None
    """Whether each item is cold, known by its features alone; None if no item is."""

    def __len__(self) -> int:
        return len(self.items_TK)

    @property
    def short_T(self) -> NDArray[np.bool_]:
        """Whether a list has fewer entries than requested."""
        short_T: NDArray[np.bool_] = (self.items_TK >= 0).sum(axis=1) < self.k
        return short_T

    def dicts(self, names: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
        """Return one object for each query, as JSON can hold it.

        With ``names`` each entry has a name too; the id is used if there is no name.
        """
        found_TK = self.ids.at(self.items_TK.clip(min=0)).tolist() if len(self.ids) else []
        ends_T = (self.items_TK >= 0).sum(axis=1).tolist()
        columns = {name: values.tolist() for name, values in self.queried.items()}
        entries = {"score": self.scores_TK.tolist()}
        if self.cold_I is not None:
            entries["cold"] = self.cold_I[self.items_TK].tolist()
        if self.why_TK is not None:
            entries["because"] = self._because().tolist()
        if self.notes is not None:
            entries["rules"] = [[list(note) for note in own] for own in self.notes]
        return [
            {
                **{name: values[t] for name, values in columns.items()},
                f"{self.what}s": [
                    {
                        self.what: one,
                        **({} if names is None else {"name": names.get(str(one), str(one))}),
                        **{name: values[t][at] for name, values in entries.items()},
                    }
                    for at, one in enumerate(found_TK[t][:end])
                ],
                "short": short,
                "basis": basis,
            }
            for t, (end, short, basis) in enumerate(
                zip(ends_T, self.short_T.tolist(), self.basis_T.tolist(), strict=True)
            )
        ]

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return the columns of a table with a row for each entry.

        They are the columns of the query, then rank, item, score, short and basis; and, if there
        are cold items, reasons or rules, cold, because and rules. An empty list is a row without
        an item.
        """
        found_TK = self.items_TK >= 0
        shown_TK = found_TK.copy()
        shown_TK[:, 0] = True
        row_R, place_R = np.nonzero(shown_TK)
        has_R, items_R = found_TK[row_R, place_R], self.items_TK[row_R, place_R]
        columns = {
            **{name: values[row_R] for name, values in self.queried.items()},
            "rank": _where(has_R, place_R + 1),
            self.what: _where(has_R, self.ids.at(items_R.clip(min=0))),
            "score": _where(has_R, self.scores_TK[row_R, place_R]),
            "short": self.short_T[row_R],
            "basis": self.basis_T[row_R],
        }
        if self.cold_I is not None:
            columns["cold"] = self.cold_I[items_R] & has_R
        if self.why_TK is not None:
            columns["because"] = self._because()[row_R, place_R]
        if self.notes is not None:
            columns["rules"] = np.empty(len(row_R), object)
            for at, (row, place) in enumerate(zip(row_R.tolist(), place_R.tolist(), strict=True)):
                notes = self.notes[row][place] if place < len(self.notes[row]) else ()
                columns["rules"][at] = "; ".join(notes)
        return columns

    def _because(self) -> NDArray[Any]:
        """Return the ids of the reasons, and None for entries without one."""
        assert self.why_TK is not None
        flat = self.why_TK.reshape(-1)
        return _where(flat >= 0, self.ids.at(flat.clip(min=0))).reshape(self.why_TK.shape)

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

    known = {"score": "float64", "short": "bool", "basis": "text", "cold": "bool", **(types or {})}
    kinds = {"i": "int64", "u": "uint64"}
    return to_table(
        {name: values.tolist() for name, values in columns.items()},
        types={
            name: known.get(name) or kinds.get(values.dtype.kind, "text")
            for name, values in columns.items()
        },
        like=like,
    )


def _where(has_R: NDArray[np.bool_], values_R: NDArray[Any]) -> NDArray[Any]:
    """Return the values, and None where there is none."""
    column_R = np.full(len(has_R), None, dtype=object)
    column_R[has_R] = values_R[has_R].tolist()
    return column_R
