"""The paper's sums taken over everything, in float64, and its programs solved numerically."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor
from torch.nn.functional import softplus

from sdgar.contracts import Negatives
from sdgar.maths.rng import Draws, Stream
from sdgar.samplers.closed_form import ClosedForm, ClosedFormSettings, Frozen
from sdgar.samplers.decomposable import Decomposable


@dataclass
class Problem:
    """Scores of every pair, a generator, and the exact values of what is estimated by sampling."""

    g_UI: Tensor
    """float32, as in training; the sums below are float64 sums of these very numbers."""
    generator: Decomposable
    temperature: float

    def score(self, users_B: Tensor, items_BN: Tensor) -> Tensor:
        return self.g_UI[users_B[:, None], items_BN]

    @property
    def f_UI(self) -> Tensor:
        return softplus(self.g_UI.double())

    @property
    def log_z_U(self) -> Tensor:
        return (self.f_UI / self.temperature).logsumexp(dim=1)

    @property
    def p_UI(self) -> Tensor:
        """Eq. 3."""
        return (self.f_UI / self.temperature).softmax(dim=1)

    @property
    def mu_U(self) -> Tensor:
        return (self.p_UI * self.f_UI).sum(dim=1)

    @property
    def q_UI(self) -> Tensor:
        """Eq. 6."""
        return self.generator.x_UK.double() @ self.generator.y_IK.double().T

    def _mass_UI(self, update: ClosedForm) -> Tensor:
        """P(i|c) h_c(i), over Q(i|c) for the KL target."""
        deviation_UI = (self.f_UI - self.mu_U[:, None]).abs()
        h_UI = deviation_UI if update.settings.integrand == "deviation" else self.f_UI
        mass_UI = self.p_UI * h_UI
        return mass_UI / self.q_UI if update.settings.target == "kl" else mass_UI

    def b_UK(self, update: ClosedForm) -> Tensor:
        return self._mass_UI(update) @ self.generator.y_IK.double()

    def d_IK(self, update: ClosedForm) -> Tensor:
        return self._mass_UI(update).T @ self.generator.x_UK.double()


def problem(
    *, users: int = 5, items: int = 9, states: int = 3, temperature: float = 1.0, seed: int = 0
) -> Problem:
    """Contexts that differ in their scores, and a generator that is far from its target."""
    torch_rng = torch.Generator().manual_seed(seed)
    g_UI = 2 * torch.randn(users, items, generator=torch_rng)
    generator = Decomposable(users, items, states, seed=seed, update=Frozen())
    generator.set_x(0.02 + torch.rand(users, states, generator=torch_rng) ** 3)
    generator.set_y(0.02 + torch.rand(items, states, generator=torch_rng) ** 3)
    return Problem(g_UI, generator, temperature)


def closed_form(*, temperature: float = 1.0, **changes) -> ClosedForm:
    """The update as printed, unless a test changes it."""
    printed = {
        "lambda_x": 0.1,
        "lambda_y": 0.1,
        "samples": 64,
        "target": "linear",
        "integrand": "deviation",
        "calibration": "literal",
    }
    settings = ClosedFormSettings(**(printed | changes))
    return ClosedForm(temperature=temperature, settings=settings)


def sample_sets(p: Problem, context: int, size: int, sets: int, *, seed: int) -> Negatives:
    """Independent S_c of one context, drawn from Q(. | c); one a row, nothing rejected."""
    rows_B1 = torch.arange(sets)[:, None]
    users_B = torch.full((sets,), context)
    draws = Draws(seed, Stream.NEGATIVES, context, rows_B1)
    items_BN = p.generator.draw(users_B[:, None], draws, torch.arange(size))
    accepted_BN = torch.ones(items_BN.shape, dtype=torch.bool)
    return Negatives(items_BN, accepted_BN, p.generator.log_q(users_B, items_BN).double())


def everything(n: int) -> Negatives:
    """Every item once, all equally likely: then a row's weights are a distribution over items."""
    ones_1N = torch.ones(1, n, dtype=torch.bool)
    return Negatives(torch.arange(n)[None], ones_1N, torch.zeros(1, n, dtype=torch.float64))


def best_on_simplex(
    gain: Callable[[np.ndarray], float],
    slope: Callable[[np.ndarray], np.ndarray],
    n: int,
) -> np.ndarray:
    """The distribution of the largest gain, by sequential quadratic programming."""
    found = minimize(
        lambda p: -gain(p),
        np.full(n, 1 / n),
        jac=lambda p: -slope(p),
        method="SLSQP",
        bounds=[(1e-12, 1.0)] * n,
        constraints={"type": "eq", "fun": lambda p: p.sum() - 1, "jac": np.ones_like},
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    assert found.success, found.message
    return found.x


def best_with_entropy(value: np.ndarray, weight: float) -> np.ndarray:
    """Maximise p · value + weight · H(p) over the simplex."""
    return best_on_simplex(
        lambda p: p @ value - weight * (p @ np.log(p)),
        lambda p: value - weight * (np.log(p) + 1),
        len(value),
    )


def slope_of_log_error(sizes: list[int], errors: list[float]) -> float:
    """Power of S at which an error falls."""
    return float(np.polyfit(np.log(sizes), np.log(errors), 1)[0])
