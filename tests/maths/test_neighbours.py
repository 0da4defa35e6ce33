"""Weights between items on neighbourhoods follow the equations, by every path."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from sdgar.errors import NumericalError
from sdgar.machine import cores
from sdgar.maths import neighbours
from sdgar.maths.neighbours import Neighbourhoods
from sdgar.maths.neighbours_on_device import user_weights
from sdgar.maths.sparse import SparseMatrix

from ..sparse import dense_of as dense
from ..sparse import matrix_of, rows_of

CPU = torch.device("cpu")
RULE = Neighbourhoods(k=4, l2=2.0, shrink=1.5, beta=0.5)


def rows(users: int, items: int, share: float, seed: int, *, weighted: bool = False):
    rng = np.random.default_rng(seed)
    x_UI = rng.random((users, items)) < share
    items_E = np.nonzero(x_UI)[1]
    indptr_U1 = np.concatenate(([0], np.cumsum(x_UI.sum(axis=1))))
    weight_E = rng.uniform(0.5, 2, len(items_E)).astype(np.float32) if weighted else None
    return SparseMatrix.of(indptr_U1, items_E, items, weight_E, device=CPU)


def oracle(history: SparseMatrix, rule: Neighbourhoods) -> torch.Tensor:
    """W in float64, item by item, from a dense G."""
    n = history.n_columns
    x_UI = torch.zeros(history.n_rows, n, dtype=torch.float64)
    x_UI[history.row_E, history.column_E] = history.weights().double()
    length_U = history.length_R.clamp(min=1).double()
    d_U = length_U.pow(-rule.beta)
    d_U /= d_U[history.length_R > 0].mean()
    g_II = x_UI.T @ (d_U[:, None] * x_UI)
    root_I = g_II.diagonal().sqrt()
    value_II = g_II / (torch.outer(root_I, root_I) + rule.shrink)
    value_II.fill_diagonal_(0)
    w_II = torch.zeros_like(g_II)
    for i in range(n):
        value_I = value_II[:, i]
        order_I = torch.argsort(-value_I.float(), stable=True)[: rule.k]
        near_S = order_I[value_I[order_I] > 0]
        a_SS = g_II[near_S][:, near_S] + rule.l2 * torch.eye(len(near_S), dtype=torch.float64)
        w_II[near_S, i] = torch.linalg.solve(a_SS, g_II[near_S, i])
    return w_II


def weights_of(rule: Neighbourhoods, history: SparseMatrix) -> SparseMatrix:
    return matrix_of(rule.weights(rows_of(history), history.n_columns, CPU))


@pytest.fixture(params=["compiled", "torch"])
def path(request, monkeypatch):
    if request.param == "torch":
        monkeypatch.setattr(neighbours, "_compiled", lambda _: False)
    return request.param


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_weights_are_those_of_the_equations(path, seed, weighted):
    # Random weights leave no ties, at which a neighbour could be another one.
    history = rows(40, 25, 0.2, seed, weighted=weighted)
    if not weighted:
        history = SparseMatrix(history.start_R1, history.column_E, 25)
    wanted = oracle(history, RULE)
    found = dense(weights_of(RULE, history)).double()
    if weighted:
        assert_close(found, wanted, rtol=1e-4, atol=1e-5)
    assert (found.diagonal() == 0).all()
    assert ((found != 0).sum(dim=0) <= RULE.k).all()


def test_an_item_that_occurs_with_no_other_has_no_weights(path):
    history = SparseMatrix.of(np.array([0, 2, 3]), np.array([0, 1, 2]), 4, device=CPU)
    found = dense(weights_of(RULE, history))
    assert (found[2:] == 0).all()
    assert (found[:, 2:] == 0).all()
    assert found[0, 1] == found[1, 0] > 0


def test_more_neighbours_than_items_is_the_least_squares_of_all(path):
    history = rows(60, 8, 0.4, 1)
    rule = Neighbourhoods(k=7, l2=3.0, shrink=0.0, beta=0.0)
    x_UI = torch.zeros(60, 8, dtype=torch.float64)
    x_UI[history.row_E, history.column_E] = 1
    inverse_II = torch.linalg.inv(x_UI.T @ x_UI + 3.0 * torch.eye(8, dtype=torch.float64))
    ease_II = -inverse_II / inverse_II.diagonal()
    ease_II.fill_diagonal_(0)
    assert_close(dense(weights_of(rule, history)).double(), ease_II, rtol=1e-4, atol=1e-5)


def test_pieces_and_threads_change_no_bit(monkeypatch):
    history = rows(300, 200, 0.1, 2)
    whole = weights_of(RULE, history)
    monkeypatch.setattr(neighbours, "MOST_IN_SYSTEMS", 7 * RULE.k * (RULE.k + 1) // 2)
    assert torch.equal(weights_of(RULE, history).weights(), whole.weights())
    for threads in (1, 3):
        monkeypatch.setattr(cores, "threads", lambda n=threads: n)
        assert torch.equal(weights_of(RULE, history).weights(), whole.weights())


@given(st.integers(1, 40), st.integers(0, 99))
def test_systems_of_any_size_are_solved(k, seed):
    from sdgar.kernels.numba.neighbours import scratch_for_system, solve

    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, k + 1, 5)  # one after the other, in the same scratch memory
    near_BK = np.where(np.arange(k) < sizes[:, None], np.arange(k), -1).astype(np.int32)
    x_BKN = rng.normal(size=(5, k, k + 3)).astype(np.float32)
    g_BKK = (x_BKN @ x_BKN.transpose(0, 2, 1)).astype(np.float32)
    g_BP = np.ascontiguousarray(g_BKK[:, *np.triu_indices(k)])
    both_BK = rng.normal(size=(5, k)).astype(np.float32)
    found_BK = np.full((5, k), np.nan, np.float32)
    scratch = scratch_for_system(k), np.full(k, np.nan)
    scratch[0][:] = np.nan  # what was there before is not read
    solve(0, 5, near_BK, both_BK, g_BP, 0.7, found_BK, *scratch)
    for b, size in enumerate(sizes):
        left = np.triu(g_BKK[b]) + np.triu(g_BKK[b], 1).T + 0.7 * np.eye(k)
        wanted = np.linalg.solve(left[:size, :size].astype(np.float64), both_BK[b, :size])
        np.testing.assert_allclose(found_BK[b, :size], wanted, rtol=1e-4, atol=1e-5)
        assert not found_BK[b, size:].any()


@given(st.integers(1, 12), st.integers(2, 9), st.integers(0, 99), st.integers(1, 8))
def test_any_shape_gives_finite_weights(users, items, seed, k):
    rule = Neighbourhoods(k=min(k, items - 1), l2=0.5, shrink=0.0, beta=1.0)
    history = rows(users, items, 0.5, seed)
    if len(history.column_E):
        assert torch.isfinite(weights_of(rule, history).weights()).all()


def test_rows_that_count_nothing_are_as_if_they_were_not_there(path):
    # One item of many users, whose other rows all have faded to 0.
    whole = rows(40, 5, 0.7, 3)
    weight_E = np.where(whole.column_E.numpy() == 0, 1, 0).astype(np.float32)
    faded = SparseMatrix(whole.start_R1, whole.column_E, 5, torch.tensor(weight_E))
    found = weights_of(RULE, faded)
    assert len(found.weights()) == 0


def test_the_weight_of_users_is_that_of_the_definition():
    history = rows(500, 40, 0.1, 4)
    length_U = history.length_R.double()
    for beta in (0.0, 0.3, 1.0):
        wanted_U = length_U.clamp(min=1) ** -beta
        wanted_U /= wanted_U[length_U > 0].mean()
        assert_close(user_weights(history, beta), wanted_U.float())


def test_a_system_without_a_solution_says_what_to_raise(path):
    twins = SparseMatrix.of(np.array([0, 3]), np.array([0, 1, 2]), 3, device=CPU)
    rule = Neighbourhoods(k=2, l2=0.0, shrink=0.0, beta=0.0)
    with pytest.raises(NumericalError, match="Use a larger l2"):
        weights_of(rule, twins)
