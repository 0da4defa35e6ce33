"""Items that are similar to an item, and users that are similar to a user."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sdgar.data.history import History
from sdgar.data.ids import Ids
from sdgar.models.model import Model, Side
from sdgar.recommend.lists import Lists
from sdgar.recommend.questions import Asked, Raw, labels, several
from sdgar.recommend.ranking import ranked
from sdgar.recommend.unknown import index_of

BY = ("auto", "vectors", "weights")
"""What similarity can go by: vectors where there are some (auto), vectors, or weights of items."""
Kept = dict[tuple[Side, int], Model | None]
"""What was built to compare by, for a side and a part of the model."""


@dataclass(frozen=True, slots=True)
class Likeness:
    """A model that scores all items for an item, or all users for a user."""

    side: Side
    """The side that is compared: items or users."""
    model: Model
    """The model that scores all items for an item, or all users for a user."""
    ids: Ids
    """The ids of the items, or of the users."""
    itself: History
    """The one that each list leaves out: the item or the user that it is about."""

    @property
    def by(self) -> str:
        """What the similarity goes by: vectors (their cosine), or weights between items."""
        return self.model.compares_by

    @classmethod
    def of(cls, model: Model, side: Side, ids: Ids, by: str, kept: Kept) -> Likeness | None:
        """Compare the items or the users of a model; None if it has nothing to compare by.

        What is built for a part of the model goes to ``kept``, and is taken from there.
        """
        parts = [part for part in model.parts() if by in ("auto", part.compares_by)]
        alike = None
        for part in parts:
            place = side, id(part)
            if place not in kept:
                kept[place] = part.similarity(side)
            if (alike := kept[place]) is not None:
                break
        n = len(ids)
        itself = History(np.arange(n + 1), np.arange(n, dtype=np.int32))
        return None if alike is None else cls(side, alike, ids, itself)

    def lists(self, raw: Raw, k: int, fallback: str) -> Lists:
        """List the k most similar ones to each that is asked about."""
        given = several(raw, f"{self.side}s")
        index_T = index_of(self.ids, given, self.side, fallback)
        columns = {"like": labels(self.ids, given, index_T)}
        asked = Asked(self.model, self.itself, columns, index_T, self.itself).unless(fallback)
        return ranked(asked, k, self.ids, what=self.side, unknown="unknown")
