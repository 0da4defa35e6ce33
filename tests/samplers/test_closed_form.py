from __future__ import annotations

import math

import pytest
import torch
from torch.testing import assert_close

from sdgar.samplers import sampled_sums as module
from sdgar.samplers.alias import log_average
from sdgar.samplers.closed_form import ClosedForm, ClosedFormSettings
from sdgar.samplers.decomposable import Decomposable


def made(*, temperature: float = 0.5, **changes) -> ClosedForm:
    settings = ClosedFormSettings(**({"samples": 16, "calibration": "relative"} | changes))
    return ClosedForm(temperature=temperature, settings=settings)


def scores(users_B: torch.Tensor, items_BN: torch.Tensor) -> torch.Tensor:
    return 2 * torch.sin(1.0 + users_B[:, None] * 7 + items_BN * 3)


def log_b(seed: int = 0, rows: int = 6, states: int = 4) -> torch.Tensor:
    return torch.randn(rows, states, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("calibration", ["literal", "relative", "line"])
@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize(
    ("place", "bad"),
    [(2, math.inf), (2, -math.inf), (2, math.nan), ((2, 1), math.inf), ((2, 1), math.nan)],
)
def test_one_bad_line_stays_as_it_was_and_spoils_no_other(place, bad, dim, calibration):
    def sharpened(log_b_RN: torch.Tensor, before_RN: torch.Tensor) -> torch.Tensor:
        tables = (log_b_RN, before_RN) if dim == 1 else (log_b_RN.T, before_RN.T)
        found = made(calibration=calibration).sharpen(tables[0], 0.1, tables[1], dim=dim)
        return found if dim == 1 else found.T

    before_RN, good_RN = torch.rand(6, 4).softmax(dim=1), log_b()
    planted_RN, rest = good_RN.clone(), [0, 1, 3, 4, 5]
    planted_RN[place] = bad
    after_RN = sharpened(planted_RN, before_RN)
    assert torch.equal(after_RN[2], before_RN[2])
    assert_close(after_RN[rest], sharpened(good_RN[rest], before_RN[rest]), rtol=1e-6, atol=0)


def test_a_line_in_its_own_unit_is_softmax_of_b_over_lambda_times_its_largest():
    b_UK = log_b().exp()
    expected_UK = (b_UK / b_UK.amax(dim=1, keepdim=True) / 0.3).softmax(dim=1)
    after_UK = made(calibration="line").sharpen(log_b(), 0.3, b_UK, dim=1)
    assert_close(after_UK, expected_UK)


def test_one_finite_but_huge_line_moves_no_other_line_in_its_own_unit():
    """The mean of the largest b would flatten all others; each line's own largest does not."""
    before_UK = torch.rand(6, 4).softmax(dim=1)
    planted_UK = log_b()
    planted_UK[2, 1] = 1e4
    rest = [0, 1, 3, 4, 5]
    update = made(calibration="line")
    after_UK = update.sharpen(planted_UK, 0.1, before_UK, dim=1)
    assert torch.equal(after_UK[rest], update.sharpen(log_b(), 0.1, before_UK, dim=1)[rest])
    flattened_UK = made().sharpen(planted_UK, 0.1, before_UK, dim=1)
    assert_close(flattened_UK[rest], torch.full((5, 4), 0.25))


def test_if_no_row_can_be_used_all_stay_as_they_were():
    before_UK = torch.rand(6, 4).softmax(dim=1)
    after_UK = made().sharpen(torch.full((6, 4), -math.inf), 0.1, before_UK, dim=1)
    assert torch.equal(after_UK, before_UK)


def test_an_entry_of_b_that_is_zero_gets_the_least_weight_and_no_nan():
    b = torch.tensor([[0.0, -math.inf, -1.0]])
    x = made(calibration="literal").sharpen(b, 0.5, torch.zeros(1, 3), dim=1)
    assert_close(x, (b.exp() / 0.5).softmax(dim=1))


@pytest.mark.parametrize("lam", [1e-4, 1e-2, 1.0, 1e4])
@pytest.mark.parametrize("size", [-1e7, -100.0, 0.0, 79.0, 81.0, 1e4, 1e7])
@pytest.mark.parametrize("calibration", ["literal", "relative"])
def test_enormous_b_is_one_hot_and_never_nan(lam, size, calibration):
    # exp(80)/1e-4 is beyond a float32: subtracting after the division would be inf - inf, and
    # clamping b would give two entries above the clamp the same weight.
    update = made(calibration=calibration)
    b_UK = log_b() + size
    b_UK[:, 1] = b_UK.amax(dim=1) + 3
    x_UK = update.sharpen(b_UK, lam, torch.zeros_like(b_UK), dim=1)
    assert torch.isfinite(x_UK).all()
    assert (x_UK > 0).all()
    assert_close(x_UK.sum(dim=1), torch.ones(6))
    if calibration == "literal" and size > 10:
        assert (x_UK[:, 1] > 0.99).all()


def test_no_entry_loses_all_its_weight():
    # What Q cannot draw no importance weight can mend, and the next update has to draw contexts
    # for every item: an item without weight in any state would have no P(k|i).
    generator = Decomposable(30, 80, 4, seed=0, update=made(lambda_x=1e-4, lambda_y=1e-4))
    for epoch in range(1, 6):
        found = generator.refit(scores, seed=0, epoch=epoch).numbers
        assert (generator.state_of.mass_RN > 0).all()
        assert (generator.item_of.mass_RN > 0).all()
        assert all(math.isfinite(v) for v in found.values())


@pytest.mark.parametrize("integrand", ["loss", "deviation"])
@pytest.mark.parametrize("calibration", ["literal", "relative"])
def test_a_discriminator_without_any_loss_leaves_the_generator_as_it_was(integrand, calibration):
    # All f = 0 (scores of -200): b = 0 everywhere, and 0/0 must not be taken.
    update = made(integrand=integrand, calibration=calibration)
    generator = Decomposable(30, 80, 4, seed=0, update=update)
    x_UK, y_IK = generator.x_UK, generator.y_IK
    found = generator.refit(lambda u, i: torch.full(i.shape, -200.0), seed=0, epoch=1).numbers
    quantum = 1 / (x_UK.shape[1] << generator.state_of.bits)
    assert_close(generator.x_UK, x_UK, rtol=0, atol=1.001 * quantum)
    assert_close(generator.y_IK, y_IK, rtol=1e-5, atol=0)
    assert all(math.isfinite(v) for v in found.values())


@pytest.mark.parametrize("target", ["kl", "linear"])
def test_chunks_change_memory_and_nothing_else(target, monkeypatch):
    whole, parts = (Decomposable(30, 80, 4, seed=0, update=made(target=target)) for _ in range(2))
    whole.refit(scores, seed=0, epoch=1)
    monkeypatch.setattr(module, "_CHUNK", 7 * 16 * 4)
    parts.refit(scores, seed=0, epoch=1)
    assert_close(parts.x_UK, whole.x_UK)
    assert_close(parts.y_IK, whole.y_IK)


def test_the_log_of_an_average_is_that_of_the_average():
    rng = torch.Generator().manual_seed(0)
    term_BS, weight_NK = torch.randn(5, 9, generator=rng), torch.rand(7, 3, generator=rng)
    others_BS = torch.randint(7, (5, 9), generator=rng)
    expected_BK = (term_BS.exp()[:, :, None] * weight_NK[others_BS]).mean(dim=1).log()
    assert_close(log_average(term_BS, weight_NK, others_BS), expected_BK)
    assert_close(log_average(term_BS + 500, weight_NK, others_BS), expected_BK + 500)
    nothing_BK = log_average(torch.full((5, 9), -math.inf), weight_NK, others_BS)
    assert (nothing_BK == -math.inf).all()
