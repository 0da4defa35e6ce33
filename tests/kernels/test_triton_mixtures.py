"""The generator's kernels compute what its torch expressions do."""

from __future__ import annotations

import math

import pytest
import torch
from torch.testing import assert_close

from sdgar.maths.rng import Draws, Stream, last_counter_word
from sdgar.samplers.closed_form import Frozen
from sdgar.samplers.decomposable import Decomposable

from ..triton_interpreter import require_triton

DEVICE = require_triton()

from sdgar.kernels.triton import mixtures  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION")


@pytest.fixture(scope="module")
def generator() -> Decomposable:
    return Decomposable(12, 17, 6, seed=1, update=Frozen()).to(DEVICE)


@pytest.fixture(scope="module")
def draws(generator) -> tuple[torch.Tensor, torch.Tensor]:
    users_B = torch.arange(12, device=DEVICE)
    slots_S = 5 + torch.arange(9, device=DEVICE)
    draws = Draws(7, Stream.GENERATOR_CONTEXTS, 3, users_B[:, None])
    return users_B, generator.draw(users_B[:, None], draws, slots_S)


def test_it_draws_the_same_items(generator, draws):
    users_B, items_BS = draws
    drawn_BS = mixtures.draw(
        generator.state_of.bin_RN,
        generator.item_of.bin_RN,
        users_B[:, None],
        addresses=users_B[:, None],
        slots=5 + torch.arange(9, device=DEVICE),
        seed=7,
        tail=last_counter_word(Stream.GENERATOR_CONTEXTS, 3),
    )
    assert torch.equal(drawn_BS, items_BS)


def test_log_mix_is_log_q(generator, draws):
    users_B, items_BS = draws
    log_q_BS = mixtures.log_mix(generator.x_UK, users_B, generator.y_IK, items_BS)
    expected_BS = (generator.x_UK[users_B][:, None] * generator.y_IK[items_BS]).sum(dim=2).log()
    assert_close(log_q_BS, expected_BS)


@pytest.mark.filterwarnings("ignore:divide by zero encountered in log:RuntimeWarning")
def test_log_average_is_a_log_of_a_mean(generator, draws):
    _, items_BS = draws
    term_BS = torch.randn(items_BS.shape, generator=torch.Generator().manual_seed(0)).to(DEVICE)
    term_BS[3], term_BS[4, 2] = -math.inf, -math.inf
    expected_BK = torch.einsum("bs,bsk->bk", term_BS.exp(), generator.y_IK[items_BS]) / 9
    log_BK = mixtures.log_average(term_BS, generator.y_IK, items_BS)
    assert_close(log_BK, expected_BK.log())
