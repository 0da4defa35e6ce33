"""exp and softplus of the kernels against float64, over all of float32."""

from __future__ import annotations

import numba
import numpy as np
import pytest

from sdgar.kernels.numba import math as numba_math

LARGEST = float(np.finfo(np.float32).max)
WITHIN = 5e-7
"""Relative error: four units in the last place of a float32."""


def of_all(function):
    """A kernel that computes a function of every number."""

    @numba.njit(error_model="numpy")
    def kernel(x_N):
        out_N = np.empty_like(x_N)
        for i in range(len(x_N)):
            out_N[i] = function(x_N[i])
        return out_N

    return kernel


exp_negative, log1p_unit = of_all(numba_math.exp_negative), of_all(numba_math.log1p_unit)


@numba.njit(error_model="numpy")
def softplus_and_sigmoid(x_N):
    f_N, g_N = np.empty_like(x_N), np.empty_like(x_N)
    for i in range(len(x_N)):
        f_N[i], g_N[i] = numba_math.softplus_and_sigmoid(x_N[i])
    return f_N, g_N


def grid(low: float, high: float) -> np.ndarray:
    """Even steps up to 200, and numbers of every size."""
    sizes = np.geomspace(1e-38, LARGEST, 40_000)
    even = np.linspace(low, min(high, 200), 2_000_001)
    both = np.concatenate((even, sizes, -sizes, [0.0, -0.0]))
    x = both.astype(np.float32)
    return x[(x >= low) & (x <= high)]


def softplus64(x: np.ndarray) -> np.ndarray:
    x = x.astype(np.float64)
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def sigmoid64(x: np.ndarray) -> np.ndarray:
    e = np.exp(-np.abs(x.astype(np.float64)))
    return np.where(x >= 0, 1, e) / (1 + e)


def assert_near(found: np.ndarray, exact: np.ndarray) -> None:
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, exact, rtol=WITHIN, atol=0)


def test_exp_of_what_is_not_positive():
    x = grid(-87, 0)
    assert_near(exp_negative(x), np.exp(x.astype(np.float64)))


def test_exp_stays_at_its_least_below_and_never_becomes_nothing():
    x = np.array([-87.0, -88.0, -104.0, -1e10, -np.finfo(np.float32).max, -np.inf], np.float32)
    assert_near(exp_negative(x), np.full(6, np.exp(-87.0)))


def test_log_of_one_plus_what_is_at_most_one():
    x = grid(0, 1)
    assert_near(log1p_unit(x), np.log1p(x.astype(np.float64)))


def test_softplus_and_its_derivative():
    x = grid(-87, LARGEST)
    softplus, sigmoid = softplus_and_sigmoid(x)
    assert_near(softplus, softplus64(x))
    assert_near(sigmoid, sigmoid64(x))


def test_far_below_softplus_is_as_good_as_nothing_and_infinity_keeps_its_meaning():
    far = np.append(grid(-LARGEST, -87), np.float32(-np.inf))
    for found in softplus_and_sigmoid(far):
        assert ((found > 0) & (found <= np.float32(1.7e-38))).all()
    softplus, sigmoid = softplus_and_sigmoid(np.array([np.inf], np.float32))
    assert (softplus[0], sigmoid[0]) == (np.inf, 1)


@pytest.mark.parametrize("length", [1, 7, 64])
def test_what_is_not_a_number_stays_none_in_a_vector_and_alone(length):
    """A loop over many becomes vectors, with separate code for NaN."""
    x = np.linspace(-3, 3, length).astype(np.float32)
    x[length // 2] = np.nan
    for found in softplus_and_sigmoid(x):
        assert np.isnan(found[length // 2])
        assert np.isfinite(np.delete(found, length // 2)).all()
    assert np.isnan(exp_negative(x)[length // 2])
