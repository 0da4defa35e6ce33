from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from sdgar.data.interactions import Interactions
from sdgar.engines.choose import ENGINES, choose_device, choose_engine
from sdgar.engines.eager import EagerEngine
from sdgar.engines.visits import Visits
from sdgar.errors import ResourceError, UsageError
from sdgar.maths.optimizers import SGD, Adam
from sdgar.maths.rng import Permutation, Stream
from sdgar.samplers.static import Uniform

from ..positives import positives_of
from .compositions import CPU, PAIRWISE_ADAM, parameters


def engine_of(data: Interactions, **changes) -> EagerEngine:
    usual = {"optimizer": Adam(0.01), "n_negatives": 2, "batch_size": 64, "l2": 0.01}
    return EagerEngine(PAIRWISE_ADAM.system(data, **usual | changes), data, seed=5, device=CPU)


def batches_of(data: Interactions, per_visit: int, size: int):
    """Rows of each batch, and the row that addresses the negatives of each."""
    if per_visit == 1:
        order = Permutation.of(len(data), seed=5, stream=Stream.SHUFFLE, epoch=1)
        rows_E = order(np.arange(len(data)))
        for begin in range(0, len(data), size):
            yield (rows_E[begin : begin + size],) * 2
        return
    visits = Visits(data, per_visit, 5, CPU)
    for begin in range(0, len(visits), size // per_visit):
        batch = visits.batch(1, begin, begin + size // per_visit)
        yield batch.rows_B.numpy(), batch.first_V[batch.visit_B].numpy()


@pytest.mark.parametrize("per_visit", [1, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_one_epoch_of_gradient_descent_is_what_the_docstring_says(
    checkerboard, weighted, per_visit
):
    """A float64 oracle in plain NumPy, with the same draws: every step written out."""
    weight = np.random.default_rng(0).uniform(0.5, 3, len(checkerboard)) if weighted else None
    data = Interactions.from_arrays(checkerboard.users_E, checkerboard.items_E, weight=weight)
    engine = engine_of(data, optimizer=SGD(0.5), batch_size=100, positives_per_visit=per_visit)
    start = {k: v.double().numpy() for k, v in parameters(engine).items()}
    user, item, bias = (start[f"model.{n}"].copy() for n in ("user_UD", "item_ID", "bias_I"))
    omega = np.ones(len(data)) if weight is None else data.weight_E / data.weight_E.mean()
    for rows, addresses in batches_of(data, per_visit, 100):
        batch = (torch.from_numpy(part[rows]) for part in (data.users_E, data.items_E))
        addressed = positives_of(data, *batch, rows_B=torch.from_numpy(addresses), seed=5)
        negatives = Uniform().sample(addressed, 2)
        g_user, g_item, g_bias = np.zeros_like(user), np.zeros_like(item), np.zeros_like(bias)
        for b, r in enumerate(rows):
            u, i = data.users_E[r], data.items_E[r]
            g_user[u] += 0.01 * user[u]
            g_item[i] += 0.01 * item[i]
            g_bias[i] += 0.01 * bias[i]
            for j in negatives.items_BN[b].tolist():
                difference = user[u] @ (item[i] - item[j]) + bias[i] - bias[j]
                slope = -omega[r] / (1 + np.exp(difference)) / 2
                g_user[u] += slope * (item[i] - item[j])
                g_item[i] += slope * user[u]
                g_item[j] += -slope * user[u] + 0.01 * item[j] / 2
                g_bias[i] += slope
                g_bias[j] += -slope + 0.01 * bias[j] / 2
        user -= 0.5 * g_user / len(rows)
        item -= 0.5 * g_item / len(rows)
        bias -= 0.5 * g_bias / len(rows)
    stats = engine.run_epoch(1)
    after = parameters(engine)
    assert stats.positives == len(data)
    np.testing.assert_allclose(after["model.user_UD"], user, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(after["model.item_ID"], item, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(after["model.bias_I"], bias, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan"), float("inf")])
def test_a_learning_rate_that_cannot_train_is_refused(rate):
    with pytest.raises(UsageError, match="learning_rate must be a positive number"):
        Adam(rate)


def test_choosing_says_why_and_never_falls_back_silently(checkerboard):
    system = PAIRWISE_ADAM.system(checkerboard)
    engine, why = choose_engine("auto", system, CPU)
    assert engine.name in ENGINES
    assert why
    with pytest.raises(UsageError, match=r"unknown engine 'egaer'\. Did you mean 'eager'"):
        choose_engine("egaer", system, CPU)


def test_asking_for_a_gpu_that_is_not_there_is_an_error():
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    with pytest.raises(ResourceError, match="torch finds no GPU"):
        choose_device("cuda")
    with pytest.raises(UsageError, match="unknown device 'gpu'"):
        choose_device("gpu")
    assert choose_device("auto") == CPU


def test_weights_scale_with_their_mean_only(checkerboard):
    states = []
    for factor in (1.0, 8.0):
        data = Interactions.from_arrays(
            checkerboard.users_E,
            checkerboard.items_E,
            weight=factor * (1 + checkerboard.items_E % 3),
        )
        engine = engine_of(data)
        engine.run_epoch(1)
        states.append(parameters(engine))
    for name in states[0]:
        assert_close(states[0][name], states[1][name])
