"""Diversity: items that resemble what a list has already come later."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from sdgar.recommend.rules.facts import CATEGORY, Facts, no_basis

Method = Literal["mmr", "dpp"]
"""The two ways to be diverse."""
Basis = Literal["auto", "vectors", "categories"]
"""What items are compared by; auto is vectors, or categories where there are no vectors."""
_EASED = 0.01
"""The share of the identity in the kernel of DPP, without which more items than a vector has
numbers could not be told apart."""


@dataclass(frozen=True, slots=True)
class Diversity:
    """Select argmax_i (1 - λ) r_i + λ d_i(S), where S is what was selected before.

    r_i is the score after all changes, from 0 for the last candidate to 1 for the first. With
    ``mmr`` (Carbonell and Goldstein, 1998)

        d_i(S) = -max_{j ∈ S} c_ij,   0 for the first item

    and with ``dpp``, the greedy search for the largest determinant (Chen, Zhang and Zhou, 2018),

        d_i(S) = log det C_{S ∪ i} - log det C_S,   C = 0.99 c + 0.01 I.

    c_ij is the cosine of the vectors of two items, or |V_i ∩ V_j| / |V_i ∪ V_j| of their
    categories.
    """

    strength: float
    """The weight λ, from 0 to 1."""
    method: Method = "mmr"
    """The way to be diverse."""
    on: Basis = "auto"
    """What items are compared by."""

    def begin(self, items_N: NDArray[np.int64], facts: Facts) -> Term:
        """Return the running term d of some candidates, of which none is selected yet."""
        like = likeness(items_N, facts, self.on)
        return _Farthest(like) if self.method == "mmr" else _Volume(like)


class Term(Protocol):
    """One part of the value of candidates, which depends on what was selected."""

    def values(self) -> NDArray[np.float64]:
        """Return the term of each candidate, if it came next."""
        ...

    def add(self, at: int) -> None:
        """Take note that a candidate was selected."""
        ...


class Likeness(Protocol):
    """How much items are alike: 1 for an item and itself."""

    def to(self, at: int) -> NDArray[np.float64]:
        """Return how much each candidate is like one of them."""
        ...

    def __len__(self) -> int: ...


def likeness(items_N: NDArray[np.int64], facts: Facts, on: Basis) -> Likeness:
    """Return how candidates are compared; raise if there is nothing to compare them by."""
    by_vectors = on == "vectors" or (on == "auto" and facts.item_ID is not None)
    if by_vectors and facts.item_ID is not None:
        return ByVectors(items_N, facts.item_ID)
    if by_vectors or not facts.coded(CATEGORY).names:
        raise no_basis(
            f"items cannot be compared: there are no {'vectors' if by_vectors else 'categories'}"
            f"{'' if on != 'auto' else ' and no vectors'}, and a rule or a dial asks for diversity",
            "Give facts of items with categories, use a model with vectors, or leave diversity at "
            "0.",
        )
    return ByCategories(items_N, facts)


class ByVectors:
    """c_ij = v_i · v_j / (|v_i| |v_j|), and 0 where there is no vector."""

    def __init__(self, items_N: NDArray[np.int64], item_ID: NDArray[np.floating]) -> None:
        unit_ND = np.zeros((len(items_N), item_ID.shape[1]))
        inside_N = items_N < len(item_ID)
        unit_ND[inside_N] = item_ID[items_N[inside_N]]
        norm_N = np.sqrt(np.einsum("nd,nd->n", unit_ND, unit_ND))
        self._unit_ND = unit_ND / np.where(norm_N > 0, norm_N, 1.0)[:, None]

    def __len__(self) -> int:
        return len(self._unit_ND)

    def to(self, at: int) -> NDArray[np.float64]:
        """Return how much each candidate is like one of them."""
        c_N: NDArray[np.float64] = self._unit_ND @ self._unit_ND[at]
        c_N[at] = 1.0
        return c_N


class ByCategories:
    """c_ij = |V_i ∩ V_j| / |V_i ∪ V_j| of categories, and 0 where there are none."""

    def __init__(self, items_N: NDArray[np.int64], facts: Facts) -> None:
        self._has_NG = facts.coded(CATEGORY).has(items_N)[0].astype(np.float64)
        self._count_N = self._has_NG.sum(axis=1)

    def __len__(self) -> int:
        return len(self._has_NG)

    def to(self, at: int) -> NDArray[np.float64]:
        """Return how much each candidate is like one of them."""
        both_N = self._has_NG @ self._has_NG[at]
        either_N = self._count_N + self._count_N[at] - both_N
        c_N: NDArray[np.float64] = both_N / np.where(either_N > 0, either_N, 1.0)
        c_N[at] = 1.0
        return c_N


class _Farthest:
    """d_i(S) = -max_{j ∈ S} c_ij."""

    def __init__(self, like: Likeness) -> None:
        self._like, self._term_N = like, np.zeros(len(like))
        self._first = True

    def values(self) -> NDArray[np.float64]:
        """Return the term of each candidate, if it came next."""
        return self._term_N

    def add(self, at: int) -> None:
        """Take note that a candidate was selected."""
        far_N = -self._like.to(at)
        self._term_N = far_N if self._first else np.minimum(self._term_N, far_N)
        self._first = False


class _Volume:
    """d_i(S) = log e_i², where e_i is the diagonal that a Cholesky step would append."""

    def __init__(self, like: Likeness) -> None:
        self._like, self._left_N = like, np.ones(len(like))
        self._rows_SN, self._size = np.empty((8, len(like))), 0

    def values(self) -> NDArray[np.float64]:
        """Return the term of each candidate, if it came next."""
        return np.log(np.maximum(self._left_N, 1e-12))

    def add(self, at: int) -> None:
        """Take note that a candidate was selected."""
        row_N = (1 - _EASED) * self._like.to(at)
        row_N[at] += _EASED
        before_SN = self._rows_SN[: self._size]
        row_N -= before_SN[:, at] @ before_SN
        row_N /= np.sqrt(max(self._left_N[at], 1e-12))
        if self._size == len(self._rows_SN):
            self._rows_SN = np.concatenate((self._rows_SN, np.empty_like(self._rows_SN)))
        self._rows_SN[self._size] = row_N
        self._size += 1
        self._left_N -= row_N**2
