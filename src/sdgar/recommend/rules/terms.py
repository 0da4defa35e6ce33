"""Diversity and calibration: terms of a candidate's value that depend on the items before it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from sdgar.data.history import Coded
from sdgar.recommend.rules.facts import CATEGORY, Facts, missing_facts
from sdgar.recommend.rules.settings import Field, Rule, choice, number

Basis = Literal["auto", "vectors", "categories"]
"""What similarity is computed from; auto is vectors, or categories without vectors."""
SimilarityTo = Callable[[int], NDArray[np.float64]]
"""Returns the similarity of each candidate to one of them: 1 between an item and itself."""
_IDENTITY = 0.01
"""The share of the identity in the kernel of DPP: without it, the determinant of more items than a
vector has dimensions is 0."""
_SMOOTHING = 0.01
"""The weight α of the history's shares in the list's shares, so that no share is 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiversityRule(Rule):
    """Select argmax_i (1 - λ) r_i + λ d_i(S), where S are the items selected before.

    r_i is the score after all changes, from 0 for the last candidate to 1 for the first. With
    ``mmr`` (Carbonell and Goldstein, 1998)

        d_i(S) = -max_{j ∈ S} c_ij,   0 for the first item

    and with ``dpp``, the greedy search for the largest determinant (Chen, Zhang and Zhou, 2018),

        d_i(S) = log det C_{S ∪ i} - log det C_S,   C = 0.99 c + 0.01 I.

    c_ij is the cosine of the vectors of two items, or |V_i ∩ V_j| / |V_i ∪ V_j| of their
    categories.
    """

    kind: ClassVar[str] = "diversity"
    repeated: ClassVar[bool] = False
    note: ClassVar[str] = "moved up for diversity"

    strength: Annotated[float, number(0, 1)]
    """The weight λ."""
    method: Annotated[Literal["mmr", "dpp"], choice("mmr", "dpp")] = "mmr"
    """The definition of diversity."""
    on: Annotated[Basis, choice("auto", "vectors", "categories")] = "auto"
    """What similarity is computed from."""

    @property
    def item_fields(self) -> set[str]:
        """The fields of items that the rule reads."""
        return {CATEGORY} if self.on == "categories" else set()

    def begin(
        self, items_N: NDArray[np.int64], history_H: NDArray[np.int64] | None, facts: Facts
    ) -> MaximalMarginalRelevance | LogDeterminant | None:
        """Return the running term d of some candidates, of which none is selected yet."""
        if not len(items_N):
            return None
        similarity_to = _similarity(items_N, facts, self.on)
        if self.method == "mmr":
            return MaximalMarginalRelevance(similarity_to, len(items_N))
        return LogDeterminant(similarity_to, len(items_N))


def _similarity(items_N: NDArray[np.int64], facts: Facts, on: Basis) -> SimilarityTo:
    """Return the similarity of candidates; raise without facts to compute it from."""
    by_vectors = on == "vectors" or (on == "auto" and facts.item_ID is not None)
    if by_vectors and facts.item_ID is not None:
        return _cosine(items_N, facts.item_ID)
    if by_vectors or not facts.coded(CATEGORY).names:
        raise missing_facts(
            f"items cannot be compared: there are no {'vectors' if by_vectors else 'categories'}"
            f"{'' if on != 'auto' else ' and no vectors'}, and a rule or an option needs diversity",
            "Give facts of items with categories, use a model with vectors, or leave diversity at "
            "0.",
        )
    return _overlap(items_N, facts)


def _cosine(items_N: NDArray[np.int64], item_ID: NDArray[np.floating]) -> SimilarityTo:
    """c_ij = v_i · v_j / (|v_i| |v_j|), and 0 without a vector."""
    unit_ND = item_ID[items_N].astype(np.float64)
    norm_N = np.sqrt(np.einsum("nd,nd->n", unit_ND, unit_ND))
    unit_ND /= np.where(norm_N > 0, norm_N, 1.0)[:, None]

    def similarity_to(at: int) -> NDArray[np.float64]:
        c_N: NDArray[np.float64] = unit_ND @ unit_ND[at]
        c_N[at] = 1.0
        return c_N

    return similarity_to


def _overlap(items_N: NDArray[np.int64], facts: Facts) -> SimilarityTo:
    """c_ij = |V_i ∩ V_j| / |V_i ∪ V_j| of categories, and 0 without categories."""
    has_NG = facts.coded(CATEGORY).has(items_N)[0].astype(np.float64)
    count_N = has_NG.sum(axis=1)

    def similarity_to(at: int) -> NDArray[np.float64]:
        both_N = has_NG @ has_NG[at]
        either_N = count_N + count_N[at] - both_N
        c_N: NDArray[np.float64] = both_N / np.where(either_N > 0, either_N, 1.0)
        c_N[at] = 1.0
        return c_N

    return similarity_to


