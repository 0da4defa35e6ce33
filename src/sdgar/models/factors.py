"""Models whose scores are inner products of vectors of contexts and of items."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray

from sdgar.data.contexts import Fields
from sdgar.data.history import History
from sdgar.maths.sphere import unit_rows
from sdgar.models.contributions import Contributions, by_vectors
from sdgar.models.fold_in import FoldInRule, NewContexts, NoVector, VectorRule
from sdgar.models.model import Floats, Growth, Indices, Model, Side, Terms, VectorTerm
from sdgar.models.saved import Saved, Wanted
from sdgar.storage.sealed import Tensors

_PAIRS = 1 << 16
"""How many pairs of vectors are in memory at once."""


@dataclass(frozen=True, slots=True)
class Factors(Model):
    """s_ui = u_u · v_i + b_i."""

    kind: ClassVar[str] = "factors"
    holds: ClassVar[str] = "vectors"
    size_names: ClassVar[tuple[str, ...]] = ("dim",)
    compares_by: ClassVar[str] = "vectors"
    missing: ClassVar[tuple[str, ...]] = ()
    """Sentences on what the model can do and its vectors alone cannot."""

    user_UD: Floats
    """The vectors u of contexts."""
    item_ID: Floats
    """The vectors v of items."""
    bias_I: Floats
    """The biases b of items."""
    rule: FoldInRule | None = None
    """The rule that finds the vector of a new context; None if no rule is known."""

    @property
    def n_items(self) -> int:
        """The number of items in the catalogue."""
        return len(self.item_ID)

    @property
    def dim(self) -> int:
        """The number of coordinates of a vector; 0 if scores are biases alone."""
        return int(self.item_ID.shape[1])

    @property
    def grows(self) -> bool:
        """Whether a rule is known for the vectors of new items."""
        return self.rule is not None and self.rule.places_items

    def score_all(self, users_B: Indices) -> Floats:
        """s_BI = U_B V' + b."""
        scores_BI: Floats = self.user_UD[users_B] @ self.item_ID.T
        scores_BI += self.bias_I
        return scores_BI

    def score_pairs(self, users_P: Indices, items_P: Indices) -> Floats:
        """s_P = u · v + b of each pair."""
        found_P = np.empty(len(users_P), np.float32)
        for first in range(0, len(users_P), _PAIRS):
            part = slice(first, first + _PAIRS)
            u_PD, v_PD = self.user_UD[users_P[part]], self.item_ID[items_P[part]]
            found_P[part] = np.einsum("pd,pd->p", u_PD, v_PD) + self.bias_I[items_P[part]]
        return found_P

    def contributions(
        self, context: int, items_B: Indices, history_H: Indices
    ) -> Contributions | None:
        """Split u · v_i + b_i by the vectors of the items that the context has."""
        return by_vectors(
            self.user_UD[context],
            self.item_ID[items_B],
            self.bias_I[items_B],
            self.item_ID[history_H],
        )

    def ruled_by(self, rule: FoldInRule | None) -> Factors:
        """Return the same model with a rule that finds vectors; no other rule suits it."""
        finds_vectors = rule is not None and rule.places_items
        return replace(self, rule=rule if finds_vectors else None)

    def fold_in(self, new: NewContexts) -> Factors:
        """Return a model of the same items for new contexts, whose vectors the rule finds."""
        rule = cast("VectorRule", self.rule)
        user_TD = rule.vectors(self.item_ID, self.bias_I, new.history)
        return Factors(user_TD, self.item_ID, self.bias_I, self.rule)

    def updated(self, at_U: Indices, own: NewContexts) -> Self:
        """Return the model for these contexts; the rule finds vectors of those with number -1."""
        user_UD = self.user_UD[at_U.clip(min=0)]
        new_T = np.flatnonzero(at_U < 0)
        if len(new_T):
            folded = self.fold_in(own.rows(new_T))
            user_UD[new_T] = folded.user_UD
        return replace(self, user_UD=user_UD)

    def only(self, at_T: Indices, place_TF: Indices | None = None) -> Self:
        """Return the model with these contexts alone, by their numbers."""
        return replace(self, user_UD=self.user_UD[at_T])

    def with_items(self, growth: Growth) -> Self:
        """Return the model with places for more items, whose vectors and biases are 0."""
        item_JD = np.zeros((growth.n_items, self.dim), self.item_ID.dtype)
        bias_J = np.zeros(growth.n_items, self.bias_I.dtype)
        item_JD[growth.place_I], bias_J[growth.place_I] = self.item_ID, self.bias_I
        rule = self.rule
        if rule is not None:
            none_J = np.zeros(growth.n_items, np.int64)
            rule = rule.grown(growth.place_I, none_J if growth.added_J is None else growth.added_J)
        return replace(self, item_ID=item_JD, bias_I=bias_J, rule=rule)

    def with_vectors(self, at_N: Indices, v_ND: Floats, b_N: Floats) -> Self:
        """Return the model with other vectors and biases of some items."""
        item_ID, bias_I = self.item_ID.copy(), self.bias_I.copy()
        item_ID[at_N], bias_I[at_N] = v_ND, b_N
        return replace(self, item_ID=item_ID, bias_I=bias_I)

    def factors(self) -> Factors:
        """Return the model itself."""
        return self

    def item_vectors(self) -> NDArray[np.floating] | None:
        """Return the vectors of items; None if they have no coordinates."""
        return self.item_ID if self.dim else None

    def terms(self) -> Terms:
        """Return the inner products, the only term."""
        term = VectorTerm(self.user_UD, self.item_ID, self.bias_I)
        return Terms((term,), missing=self.missing)

    def similarity(self, side: Side) -> Factors | None:
        """s = cos(x, y) of the vectors of items, or of users; None without coordinates."""
        vectors_RD = self.item_ID if side == "item" else self.user_UD
        if vectors_RD.shape[1] == 0:
            return None
        unit_RD = unit_rows(vectors_RD)
        return Factors(unit_RD, unit_RD, np.zeros(len(unit_RD), np.float32))

    def sizes(self) -> dict[str, int]:
        """Return the sizes of ``size_names``."""
        return {"dim": self.dim}

    def to_saved(self) -> Tensors:
        """Return the arrays that a saved model holds."""
        return {
            name: np.ascontiguousarray(getattr(self, name), dtype)
            for name, (dtype, _) in self.wanted({**self.sizes(), "users": 0, "items": 0}).items()
        }

    @classmethod
    def from_saved(cls, saved: Saved) -> Self:
        """Return the model of a saved folder, after a check of names, types, shapes and numbers."""
        arrays: dict[str, Any] = dict(saved.take(cls.wanted(saved.sizes)))
        return cls(**arrays)

    @classmethod
    def wanted(cls, sizes: Mapping[str, int]) -> Wanted:
        """Return which arrays a saved model of these sizes holds."""
        return {
            "user_UD": (np.float32, (sizes["users"], sizes["dim"])),
            "item_ID": (np.float32, (sizes["items"], sizes["dim"])),
            "bias_I": (np.float32, (sizes["items"],)),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldFactors(Factors):
    """u_c = Σ_f e_f(c), or that sum brought to a fixed length, with a vector e of each value.

    Contexts that training has seen are rows of ``user_UD``; others are computed from their fields.
    """

    kind: ClassVar[str] = "factors of fields"
    size_names: ClassVar[tuple[str, ...]] = ("dim", "values")
    missing: ClassVar[tuple[str, ...]] = (
        "Contexts that did not occur in training have no vector: the model computes it from the "
        "vectors of their fields, which are left out.",
    )

    field_VD: Floats
    """The vectors e of all values of all fields, numbered through."""
    scale: Floats
    """The length (1,) that the sum is brought to; 0 leaves the sum as it is."""

    @property
    def n_values(self) -> int | None:
        """The number of values of all fields of contexts."""
        return len(self.field_VD)

    def contexts(self, place_XF: Indices) -> Floats:
        """u_XD of contexts with these values of their fields, whether they were seen or not."""
        sum_XD: Floats = self.field_VD[place_XF].sum(axis=1)
        return self.scale * unit_rows(sum_XD) if self.scale[0] else sum_XD

    def only(self, at_T: Indices, place_TF: Indices | None = None) -> Self:
        """Return the model with these contexts alone; the fields say who the number -1 is."""
        user_TD = self.user_UD[at_T]
        new_T = np.flatnonzero(at_T < 0)
        if len(new_T):
            assert place_TF is not None
            user_TD[new_T] = self.contexts(place_TF[new_T])
        return replace(self, user_UD=user_TD)

    def followed_by(self, place_XF: Indices) -> Self:
        """Return the model with more contexts after its own, computed from their fields."""
        return replace(self, user_UD=np.concatenate((self.user_UD, self.contexts(place_XF))))

    def sizes(self) -> dict[str, int]:
        """Return the sizes of ``size_names``."""
        return Factors.sizes(self) | {"values": len(self.field_VD)}

    @classmethod
    def wanted(cls, sizes: Mapping[str, int]) -> Wanted:
        """Return which arrays a saved model of these sizes holds."""
        return {
            **Factors.wanted(sizes),
            "field_VD": (np.float32, (sizes["values"], sizes["dim"])),
            "scale": (np.float32, (1,)),
        }


def popularity(history: History, n_items: int, fields: Fields | None = None) -> Factors:
    """Return the model with b_i = number of contexts of item i, and no vectors."""
    count_I = np.bincount(history.items_E, minlength=n_items).astype(np.float32)
    tables = np.zeros((history.n_users, 0), np.float32), np.zeros((n_items, 0), np.float32), count_I
    if fields is None:
        return Factors(*tables, NoVector())
    none_VD = np.zeros((fields.n_values, 0), np.float32)
    return FieldFactors(*tables, field_VD=none_VD, scale=np.zeros(1, np.float32), rule=NoVector())
