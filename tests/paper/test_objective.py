"""Eq. 4, its gradient, and Proposition 2.1."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn.functional import softplus
from torch.testing import assert_close

from sdgar.contracts import Negatives
from sdgar.objectives import WeightedLogistic

from .oracle import Problem, problem, sample_sets, slope_of_log_error


def random_rows(rows: int = 4, n: int = 5) -> tuple[torch.Tensor, torch.Tensor, Negatives]:
    rng = torch.Generator().manual_seed(0)
    pos_B = torch.randn(rows, generator=rng, dtype=torch.float64)
    neg_BN = 2 * torch.randn(rows, n, generator=rng, dtype=torch.float64)
    log_q_BN = torch.randn(rows, n, generator=rng, dtype=torch.float64)
    accepted_BN = torch.ones(rows, n, dtype=torch.bool)
    return pos_B, neg_BN, Negatives(torch.zeros(rows, n).long(), accepted_BN, log_q_BN)


@pytest.mark.parametrize("temperature", [0.1, 0.5, 2.0])
def test_twice_the_mean_over_a_contexts_positives_is_the_objective_of_the_paper(temperature):
    """Eq. 4 for one context: positives weigh 1/|I_c|, negatives w_cj.

    The package returns half of it, one row a positive; a mean over rows therefore weighs contexts
    by their activity, which is a deviation the paper map states.
    """
    positives = [0.3, -1.2, 2.0]
    negatives = [(1.5, 0.2), (-0.7, 0.05), (3.0, 0.6), (0.0, 0.15)]  # score, Q
    f = [math.log1p(math.exp(g)) for g, _ in negatives]
    odds = [math.exp(f_j / temperature) / q for f_j, (_, q) in zip(f, negatives, strict=True)]
    eq4 = sum(math.log1p(math.exp(-g)) for g in positives) / len(positives)
    eq4 += sum(o / sum(odds) * f_j for o, f_j in zip(odds, f, strict=True))

    pos_B = torch.tensor(positives, dtype=torch.float64)
    g_N, q_N = torch.tensor(negatives, dtype=torch.float64).T
    rows = len(positives)
    s_c = Negatives(
        torch.zeros(rows, 4).long(), torch.ones(rows, 4).bool(), q_N.log().expand(rows, 4)
    )
    loss_B = WeightedLogistic(temperature)(pos_B, g_N.expand(rows, 4), s_c)
    assert 2 * loss_B.mean().item() == pytest.approx(eq4, rel=1e-12)


def test_weights_need_the_proposal_only_up_to_a_constant_of_the_row():
    # Q̃ in Eq. 4 is unnormalised: what redrawing known positives does to Q cancels.
    _, neg_BN, given = random_rows()
    shift_B1 = torch.tensor([[-30.0], [0.0], [2.0], [50.0]], dtype=torch.float64)
    shifted = Negatives(given.items_BN, given.accepted_BN, given.log_q_BN + shift_B1)
    objective = WeightedLogistic(0.5)
    assert_close(objective.weights(neg_BN, shifted), objective.weights(neg_BN, given))


@pytest.mark.parametrize("temperature", [0.1, 0.5, 1.0, 10.0])
def test_the_gradient_passes_through_the_weights(temperature):
    # d/df_j = w_j (1 + (f_j - Σ w f)/T), times df/dg = σ(g), times ½. Section 2.2: this is what
    # sets SD-GAR apart from SA; an objective that detaches w fails here.
    pos_B, neg_BN, given = random_rows()
    neg_BN.requires_grad_()
    objective = WeightedLogistic(temperature)
    objective(pos_B, neg_BN, given).sum().backward()
    with torch.no_grad():
        f_BN, w_BN = softplus(neg_BN), objective.weights(neg_BN, given)
        mean_B1 = (w_BN * f_BN).sum(dim=1, keepdim=True)
        expected_BN = 0.5 * neg_BN.sigmoid() * w_BN * (1 + (f_BN - mean_B1) / temperature)
    assert_close(neg_BN.grad, expected_BN)


@pytest.mark.parametrize("temperature", [0.1, 1.0])
def test_held_weights_give_the_gradient_of_self_adversarial_sampling(temperature):
    pos_B, neg_BN, given = random_rows()
    neg_BN.requires_grad_()
    held = WeightedLogistic(temperature, hold_weights=True)
    held(pos_B, neg_BN, given).sum().backward()
    with torch.no_grad():
        expected_BN = 0.5 * neg_BN.sigmoid() * held.weights(neg_BN, given)
    assert_close(neg_BN.grad, expected_BN)
    assert_close(held(pos_B, neg_BN, given), WeightedLogistic(temperature)(pos_B, neg_BN, given))


SIZES = [30, 300, 3000, 30_000]
SETS = 60


def errors_of(p: Problem, *, with_log_q: bool) -> list[float]:
    """Root mean square of V_T - J(D, G*_T) over sets of samples, for each size of S_c."""
    objective = WeightedLogistic(p.temperature)
    pos_U = torch.linspace(-1, 1, len(p.g_UI), dtype=torch.float64)
    exact = (softplus(-pos_U) + p.mu_U).sum()
    out = []
    for size in SIZES:
        v_B = torch.zeros(SETS, dtype=torch.float64)
        for c in range(len(p.g_UI)):
            s_c = sample_sets(p, c, size, SETS, seed=size)
            if not with_log_q:
                s_c = Negatives(s_c.items_BN, s_c.accepted_BN, torch.zeros_like(s_c.log_q_BN))
            neg_BN = p.g_UI[c].double()[s_c.items_BN]
            v_B += 2 * objective(pos_U[c].expand(SETS), neg_BN, s_c)
        out.append((v_B - exact).square().mean().sqrt().item())
    return out


def test_the_objective_approaches_its_limit_like_one_over_the_root_of_the_samples():
    """Proposition 2.1 over three decades of |S_c|.

    With 60 sets a size the slope has a standard error of 0.018; a tolerance of 0.1 is 5.6 of
    them (false alarms below 1e-6, fixed seed). Detects weights of another proposal
    than the items were drawn from.
    """
    errors = errors_of(problem(users=2, items=12), with_log_q=True)
    assert slope_of_log_error(SIZES, errors) == pytest.approx(-0.5, abs=0.1)
    assert errors[-1] < 0.02


def test_without_log_q_the_objective_approaches_something_else():
    # The control of the test above: the error stays.
    errors = errors_of(problem(users=2, items=12), with_log_q=False)
    assert slope_of_log_error(SIZES, errors) > -0.2
    assert errors[-1] > 0.1
