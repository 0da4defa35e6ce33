"""Vectors of a few contexts on the sphere, one context after the other; see ``maths/sphere.py``.

The vectors of the items that represent the catalogue stay in the cache from step to step. The
vector of a context does not depend on the other contexts of a query, to the last bit.
"""

from __future__ import annotations

import numpy as np

from sdgar.kernels.compiled import inner, outer, summing
from sdgar.kernels.numba.math import exp_negative, product

FOUR = 4
"""Items whose sums are computed at once."""


@summing
def _dots(u_D, v_SD, s):
    """u · v of four items."""
    a = b = c = d = np.float32(0)
    for k in range(len(u_D)):
        x = u_D[k]
        a += x * v_SD[s, k]
        b += x * v_SD[s + 1, k]
        c += x * v_SD[s + 2, k]
        d += x * v_SD[s + 3, k]
    return a, b, c, d


@summing
def _exponentials(score_S, largest):
    """Replace scores by exp(s - largest), and give their sum."""
    total = np.float32(0)
    for s in range(len(score_S)):
        score_S[s] = exp_negative(score_S[s] - largest)
        total += score_S[s]
    return total


@inner
def _normalise(x_D):
    """Divide by the length, and by 1e-12 if that is more, as torch does."""
    length = max(np.sqrt(product(x_D, x_D)), np.float32(1e-12))
    for k in range(len(x_D)):
        x_D[k] /= length


@inner
def _scores(u_D, v_SD, offset_S, scale, score_S):
    """s = scale u · v + offset; the numbers of rows of v are a multiple of four."""
    for s in range(0, len(score_S), FOUR):
        a, b, c, d = _dots(u_D, v_SD, s)
        score_S[s] = scale * a + offset_S[s]
        score_S[s + 1] = scale * b + offset_S[s + 1]
        score_S[s + 2] = scale * c + offset_S[s + 2]
        score_S[s + 3] = scale * d + offset_S[s + 3]


@inner
def _subtract_mean(v_SD, p_S, total, slope_D):
    """slope -= Σ_s p_s v_s / total."""
    for s in range(0, len(p_S), FOUR):
        a, b, c, d = p_S[s] / total, p_S[s + 1] / total, p_S[s + 2] / total, p_S[s + 3] / total
        for k in range(len(slope_D)):
            slope_D[k] -= (a * v_SD[s, k] + b * v_SD[s + 1, k]) + (
                c * v_SD[s + 2, k] + d * v_SD[s + 3, k]
            )


@outer
def climb(
    first, last, m_BD, v_SD, offset_S, start_B1, at_E, tau, looks, step_size, scratch_2D, score_S,
    best_BD,
):  # fmt: skip
    """Climb for some contexts; a step that does not gain is taken back for a shorter one.

    ``at_E[start_B1[b] : start_B1[b + 1]]`` are the places of the items of context b in the
    sample that represents the catalogue, and -1 for items outside of it. The size of the sample is
    a multiple of four, with offsets of -inf for rows that represent no item.
    """
    u_D, slope_D = scratch_2D[0], scratch_2D[1]
    dim, scale = m_BD.shape[1], np.float32(1) / tau
    for b in range(first, last):
        m_D, best_D = m_BD[b], best_BD[b]
        for k in range(dim):
            u_D[k] = m_D[k]
        _normalise(u_D)
        highest, step = np.float32(-np.inf), step_size
        for _ in range(looks):
            _scores(u_D, v_SD, offset_S, scale, score_S)
            for e in range(start_B1[b], start_B1[b + 1]):
                if at_E[e] >= 0:
                    score_S[at_E[e]] = -np.inf
            largest = np.float32(-np.inf)
            for s in range(len(score_S)):
                largest = max(largest, score_S[s])
            if largest == -np.inf:  # the context has all items, and every direction is as good
                for k in range(dim):
                    best_D[k] = u_D[k]
                break
            total = _exponentials(score_S, largest)
            height = product(u_D, m_D) / tau - (np.log(total) + largest)
            if height >= highest:
                highest = height
                for k in range(dim):
                    best_D[k] = u_D[k]
                    slope_D[k] = m_D[k]
                _subtract_mean(v_SD, score_S, total, slope_D)
            else:
                step /= np.float32(4)
            for k in range(dim):
                u_D[k] = best_D[k] + step * slope_D[k]
            _normalise(u_D)