class MaximalMarginalRelevance:
    """d_i(S) = -max_{j ∈ S} c_ij."""

    def __init__(self, similarity_to: SimilarityTo, n: int) -> None:
        self._similarity_to, self._term_N = similarity_to, np.zeros(n)
        self._first = True

    def values(self) -> NDArray[np.float64]:
        """Return the term of each candidate if it came next."""
        return self._term_N

    def add(self, at: int) -> None:
        """Update the term after a candidate was selected."""
        term_N = -self._similarity_to(at)
        self._term_N = term_N if self._first else np.minimum(self._term_N, term_N)
        self._first = False


class LogDeterminant:
    """d_i(S) = log e_i², where e_i is the diagonal that a Cholesky step would append."""

    def __init__(self, similarity_to: SimilarityTo, n: int) -> None:
        self._similarity_to, self._left_N = similarity_to, np.ones(n)
        self._rows_SN, self._size = np.empty((8, n)), 0

    def values(self) -> NDArray[np.float64]:
        """Return the term of each candidate if it came next."""
        return np.log(np.maximum(self._left_N, 1e-12))

    def add(self, at: int) -> None:
        """Update the term after a candidate was selected."""
        row_N = (1 - _IDENTITY) * self._similarity_to(at)
        row_N[at] += _IDENTITY
        before_SN = self._rows_SN[: self._size]
        row_N -= before_SN[:, at] @ before_SN
        row_N /= np.sqrt(max(self._left_N[at], 1e-12))
        if self._size == len(self._rows_SN):
            self._rows_SN = np.concatenate((self._rows_SN, np.empty_like(self._rows_SN)))
        self._rows_SN[self._size] = row_N
        self._size += 1
        self._left_N -= row_N**2


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationRule(Rule):
    """Select argmax_i (1 - λ) r_i - λ KL(p ‖ q̃(S ∪ i)), where S are the items selected before.

    p are the shares of categories in the history and q in the list. An item with categories V_i
    counts 1 / |V_i| in each of them. By Steck (Calibrated Recommendations, 2018),

        KL(p ‖ q̃) = Σ_g p_g log(p_g / q̃_g),   q̃ = (1 - α) q + α p,   α = 0.01.

    A history without categories changes nothing.
    """

    kind: ClassVar[str] = "calibration"
    repeated: ClassVar[bool] = False
    note: ClassVar[str] = "moved up for calibration"

    strength: Annotated[float, number(0, 1)]
    """The weight λ."""
    by: Field = CATEGORY
    """The field whose values should have the same shares."""

    def begin(
        self, items_N: NDArray[np.int64], history_H: NDArray[np.int64] | None, facts: Facts
    ) -> Divergence | None:
        """Return the running term of some candidates; None for a history without categories."""
        coded = facts.coded(self.by)
        if history_H is None or not len(coded.names):
            return None
        p_G = _shares(history_H, coded).sum(axis=0)
        if p_G.sum() == 0:
            return None
        return Divergence(p_G / p_G.sum(), _shares(items_N, coded))


class Divergence:
    """-KL(p ‖ q̃(S ∪ i)) of each candidate i."""

    def __init__(self, p_G: NDArray[np.float64], shares_NG: NDArray[np.float64]) -> None:
        self._has_N: NDArray[np.bool_] = shares_NG.sum(axis=1) > 0
        # Values that are not in the history add nothing to the sum.
        self._p_G = p_G[p_G > 0]
        self._shares_NG = shares_NG[:, p_G > 0]
        self._sum_G, self._count = np.zeros(len(self._p_G)), 0

    def values(self) -> NDArray[np.float64]:
        """Return the term of each candidate if it came next."""
        count_N = np.maximum(self._count + self._has_N, 1)
        q_NG = (self._sum_G + self._shares_NG) / count_N[:, None]
        q_NG = (1 - _SMOOTHING) * q_NG + _SMOOTHING * self._p_G
        term_N: NDArray[np.float64] = (self._p_G * np.log(q_NG / self._p_G)).sum(axis=1)
        return term_N

    def add(self, at: int) -> None:
        """Update the term after a candidate was selected."""
        self._sum_G = self._sum_G + self._shares_NG[at]
        self._count += int(self._has_N[at])


def _shares(items_N: NDArray[np.int64], coded: Coded) -> NDArray[np.float64]:
    """Return the share of each item in each value: 1 / |V_i| for the values it has."""
    shares_NG = np.zeros((len(items_N), len(coded.names)))
    has_NG, codes_G = coded.has(items_N)
    shares_NG[:, codes_G] = has_NG / np.maximum(has_NG.sum(axis=1, keepdims=True), 1)
    return shares_NG
