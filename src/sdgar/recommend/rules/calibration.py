"""Calibration: a list has the categories of a history in about the same shares."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sdgar.data.coded import Coded
from sdgar.recommend.rules.facts import CATEGORY, Facts

_EASED = 0.01
"""The weight α of the history's shares in those of the list, so that no share is 0."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Select argmax_i (1 - λ) r_i - λ KL(p ‖ q̃(S ∪ i)), where S is what was selected before.

    p are the shares of categories in the history, q those in the list, each item with V_i
    categories giving 1 / |V_i| to each of them, and (Steck, Calibrated Recommendations, 2018)

        KL(p ‖ q̃) = Σ_g p_g log(p_g / q̃_g),   q̃ = (1 - α) q + α p,   α = 0.01.

    A history without categories calibrates nothing.
    """

    strength: float
    """The weight λ, from 0 to 1."""
    by: str = CATEGORY
    """The field whose values are to have the same shares."""

    def begin(
        self, items_N: NDArray[np.int64], history_H: NDArray[np.int64] | None, facts: Facts
    ) -> Divergence | None:
        """Return the running term of some candidates; None if there is nothing to calibrate by."""
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
        # Values that the history does not have play no part in the sum, only in the shares.
        self._p_G = p_G[p_G > 0]
        self._shares_NG = shares_NG[:, p_G > 0]
        self._sum_G, self._count = np.zeros(len(self._p_G)), 0

    def values(self) -> NDArray[np.float64]:
        """Return the term of each candidate, if it came next."""
        count_N = np.maximum(self._count + self._has_N, 1)
        q_NG = (self._sum_G + self._shares_NG) / count_N[:, None]
        q_NG = (1 - _EASED) * q_NG + _EASED * self._p_G
        term_N: NDArray[np.float64] = (self._p_G * np.log(q_NG / self._p_G)).sum(axis=1)
        return term_N

    def add(self, at: int) -> None:
        """Take note that a candidate was selected."""
        self._sum_G = self._sum_G + self._shares_NG[at]
        self._count += int(self._has_N[at])


def _shares(items_N: NDArray[np.int64], coded: Coded) -> NDArray[np.float64]:
    """Return what each item gives to each value: 1 / |V_i| for the values it has."""
    shares_NG = np.zeros((len(items_N), len(coded.names)))
    has_NG, codes_G = coded.has(items_N)
    shares_NG[:, codes_G] = has_NG / np.maximum(has_NG.sum(axis=1, keepdims=True), 1)
    return shares_NG
