"""Turn a column of counts into the weights that rows have in a loss.

Hours, plays and clicks range over factors of thousands. Multiplied into a loss as they are, a few
rows outweigh all others. So a column of counts is used only on request, and is then transformed:

    log    log(1 + w), divided by its mean
    bm25   (K + 1) w / (K (1 - B + B L_i / L̄) + w) · log(N / (1 + n_u)), divided by its mean,
           where L_i is the sum of an item's weights, N the number of items, n_u the items of u
    raw    w as it is
    auto   raw if no weight is more than ten times the mean, else log
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from sdgar.data.read_options import WEIGHTINGS
from sdgar.errors import unknown_name

if TYPE_CHECKING:
    from sdgar.data.interactions import Interactions

_MOST_OVER_MEAN = 10
_K, _B = 100.0, 0.8
"""The constants of BM25, as the library implicit has them in its tutorial on plays of artists."""


class Weighted(Protocol):
    """Some rows with weights, of whole users: ``Interactions``, or a part of them."""

    @property
    def indptr_U1(self) -> NDArray[np.int64]:
        """The rows of user u are ``indptr_U1[u]`` to ``indptr_U1[u + 1] - 1``."""

    @property
    def items_E(self) -> NDArray[np.int32]:
        """The item of each row."""

    @property
    def weight_E(self) -> NDArray[np.float32] | None:
        """The weight of each row."""


def weigh(data: Interactions, how: str) -> tuple[Interactions, str]:
    """Return the same rows with transformed weights, and a sentence that says what was done."""
    if how not in WEIGHTINGS:
        raise unknown_name("weighting", how, WEIGHTINGS)
    if data.weight_E is None:
        return data, "every row counts once"
    chosen = Weighing([data], data.n_items, how)
    if chosen.is_raw:
        return data, chosen.sentence()
    tamed_E = chosen.tamed(data)
    return replace(data, weight_E=tamed_E), chosen.sentence(_shown(tamed_E.min(), tamed_E.max()))


class Weighing:
    """A transformation of weights, decided by all rows; they may come in parts.

    Sums are exact, so that parts give the same weights as all rows at once. Only the sums of an
    item's weights, for BM25, are rounded in the order of the parts.
    """

    def __init__(self, parts: Sequence[Weighted], n_items: int, how: str) -> None:
        self._n_items = n_items
        self._by_rule = how == "auto"
        n, low, high = 0, np.inf, -np.inf
        for part in parts:
            raw_E = _raw(part)
            n, low, high = n + len(raw_E), raw_E.min(initial=low), raw_E.max(initial=high)
        self._raw_range = _shown(low, high)
        self._how = how
        if self._by_rule:
            is_even = high <= _MOST_OVER_MEAN * _sum(map(_raw, parts)) / n
            self._how = "raw" if is_even else "log"
        self._norm_I: NDArray[np.float64] | None = None
        self._mean = 1.0
        if self.is_raw:
            return
        if self._how == "bm25":
            length_I = np.zeros(n_items)
            for part in parts:
                length_I += np.bincount(part.items_E, _raw(part), minlength=n_items)
            self._norm_I = 1 - _B + _B * length_I / length_I.mean()
        self._mean = _sum(map(self._each, parts)) / n

    @property
    def is_raw(self) -> bool:
        """True if weights stay as they are."""
        return self._how == "raw"

    def tamed(self, part: Weighted) -> NDArray[np.float32]:
        """Return the transformed weights of a part."""
        tamed_E: NDArray[np.float64] = self._each(part) / self._mean
        return tamed_E.astype(np.float32)

    def sentence(self, tamed: str = "") -> str:
        """Return what was done, given the range of the transformed weights."""
        if self.is_raw:
            return f"weights as they are, {self._raw_range}"
        name = "log(1 + weight)" if self._how == "log" else "BM25 of the weights"
        why = f" ({self._raw_range} is too wide a range as it is)" if self._by_rule else ""
        return f"{name} over its mean, {tamed}{why}"

    def _each(self, part: Weighted) -> NDArray[np.float64]:
        """Return the transformed weights before they are divided by their mean."""
        raw_E = _raw(part)
        if self._norm_I is None:
            logs_E: NDArray[np.float64] = np.log1p(raw_E)
            return logs_E
        count_U = np.diff(part.indptr_U1)
        # A user of nearly all items says nothing of any; the rows still count a little.
        rarity_U = np.log(self._n_items / (1 + count_U)).clip(min=0.01)
        tamed_E: NDArray[np.float64] = (_K + 1) * raw_E / (_K * self._norm_I[part.items_E] + raw_E)
        tamed_E *= np.repeat(rarity_U, count_U)
        return tamed_E


def _raw(part: Weighted) -> NDArray[np.float64]:
    assert part.weight_E is not None, "rows without weights cannot be weighed"
    return part.weight_E.astype(np.float64)


def _sum(parts: Iterable[NDArray[np.float64]]) -> float:
    """Return the sum of all numbers, which does not depend on how they are cut into parts."""
    return math.fsum(chain.from_iterable(parts))


def _shown(low: float, high: float) -> str:
    return f"{low:.3g} to {high:.3g}"
