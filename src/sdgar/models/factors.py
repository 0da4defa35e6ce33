"""Scores by inner products, which most models come down to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from sdgar.models.fold_in import NewContexts, Rule, VectorRule
from sdgar.models.reasons import Shares, by_vectors
from sdgar.models.saved import Saved, Wanted, array

if TYPE_CHECKING:
    from typing import Self

    from sdgar.models.model import Side
    from sdgar.storage.folders import Tensors

_PAIRS = 1 << 16
"""How many pairs of vectors are held at once."""


@dataclass(frozen=True, slots=True)
class Factors:
    """s_ui = u_u · v_i + b_i."""

    kind: ClassVar[str] = "factors"
    holds: ClassVar[str] = "vectors"
    size_names: ClassVar[tuple[str, ...]] = ("dim",)

    user_UD: Tensor
    """The vectors u of contexts."""
    item_ID: Tensor
    """The vectors v of items."""
    bias_I: Tensor
    """The biases b of items."""
    rule: Rule | None = None
    """How a new context gets its vector; None if no rule is known."""

    @property
    def n_items(self) -> int:
        """Number of items in the catalogue."""
        return self.item_ID.shape[0]

    @property
    def n_values(self) -> int | None:
        """Number of values of all fields of contexts; None, as contexts are no sums of fields."""
        return None

    @property
    def device(self) -> torch.device:
        """Where the factors live."""
        return self.item_ID.device

    def score(self, users_B: Tensor, items_BN: Tensor) -> Tensor:
        """s_BN = u · v + b of N items for each context."""
        s_BN1 = torch.bmm(self.item_ID[items_BN], self.user_UD[users_B][:, :, None])
        return s_BN1[:, :, 0] + self.bias_I[items_BN]

    def score_all(self, users_B: Tensor) -> Tensor:
        """s_BI = U_B V' + b."""
        return torch.addmm(self.bias_I, self.user_UD[users_B], self.item_ID.T)

    def score_pairs(self, users_P: Tensor, items_P: Tensor) -> Tensor:
        """s_P = u · v + b of each pair."""
        parts = zip(users_P.split(_PAIRS), items_P.split(_PAIRS), strict=True)  # type: ignore[no-untyped-call]
        return torch.cat(
            [self.score(users_B, items_B[:, None])[:, 0] for users_B, items_B in parts]
        )

    def shares(self, context: int, items_B: Tensor, history_H: Tensor) -> Shares | None:
        """Split u · v_i + b_i by the vectors of the items that the context has."""
        return by_vectors(
            self.user_UD[context],
            self.item_ID[items_B],
            self.bias_I[items_B],
            self.item_ID[history_H],
        )

    def tensors(self) -> dict[str, Tensor]:
        """Give everything that was learned, by name."""
        return {"user_UD": self.user_UD, "item_ID": self.item_ID, "bias_I": self.bias_I}

    def with_tensors(self, named: Mapping[str, Tensor]) -> Self:
        """Give the same model with what ``tensors`` gave at some time."""
        own: dict[str, Any] = dict(named)
        return replace(self, **own)

    def copied(self) -> Self:
        """Give the model as it is now, whatever becomes of the parameters."""
        return self.with_tensors({name: t.clone() for name, t in self.tensors().items()})

    def ruled_by(self, rule: Rule | None) -> Factors:
        """Give the same model with a rule that finds vectors; other rules are not for it."""
        return replace(self, rule=rule if isinstance(rule, VectorRule) else None)

    def fold_in(self, new: NewContexts) -> Factors:
        """Give a model of the same items for new contexts, whose vectors the rule finds."""
        assert isinstance(self.rule, VectorRule)
        known = new.matrix(self.n_items, self.device)
        user_TD = self.rule.vectors(self.item_ID, self.bias_I, known)
        return Factors(user_TD, self.item_ID, self.bias_I, self.rule)

    def updated(self, at_U: Tensor, own: NewContexts) -> Self:
        """Give the model with the vectors that contexts have; the rule finds those of number -1."""
        at_U = at_U.to(self.device)
        user_UD = self.user_UD[at_U.clamp(min=0)]
        new_T = torch.nonzero(at_U < 0)[:, 0]
        if len(new_T):
            user_UD[new_T] = self.fold_in(own.rows(new_T.cpu().numpy())).user_UD
        return replace(self, user_UD=user_UD)

    def only(self, at_T: Tensor, place_TF: Tensor | None = None) -> Self:
        """Give the model with these contexts alone, by their numbers."""
        return replace(self, user_UD=self.user_UD[at_T.to(self.device)])

    def alike(self, side: Side) -> Factors | None:
        """s = cos(x, y) of the vectors of items, or of users; None if vectors have no numbers."""
        vectors_RD = self.item_ID if side == "item" else self.user_UD
        if vectors_RD.shape[1] == 0:
            return None
        unit_RD = normalize(vectors_RD, dim=1)
        return Factors(unit_RD, unit_RD, torch.zeros(len(unit_RD), device=self.device))

    def sizes(self) -> dict[str, int]:
        """Give the sizes of ``size_names``."""
        return {"dim": self.item_ID.shape[1]}

    def facts(self) -> dict[str, Any]:
        """Say nothing: tensors and sizes are all it takes to make the model again."""
        return {}

    def to_saved(self) -> Tensors:
        """Give the arrays that a saved model holds."""
        return {name: array(tensor, np.float32) for name, tensor in self.tensors().items()}

    @classmethod
    def from_saved(cls, saved: Saved) -> Self:
        """Make the model again, after checking the names, types, shapes and numbers."""
        found = saved.take(cls.wanted(saved.sizes))
        tensors: dict[str, Any] = {name: torch.from_numpy(own) for name, own in found.items()}
        return cls(**tensors)

    @classmethod
    def wanted(cls, sizes: Mapping[str, int]) -> Wanted:
        """Say which arrays a saved model of these sizes holds."""
        return {
            "user_UD": (np.float32, (sizes["users"], sizes["dim"])),
            "item_ID": (np.float32, (sizes["items"], sizes["dim"])),
            "bias_I": (np.float32, (sizes["items"],)),
        }
