"""The ranked lists of held-out users with all of their metrics, and counts of the rows."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdgar.data.held_out import HeldOut
from sdgar.data.history import History
from sdgar.errors import DataError, SdgarWarning
from sdgar.evaluation import beyond
from sdgar.evaluation.beyond import Known
from sdgar.evaluation.measures import DEFINITIONS, MEASURES, Metric
from sdgar.evaluation.metrics import hits, per_user

_LISTS = {
    "popularity": beyond.popularity,
    "popular": beyond.popular,
    "tail": beyond.tail,
    "novelty": beyond.novelty,
}
_ALL_LISTS = {"coverage": beyond.coverage, "gini": beyond.gini}


@dataclass(frozen=True, slots=True)
class Ranked:
    """The lists of held-out users; row t of ``items_TK`` is of ``held_out.users_T[t]``."""

    items_TK: NDArray[np.integer[Any]]
    """The listed items, best first; -1 is no item."""
    held_out: HeldOut
    """The held-out rows that the lists should contain."""
    known: Known
    """The data on users and items that metrics need."""
    metrics: tuple[Metric, ...]
    """The metrics to measure."""

    def only(self, places: NDArray[np.int64]) -> Ranked:
        """Return the lists of some users."""
        return replace(self, items_TK=self.items_TK[places], held_out=self.held_out.only(places))

    def among(self, rows_E: NDArray[np.bool_]) -> Ranked:
        """Return the lists for some held-out rows, of users who have any of them."""
        held_out, places = self.held_out.among(rows_E)
        about = tuple(m for m in self.metrics if MEASURES[m.kind].about in ("accuracy", "held-out"))
        return replace(self, items_TK=self.items_TK[places], held_out=held_out, metrics=about)

    def values(self) -> tuple[dict[str, NDArray[np.float64]], dict[str, float]]:
        """Return the metrics of each user, and the metrics of all lists together.

        A value is NaN where a metric is not defined.
        """
        accuracy = {m.k for m in self.metrics if m.kind in DEFINITIONS}
        of_users = self._accuracy(accuracy) if accuracy else {}
        for by in {m.by: None for m in self.metrics if m.kind == "diversity"}:
            at = beyond.diversity(self._first(self._ks("diversity", by)[-1]), by, self.known)
            of_users |= {Metric("diversity", by, k).name: at(k) for k in self._ks("diversity", by)}
        for by in {m.by: None for m in self.metrics if m.kind == "calibration"}:
            ks = self._ks("calibration", by)
            users_T = self.held_out.users_T
            found = beyond.calibration(self._first(ks[-1]), users_T, ks, by, self.known)
            of_users |= {Metric("calibration", by, k).name: found[k] for k in ks}
        of_users |= {
            m.name: _LISTS[m.kind](self._first(m.k), self.known)
            for m in self.metrics
            if m.kind in _LISTS
        }
        of_users |= self._serendipity()
        for kind, rows_E in self._fresh():
            of_users |= self._hits_of(kind, rows_E)
        wanted = [m for m in self.metrics if m.kind not in _ALL_LISTS]
        return {m.name: of_users[m.name] for m in wanted}, {
            m.name: _ALL_LISTS[m.kind](self._first(m.k), self.known)
            for m in self.metrics
            if m.kind in _ALL_LISTS
        }

    def require_defined(self, values: dict[str, NDArray[np.float64]]) -> None:
        """Raise if a metric is defined for no user at all."""
        for name, values_T in values.items():
            if len(values_T) and np.isnan(values_T).all():
                kind = name.partition("@")[0].partition(":")[0]
                raise DataError(
                    f"{name} is defined for none of {len(values_T):,} users: it is "
                    f"{MEASURES[kind].meaning}. Leave it out.",
                    code="undefined_metric",
                )

    def _ks(self, kind: str, by: str | None) -> list[int]:
        return sorted(m.k for m in self.metrics if (m.kind, m.by) == (kind, by))

    def _first(self, k: int) -> NDArray[np.integer[Any]]:
        return self.items_TK[:, :k]

    def _accuracy(self, ks: set[int]) -> dict[str, NDArray[np.float64]]:
        n_items = self.known.n_items
        return per_user(self.items_TK, self.held_out, sorted(ks), n_items=n_items)

    def _serendipity(self) -> dict[str, NDArray[np.float64]]:
        ks = self._ks("serendipity", None)
        if not ks:
            return {}
        items_TK = self._first(ks[-1])
        hits_TK = hits(items_TK, self.held_out)
        return {
            f"serendipity@{k}": beyond.serendipity(items_TK[:, :k], hits_TK[:, :k], k, self.known)
            for k in ks
        }

    def _fresh(self) -> list[tuple[str, NDArray[np.bool_]]]:
        """Return the held-out rows of each metric of new items."""
        kinds = {m.kind for m in self.metrics}
        items_E = self.held_out.items_E
        outside_E = items_E >= self.known.n_items
        at_E = np.where(outside_E, 0, items_E)
        found = []
        if "new_hit" in kinds:
            found.append(("new_hit", outside_E | self.known.is_new()[at_E]))
        if "cold_hit" in kinds:
            found.append(("cold_hit", outside_E | (self.known.count_I == 0)[at_E]))
        return found

    def _hits_of(self, kind: str, rows_E: NDArray[np.bool_]) -> dict[str, NDArray[np.float64]]:
        """Return hit@k of some held-out rows alone; NaN for users without such rows."""
        held_out, places = self.held_out.among(rows_E)
        ks = self._ks(kind, None)
        found = {f"{kind}@{k}": np.full(len(self.items_TK), np.nan) for k in ks}
        if len(places):
            n_items = self.known.n_items
            own = per_user(self.items_TK[places], held_out, ks, n_items=n_items)
            for k in ks:
                found[f"{kind}@{k}"][places] = own[f"hit@{k}"]
        return found


@dataclass(frozen=True, slots=True)
class Counts:
    """The numbers of users, items and rows that were evaluated or could not be."""

    items: int
    """The number of items in the catalogue that was ranked."""
    users: int
    """The number of evaluated users."""
    rows: int
    """The number of held-out interactions of the evaluated users."""
    unknown_users: int
    """The number of held-out users that training never saw, who are left out."""
    unknown_user_rows: int
    """The number of held-out rows of users that training never saw."""
    cold_items: int
    """The number of held-out items that training never saw, which count as missed."""
    cold_item_rows: int
    """The number of held-out rows with items that training never saw."""
    unseen_contexts: int = 0
    """The number of held-out contexts that are new combinations of known values."""
    unranked_contexts: int = 0
    """The number of new contexts that the model cannot rank for: their items count as missed."""
    known_rows: int = 0
    """The number of held-out rows that the history has too: no list has them, so all are missed."""
    training_rows: int = 0
    """The number of known rows that are training rows; others are of the user's other contexts."""
    folded_in: int = 0
    """The number of users who are new to the model and were folded in from histories."""


