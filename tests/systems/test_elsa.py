from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import normalize
from torch.testing import assert_close

from sdgar.data.interactions import Interactions
from sdgar.data.synthetic import synthetic
from sdgar.errors import ResourceError
from sdgar.maths.sparse import SparseMatrix
from sdgar.systems import elsa
from sdgar.systems.elsa import ELSA

from .problems import some_data

CPU = torch.device("cpu")


def dense_losses(x_UI, free_ID):
    """The formula as it is printed, with rows of all items."""
    a_ID = normalize(free_ID)
    s_UI = x_UI @ (a_ID @ a_ID.T - torch.eye(len(a_ID), dtype=torch.float64))
    return (normalize(x_UI) - normalize(s_UI)).square().sum(dim=1)


@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 3, 20]))
def test_losses_and_gradients_are_those_of_whole_rows(seed, dim):
    data, x_UI = some_data(seed)
    start_ID = np.random.default_rng(seed).normal(size=(data.n_items, dim))
    ours, theirs = (torch.tensor(start_ID, requires_grad=True) for _ in range(2))
    history = SparseMatrix.of(data.indptr_U1, data.items_E, data.n_items, device=CPU)
    found_U = elsa.losses(history, normalize(ours))
    wanted_U = dense_losses(torch.from_numpy(x_UI), theirs)
    assert_close(found_U, wanted_U)
    found_U.mean().backward()
    wanted_U.mean().backward()
    assert_close(ours.grad, theirs.grad)


def test_scores_are_sums_of_vectors_of_length_one_without_the_item_itself():
    data, x_UI = some_data(3)
    model = ELSA(dim=4)._solve(data, device=CPU)
    a_ID = torch.from_numpy(model.item_ID).double()
    assert_close(a_ID.norm(dim=1), torch.ones(data.n_items, dtype=torch.float64))
    wanted_UI = torch.from_numpy(x_UI) @ (a_ID @ a_ID.T - torch.eye(data.n_items))
    found_UI = model.score_all(np.arange(data.n_users))
    assert_close(torch.from_numpy(found_UI).double(), wanted_UI, rtol=1e-5, atol=1e-5)


def test_an_epoch_is_one_step_for_each_batch_and_epochs_bring_the_loss_down():
    demo = synthetic("demo", seed=0)
    history = SparseMatrix.of(demo.indptr_U1, demo.items_E, demo.n_items, device=CPU)
    reached = [
        elsa.losses(history, torch.from_numpy(solved.item_ID)).mean()
        for solved in (ELSA(epochs=n, device="cpu")._solve(demo, device=CPU) for n in (1, 4, 16))
    ]
    assert reached[0] > reached[1] > reached[2]


def test_the_same_seed_gives_the_same_vectors_and_another_seed_gives_others():
    data, _ = some_data(5)
    one, again, other = (ELSA(dim=3, seed=s)._solve(data, device=CPU).item_ID for s in (1, 1, 2))
    assert np.array_equal(one, again)
    assert not np.allclose(one, other)


def test_users_without_items_are_passed_over():
    data, _ = some_data(5)
    keep_E = data.users_E != 3
    some = Interactions.from_indices(
        data.users, data.items, data.users_E[keep_E], data.items_E[keep_E]
    )
    assert some.n_users == data.n_users
    model = ELSA(dim=3, batch_size=1)._solve(some, device=CPU)
    assert np.isfinite(model.item_ID).all()
    assert (model.score_all(np.array([3])) == 0).all()


def test_what_does_not_fit_is_refused_with_the_number_and_the_cure(monkeypatch):
    data, _ = some_data(0)
    monkeypatch.setattr("sdgar.machine.memory.free_bytes", lambda device: 1 << 20)
    with pytest.raises(ResourceError, match=r"elsa needs at least .* Use a smaller dim"):
        ELSA(dim=1 << 20)._solve(data, device=CPU)
