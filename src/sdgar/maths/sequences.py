"""The events of each context in their order, for systems that ask what comes next."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Sequences:
    """What each context had, the earliest event first; an item may come back."""

    start_U1: NDArray[np.int64]
    """The events of context u are ``start_U1[u]`` to ``start_U1[u + 1] - 1``."""
    item_E: NDArray[np.int32]
    """The item of each event."""

    @property
    def n_users(self) -> int:
        """The number of contexts."""
        return len(self.start_U1) - 1

    @property
    def length_U(self) -> NDArray[np.int64]:
        """The number of events of each context."""
        return np.diff(self.start_U1)

    @property
    def users_E(self) -> NDArray[np.int64]:
        """The context of each event."""
        return np.repeat(np.arange(self.n_users), self.length_U)

    @property
    def back_E(self) -> NDArray[np.int64]:
        """How many events of the same context come after each."""
        return np.repeat(self.start_U1[1:], self.length_U) - 1 - np.arange(len(self.item_E))

    def rows(self, users_T: NDArray[np.int64]) -> Sequences:
        """Return the events of some contexts, in this order; index -1 has none."""
        length_T = np.where(users_T < 0, 0, np.append(self.length_U, 0)[users_T])
        start_T1 = np.concatenate(([0], np.cumsum(length_T)))
        shift_T = self.start_U1[users_T] - start_T1[:-1]
        place_E = np.arange(start_T1[-1]) + np.repeat(shift_T, length_T)
        return Sequences(start_T1, self.item_E[place_E])

    def before_last(self) -> tuple[Sequences, NDArray[np.int32]]:
        """Return the events before the last of each context, and that last event's item.

        Every context must have an event.
        """
        last_U = self.start_U1[1:] - 1
        keep_E = np.ones(len(self.item_E), bool)
        keep_E[last_U] = False
        start_U1 = self.start_U1 - np.arange(self.n_users + 1)
        return Sequences(start_U1, self.item_E[keep_E]), self.item_E[last_U]

    def in_pieces(self, length: int) -> Sequences:
        """Return the same events with long histories cut into pieces of at most so many."""
        pieces_U = -(-self.length_U // length)
        starts = np.repeat(self.start_U1[:-1], pieces_U)
        first_U = np.cumsum(pieces_U) - pieces_U
        starts = starts + length * (np.arange(len(starts)) - np.repeat(first_U, pieces_U))
        return Sequences(np.append(starts, self.start_U1[-1]), self.item_E)
