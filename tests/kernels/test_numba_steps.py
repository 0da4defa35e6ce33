"""Rows that are turned on a sphere stay there, also where nothing or only rounding moves them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sdgar.kernels.compiled import outer
from sdgar.kernels.numba.rows import row_at
from sdgar.kernels.numba.steps import SGD, Gradient, RowAdagrad, turn


@outer
def _turn(step: Any, table_RCD: Any, g_D: Any, c: Any, u_VD: Any) -> Any:
    turn(step, table_RCD, 0, Gradient(g_D.ctypes.data, c, row_at(u_VD, 0), np.float32(0)))
    return None


def _unit(rng: np.random.Generator, dim: int) -> np.ndarray:
    vector = rng.normal(size=dim)
    return (vector / np.linalg.norm(vector)).astype(np.float32)


def _steps(rate: float) -> list[Any]:
    adagrad = RowAdagrad(np.float32(rate), np.float32(1e-10), np.zeros(1, np.float32))
    return [SGD(np.float32(rate)), adagrad]


@pytest.mark.parametrize("kind", [0, 1], ids=["SGD", "RowAdagrad"])
@pytest.mark.parametrize("pull", [0.0, 1e-12, 1.0, -30.0])
def test_a_row_that_is_pulled_along_itself_stays_on_the_sphere(kind, pull):
    # A user with one positive starts at the vector of that item, so this is no rare case.
    rng = np.random.default_rng(0)
    for dim in (1, 16, 50, 128):
        theta = _unit(rng, dim)
        table, step = theta.copy().reshape(1, 1, dim), _steps(0.15)[kind]
        for _ in range(5):
            _turn(step, table, np.zeros(dim, np.float32), np.float32(pull), theta[None])
            assert abs(np.linalg.norm(table.astype(np.float64)) - 1) < 1e-5
