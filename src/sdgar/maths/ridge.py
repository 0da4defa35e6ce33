"""Ridge regression from a sparse matrix, with a level that is not held down.

Σ_r w_r ‖y_r - a - x_r B‖² + λ ‖B‖²   is least for
B = (X̄' W X̄ + λ I)^-1 X̄' W Ȳ,   a = y̅ - x̅ B,   with X̄ and Ȳ less their weighted means
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Ridge:
    """y = a + x B."""

    slope_FT: Floats
    """The matrix B."""
    level_T: Floats
    """The level a."""

    def __call__(self, x_RF: Any) -> Floats:
        """Return y_RT for rows of a dense or sparse matrix."""
        y_RT: Floats = x_RF @ self.slope_FT + self.level_T
        return y_RT


def ridges(x_RF: Any, y_RT: Floats, weight_R: Floats, l2s: Sequence[float]) -> list[Ridge]:
    """Return the regression of each λ; what they have in common is computed once."""
    from scipy.linalg import cho_factor, cho_solve

    total = weight_R.sum()
    x_F, y_T = (weight_R @ x_RF) / total, (weight_R @ y_RT) / total
    weighted_FR = (x_RF * weight_R[:, None]).T
    gram = weighted_FR @ x_RF
    left_FF = (gram.toarray() if hasattr(gram, "toarray") else gram) - total * np.outer(x_F, x_F)
    right_FT = weighted_FR @ (y_RT - y_T)
    found = []
    for l2 in l2s:
        system_FF = left_FF + l2 * np.eye(len(left_FF))
        slope_FT = cho_solve(cho_factor(system_FF, lower=True), right_FT)
        found.append(Ridge(slope_FT, y_T - x_F @ slope_FT))
    return found
