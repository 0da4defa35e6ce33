"""Ridge regression is that of the equations."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from sdgar.maths.ridge import ridges


@pytest.mark.parametrize("sparse", [False, True])
def test_a_ridge_is_least_squares_with_rows_that_hold_it_down(sparse):
    rng = np.random.default_rng(0)
    x_RF = rng.normal(size=(30, 5)) * (rng.random((30, 5)) < 0.6)
    y_RT, weight_R = rng.normal(size=(30, 3)), rng.uniform(0.1, 2, 30)
    for l2, found in zip(
        (0.1, 7.0), ridges(csr_array(x_RF) if sparse else x_RF, y_RT, weight_R, (0.1, 7.0)),
        strict=True,
    ):  # fmt: skip
        # The level is a column of ones, which no further row holds down.
        root_R1 = np.sqrt(weight_R)[:, None]
        held_FF = np.hstack((np.zeros((5, 1)), np.sqrt(l2) * np.eye(5)))
        left = np.vstack((root_R1 * np.hstack((np.ones((30, 1)), x_RF)), held_FF))
        right = np.vstack((root_R1 * y_RT, np.zeros((5, 3))))
        wanted = np.linalg.lstsq(left, right, rcond=None)[0]
        np.testing.assert_allclose(found.level_T, wanted[0], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(found.slope_FT, wanted[1:], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(found(x_RF), wanted[0] + x_RF @ wanted[1:], rtol=1e-9)
