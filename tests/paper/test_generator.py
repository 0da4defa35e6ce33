"""Eq. 6 to 12 and both corollaries: the decomposable generator and its closed-form update.

Slip in print: in Algorithm 1 the tables P(c|k) and P(k|i) stand inside the loop over k; they are
built once an update, before that loop. Deviation: one set S_i of contexts an item serves all k.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats
from torch.testing import assert_close

from sdgar.maths.rng import Draws, Stream
from sdgar.samplers.sampled_sums import Inverse, Moment

from .oracle import best_with_entropy, closed_form, problem, slope_of_log_error

ALPHA = 1e-6
"""False-alarm rate of each chi-square test; all seeds are fixed."""

READINGS = [(t, i) for t in ("linear", "kl") for i in ("deviation", "loss")]


def p_value(drawn: torch.Tensor, q: torch.Tensor) -> float:
    """Of the chi-square test that draws follow q."""
    counts = np.bincount(drawn.ravel().numpy(), minlength=len(q))
    return stats.chisquare(counts, (q / q.sum()).numpy() * counts.sum()).pvalue


def test_the_generator_is_a_distribution_over_items_in_every_context():
    # Eq. 6: Q = Y x_c with X 1 = 1 and 1'Y = 1'.
    p = problem()
    assert_close(p.generator.x_UK.sum(dim=1), torch.ones(5))
    assert_close(p.generator.y_IK.sum(dim=0), torch.ones(3))
    log_q_UI = p.generator.log_q(torch.arange(5), torch.arange(9).expand(5, -1))
    assert_close(log_q_UI.double().exp(), p.q_UI, rtol=1e-6, atol=0)
    assert_close(log_q_UI.exp().sum(dim=1), torch.ones(5))


@pytest.mark.parametrize("context", [0, 3])
def test_items_are_drawn_as_the_generator_says(context):
    # 200,000 draws over 9 items detect an error of 3 % in every one of them, such as a state and
    # an item drawn with the same random number.
    p = problem()
    draws = Draws(5, Stream.NEGATIVES, 1, torch.arange(20_000)[:, None])
    items = p.generator.draw(torch.full((20_000, 1), context), draws, torch.arange(10))
    assert p_value(items, p.q_UI[context]) > ALPHA


def inverse_by_hand(p) -> torch.Tensor:
    """Q(c|i) = Σ_k P(k|i) P(c|k), I × U."""
    x_UK, y_IK = p.generator.x_UK.double(), p.generator.y_IK.double()
    return (y_IK / y_IK.sum(dim=1, keepdim=True)) @ (x_UK / x_UK.sum(dim=0, keepdim=True)).T


def test_the_inverse_is_a_distribution_over_contexts_for_every_item():
    p = problem()
    log_q_IU = Inverse(p.generator).log_q(torch.arange(9), torch.arange(5).expand(9, -1))
    assert_close(log_q_IU.exp().sum(dim=1), torch.ones(9))
    assert_close(log_q_IU.double().exp(), inverse_by_hand(p), rtol=1e-6, atol=0)
    # Not Bayes' rule with the tables the wrong way round: x_ck and y_ik alone.
    swapped_IU = (p.q_UI / p.q_UI.sum(dim=0)).T
    assert (inverse_by_hand(p) - swapped_IU).abs().max() > 0.01


@pytest.mark.parametrize("item", [0, 7])
def test_contexts_are_drawn_as_the_inverse_says(item):
    # 200,000 draws over 5 contexts detect an error of 3 % in every one of them.
    p = problem()
    draws = Draws(6, Stream.GENERATOR_ITEMS, 1, torch.arange(20_000)[:, None])
    users = Inverse(p.generator).draw(torch.full((20_000, 1), item), draws, torch.arange(10))
    assert p_value(users, inverse_by_hand(p)[item]) > ALPHA


@pytest.mark.parametrize("lam", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("of", ["a context", "a state"])
def test_the_closed_form_solves_its_problem(of, lam):
    # Corollary 2.1: Eq. 9 solves Eq. 8, with b of order 1 so that x_c is not uniform. Corollary
    # 2.2: Eq. 11 solves Eq. 10; y_k is a column, so a softmax over states would fail.
    values = torch.rand(7, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    dim = 1 if of == "a context" else 0
    found = closed_form().sharpen(values.log(), lam, torch.zeros_like(values), dim=dim)
    for line, solved in zip(values.unbind(1 - dim), found.unbind(1 - dim), strict=True):
        np.testing.assert_allclose(solved, best_with_entropy(line.numpy(), lam), atol=2e-6)


@pytest.mark.parametrize("lam", [0.1, 1.0])
def test_relative_calibration_is_the_closed_form_with_lambda_in_units_of_b(lam):
    b_UK = torch.rand(4, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64) / 1e5
    before = torch.zeros_like(b_UK)
    unit = b_UK.amax(dim=1).mean().item()
    relative = closed_form(calibration="relative").sharpen(b_UK.log(), lam, before, dim=1)
    assert_close(relative, (b_UK / (lam * unit)).softmax(dim=1))
    rescaled = closed_form(calibration="relative").sharpen((1e9 * b_UK).log(), lam, before, dim=1)
    assert_close(relative, rescaled)


SIZES = [100, 1000, 10_000, 100_000]


def check_convergence(estimate, exact: torch.Tensor) -> None:
    """The error of an estimate against the sum over everything falls like 1/√S.

    One run a size, errors pooled over all entries; their logarithm scatters by about 0.25, so the
    slope over three decades (of natural logarithms) has a standard error of 0.05: 0.25 is five.
    What is left at 100,000 samples detects any bias of more than 3 %.
    """
    errors = []
    for size in SIZES:
        error = estimate(size).double() / exact - 1
        errors.append(error.square().mean().sqrt().item())
    assert slope_of_log_error(SIZES, errors) == pytest.approx(-0.5, abs=0.25)
    assert errors[-1] < 0.03


@pytest.mark.parametrize("which", ["partition function", "mean loss"])
def test_the_partition_function_and_the_mean_loss_converge_to_sums_over_all_items(which):
    p = problem()

    def estimate(size: int) -> torch.Tensor:
        at = Moment(p.generator, p.score, seed=0, epoch=1)
        log_z_U, mu_U = closed_form(samples=size).partition_and_mean(at, part=0)
        return mu_U if which == "mean loss" else log_z_U.exp()

    check_convergence(estimate, p.mu_U if which == "mean loss" else p.log_z_U.exp())


@pytest.mark.parametrize(("target", "integrand"), READINGS)
@pytest.mark.parametrize("which", ["b", "d"])
def test_b_and_d_converge_to_sums_over_all_items_and_contexts(which, target, integrand):
    # Eq. 9, and Eq. 12 with one set of contexts an item for all states.
    p = problem()
    update = closed_form(target=target, integrand=integrand)

    def estimate(size: int) -> torch.Tensor:
        sampled = closed_form(target=target, integrand=integrand, samples=size)
        logarithm = sampled.log_b if which == "b" else sampled.log_d
        at = Moment(p.generator, p.score, seed=0, epoch=1)
        return logarithm(at, p.log_z_U.float(), p.mu_U.float()).exp()

    check_convergence(estimate, p.b_UK(update) if which == "b" else p.d_IK(update))


@pytest.mark.parametrize(("target", "integrand"), READINGS)
def test_b_is_the_gradient_of_what_the_generator_maximises(target, integrand):
    # Eq. 7: Σ_c Σ_i Q(i|c) P h, whose gradient in x_c is b_c and in y_k is d_k; with the KL target
    # Σ_c Σ_i P h log Q instead. Ties the oracle of the two tests above to the program it is for.
    p = problem()
    update = closed_form(target=target, integrand=integrand)
    x_UK = p.generator.x_UK.double().requires_grad_()
    y_IK = p.generator.y_IK.double().requires_grad_()
    h_UI = (p.f_UI - p.mu_U[:, None]).abs() if integrand == "deviation" else p.f_UI
    q_UI = x_UK @ y_IK.T
    gain = (p.p_UI * h_UI * (q_UI.log() if target == "kl" else q_UI)).sum()
    gain.backward()
    assert_close(p.b_UK(update), x_UK.grad)
    assert_close(p.d_IK(update), y_IK.grad)


@pytest.mark.parametrize("calibration", ["literal", "relative"])
@pytest.mark.parametrize(("target", "integrand"), READINGS)
def test_an_update_is_one_round_of_the_exact_alternation(target, integrand, calibration):
    # The whole of ClosedForm.__call__ at 100,000 samples against Eq. 9 and then Eq. 11 by full
    # enumeration; over four seeds no entry was off by more than 0.025. With d from the old X
    # instead of the new one, some are off by more than 0.1 (the last line).
    p, exact = problem(), problem()
    # b and d are of different sizes in the four readings; λ keeps the softmax off its corners.
    lam = 0.1 if calibration == "literal" and target == "linear" else 0.6
    update = closed_form(
        target=target, integrand=integrand, calibration=calibration, lambda_x=lam, lambda_y=lam,
        samples=100_000,
    )  # fmt: skip
    update(p.generator, p.score, seed=0, epoch=1)

    def solve(value: torch.Tensor, weight: float, dim: int) -> torch.Tensor:
        unit = value.amax(dim=dim).mean() if calibration == "relative" else 1.0
        return (value / (weight * unit)).softmax(dim=dim)

    too_early_IK = solve(exact.d_IK(update), lam, 0)
    exact.generator.set_x(solve(exact.b_UK(update), lam, 1))
    assert_close(p.generator.x_UK, exact.generator.x_UK, rtol=0, atol=0.05)
    exact.generator.set_x(p.generator.x_UK)  # what is left of the error of X is not that of Y
    exact.generator.set_y(solve(exact.d_IK(update), lam, 0))
    assert_close(p.generator.y_IK, exact.generator.y_IK, rtol=0, atol=0.05)
    assert (too_early_IK - exact.generator.y_IK).abs().max() > 0.1
