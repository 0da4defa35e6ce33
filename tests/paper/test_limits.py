"""What the paper says SD-GAR comes down to, as whole epochs of training.

With uniform draws and held weights it is self-adversarial sampling; at T → 0 the hardest of the
draws is all that counts (dynamic negative sampling); at T → ∞ all count alike.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from sdgar.data.interactions import Interactions
from sdgar.engines.eager import EagerEngine
from sdgar.objectives import LEAST_TEMPERATURE, MOST_TEMPERATURE, Logistic
from sdgar.parts import Ingredients
from sdgar.samplers.score_aware import HardestOf
from sdgar.samplers.static import Uniform
from sdgar.systems.learner import Factorized, Learner
from sdgar.systems.recipe import recipe_of
from sdgar.systems.sdgar import SA, SDGAR

SHARED = {"dim": 6, "batch_size": 16, "l2": 0.0, "learning_rate": 0.3}
COLD, HOT = LEAST_TEMPERATURE, MOST_TEMPERATURE


@pytest.fixture(scope="module")
def data() -> Interactions:
    rng = np.random.default_rng(0)
    return Interactions.from_arrays(*np.nonzero(rng.random((20, 30)) < 0.3))


def trained(
    recipe: Learner, data: Interactions, *, epochs: int = 2
) -> tuple[float, dict[str, torch.Tensor]]:
    """Some epochs, from scores that differ by about 1 above 0, where f = softplus(s) does too."""
    system = recipe_of(recipe).compose(data, seed=0)
    with torch.no_grad():
        for parameter in system.discriminator.parameters():
            parameter *= 15
        system.discriminator.bias_I += 3
    engine = EagerEngine(system, data, seed=1, device=torch.device("cpu"))
    loss = sum(engine.run_epoch(epoch).loss for epoch in range(1, epochs + 1))
    return loss, {k: v for k, v in engine.state().items() if k.startswith("model.")}


class HardestLogistic(Factorized):
    """Dynamic negative sampling with Eq. 4's loss instead of BPR's."""

    def _make_objective(self, given: Ingredients) -> Logistic:
        return Logistic()

    def _make_sampler(self, given: Ingredients) -> HardestOf:
        return HardestOf(5)


class UniformLogistic(Factorized):
    """Five negatives that count alike."""

    def _make_objective(self, given: Ingredients) -> Logistic:
        return Logistic()

    def _make_sampler(self, given: Ingredients) -> Uniform:
        return Uniform()


@pytest.mark.parametrize("l2", [0.0, 0.1])
def test_uniform_draws_and_held_weights_are_self_adversarial_sampling(data, l2):
    ours = SDGAR(sampler="uniform", hold_weights=True, temperature=0.4, **SHARED | {"l2": l2})
    expected_loss, expected = trained(SA(temperature=0.4, **SHARED | {"l2": l2}), data)
    loss, state = trained(ours, data)
    assert loss == expected_loss
    assert state.keys() == expected.keys()
    for name, tensor in state.items():
        assert torch.equal(tensor, expected[name]), name


def test_a_gradient_through_the_weights_is_another_system(data):
    """Else the test above would hold for anything."""
    ours = SDGAR(sampler="uniform", temperature=0.4, **SHARED)
    _, expected = trained(SA(temperature=0.4, **SHARED), data)
    assert (trained(ours, data)[1]["model.user_UD"] - expected["model.user_UD"]).abs().max() > 0.01


@pytest.mark.parametrize(
    ("temperature", "limit"),
    [(COLD, HardestLogistic(**SHARED)), (HOT, UniformLogistic(**SHARED, n_negatives=5))],
)
def test_the_limits_of_the_temperature_are_the_hardest_and_the_mean(data, temperature, limit):
    """One step on all data, by SGD, so that it is the gradient. At T = ½ it is neither."""
    one_step = {"batch_size": 10**6, "optimizer": "sgd", "learning_rate": 1.0}

    def gradient(recipe: Learner) -> torch.Tensor:
        before, after = (
            trained(replace(recipe, **one_step), data, epochs=epochs)[1] for epochs in (0, 1)
        )
        return torch.cat([(after[k] - before[k]).flatten() for k in sorted(after)])

    expected = gradient(limit)
    for t, near in ((temperature, True), (0.5, False)):
        ours = SDGAR(sampler="uniform", hold_weights=True, temperature=t, **SHARED)
        distance = (gradient(ours) - expected).norm() / expected.norm()
        assert (distance < 0.01) == near, (t, distance)
