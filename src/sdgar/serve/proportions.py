"""Intervals of shares and of their differences, which hold for small numbers too."""

from __future__ import annotations

import math

_Z = 1.959963984540054
"""The 97.5 % point of the normal distribution."""


def wilson(successes: int, n: int, z: float = _Z) -> tuple[float, float]:
    """Return (p + z²/2n ± z √(p (1 - p) / n + z²/4n²)) / (1 + z²/n), p = successes / n.

    >>> low, high = wilson(8, 10)
    >>> round(low, 3), round(high, 3)
    (0.49, 0.943)
    """
    if n == 0:
        return 0.0, 1.0
    p = successes / n
    middle = p + z * z / (2 * n)
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    return max(0.0, (middle - half) / scale), min(1.0, (middle + half) / scale)


def newcombe(a: tuple[int, int], b: tuple[int, int]) -> tuple[float, float]:
    """Return the interval of p_a - p_b from the Wilson intervals of both (Newcombe 1998).

    >>> low, high = newcombe((56, 70), (48, 80))
    >>> round(low, 4), round(high, 4)
    (0.0524, 0.3339)
    """
    p_a, p_b = (s / n if n else 0.5 for s, n in (a, b))
    (low_a, high_a), (low_b, high_b) = wilson(*a), wilson(*b)
    low = p_a - p_b - math.hypot(p_a - low_a, high_b - p_b)
    high = p_a - p_b + math.hypot(high_a - p_a, p_b - low_b)
    return low, high
