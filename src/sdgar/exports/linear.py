"""What a model comes down to in other programs: vectors, biases, and weights between items."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array

from sdgar.errors import UsageError
from sdgar.models.encoded_factors import EncodedFactors
from sdgar.models.factors import Factors
from sdgar.models.field_factors import FieldFactors
from sdgar.models.item_vectors import ItemVectors
from sdgar.models.item_weights import ItemWeights, LocalItemWeights, SparseItemWeights
from sdgar.models.model import Model
from sdgar.models.saved import array
from sdgar.models.sum import Sum

Vectors = NDArray[np.float32]
"""An array of vectors or of biases."""


@dataclass(frozen=True, slots=True)
class Linear:
    """s_ci = u_c · v_i + b_i + Σ_{j ∈ I_c} w_ji for the items i that a context c does not have."""

    user_UD: Vectors
    """The vectors u of contexts."""
    item_ID: Vectors
    """The vectors v of items."""
    bias_I: Vectors
    """The biases b of items."""
    weight_II: Any
    """The weights w as a sparse matrix of SciPy, row j for having item j; None if there are none.
    The weight of a memory beside vectors is multiplied in."""
    has_vectors: bool
    """Whether the scores of two contexts of the same history can differ, or those of no history."""
    only_supported: bool
    """Whether an item is left out of lists where no item of the history speaks for it."""
    lost: tuple[str, ...]
    """Sentences on what the model can do and these numbers alone cannot."""

    @classmethod
    def of(cls, model: Model) -> Linear:
        """Take a model apart; raise if its scores are not of this form."""
        parts = weighted_parts(model)
        vectors = [(p, w) for p, w in parts if isinstance(p, Factors | ItemVectors)]
        weights = [_matrix(p, w) for p, w in parts if isinstance(p, ItemWeights | LocalItemWeights)]
        found = [_vectors(part, weight) for part, weight in vectors]
        n_users = _n_users(parts[0][0])
        empty = np.zeros((n_users, 0), np.float32), np.zeros((model.n_items, 0), np.float32)
        users, items, biases = zip(*found, strict=True) if found else ((), (), ())
        return cls(
            user_UD=np.hstack((empty[0], *users)),
            item_ID=np.hstack((empty[1], *items)),
            bias_I=sum(biases, np.zeros(model.n_items, np.float32)),
            weight_II=sum(weights[1:], weights[0]) if weights else None,
            has_vectors=bool(vectors),
            only_supported=isinstance(model, SparseItemWeights),
            lost=tuple(
                said for kind, said in _LOST.items() if any(isinstance(p, kind) for p, _ in parts)
            ),
        )

    def without_weights(self) -> Linear:
        """Return the vectors and biases alone."""
        return Linear(
            self.user_UD, self.item_ID, self.bias_I, None, self.has_vectors, False, self.lost
        )

    def with_biases(self) -> tuple[Vectors, Vectors]:
        """Return u and v with one more number each, 1 and b: s_ci = (u_c, 1) · (v_i, b_i)."""
        one_U1 = np.ones((len(self.user_UD), 1), np.float32)
        return np.hstack((self.user_UD, one_U1)), np.hstack((self.item_ID, self.bias_I[:, None]))


_LOST: dict[type, str] = {
    FieldFactors: "Contexts that did not occur in training have no vector: the model makes it up "
    "of the vectors of their fields, which are left out.",
    EncodedFactors: "The network that finds the vector of a user from the order of a history is "
    "left out: the vectors are those of the histories in training.",
}


def weighted_parts(model: Model) -> list[tuple[Model, float]]:
    """Return the models that are added up, each with its weight; raise if one is a network."""
    if isinstance(model, Sum):
        second = weighted_parts(model.second)
        return [*weighted_parts(model.first), *((part, model.weight * w) for part, w in second)]
    if not isinstance(model, Factors | ItemVectors | ItemWeights | LocalItemWeights):
        raise UsageError(
            f"a model that has {model.holds} cannot be exported: its scores are no inner products "
            "of vectors and no sums of weights between items. Serve it with sdgar serve, or write "
            "its lists with sdgar recommend RUN --all -o lists.parquet.",
            code="cannot_export",
        )
    return [(model, 1.0)]


def _n_users(part: Any) -> int:
    return len(part.user_UD) if isinstance(part, Factors) else int(part.history.n_rows)


@torch.no_grad()
def _vectors(part: Any, weight: float) -> tuple[Vectors, Vectors, Vectors]:
    """Return u, v and b of one model, with the weight in u and b."""
    if isinstance(part, ItemVectors):  # u_c = Σ_{j ∈ I_c} a_j; own items, which lose 1, are no news
        tensors = part.history @ part.item_ID, part.item_ID, torch.zeros(part.n_items)
    else:
        tensors = part.user_UD, part.item_ID, part.bias_I
    user_UD, item_ID, bias_I = (array(tensor, np.float32) for tensor in tensors)
    return np.float32(weight) * user_UD, item_ID, np.float32(weight) * bias_I


def _matrix(part: Any, weight: float) -> Any:
    """Return W of one model, times its weight, without its zeros."""
    if isinstance(part, ItemWeights):
        found = csr_array(array(part.weight_II, np.float32))
    else:
        w = part.weight_II
        arrays = (
            array(w.weights(), np.float32),
            array(w.column_E, np.int64),
            array(w.start_R1, np.int64),
        )
        found = csr_array(arrays, shape=(part.n_items, part.n_items))
    return found * np.float32(weight) if weight != 1 else found
