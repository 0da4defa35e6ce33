"""The numbers of what was evaluated, and a warning of held-out rows that are known already."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sdgar.data.history import History
from sdgar.errors import SdgarWarning

if TYPE_CHECKING:
    from sdgar.data.held_out import HeldOut


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
    """The number of held-out contexts that are new, though each of their values is known."""
    unranked_contexts: int = 0
    """The number of new contexts that the model cannot rank for: their items count as missed."""
    known_rows: int = 0
    """The number of held-out rows that the history has too: no list has them, so all are missed."""
    training_rows: int = 0
    """How many of the known rows are training rows; the user has the others in other contexts."""
    folded_in: int = 0
    """The number of users who are new to the model and were folded in from histories."""


def warn_of_known(held_out: HeldOut, seen: History) -> None:
    """Warn of held-out rows that are training rows, as numbers about them say little."""
    known = known_rows(held_out, seen)
    if known:
        said = overlap(known, held_out.training_rows, len(held_out.items_E))
        warnings.warn(said, SdgarWarning, stacklevel=3)


def overlap(known: int, trained: int, rows: int) -> str:
    """Return what held-out rows mean that the history has too."""
    if known > trained:
        return (
            f"{known:,} of {rows:,} held-out rows are of items that their user has already, most "
            "in another context. What a user has is not recommended again, so each of them counts "
            "as missed. If users come back to items, let these come back in other contexts with "
            "--seen-by context (seen_by=… in Python)."
        )
    return (
        f"{known:,} of {rows:,} held-out rows are training rows. What a user has is never "
        "recommended, so each of them counts as missed, and the numbers are too low: hold out "
        "rows that training does not see."
    )


def known_rows(held_out: HeldOut, seen: History) -> int:
    """Count the held-out rows that are in the history; both are sorted by user and item."""
    place_T = np.where(held_out.users_T < seen.n_users, held_out.users_T, -1)
    own = seen.rows(place_T)  # the history of all users may be larger than the memory
    stride = 1 + max(
        (int(items_E.max()) for items_E in (own.items_E, held_out.items_E) if len(items_E)),
        default=0,
    )
    known_E = own.users_E * stride + own.items_E
    row_E = np.repeat(np.arange(len(held_out)), np.diff(held_out.indptr_T1)) * stride
    row_E += held_out.items_E
    return int(np.isin(row_E, known_E, assume_unique=True).sum())
