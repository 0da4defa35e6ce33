"""The vectors of contexts on the sphere that maximise the softmax of cosines, for given items."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sdgar.maths.rows import Rows

LOOKS, STEP_SIZE = 5, 3.0
"""How many points are tried, and η of the first steps; docs/results-sdsoftmax.md measures both."""
_SUPPORT = 2048
"""The most items that are sampled to represent all of them."""
_BLOCK = 512
"""How many contexts are computed at a time."""
_FEW = 64
"""Up to so many contexts are computed one after the other, which is faster for a few."""
_SMALLEST = np.float32(1e-12)
"""The least length by which a vector is divided."""
Floats = NDArray[np.float32]
Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Support:
    """Sampled items that represent the catalogue in a sum over all items."""

    item_S: Counts
    """The numbers of the items."""
    log_weight_S: Floats
    """The logarithm of how many items each one represents."""
    place_I: Counts
    """The place of each item of the catalogue among ``item_S``; -1 if it was not sampled."""

    @classmethod
    def of(cls, popularity_I: Counts) -> Support:
        """Choose items that represent the catalogue: all, or some by their popularity.

        These are the items at n evenly spaced places of the running sum of popularity + 1: an item
        that is chosen m times with expectation n q represents m / (n q) items.
        """
        n_items = len(popularity_I)
        if n_items <= _SUPPORT:
            all_I = np.arange(n_items)
            return cls(all_I, np.zeros(n_items, np.float32), all_I)
        share_I = (popularity_I + 1).astype(np.float64)
        share_I /= share_I.sum()
        place_S = (np.arange(_SUPPORT, dtype=np.float64) + 0.5) / _SUPPORT
        met_S = np.searchsorted(np.cumsum(share_I), place_S).clip(max=n_items - 1)
        item_S, times_S = np.unique(met_S, return_counts=True)
        place_I = np.full(n_items, -1, np.int64)
        place_I[item_S] = np.arange(len(item_S))
        log_weight_S = np.log(times_S / (_SUPPORT * share_I[item_S])).astype(np.float32)
        return cls(item_S, log_weight_S, place_I)


def directions(
    known: Rows,
    unit_ID: Floats,
    bias_I: Floats,
    sample: Support,
    *,
    tau: float,
    rho: float = 1.0,
) -> Floats:
    """Return û of each context, from the items of its history.

    Each û climbs the objective of the softmax, with the items as they are,

        f(û) = û · m / τ - log Σ_{j ∉ I_c} exp(û · v̂_j / τ + b_j),   m = mean_{i ∈ I_c} v̂_i / ρ
        û ← (û + η τ ∇f) normalised,   τ ∇f = m - Σ_j P(j|c) v̂_j

    from the mean of the history. f is smooth and its slope points far: a few steps are enough. In
    a large catalogue some 2,000 sampled items represent all, the same for every context. So the
    vector of a context does not depend on the others of a request.
    """
    length_R = np.diff(known.start_R1).astype(np.float32)
    if known.n_rows <= _FEW and unit_ID.dtype == np.float32:
        m_RD = known.sums(unit_ID) / (np.float32(rho) * length_R[:, None])
        return _climb_each(known, m_RD, unit_ID, bias_I, sample, tau)
    v_SD = unit_ID[sample.item_S]
    offset_S = bias_I[sample.item_S] + sample.log_weight_S
    found_RD = np.empty((known.n_rows, unit_ID.shape[1]), np.float32)
    for first in range(0, known.n_rows, _BLOCK):
        rows_B = np.arange(first, min(first + _BLOCK, known.n_rows))
        some = known.rows(rows_B)
        m_BD = some.sums(unit_ID) / (np.float32(rho) * length_R[rows_B, None])
        found_RD[rows_B] = _climb(some, m_BD, v_SD, offset_S, sample.place_I, np.float32(tau))
    return found_RD


@dataclass(frozen=True, slots=True)
class Contexts:
    """The contexts of a model, from which the vectors of new items follow as in ``directions``.

    As a function of one item i, and with b_i at its best, the objective of the softmax is

        f(v̂) = v̂ · m / τ - log Σ_{c ∉ U_i} exp(û_c · v̂ / τ + a_c),   m = mean_{c ∈ U_i} û_c / ρ
        a_c = log |I_c| - log Σ_j exp(û_c · v̂_j / τ + b_j)
        b_i = log |U_i| - log Σ_c exp(û_c · v̂ / τ + a_c)

    so that items are found among contexts as contexts are among items.
    """

    unit_UD: Floats
    """The directions û of the contexts."""
    offset_U: Floats
    """The offset a of each context; -inf for one without items."""
    sample: Support
    """The sampled contexts that represent all of them."""
    tau: float
    """The temperature τ of cosines."""
    rho: float
    """The temperature ρ of positives over that of negatives."""

    @classmethod
    def of(
        cls,
        unit_UD: Floats,
        length_U: Counts,
        unit_ID: Floats,
        bias_I: Floats,
        items: Support,
        *,
        tau: float,
        rho: float = 1.0,
    ) -> Contexts:
        """Sum the softmax of each context over the items that represent the catalogue."""
        v_SD = unit_ID[items.item_S]
        offset_S = bias_I[items.item_S] + items.log_weight_S
        log_z_U = _log_sums(unit_UD, v_SD, offset_S, tau)
        with np.errstate(divide="ignore"):
            offset_U = np.log(length_U.astype(np.float32)) - log_z_U
        return cls(unit_UD, offset_U, Support.of(length_U), tau, rho)

    def directions(self, known: Rows) -> Floats:
        """Return v̂ of each item, from the contexts that are known to have it."""
        return directions(
            known, self.unit_UD, self.offset_U, self.sample, tau=self.tau, rho=self.rho
        )

    def biases(self, unit_ND: Floats, count_N: Counts) -> Floats:
        """Return b of items with these directions, which so many contexts have."""
        at_S = self.sample.item_S
        offset_S = self.offset_U[at_S] + self.sample.log_weight_S
        log_z_N = _log_sums(unit_ND, self.unit_UD[at_S], offset_S, self.tau)
        with np.errstate(divide="ignore"):
            return np.log(count_N.astype(np.float32)) - log_z_N


def _log_sums(x_RD: Floats, v_SD: Floats, offset_S: Floats, tau: float) -> Floats:
    """log Σ_s exp(x · v_s / τ + offset_s) of each row, some rows at a time."""
    found_R = np.empty(len(x_RD), np.float32)
    for first in range(0, len(x_RD), _BLOCK):
        part = slice(first, first + _BLOCK)
        found_R[part] = _log_sum_exp((x_RD[part] @ v_SD.T) / np.float32(tau) + offset_S)
    return found_R


def _log_sum_exp(s_BS: Floats) -> Floats:
    """log Σ_s exp(s) of each row; -inf for a row of -inf."""
    most_B = s_BS.max(axis=1)
    finite_B = np.where(np.isfinite(most_B), most_B, np.float32(0))
    with np.errstate(divide="ignore"):
        log_B: Floats = np.log(np.exp(s_BS - finite_B[:, None]).sum(axis=1)) + finite_B
    return log_B


def unit_rows(x_RD: Floats) -> Floats:
    """Return x / ‖x‖ of each row; a row of zeros stays one."""
    length_R = np.sqrt(np.einsum("rd,rd->r", x_RD, x_RD))
    unit_RD: Floats = x_RD / np.maximum(length_R, _SMALLEST)[:, None]
    return unit_RD


def _climb(
    known: Rows, m_BD: Floats, v_SD: Floats, offset_S: Floats, place_I: Counts, tau: np.float32
) -> Floats:
    """Climb for a block of contexts; a step without a gain is replaced by a shorter one."""
    at_E = place_I[known.column_E]
    row_E = np.repeat(np.arange(known.n_rows), np.diff(known.start_R1))[at_E >= 0]
    at_E = at_E[at_E >= 0]
    u_BD = best_BD = unit_rows(m_BD)
    slope_BD = np.zeros_like(u_BD)
    best_B = np.full(len(u_BD), -np.inf, np.float32)
    step_B = np.full(len(u_BD), STEP_SIZE, np.float32)
    for _ in range(LOOKS):
        s_BS = (u_BD @ v_SD.T) / tau + offset_S
        s_BS[row_E, at_E] = -np.inf
        log_z_B = _log_sum_exp(s_BS)
        f_B = np.einsum("bd,bd->b", u_BD, m_BD) / tau - log_z_B
        gains_B = f_B >= best_B
        # A context that has all items has only scores of -inf: every direction is as good.
        with np.errstate(invalid="ignore"):
            p_BS = np.exp(s_BS - log_z_B[:, None])
            slope_BD = np.where(gains_B[:, None], m_BD - p_BS @ v_SD, slope_BD)
            best_B = np.where(gains_B, f_B, best_B)
            best_BD = np.where(gains_B[:, None], u_BD, best_BD)
            step_B = np.where(gains_B, step_B, step_B / 4)
            u_BD = unit_rows(best_BD + step_B[:, None] * slope_BD)
    return best_BD


def _climb_each(
    known: Rows,
    m_BD: Floats,
    unit_ID: Floats,
    bias_I: Floats,
    sample: Support,
    tau: float,
) -> Floats:
    """Climb for one context after the other, in compiled code."""
    from sdgar.kernels.numba import sphere

    odd = -len(sample.item_S) % sphere.FOUR
    item_S = np.pad(sample.item_S, (0, odd))  # the first item again, with a weight of 0
    log_weight_S = np.pad(sample.log_weight_S, (0, odd), constant_values=-np.inf)
    v_SD = unit_ID[item_S]
    offset_S = bias_I[item_S] + log_weight_S
    best_BD = np.empty_like(m_BD)
    scratch_2D, score_S = np.empty((2, m_BD.shape[1]), np.float32), np.empty(len(v_SD), np.float32)
    sphere.climb(
        0, known.n_rows, m_BD, v_SD, offset_S, known.start_R1, sample.place_I[known.column_E],
        np.float32(tau), LOOKS, np.float32(STEP_SIZE), scratch_2D, score_S, best_BD,
    )  # fmt: skip
    return best_BD
