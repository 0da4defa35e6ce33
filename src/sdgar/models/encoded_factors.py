"""Inner products whose contexts have their vectors from a network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from sdgar.errors import DataError
from sdgar.models.factors import Factors
from sdgar.models.fold_in import ByNetwork, NewContexts, Rule
from sdgar.models.network import Encoder
from sdgar.models.saved import Saved
from sdgar.storage.folders import Tensors

if TYPE_CHECKING:
    from typing import Self

_ENCODER = "encoder."
"""Begins the names of the network's tensors among those of the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedFactors(Factors):
    """s_ui = h_u · v_i + b_i, where a network finds h_u from the history of u."""

    kind: ClassVar[str] = "factors, encoder"

    encoder: Encoder
    """The network, which finds the vectors of new contexts too."""
    rule: Rule | None = field(default_factory=ByNetwork)
    """How a new context gets its vector: by the network."""

    def ruled_by(self, rule: Rule | None) -> Self:
        """Give the same model: its network is its rule."""
        return self

    def fold_in(self, new: NewContexts) -> EncodedFactors:
        """Give a model of the same items for new contexts, whose vectors the network finds."""
        if new.in_order_E is None:
            raise DataError(
                "this model looks at the order of a history, and the rows of new users have no "
                "times. Name the column with --time-column, or give lists of items in their order.",
                code="no_time",
            )
        start_T1, item_E = (
            torch.from_numpy(one).to(self.encoder.device)
            for one in (new.history.indptr_U1, new.in_order_E)
        )
        return replace(self, user_UD=self.encoder.fold_in(start_T1, item_E))

    def tensors(self) -> dict[str, Tensor]:
        """Give everything that was learned, by name."""
        network = {_ENCODER + name: t for name, t in self.encoder.tensors().items()}
        return Factors.tensors(self) | network

    def with_tensors(self, named: Mapping[str, Tensor]) -> Self:
        """Give the same model with what ``tensors`` gave at some time."""
        own: dict[str, Any] = {n: t for n, t in named.items() if not n.startswith(_ENCODER)}
        rest = {name.removeprefix(_ENCODER): named[name] for name in named.keys() - own.keys()}
        return replace(self, **own, encoder=self.encoder.with_tensors(rest))

    def facts(self) -> dict[str, Any]:
        """Say which network it is."""
        return self.encoder.facts()

    def to_saved(self) -> Tensors:
        """Give the arrays that a saved model holds."""
        vectors = Factors(self.user_UD, self.item_ID, self.bias_I).to_saved()
        return vectors | {_ENCODER + name: a for name, a in self.encoder.to_saved().items()}

    @classmethod
    def from_saved(cls, saved: Saved) -> Self:
        """Make the model again, if the network's class is registered under its name."""
        bare = {
            n.removeprefix(_ENCODER): a for n, a in saved.tensors.items() if n.startswith(_ENCODER)
        }
        own = {n: a for n, a in saved.tensors.items() if not n.startswith(_ENCODER)}
        vectors = Factors.from_saved(replace(saved, tensors=own))
        encoder = Encoder.from_saved(replace(saved, tensors=bare))
        return cls(vectors.user_UD, vectors.item_ID, vectors.bias_I, encoder=encoder)
