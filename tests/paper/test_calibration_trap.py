"""The trap in Eq. 9 and 11: with λ taken literally, the printed update does nothing.

b_c averages rows of Y, whose entries are about 1/M; b_c/λ_X is then nearly 0 for every λ the
paper tunes over, and a softmax of nearly nothing is uniform. With λ in units of b it is not.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from sdgar.contracts import Health
from sdgar.samplers.decomposable import Decomposable

from .oracle import closed_form

USERS, ITEMS, STATES = 320, 16_000, 16


def own(users: Tensor, items: Tensor) -> Tensor:
    """Contexts and items come in as many groups as there are states."""
    return users % STATES == items % STATES


def score(users_B: Tensor, items_BN: Tensor) -> Tensor:
    """A discriminator that has learned the groups: 1 within, -2 across, and some scatter."""
    scatter_BN = torch.sin(12.9898 * users_B[:, None] + 78.233 * items_BN)
    return torch.where(own(users_B[:, None], items_BN), 1.0, -2.0) + 0.3 * scatter_BN


def refitted(lam: float, calibration: str, *, peaked: bool) -> Health:
    update = closed_form(
        temperature=0.5, lambda_x=lam, lambda_y=lam, samples=32, calibration=calibration
    )
    generator = Decomposable(USERS, ITEMS, STATES, seed=0, update=update)
    if peaked:
        # State k proposes the items of group k, nine times in ten: all that X has to find out is
        # which group a context belongs to.
        match_IK = own(torch.arange(STATES), torch.arange(ITEMS)[:, None])
        generator.set_y(0.1 / ITEMS + 0.9 * match_IK.double() * STATES / ITEMS)
    return generator.refit(score, seed=0, epoch=1)


@pytest.mark.parametrize("lam", [0.1, 0.5, 1.0])
def test_literal_lambdas_leave_the_generator_uniform_to_many_digits(lam):
    found = refitted(lam, "literal", peaked=False)
    assert found.numbers["x_perplexity"] == pytest.approx(STATES, rel=1e-6)
    assert found.numbers["y_perplexity"] == pytest.approx(ITEMS, rel=2e-5)
    assert "inert" in found.complaint
    assert 'sampler__calibration="line"' in found.complaint


@pytest.mark.parametrize("lam", [0.1, 0.5, 1.0])
def test_even_given_the_right_y_literal_lambdas_find_no_state_for_a_context(lam):
    found = refitted(lam, "literal", peaked=True)
    assert found.numbers["x_perplexity"] == pytest.approx(STATES, rel=1e-5)


@pytest.mark.parametrize(("lam", "most"), [(0.1, 0.5), (0.5, 0.8), (1.0, 0.95)])
def test_given_the_right_y_relative_lambdas_find_states_for_a_context(lam, most):
    assert refitted(lam, "relative", peaked=True).numbers["x_perplexity"] < most * STATES


def test_a_generator_that_found_its_states_is_nothing_to_complain_about():
    assert refitted(0.5, "relative", peaked=True).complaint is None
