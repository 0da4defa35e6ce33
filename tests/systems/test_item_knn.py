from __future__ import annotations

import math

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from sdgar.data.interactions import Interactions
from sdgar.systems.neighbours import ItemKNN

from ..sparse import matrix_of
from .problems import some_data

CPU = torch.device("cpu")


def similarities(x_UI: np.ndarray, shrink: float) -> np.ndarray:
    """By sets: how many users have both, over how many there could be."""
    users_of = [set(np.flatnonzero(column)) for column in x_UI.T]
    return np.array(
        [
            [
                len(a & b) / (math.sqrt(len(a) * len(b)) + shrink) if a is not b else 0.0
                for b in users_of
            ]
            for a in users_of
        ]
    )


@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.sampled_from([0.0, 1.0, 30.0]))
def test_every_item_keeps_its_nearest_and_scores_are_sums_over_those_a_user_has(seed, k, shrink):
    data, x_UI = some_data(seed)
    sim_II = similarities(x_UI, shrink)
    found = ItemKNN(neighbours=k, shrink=shrink)._solve(data, device=CPU)
    kept = found.weight_II
    weight_II = np.zeros_like(sim_II)
    weight_II[matrix_of(kept).row_E, kept.column_E] = kept.weights()

    np.testing.assert_allclose(weight_II[weight_II > 0], sim_II[weight_II > 0], rtol=1e-5)
    # Which of several equal ones are kept is decided in float32, so only values are compared.
    best_II = np.sort(sim_II, axis=0)[::-1][:k]
    np.testing.assert_allclose(np.sort(weight_II, axis=0)[::-1][:k], best_II, rtol=1e-5)
    assert ((weight_II > 0).sum(axis=0) <= k).all()

    scores_UI = x_UI @ weight_II
    scores_UI[scores_UI == 0] = -np.inf
    np.testing.assert_allclose(found.score_all(np.arange(data.n_users)), scores_UI, rtol=1e-5)


def test_of_equally_near_items_the_first_are_kept():
    users, items = np.nonzero(np.ones((4, 6)))
    data = Interactions.from_arrays(users, items)
    kept = ItemKNN(neighbours=2)._solve(data, device=CPU).weight_II
    by_item = matrix_of(kept).transposed()
    neighbours = [by_item.rows(torch.tensor([item])).column_E.tolist() for item in range(6)]
    assert neighbours == [[1, 2], [0, 2], [0, 1], [0, 1], [0, 1], [0, 1]]
