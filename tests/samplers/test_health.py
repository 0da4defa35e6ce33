from __future__ import annotations

import math

import pytest
import torch
from torch.nn.functional import softplus

from sdgar.contracts import Health
from sdgar.samplers.closed_form import Frozen
from sdgar.samplers.decomposable import Decomposable
from sdgar.samplers.health import Target, health

USERS, ITEMS, STATES = 40, 60, 8


def made() -> Decomposable:
    return Decomposable(USERS, ITEMS, STATES, seed=0, update=Frozen())


def scores(users_B: torch.Tensor, items_BN: torch.Tensor) -> torch.Tensor:
    return torch.sin(1.0 + users_B[:, None] * 7 + items_BN * 3)


def half(g: torch.Tensor) -> torch.Tensor:
    """SD-GAR's target at T = 0.5."""
    return softplus(g) / 0.5


def found(generator: Decomposable, target: Target | None = half, score=scores) -> Health:
    return health(generator.x_UK, generator.y_IK, score, target=target, seed=0, epoch=1)


def test_a_fresh_generator_is_healthy():
    assert found(made()).complaint is None


@pytest.mark.parametrize(("part", "setting"), [("x_c", "lambda_x"), ("y_k", "lambda_y")])
def test_a_collapse_is_reported_with_the_parameter_to_raise(part, setting):
    generator = made()
    if part == "x_c":
        generator.set_x(torch.eye(STATES)[torch.arange(USERS) % STATES])
    else:
        generator.set_y(torch.eye(ITEMS)[:, :STATES])
    most = STATES if part == "x_c" else ITEMS
    said = found(generator, target=None).complaint
    assert f"collapsed: {part} is one-hot (perplexity 1.00 of {most})" in said
    floor = setting.replace("lambda", "floor")
    assert said.endswith(f"Raise sampler__{setting} or sampler__{floor}.")


def test_an_inert_generator_is_reported_with_what_to_lower():
    generator = made()
    generator.set_x(torch.ones(USERS, STATES))
    generator.set_y(torch.ones(ITEMS, STATES))
    # An exponential of a sum of 60 logarithms in float32: some units in the last place.
    assert found(generator).numbers["x_perplexity"] == pytest.approx(STATES, rel=1e-5)
    assert found(generator).numbers["y_perplexity"] == pytest.approx(ITEMS, rel=1e-5)
    said = found(generator).complaint
    assert "inert" in said
    assert "Lower lambda_x and lambda_y" in said
    assert 'sampler__calibration="line"' in said


@pytest.mark.parametrize("part", ["x", "y"])
def test_a_generator_that_is_uniform_in_one_part_only_is_not_inert(part):
    generator = made()
    if part == "x":
        generator.set_x(torch.ones(USERS, STATES))
    else:
        generator.set_y(torch.ones(ITEMS, STATES))
    assert found(generator).complaint is None


def test_one_state_cannot_collapse_and_one_item_cannot_either():
    single = Decomposable(USERS, 1, 1, seed=0, update=Frozen())
    assert found(single).complaint is None


def test_the_perplexity_is_the_mean_of_exp_of_the_entropy():
    generator = made()
    x_UK = torch.ones(USERS, STATES)
    x_UK[: USERS // 2] = torch.eye(STATES)[0]
    generator.set_x(x_UK)
    assert found(generator).numbers["x_perplexity"] == pytest.approx((1 + STATES) / 2)


def test_the_divergence_is_that_of_the_target_from_the_proposal():
    # 40 contexts, of which 32 are looked at: with scores that do not depend on the context and x
    # the same everywhere, the sample does not matter.
    generator = made()
    generator.set_x(torch.ones(USERS, STATES))
    g_I = torch.linspace(-2, 2, ITEMS)
    value = found(generator, score=lambda u, i: g_I[i]).numbers["kl"]
    p_I = (torch.nn.functional.softplus(g_I.double()) / 0.5).softmax(dim=0)
    q_I = generator.y_IK.double().mean(dim=1)
    assert value == pytest.approx((p_I * (p_I / q_I).log()).sum().item(), rel=1e-4)


def test_the_divergence_of_a_generator_that_equals_its_target_is_nothing():
    g_I = torch.linspace(-2, 2, ITEMS)
    generator = Decomposable(USERS, ITEMS, 1, seed=0, update=Frozen())
    generator.set_y((torch.nn.functional.softplus(g_I) / 0.5).softmax(dim=0)[:, None])
    value = found(generator, score=lambda u, i: g_I[i]).numbers["kl"]
    assert abs(value) < 1e-5


def test_without_a_target_there_is_no_divergence():
    assert "kl" not in found(made(), target=None).numbers
    assert all(math.isfinite(v) for v in found(made()).numbers.values())
