"""Turn a column of counts into the weights that rows have in a loss.

Hours, plays and clicks range over factors of thousands. Multiplied into a loss as they are, a few
rows outweigh all others. So a column of counts is not used unless it is asked for, and then tamed:

    log    log(1 + w), divided by its mean
    bm25   (K + 1) w / (K (1 - B + B L_i / L̄) + w) · log(N / (1 + n_u)), divided by its mean,
           where L_i is the sum of an item's weights, N the number of items and n_u those of a user
    raw    w as it is
    auto   raw if no weight is more than ten times the mean, else log
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from sdgar.errors import unknown_name

if TYPE_CHECKING:
    from sdgar.data.interactions import Interactions

Weighting = Literal["auto", "raw", "log", "bm25"]
WEIGHTINGS: tuple[str, ...] = get_args(Weighting)

_MOST_OVER_MEAN = 10
_K, _B = 100.0, 0.8
"""The constants of BM25, as the library implicit has them in its tutorial on plays of artists."""


def weigh(data: Interactions, how: str) -> tuple[Interactions, str]:
    """Return the same rows with transformed weights, and a sentence that says what was done."""
    if how not in WEIGHTINGS:
        raise unknown_name("weighting", how, WEIGHTINGS)
    if data.weight_E is None:
        return data, "every row counts once"
    raw_E = data.weight_E.astype(np.float64)
    chosen = _tame(raw_E) if how == "auto" else how
    if chosen == "raw":
        return data, f"weights as they are, {_range(raw_E)}"
    tamed_E = np.log1p(raw_E) if chosen == "log" else _bm25(data, raw_E)
    tamed_E = (tamed_E / tamed_E.mean()).astype(np.float32)
    name = "log(1 + weight)" if chosen == "log" else "BM25 of the weights"
    why = f" ({_range(raw_E)} is too wide a range as it is)" if how == "auto" else ""
    return replace(data, weight_E=tamed_E), f"{name} over its mean, {_range(tamed_E)}{why}"


def _tame(raw_E: NDArray[np.float64]) -> str:
    return "raw" if raw_E.max() <= _MOST_OVER_MEAN * raw_E.mean() else "log"


def _bm25(data: Interactions, raw_E: NDArray[np.float64]) -> NDArray[np.float64]:
    length_I = np.bincount(data.items_E, raw_E, minlength=data.n_items)
    norm_I = 1 - _B + _B * length_I / length_I.mean()
    rarity_U = np.log(data.n_items / (1 + np.diff(data.indptr_U1)))
    # A user of nearly all items says nothing of any; the rows still count a little.
    rarity_U = rarity_U.clip(min=0.01)
    tamed_E: NDArray[np.float64] = (_K + 1) * raw_E / (_K * norm_I[data.items_E] + raw_E)
    return tamed_E * rarity_U[data.users_E]


def _range(weight_E: NDArray[Any]) -> str:
    return f"{weight_E.min():.3g} to {weight_E.max():.3g}"
