"""What every trained model can do, whatever its scores are made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

import torch
from torch import Tensor

from sdgar.errors import UsageError

if TYPE_CHECKING:
    from typing import Self

    from sdgar.models.fold_in import NewContexts, Rule
    from sdgar.models.reasons import Shares
    from sdgar.models.saved import Saved
    from sdgar.storage.folders import Tensors

Side = Literal["item", "user"]
"""The things that can be similar to each other."""


class Scorer(Protocol):
    """Anything that can score the whole catalogue for a block of contexts."""

    @property
    def n_items(self) -> int:
        """Number of items in the catalogue."""
        ...

    @property
    def device(self) -> torch.device:
        """Where ``score_all`` computes."""
        ...

    def score_all(self, users_B: Tensor) -> Tensor:
        """Give the scores s_BI; larger is better."""
        ...


class Model(Scorer, Protocol):
    """A trained model: it answers, takes new contexts in, and can be saved and made again."""

    holds: ClassVar[str]
    """What the scores are made of, in words for people."""
    size_names: ClassVar[tuple[str, ...]]
    """The sizes that a saved model has beside its numbers of users, items and interactions."""
    kind: ClassVar[str]
    """The name of the kind of model in a saved folder."""

    @property
    def n_values(self) -> int | None:
        """Number of values of all fields of contexts; None if a context is not a sum of fields."""
        ...

    @property
    def rule(self) -> Rule | None:
        """How contexts are folded in that are new to the model; None if they cannot be."""
        ...

    def ruled_by(self, rule: Rule | None) -> Model:
        """Give the same model with a rule to fold in by; a model with a way of its own keeps it."""
        ...

    def fold_in(self, new: NewContexts) -> Model:
        """Give a model of the same items for new contexts; only a model with a rule can."""
        ...

    def updated(self, at_U: Tensor, own: NewContexts) -> Model:
        """Give the model for contexts with these histories.

        Those with a number ``at_U`` keep what the model learned of them; those with -1 are folded
        in, which only a model with a rule can do.
        """
        ...

    def only(self, at_T: Tensor, place_TF: Tensor | None = None) -> Model:
        """Give the model with these contexts alone, by their numbers.

        A model whose contexts are sums of fields makes up a context with the number -1 from the
        values ``place_TF`` of its fields.
        """
        ...

    def alike(self, side: Side) -> Model | None:
        """Give a model that scores all items for an item, or all users for a user.

        It scores by how similar they are; None if nothing here is similar to anything.
        """
        ...

    def score_pairs(self, users_P: Tensor, items_P: Tensor) -> Tensor:
        """Give the score s_P of each context for the item beside it."""
        ...

    def shares(self, context: int, items_B: Tensor, history_H: Tensor) -> Shares | None:
        """Split the scores of some items among the items that the context has.

        None if the scores of the model cannot be split up.
        """
        ...

    def sizes(self) -> dict[str, int]:
        """Give the sizes of ``size_names``."""
        ...

    def facts(self) -> dict[str, Any]:
        """Say what it takes to make the model again, beside its tensors and sizes."""
        ...

    def to_saved(self) -> Tensors:
        """Give the arrays that a saved model holds."""
        ...

    @classmethod
    def from_saved(cls, saved: Saved) -> Self:
        """Make the model again, after checking the names, types, shapes and numbers."""
        ...


class Learned(Model, Protocol):
    """A model that training gives: its tensors can be copied and taken back."""

    def tensors(self) -> dict[str, Tensor]:
        """Give everything that was learned, by name."""
        ...

    def with_tensors(self, named: Mapping[str, Tensor]) -> Self:
        """Give the same model with what ``tensors`` gave at some time."""
        ...

    def copied(self) -> Self:
        """Give the model as it is now, whatever becomes of the parameters."""
        ...


def checked(scores_BI: Tensor, n_users: int, n_items: int) -> Tensor:
    """Give the scores as float32, if there is a row for each user and a column for each item."""
    if scores_BI.shape != (n_users, n_items):
        raise UsageError(
            f"score_all gave scores of shape {tuple(scores_BI.shape)} for {n_users} "
            f"users and {n_items} items. It must give a row a user and a column an item.",
            code="bad_scores",
        )
    return scores_BI.to(torch.float32).contiguous()
