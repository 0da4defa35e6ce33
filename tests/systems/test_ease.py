from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sdgar.data.interactions import Interactions
from sdgar.data.synthetic import synthetic
from sdgar.errors import NumericalError, ResourceError
from sdgar.systems import ease
from sdgar.systems.ease import EASE

from .problems import some_data

CPU = torch.device("cpu")


def constrained(gram_II, penalty_I, xi):
    """W column by column: the least squares if its own weight is at most ξ, else that with ξ."""
    weight_II = np.zeros_like(gram_II)
    for item in range(len(gram_II)):
        free_I = np.linalg.solve(gram_II + np.diag(penalty_I), gram_II[:, item])
        others = np.delete(np.arange(len(gram_II)), item)
        if free_I[item] > xi:
            ridge = gram_II[np.ix_(others, others)] + np.diag(penalty_I[others])
            free_I[others] = np.linalg.solve(ridge, (1 - xi) * gram_II[others, item])
        weight_II[others, item] = free_I[others]
    return weight_II


@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([0.0, 0.3, 1.0]),
    st.sampled_from([0.0, 0.2, 0.7]),
    st.sampled_from([0.0, 0.1, 0.5]),
    st.sampled_from([0.0, 0.3, 1.0]),
    st.sampled_from([0.5, 2.0, 100.0]),
    st.sampled_from([1, 64 << 20]),
)
def test_options_give_the_dense_solution(seed, beta, dropout, xi, alpha, l2, block):
    data, x_UI = some_data(seed)
    d_U = x_UI.sum(axis=1) ** -beta
    gram_II = x_UI.T @ np.diag(d_U / d_U.mean()) @ x_UI
    penalty_I = l2 + dropout / (1 - dropout) * np.diag(gram_II)
    loud_I = x_UI.sum(axis=0) ** alpha
    wanted_II = np.diag(loud_I) @ constrained(gram_II, penalty_I, xi) @ np.diag(1 / loud_I)
    model = EASE(l2=l2, beta=beta, dropout=dropout, xi=xi, alpha=alpha)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ease, "_BLOCK_BYTES", block)
        found = model._solve(data, device=CPU)
    np.testing.assert_allclose(found.weight_II, wanted_II, atol=5e-5)
    scores_UI = found.score_all(np.arange(data.n_users))
    np.testing.assert_allclose(scores_UI, x_UI @ found.weight_II, rtol=1e-5, atol=1e-5)


def test_without_options_the_bytes_are_those_of_the_formula_without_them():
    demo = synthetic("demo", seed=0)
    history = np.zeros((demo.n_users, demo.n_items), np.float32)
    history[demo.users_E, demo.items_E] = 1
    both_II = torch.from_numpy(history.T @ history)
    both_II.diagonal().add_(100.0)
    wanted_II = ease.minus_inverse_(both_II)
    wanted_II /= -wanted_II.diagonal().clone()
    found_II = EASE()._solve(demo, device=CPU).weight_II
    assert np.array_equal(found_II, wanted_II.fill_diagonal_(0))


def test_what_does_not_fit_is_refused_with_the_number_and_the_cure(checkerboard, monkeypatch):
    EASE(ram_gib=0.001)._solve(checkerboard, device=CPU)
    with pytest.raises(ResourceError, match=r"allows 0\.00 GiB.*ram_gib.*item-knn") as error:
        EASE(ram_gib=0.0001)._solve(checkerboard, device=CPU)
    assert error.value.code == "out_of_memory"
    users = np.arange(50_000)
    many = Interactions.from_arrays(users, users)
    monkeypatch.setattr(ease, "free_bytes", lambda device: 12 << 30)
    with pytest.raises(ResourceError, match=r"10\.08 GiB for 50,000 items, and half .* 6\.00 GiB"):
        EASE()._solve(many, device=CPU)


@pytest.mark.parametrize("n", [1, 2, 7, 8, 9, 24, 65])
@pytest.mark.parametrize("block", [1, 3, 8, 100])
def test_sweeping_gives_the_inverse_whatever_the_blocks(n, block, monkeypatch):
    monkeypatch.setattr(ease, "_SMALL_BLOCK", 2)
    x = np.random.default_rng(n).normal(size=(2 * n, n))
    a = x.T @ x + np.eye(n)
    found = ease.minus_inverse_(torch.from_numpy(a.astype(np.float32)), block)
    np.testing.assert_allclose(found, -np.linalg.inv(a), atol=2e-5)


def test_the_ram_of_this_machine_is_known():
    assert 1 << 20 < ease.free_bytes(CPU) < 1 << 50


def test_a_matrix_without_an_inverse_names_the_cure():
    data = Interactions.from_arrays(*np.nonzero(np.ones((5, 9))))
    with pytest.raises(NumericalError, match=r"l2=0\. Use a larger l2"):
        EASE(l2=0.0)._solve(data, device=CPU)
