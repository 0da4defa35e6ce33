"""Inner products whose contexts have their vectors from a network."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from sdgar.errors import DataError
from sdgar.models.factor_tensors import ENCODER
from sdgar.models.factors import Factors
from sdgar.models.fold_in import ByNetwork, NewContexts, Rule
from sdgar.models.network import Encoder
from sdgar.models.saved import Saved
from sdgar.storage.sealed import Tensors

if TYPE_CHECKING:
    from typing import Self


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedFactors(Factors):
    """s_ui = h_u · v_i + b_i, where a network finds h_u from the history of u."""

    kind: ClassVar[str] = "factors, encoder"
    missing: ClassVar[tuple[str, ...]] = (
        "The network that finds the vector of a user from the order of a history is left out: the "
        "vectors are those of the histories in training.",
    )

    encoder: Encoder
    """The network, which finds the vectors of new contexts too."""
    rule: Rule | None = field(default_factory=ByNetwork)
    """The rule that the network finds the vector of a new context."""

    def ruled_by(self, rule: Rule | None) -> Self:
        """Return the same model: its network is its rule."""
        return self

    def fold_in(self, new: NewContexts) -> EncodedFactors:
        """Return a model of the same items for new contexts, whose vectors the network finds."""
        if new.in_order_E is None:
            raise DataError(
                "this model uses the order of a history, and the rows of new users have no "
                "times. Name the column with --time-column, or give lists of items in their order.",
                code="no_time",
            )
        start_T1, item_E = (
            torch.from_numpy(one).to(self.encoder.module_device)
            for one in (new.history.indptr_U1, new.in_order_E)
        )
        return replace(self, user_UD=self.encoder.fold_in(start_T1, item_E).cpu().numpy())

    def facts(self) -> dict[str, Any]:
        """Return the name and the settings of the network."""
        return self.encoder.facts()

    def to_saved(self) -> Tensors:
        """Return the arrays that a saved model holds."""
        network = self.encoder.to_saved().items()
        return Factors.to_saved(self) | {ENCODER + name: a for name, a in network}

    @classmethod
    def from_saved(cls, saved: Saved) -> Self:
        """Return the model of a saved folder, if the network's class is registered."""
        bare = {
            n.removeprefix(ENCODER): a for n, a in saved.tensors.items() if n.startswith(ENCODER)
        }
        own = {n: a for n, a in saved.tensors.items() if not n.startswith(ENCODER)}
        vectors = Factors.from_saved(replace(saved, tensors=own))
        encoder = Encoder.from_saved(replace(saved, tensors=bare))
        return cls(vectors.user_UD, vectors.item_ID, vectors.bias_I, encoder=encoder)
