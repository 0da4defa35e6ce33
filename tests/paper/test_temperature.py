"""Proposition 2.3: with uniform draws, V_T falls with T, from DNS to the uniform mean.

Slip in print: strict only if the sampled f are not all equal.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn.functional import softplus
from torch.testing import assert_close

from sdgar.contracts import Negatives
from sdgar.data.interactions import Interactions
from sdgar.objectives import WeightedLogistic
from sdgar.samplers.static import Uniform

from ..positives import positives_of

TEMPERATURES = np.geomspace(1e-3, 1e3, 61)
ROWS, N, ITEMS = 50, 5, 40


@pytest.fixture
def drawn() -> tuple[torch.Tensor, torch.Tensor, Negatives]:
    """Fifty contexts with five uniform negatives each; scores of a matrix of ±3 or so."""
    data = Interactions.from_arrays(np.repeat(np.arange(ROWS), 3), np.arange(3 * ROWS) % ITEMS)
    rows = torch.arange(ROWS)
    items = torch.from_numpy(data.items_E[::3]).long()
    given = Uniform().sample(positives_of(data, rows, items), N)
    rng = torch.Generator().manual_seed(0)
    g_UI = 2 * torch.randn(ROWS, ITEMS, generator=rng, dtype=torch.float64)
    return torch.randn(ROWS, generator=rng).double(), g_UI.gather(1, given.items_BN), given


def test_with_uniform_draws_the_weights_are_the_softmax_of_the_loss(drawn):
    _, neg_BN, given = drawn
    assert_close(
        WeightedLogistic(0.5).weights(neg_BN, given), (softplus(neg_BN) / 0.5).softmax(dim=1)
    )


def test_the_objective_falls_strictly_as_the_temperature_grows(drawn):
    # Holds for every context, not only for their sum. Catches f·T for f/T, and weights of -f.
    pos_B, neg_BN, given = drawn
    value_TB = torch.stack([WeightedLogistic(float(t))(pos_B, neg_BN, given) for t in TEMPERATURES])
    assert (value_TB.diff(dim=0) <= 1e-12).all()
    # Colder than this, some contexts have their limit to all digits of a float64.
    assert (value_TB[TEMPERATURES > 0.1].diff(dim=0) < 0).all()
    assert (value_TB[0] - value_TB[-1] > 0.01).all()


def test_the_cold_limit_is_dynamic_negative_sampling(drawn):
    pos_B, neg_BN, given = drawn
    cold_B = WeightedLogistic(1e-3)(pos_B, neg_BN, given)
    hardest_B = 0.5 * (softplus(-pos_B) + softplus(neg_BN.amax(dim=1)))
    assert_close(cold_B, hardest_B, rtol=0, atol=1e-3)
    warm_B = WeightedLogistic(1.0)(pos_B, neg_BN, given)
    assert (hardest_B - warm_B).mean() > 0.1


def test_in_the_cold_limit_only_the_hardest_negative_gets_a_gradient():
    pos_B = torch.zeros(1, dtype=torch.float64)
    neg_BN = torch.tensor([[0.1, 2.0, -1.0]], dtype=torch.float64, requires_grad=True)
    given = Negatives(torch.zeros(1, 3).long(), torch.ones(1, 3).bool(), torch.zeros(1, 3).double())
    WeightedLogistic(1e-3)(pos_B, neg_BN, given).sum().backward()
    expected_BN = torch.tensor([[0.0, 0.5, 0.0]], dtype=torch.float64) * neg_BN.detach().sigmoid()
    assert_close(neg_BN.grad, expected_BN)


def test_the_hot_limit_is_uniform_sampling(drawn):
    pos_B, neg_BN, given = drawn
    hot_B = WeightedLogistic(1e3)(pos_B, neg_BN, given)
    assert_close(hot_B, 0.5 * (softplus(-pos_B) + softplus(neg_BN).mean(dim=1)), rtol=0, atol=5e-3)
    warm_B = WeightedLogistic(1.0)(pos_B, neg_BN, given)
    assert (warm_B - hot_B).mean() > 0.1


def test_equal_losses_make_the_temperature_irrelevant(drawn):
    # The slip: then nothing is strict.
    pos_B, _, given = drawn
    same_BN = torch.full((ROWS, N), 0.7, dtype=torch.float64)
    cold, hot = (WeightedLogistic(t)(pos_B, same_BN, given) for t in (1e-3, 1e3))
    assert_close(cold, hot)
