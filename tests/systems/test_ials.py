from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sdgar.data.interactions import Interactions
from sdgar.errors import NumericalError
from sdgar.machine import cores
from sdgar.maths import least_squares
from sdgar.maths.least_squares import HalfSweep
from sdgar.maths.sparse import SparseMatrix
from sdgar.systems.ials import IALS

from .problems import some_data

CPU = torch.device("cpu")


def known_of(data: Interactions) -> SparseMatrix:
    return SparseMatrix.of(data.indptr_U1, data.items_E, data.n_items, data.weight_E, device=CPU)


def objective(w_UI, u_UD, v_ID, *, alpha, l2, power):
    """Straight from the class docstring, over all pairs."""
    s_UI = u_UD @ v_ID.T
    norm_U = (w_UI.sum(dim=1) + alpha * w_UI.shape[1]) ** power
    norm_I = (w_UI.sum(dim=0) + alpha * w_UI.shape[0]) ** power
    fit = (w_UI * (1 - s_UI) ** 2).sum() + alpha * (s_UI**2).sum()
    return fit + l2 * (norm_U @ u_UD.square().sum(dim=1) + norm_I @ v_ID.square().sum(dim=1))


@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([0.0, 0.01, 0.5]),
    st.sampled_from([0.0, 0.5, 1.0]),
    st.booleans(),
    st.sampled_from([1, 100, 1 << 20]),
)
def test_a_half_sweep_is_the_direct_solution_of_every_row(seed, alpha, power, weighted, block):
    data, w_UI = some_data(seed, weighted=weighted)
    v_ID = np.random.default_rng(seed).normal(size=(data.n_items, 4))
    l2 = 0.1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(least_squares, "_BLOCK_ON_CPU", block)
        half = HalfSweep(alpha, l2, power)
        found_UD = half(known_of(data), torch.from_numpy(v_ID.astype(np.float32)))
    for user, w_I in enumerate(w_UI):
        norm = l2 * (w_I.sum() + alpha * data.n_items) ** power
        left_DD = v_ID.T @ np.diag(w_I + alpha) @ v_ID + norm * np.eye(4)
        wanted_D = np.linalg.solve(left_DD, v_ID.T @ w_I)
        np.testing.assert_allclose(found_UD[user], wanted_D, atol=2e-4)


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.5, 1.0]), st.booleans())
def test_conjugate_gradients_arrive_in_as_many_steps_as_dimensions(seed, power, weighted):
    data, _ = some_data(seed, weighted=weighted)
    random = torch.Generator().manual_seed(seed % 2**31)
    v_ID = torch.randn(data.n_items, 4, generator=random)
    u_UD = torch.randn(data.n_users, 4, generator=random)
    half, known = HalfSweep(0.1, 0.3, power), known_of(data)
    exact_UD = half(known, v_ID)
    way = [(half.improve(u_UD, known, v_ID, steps=n) - exact_UD).norm() for n in range(5)]
    assert way[0] == pytest.approx(float((u_UD - exact_UD).norm()))
    assert way[1] <= way[0]
    assert way[4] <= 1e-3 * way[0]
    # A row that has arrived stays.
    again_UD = half.improve(exact_UD, known, v_ID, steps=20)
    np.testing.assert_allclose(again_UD, exact_UD, atol=1e-4)


@pytest.mark.parametrize("dim", [1, 16, 23, 64])
@pytest.mark.parametrize("weighted", [False, True])
def test_compiled_conjugate_gradients_are_those_of_torch(dim, weighted, monkeypatch):
    data, _ = some_data(3, 60, 40, weighted=weighted)
    random = torch.Generator().manual_seed(dim)
    v_ID, u_UD = (torch.randn(n, dim, generator=random) for n in (data.n_items, data.n_users))
    half, known, before_UD = HalfSweep(0.1, 0.3, 0.5), known_of(data), u_UD.clone()
    for steps in (0, 1, 3):
        found_UD = half.improve(u_UD, known, v_ID, steps=steps)
        with monkeypatch.context() as patch:
            patch.setattr(least_squares, "_has_kernels", lambda _: False)
            wanted_UD = half.improve(u_UD, known, v_ID, steps=steps)
        torch.testing.assert_close(found_UD, wanted_UD, rtol=1e-4, atol=1e-4)
    assert torch.equal(u_UD, before_UD)


def test_the_number_of_threads_changes_no_bit_of_conjugate_gradients(monkeypatch):
    data, _ = some_data(4, 300, 200, weighted=True)
    random = torch.Generator().manual_seed(0)
    v_ID, u_UD = (torch.randn(n, 40, generator=random) for n in (data.n_items, data.n_users))
    half, known, found = HalfSweep(0.1, 0.3, 0.5), known_of(data), []
    for threads in (1, 2, 5):
        monkeypatch.setattr(cores, "threads", lambda n=threads: n)
        found.append(half.improve(u_UD, known, v_ID))
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])
    one_by_one = [
        half.improve(u_UD[u : u + 1], known.rows(torch.tensor([u])), v_ID) for u in range(20)
    ]
    assert torch.equal(found[0][:20], torch.cat(one_by_one))


def test_the_solution_is_where_sweeps_lead_with_weights_of_mean_one():
    data, w_UI = some_data(2, 20, 15, weighted=True)
    settings = {"alpha": 0.1, "l2": 0.05, "power": 0.5}
    found = IALS(dim=3, sweeps=2000, **settings)._solve(data, device=CPU)
    u_UD = torch.from_numpy(found.user_UD).double().requires_grad_()
    v_ID = torch.from_numpy(found.item_ID).double().requires_grad_()
    w_UI = torch.from_numpy(w_UI / w_UI[w_UI > 0].mean())
    gradients = torch.autograd.grad(objective(w_UI, u_UD, v_ID, **settings), (u_UD, v_ID))
    assert max(float(g.abs().max()) for g in gradients) < 1e-3
    assert not found.bias_I.any()


def test_equations_without_a_solution_name_the_cure(checkerboard):
    with pytest.raises(NumericalError, match=r"l2=0 and alpha=0\. Use a larger l2"):
        IALS(dim=64, alpha=0.0, l2=0.0)._solve(checkerboard, device=CPU)


def test_the_seed_fixes_the_start_and_equal_weights_are_no_weights(checkerboard):
    weighted = Interactions.from_arrays(
        checkerboard.users_E, checkerboard.items_E, weight=np.full(len(checkerboard), 3.0)
    )
    first, same, other = (
        IALS(dim=8, sweeps=2, seed=seed)._solve(data, device=CPU).user_UD
        for data, seed in ((checkerboard, 0), (weighted, 0), (checkerboard, 1))
    )
    np.testing.assert_allclose(first, same, rtol=1e-5, atol=1e-5)
    assert not np.array_equal(first, other)
