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
from sdgar.evaluation.beyond import OF_ALL_LISTS, OF_EACH_LIST, Known, Lists
from sdgar.evaluation.measures import DEFINITIONS, MEASURES, Metric
from sdgar.evaluation.metrics import per_user


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
        ks = sorted({m.k for m in self.metrics if m.kind in DEFINITIONS})
        accuracy = per_user(self.items_TK, self.held_out, ks) if ks else {}
        of_users: dict[str, NDArray[np.float64]] = {}
        overall: dict[str, float] = {}
        for m in self.metrics:
            lists = Lists(self.items_TK[:, : m.k], m.k, m.by, self.held_out, self.known)
            if m.kind in OF_ALL_LISTS:
                overall[m.name] = OF_ALL_LISTS[m.kind](lists)
            elif m.kind in OF_EACH_LIST:
                of_users[m.name] = OF_EACH_LIST[m.kind](lists)
            else:
                of_users[m.name] = accuracy[m.name]
        return of_users, overall

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
