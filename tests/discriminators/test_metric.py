from __future__ import annotations

import itertools
import statistics

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from sdgar.discriminators.bounded import MetricModel
from sdgar.engines.eager import EagerEngine
from sdgar.systems.hinges import CML
from sdgar.systems.recipe import recipe_of

USERS_B = torch.tensor([2, 4, 2])
ITEMS_BN = torch.tensor([[1, 3, 9], [8, 8, 0], [3, 10, 1]])


def metric(**changes) -> MetricModel:
    return MetricModel(7, 11, 5, **({"seed": 3} | changes))


def norms(model: MetricModel) -> torch.Tensor:
    return torch.cat((model.user_UD, model.item_ID)).detach().norm(dim=1)


def test_a_score_is_minus_the_squared_distance_up_to_a_constant_of_the_context():
    model = metric().double()
    u_UD, v_ID = model.user_UD.detach(), model.item_ID.detach()
    nearness_UI = -torch.cdist(u_UD, v_ID).square()
    shift_UI = model.score_all(torch.arange(7)) - nearness_UI
    assert_close(shift_UI, u_UD.square().sum(dim=1, keepdim=True).expand(-1, 11))
    some_BN = model.score(USERS_B, ITEMS_BN) - nearness_UI[USERS_B[:, None], ITEMS_BN]
    assert_close(some_BN, u_UD[USERS_B].square().sum(dim=1, keepdim=True).expand(-1, 3))


def test_points_start_in_the_ball_spread_and_some_on_its_border():
    start = norms(MetricModel(400, 300, 16, seed=0))
    assert start.max() <= 1 + 1e-6
    assert 0.2 < (start > 1 - 1e-6).float().mean() < 0.8
    assert start.min() > 0.3


@given(st.floats(0.01, 100))
def test_a_projection_shortens_what_is_outside_and_leaves_the_rest(scale):
    model = metric(sparse=True)
    with torch.no_grad():
        model.user_UD *= scale
        model.item_ID *= scale
    users_UD, items_ID = model.user_UD.detach().clone(), model.item_ID.detach().clone()
    model.project(USERS_B, ITEMS_BN)
    for table, before, touched in (
        (model.user_UD.detach(), users_UD, [2, 4]),
        (model.item_ID.detach(), items_ID, [0, 1, 3, 8, 9, 10]),
    ):
        for row in range(len(table)):
            length = before[row].norm()
            shrink = 1 / length if row in touched and length > 1 else 1.0
            assert_close(table[row], before[row] * shrink)


def test_the_penalty_is_the_covariance_between_axes_over_the_vectors_of_the_batch():
    model = metric().double()
    _, penalty_B = model.score_and_penalty(USERS_B, ITEMS_BN)
    y_RD = torch.cat((model.user_UD[USERS_B], model.item_ID[ITEMS_BN.reshape(-1)])).tolist()
    axes = [[y[d] for y in y_RD] for d in range(5)]
    expected = sum(
        statistics.covariance(one, other) ** 2 * (len(y_RD) - 1) ** 2 / len(y_RD) ** 2
        for one, other in itertools.permutations(axes, 2)
    )
    assert_close(penalty_B.detach(), torch.full((3,), expected, dtype=torch.float64))


@pytest.mark.parametrize("optimizer", ["adagrad", "lazy-adam", "adam", "sgd"])
def test_training_stays_in_the_ball_with_every_optimiser(optimizer, checkerboard):
    recipe = CML(dim=4, batch_size=50, optimizer=optimizer, learning_rate=0.3, covariance=1.0)
    system = recipe_of(recipe).compose(checkerboard, seed=0)
    engine = EagerEngine(system, checkerboard, seed=0, device=torch.device("cpu"))
    losses = [engine.run_epoch(epoch).loss for epoch in (1, 2, 3)]
    assert norms(system.discriminator).max() <= 1 + 1e-6
    assert losses[-1] < losses[0]


def test_the_weight_of_the_covariances_makes_axes_less_alike(checkerboard):
    spread = []
    for weight in (0.0, 30.0):
        system = recipe_of(CML(dim=4, batch_size=50, covariance=weight)).compose(
            checkerboard, seed=0
        )
        engine = EagerEngine(system, checkerboard, seed=0, device=torch.device("cpu"))
        for epoch in range(1, 11):
            engine.run_epoch(epoch)
        all_items_1I = torch.arange(40)[None]
        spread.append(system.discriminator.score_and_penalty(torch.tensor([0]), all_items_1I)[1])
    assert spread[1] < 0.5 * spread[0]