def warn_of_known(held_out: HeldOut, seen: History) -> None:
    """Warn of held-out rows that are training rows, which make metrics too low."""
    known = known_rows(held_out, seen)
    if known:
        text = overlap(known, held_out.training_rows, len(held_out.items_E))
        warnings.warn(text, SdgarWarning, stacklevel=3)


def overlap(known: int, trained: int, rows: int) -> str:
    """Return a warning of held-out rows that the history has too."""
    if known > trained:
        return (
            f"{known:,} of {rows:,} held-out rows are of items that their user has already, most "
            "in another context. Items of a user are not recommended again, so each of them counts "
            "as missed. If users come back to items, recommend them again in other contexts with "
            "--seen-by context (seen_by=… in Python)."
        )
    return (
        f"{known:,} of {rows:,} held-out rows are training rows. Items of a user are never "
        "recommended again, so each of them counts as missed, and the metrics are too low: hold "
        "out rows that training does not see."
    )


def known_rows(held_out: HeldOut, seen: History) -> int:
    """Count the held-out rows that are in the history; both are sorted by user and item."""
    place_T = np.where(held_out.users_T < seen.n_users, held_out.users_T, -1)
    own = seen.rows(place_T)  # the history of all users may exceed the RAM
    stride = 1 + max(
        (int(items_E.max()) for items_E in (own.items_E, held_out.items_E) if len(items_E)),
        default=0,
    )
    known_E = own.users_E * stride + own.items_E
    row_E = np.repeat(np.arange(len(held_out)), np.diff(held_out.indptr_T1)) * stride
    row_E += held_out.items_E
    return int(np.isin(row_E, known_E, assume_unique=True).sum())
