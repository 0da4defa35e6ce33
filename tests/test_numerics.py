"""Numbers stay numbers at the edges of what is allowed: no NaN, no Inf, no hang.

T in [1e-3, 1e3], λ in [1e-4, 1e4], scores up to ±1e4 in float32, one state, one item, one
context, a user who has every item, and random words that are all zeros or all ones.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from sdgar.contracts import Negatives
from sdgar.data.interactions import Interactions
from sdgar.errors import UsageError
from sdgar.maths.rng import Draws, Stream
from sdgar.objectives import WeightedLogistic
from sdgar.samplers import sampled_sums as module
from sdgar.samplers.closed_form import ClosedForm, ClosedFormSettings, Frozen
from sdgar.samplers.decomposable import Decomposable
from sdgar.samplers.static import Popularity, Uniform
from sdgar.systems.recipe import recipe_of
from sdgar.systems.sdgar import SDGAR

from .positives import positives_of

CPU = torch.device("cpu")

READINGS = list(itertools.product(("kl", "linear"), ("loss", "deviation"), ("relative", "literal")))

exponents = st.floats(-3, 3)
scores = st.one_of(
    st.floats(-1e4, 1e4, width=32),
    st.sampled_from([-1e4, -200.0, -104.0, -20.0, -0.0, 0.0, 1e-30, 20.0, 88.0, 89.0, 1e4]),
)
log_qs = st.floats(-60, 0, width=32)


@st.composite
def rows_of_a_batch(draw):
    n = draw(st.integers(1, 6))
    pos_B = torch.tensor([draw(scores)])
    neg_BN = torch.tensor([[draw(scores) for _ in range(n)]])
    accepted_BN = torch.tensor([[draw(st.booleans()) for _ in range(n)]])
    log_q_BN = torch.tensor([[draw(log_qs) for _ in range(n)]])
    return pos_B, neg_BN, Negatives(torch.zeros(1, n).long(), accepted_BN, log_q_BN)


@given(rows_of_a_batch(), exponents, st.booleans())
@settings(max_examples=4 * settings.default.max_examples)
def test_the_weighted_loss_and_its_gradient_are_finite(batch, exponent, hold):
    pos_B, neg_BN, negatives = batch
    objective = WeightedLogistic(10**exponent, hold)
    pos_B.requires_grad_()
    neg_BN.requires_grad_()
    loss_B = objective(pos_B, neg_BN, negatives)
    loss_B.sum().backward()
    weight_BN = objective.weights(neg_BN.detach(), negatives)
    for tensor in (loss_B, pos_B.grad, neg_BN.grad, weight_BN):
        assert tensor.dtype == torch.float32
        assert torch.isfinite(tensor).all()
    assert (loss_B >= 0).all()
    assert (weight_BN >= 0).all()
    if negatives.accepted_BN.any():
        assert_close(weight_BN.sum(dim=1), torch.ones(1))
    assert torch.isfinite(objective.effective(neg_BN.detach(), negatives)).all()


@given(rows_of_a_batch(), st.floats(-2, 3))
@settings(max_examples=3 * settings.default.max_examples)
def test_the_weighted_loss_in_float32_is_that_in_float64(batch, exponent):
    # f/T up to 1e6 in float32 has an absolute error of 0.06 in the exponent of a weight; what it
    # does to the loss is bounded by that part of the spread of f which the weights see.
    pos_B, neg_BN, negatives = batch
    objective = WeightedLogistic(10**exponent)
    exact = Negatives(negatives.items_BN, negatives.accepted_BN, negatives.log_q_BN.double())
    wide_B = objective(pos_B.double(), neg_BN.double(), exact)
    assert_close(objective(pos_B, neg_BN, negatives).double(), wide_B, rtol=2e-2, atol=1e-6)


def update_of(
    temperature: float, lam_x: float, lam_y: float, reading: tuple[str, str, str], samples: int
) -> ClosedForm:
    target, integrand, calibration = reading
    settings = ClosedFormSettings(
        lambda_x=lam_x,
        lambda_y=lam_y,
        samples=samples,
        target=target,
        integrand=integrand,
        calibration=calibration,
    )
    return ClosedForm(temperature=temperature, settings=settings)


def check(generator: Decomposable) -> None:
    """Distributions with nothing lost, so that every probability has a finite logarithm."""
    assert_close(generator.x_UK.sum(dim=1), torch.ones(len(generator.x_UK)))
    assert_close(generator.y_IK.sum(dim=0), torch.ones(generator.y_IK.shape[1]))
    assert (generator.state_of.mass_RN > 0).all()
    assert (generator.item_of.mass_RN > 0).all()
    users_U, items_I = torch.arange(len(generator.x_UK)), torch.arange(len(generator.y_IK))
    assert torch.isfinite(generator.log_q(users_U, items_I.expand(len(users_U), -1))).all()


sizes = st.sampled_from([(1, 1, 1), (1, 5, 2), (5, 1, 3), (6, 9, 1), (6, 9, 3), (20, 50, 4)])


@given(
    exponents,
    st.floats(-4, 4),
    st.floats(-4, 4),
    st.sampled_from(READINGS),
    st.floats(-2, 4),
    sizes,
    st.sampled_from([1, 7]),
    st.integers(0, 2**64 - 1),
)
def test_updates_leave_finite_distributions(t, lam_x, lam_y, reading, scale, size, samples, seed):
    users, items, states = size
    rng = torch.Generator().manual_seed(seed % 2**32)
    g_UI = (10**scale * torch.randn(users, items, generator=rng)).clamp(-1e4, 1e4)
    update = update_of(10**t, 10**lam_x, 10**lam_y, reading, samples)
    generator = Decomposable(users, items, states, seed=seed, update=update)
    for epoch in (1, 2, 3):
        health = generator.refit(lambda u, i: g_UI[u[:, None], i], seed=seed, epoch=epoch)
        found = health.numbers
        check(generator)
        assert all(math.isfinite(value) for value in found.values())
        assert 1 - 1e-4 <= found["x_perplexity"] <= states * (1 + 1e-4)
        assert 1 - 1e-4 <= found["y_perplexity"] <= items * (1 + 1e-4)
        assert found["kl"] >= -1e-3
        assert health.complaint is None or health.complaint.endswith(".")


CORNERS = list(itertools.product((1e-3, 1e3), (1e-4, 1e4), (1e-4, 1e4)))


@pytest.mark.parametrize("reading", READINGS, ids="-".join)
@pytest.mark.parametrize("level", [-1e4, -200.0, 0.0, 1e4])
def test_the_corners_of_the_range_work_with_constant_and_extreme_scores(level, reading):
    g_UI = torch.full((8, 20), level)
    g_UI[3, 7] = 1e4  # and one pair that the discriminator is sure of
    for corner in CORNERS:
        generator = Decomposable(8, 20, 3, seed=0, update=update_of(*corner, reading, 5))
        for epoch in (1, 2, 3):
            found = generator.refit(lambda u, i: g_UI[u[:, None], i], seed=0, epoch=epoch)
        check(generator)
        assert all(math.isfinite(value) for value in found.numbers.values())


class Stuck(Draws):
    """Random words that are always the same."""

    __slots__ = ()
    word = 0

    def words(self, slots):
        out = torch.full(torch.broadcast_shapes(self.rows.shape, slots.shape), self.word)
        return out, out, out, out

    def at(self, rows):
        return type(self)(self.seed, self.stream, self.epoch, rows)


class AllOnes(Stuck):
    __slots__ = ()
    word = 0xFFFFFFFF


def three_users() -> Interactions:
    """User 0 has every item, user 1 all but the last, user 2 only the first."""
    return Interactions.from_arrays([0] * 6 + [1] * 5 + [2], [*range(6), *range(5), 0])


def made_samplers() -> dict[str, object]:
    data = three_users()
    peaked = Decomposable(3, 6, 2, seed=0, update=Frozen())
    peaked.set_y(torch.eye(6)[:, [0, 5]])
    return {
        "uniform": Uniform(),
        "popularity": Popularity(torch.from_numpy(np.bincount(data.items_E))),
        "decomposable": Decomposable(3, 6, 2, seed=0, update=Frozen()),
        "decomposable, one state": Decomposable(3, 6, 1, seed=0, update=Frozen()),
        "decomposable, peaked": peaked,
    }


@pytest.mark.parametrize("stream", [Draws, Stuck, AllOnes])
@pytest.mark.parametrize("name", sorted(made_samplers()))
def test_sampling_ends_in_range_whatever_the_random_words(name, stream):
    data = three_users()
    rows_B = torch.arange(60)
    users_B = rows_B % 3
    draws = stream(0, Stream.NEGATIVES, 1, rows_B[:, None])
    positives = replace(positives_of(data, users_B), draws=draws)
    given = made_samplers()[name].sample(positives, 4)
    assert ((given.items_BN >= 0) & (given.items_BN < 6)).all()
    assert torch.isfinite(given.log_q_BN).all()
    assert not given.accepted_BN[users_B == 0].any()
    assert not positives.known.contains(users_B[:, None].expand(-1, 4), given.items_BN)[
        given.accepted_BN
    ].any()


@pytest.mark.parametrize("stream", [Stuck, AllOnes])
@pytest.mark.parametrize("reading", READINGS, ids="-".join)
def test_an_update_works_whatever_the_random_words(reading, stream, monkeypatch):
    monkeypatch.setattr(module, "Draws", stream)
    generator = Decomposable(8, 20, 3, seed=0, update=update_of(0.5, 0.1, 1.0, reading, 6))
    for epoch in (1, 2):
        generator.refit(lambda u, i: torch.sin(3.0 * i + u[:, None]), seed=0, epoch=epoch)
    check(generator)


def test_a_generator_with_one_item_finds_no_negative_for_who_has_it():
    data = Interactions.from_arrays([0, 1], [0, 0])
    generator = Decomposable(2, 1, 1, seed=0, update=update_of(0.5, 0.1, 1.0, READINGS[0], 4))
    generator.refit(lambda u, i: torch.zeros(i.shape), seed=0, epoch=1)
    given = generator.sample(positives_of(data, torch.arange(2)), 3)
    assert not given.accepted_BN.any()
    assert_close(given.log_q_BN, torch.zeros(2, 3))
    neg_BN = torch.zeros(2, 3, requires_grad=True)
    loss_B = WeightedLogistic(0.5)(torch.zeros(2), neg_BN, given)
    loss_B.sum().backward()
    assert_close(loss_B, torch.full((2,), 0.5 * math.log(2)))
    assert (neg_BN.grad == 0).all()


@pytest.mark.parametrize(
    ("option", "value", "range_"),
    [
        ("temperature", 5e-4, "between 0.001 and 1000"),
        ("temperature", 2e3, "between 0.001 and 1000"),
        ("temperature", math.nan, "between 0.001 and 1000"),
        ("sampler__lambda_x", 5e-5, "between 0.0001 and 10000"),
        ("sampler__lambda_x", math.inf, "between 0.0001 and 10000"),
        ("sampler__lambda_y", -1.0, "between 0.0001 and 10000"),
        ("sampler__lambda_y", 2e4, "between 0.0001 and 10000"),
    ],
)
def test_a_system_outside_the_range_is_refused_with_the_range(checkerboard, option, value, range_):
    name = option.removeprefix("sampler__")
    with pytest.raises(UsageError, match=f"{name} must lie {range_}, got {value}") as error:
        recipe_of(SDGAR(**{option: value})).compose(checkerboard, seed=0)
    assert error.value.code == f"bad_{name}"


@pytest.mark.parametrize("proposal", ["uniform", "popularity", "frozen"])
def test_the_temperature_is_checked_for_every_proposal(checkerboard, proposal):
    with pytest.raises(UsageError, match="temperature must lie between"):
        recipe_of(SDGAR(sampler=proposal, temperature=0.0)).compose(checkerboard, seed=0)


def test_the_runs_of_other_machines_name_tests_that_there_are():
    from . import numerics

    assert all((numerics.HERE / name).exists() for name in numerics.TESTS)
    for name in numerics.LEFT_OUT:
        assert (numerics.HERE / name).exists(), name
        assert name.partition("/")[0] in numerics.TESTS, name
