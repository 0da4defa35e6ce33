"""Theorems 2.1 and 2.2: what a generator of enough capacity would be, given the discriminator.

Slip in print: the theorems say min_G, which holds in the appendix's convention (J without the
minus signs of Eq. 1). With the signs of Eq. 1, as here, the generator maximises.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import linprog
from torch.nn.functional import softplus

from sdgar.objectives import WeightedLogistic

from .oracle import best_with_entropy, everything

SCORES = torch.tensor([-3.0, 0.4, 2.5, -0.2, 1.9, 0.0], dtype=torch.float64)
F = softplus(SCORES).numpy()


def target(temperature: float) -> np.ndarray:
    """Eq. 3, as the package computes it: the weights of all items under an even proposal."""
    weights_1I = WeightedLogistic(temperature).weights(SCORES[None], everything(len(SCORES)))
    return weights_1I[0].numpy()


def test_without_entropy_the_best_generator_is_one_hot_at_the_largest_score():
    # Theorem 2.1: a linear program, max_P Σ P(i) f(i) over the simplex. Catches a generator that
    # is trained with the sign of the print's "min_G": it would sit on the smallest score.
    found = linprog(-F, A_eq=np.ones((1, len(F))), b_eq=[1.0], bounds=(0, 1))
    one_hot = np.eye(len(F))[int(SCORES.argmax())]
    np.testing.assert_allclose(found.x, one_hot, atol=1e-9)
    misread = linprog(F, A_eq=np.ones((1, len(F))), b_eq=[1.0], bounds=(0, 1))
    assert misread.x[int(SCORES.argmin())] == pytest.approx(1)


@pytest.mark.parametrize("temperature", [0.2, 0.5, 1.0, 10.0])
def test_with_entropy_the_best_generator_is_the_softmax_of_the_loss(temperature):
    # Theorem 2.2 and Eq. 3. Catches energies that are scores instead of softplus(scores), T on
    # the wrong side of the fraction, and a wrong sign.
    best = best_with_entropy(F, temperature)
    np.testing.assert_allclose(target(temperature), best, atol=2e-6)
    of_scores = (SCORES / temperature).softmax(dim=0).numpy()
    assert np.abs(of_scores - best).max() > 1e-3


@pytest.mark.parametrize("temperature", [0.2, 1.0])
def test_no_generator_tried_beats_the_softmax_of_the_loss(temperature):
    def value(p: np.ndarray) -> np.ndarray:
        return p @ F - temperature * (p * np.log(p)).sum(axis=-1)

    best = target(temperature)
    rng = np.random.default_rng(0)
    far = rng.dirichlet(np.ones(len(F)), 5000)
    near = best * np.exp(0.01 * rng.normal(size=(5000, len(F))))
    near /= near.sum(axis=1, keepdims=True)
    assert (value(np.maximum(far, 1e-300)) < value(best)).all()
    assert (value(near) < value(best)).all()


@pytest.mark.parametrize(
    ("temperatures", "limit", "atol"),
    [
        ((1.0, 0.1, 0.01, 1e-3), np.eye(len(F))[int(SCORES.argmax())], 1e-12),
        ((1.0, 10.0, 100.0, 1e3), np.full(len(F), 1 / len(F)), 1e-3),
    ],
)
def test_the_optimum_becomes_one_hot_as_the_temperature_falls_and_uniform_as_it_grows(
    temperatures, limit, atol
):
    distances = [np.abs(target(t) - limit).max() for t in temperatures]
    assert distances == sorted(distances, reverse=True)
    np.testing.assert_allclose(target(temperatures[-1]), limit, atol=atol)
