"""Models that score by what came last: weights from item to item, for events in order."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from sdgar.data.history import History
from sdgar.errors import DataError
from sdgar.maths.rows import Rows
from sdgar.maths.sequences import Sequences
from sdgar.maths.transitions import Decay
from sdgar.models.contributions import Contributions, by_weights
from sdgar.models.fold_in import NewContexts
from sdgar.models.item_weights import LocalItemWeights, add_weights, weights_between
from sdgar.models.model import Floats, Growth, Indices, Side, Terms
from sdgar.models.saved import Saved, check_csr
from sdgar.storage.sealed import DamagedError, Tensors


@dataclass(frozen=True, slots=True)
class TransitionWeights(LocalItemWeights):
    """s = Σ_e s_e w_{i_e}: the events e of a context, each as much as it counts, and their weights.

    An event counts the less the more events came after it.
    """

    kind: ClassVar[str] = "transitions"
    holds: ClassVar[str] = "weights from item to item, for events in order"
    size_names: ClassVar[tuple[str, ...]] = ("weights", "events")

    events: Sequences
    """The events of each context, in order."""
    decay: Decay
    """How much an event counts."""

    def fold_in(self, new: NewContexts) -> Self:
        """Return a model of the same weights for contexts that have other events."""
        if new.in_order_E is None:
            raise DataError(
                "this model uses the order of a history, and the rows of new users have no "
                "times. Name the column with --time-column, or give lists of items in their order.",
                code="no_time",
            )
        events = Sequences(new.history.indptr_U1, new.in_order_E.astype(np.int32))
        return replace(self, history=new.history, events=events)

    def updated(self, at_U: Indices, own: NewContexts) -> Self:
        """Return a model of the same weights for these histories; what is unchanged needs no order.

        A context with a number ``at_U`` keeps its events.
        """
        if own.in_order_E is None and (at_U >= 0).all():
            return self.only(at_U)
        return self.fold_in(own)

    def in_order(self) -> Sequences:
        """Return the events of each context."""
        return self.events

    def only(self, at_T: Indices, place_TF: Indices | None = None) -> Self:
        """Return the model with these contexts alone, by their numbers."""
        return replace(self, history=self.history.rows(at_T), events=self.events.rows(at_T))

    def add_scores(self, users_B: Indices, scores_BI: Floats, weight: float) -> None:
        """scores_BI += weight Σ_e s_e w, in place."""
        own = self.events.rows(users_B)
        rows = Rows(own.start_U1, own.item_E, self.decay.strengths(own))
        add_weights(rows, self.weight_II, scores_BI, weight)

    def contributions(
        self, context: int, items_B: Indices, history_H: Indices
    ) -> Contributions | None:
        """Return Σ_e s_e w_ji over the events e of each item j of the history."""
        own = self.events.rows(np.array([context]))
        strength_I = np.bincount(own.item_E, self.decay.strengths(own), minlength=self.n_items)
        weight_HB = weights_between(self.weight_II, history_H, items_B)
        return by_weights((strength_I[history_H][:, None] * weight_HB).T)

    def similarity(self, side: Side) -> Self | None:
        """s = W: the items that come after item j; None for users."""
        alone = LocalItemWeights.similarity(self, side)
        if alone is None:
            return None
        own = alone.history
        return replace(alone, events=Sequences(own.indptr_U1, own.items_E))

    def with_history(self, history: History) -> Self:
        """Return the same model: a history without an order does not change what comes next."""
        return self

    def with_items(self, growth: Growth) -> Self:
        """Return the model with places for more items, which have no weights."""
        grown = LocalItemWeights.with_items(self, growth)
        item_E = growth.place_I[self.events.item_E].astype(np.int32)
        return replace(grown, events=replace(self.events, item_E=item_E))

    def terms(self) -> Terms | None:  # type: ignore[override]
        """Return None: how much an event counts is no part of the terms."""
        return None

    def sizes(self) -> dict[str, int]:
        """Return the sizes of ``size_names``."""
        return LocalItemWeights.sizes(self) | {"events": len(self.events.item_E)}

    def facts(self) -> dict[str, Any]:
        """Return how much an event counts."""
        return {"decay": {"tau": self.decay.tau, "floor": self.decay.floor}}

    def to_saved(self) -> Tensors:
        """Return W by rows, and the events of each context."""
        own: Tensors = {"start_U1": self.events.start_U1, "event_E": self.events.item_E}
        return LocalItemWeights.to_saved(self) | own

    @classmethod
    def from_saved(cls, saved: Saved) -> Self:
        """Return the model of a saved folder, after a check of names, types, shapes and numbers."""
        match saved.about.get("decay"):
            case {"tau": int() | float() as tau, "floor": int() | float() as floor} if (
                0 < tau < np.inf and 0 <= floor <= 1
            ):
                decay = Decay(float(tau), float(floor))
            case _:
                raise DamagedError(saved.path, "the manifest does not say how much an event counts")
        own = {name: saved.tensors.get(name) for name in ("start_U1", "event_E")}
        rest = {name: one for name, one in saved.tensors.items() if name not in own}
        weights = LocalItemWeights.from_saved(replace(saved, tensors=rest))
        wanted = {
            "start_U1": (np.int64, (saved.sizes["users"] + 1,)),
            "event_E": (np.int32, (saved.sizes["events"],)),
        }
        found = replace(saved, tensors={k: v for k, v in own.items() if v is not None}).take(wanted)
        start_U1, event_E = found.values()
        check_csr(saved.path, "start_U1", start_U1, event_E, saved.sizes["items"])
        return cls(weights.history, weights.weight_II, Sequences(start_U1, event_E), decay)
