"""Draws from a softmax in blocks are those from the scores of all items."""

from __future__ import annotations

import os

import numpy as np
import pytest
import torch
from scipy import stats
from torch.testing import assert_close

from sdgar.data.interactions import Interactions
from sdgar.maths.rng import Draws, Stream
from sdgar.samplers import softmax_generator as module
from sdgar.samplers.policy_gradient import PolicyGradient
from sdgar.samplers.reject import KnownItems
from sdgar.samplers.softmax_generator import SoftmaxGenerator

triton = pytest.importorskip("triton", reason="Triton is not installed on this machine")
if os.environ.get("TRITON_INTERPRET") != "1" and not torch.cuda.is_available():
    pytest.skip(
        "Triton needs a GPU, or TRITON_INTERPRET=1 set before Python starts, as make test does",
        allow_module_level=True,
    )

from sdgar.kernels.triton import softmax  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION")
DEVICE = torch.device("cpu" if os.environ.get("TRITON_INTERPRET") == "1" else "cuda")
UPDATE = PolicyGradient(
    learning_rate=0.05, l2=0.0, batch=3, samples=8, positive_share=0.2, reward="sigmoid",
    pretrain_passes=0, pretrain_rate=0.05,
)  # fmt: skip


def made(n_items: int, dim: int) -> tuple[SoftmaxGenerator, KnownItems]:
    """A generator for contexts of which the second knows all but one item, the third all."""
    rng = np.random.default_rng(0)
    liked = rng.random((18, n_items)) < 0.1
    liked[1], liked[2] = True, True
    liked[1, n_items // 2] = False
    liked[:, -1] |= ~liked.any(axis=1)
    data = Interactions.from_arrays(*np.nonzero(liked))
    sampler = SoftmaxGenerator(
        data.history, n_items, dim, seed=0, temperature=0.5, update=UPDATE
    ).to(DEVICE)
    with torch.no_grad():
        for parameter in sampler.model.parameters():
            wave = 0.3 * torch.sin(7.0 * torch.arange(parameter.numel(), device=DEVICE))
            parameter += wave.view_as(parameter)
    return sampler, KnownItems(data.history, n_items, DEVICE)


def sampled(sampler: SoftmaxGenerator, known: KnownItems, users_B: torch.Tensor, n: int, seed=3):
    rows_B1 = torch.arange(len(users_B), device=DEVICE)[:, None]
    draws = Draws(seed, Stream.NEGATIVES, 1, rows_B1)
    pos_B = torch.zeros_like(users_B)
    return sampler.sample(users_B, pos_B, n, score=None, draws=draws, known=known)


@pytest.mark.parametrize(("n_items", "dim"), [(40, 3), (256, 16), (531, 20)])
def test_items_and_log_q_are_those_of_the_scores_of_all_items(monkeypatch, n_items, dim):
    sampler, known = made(n_items, dim)
    users_B = torch.arange(30, device=DEVICE) % 18
    monkeypatch.setattr(module, "_kernels", lambda device_type: None)
    expected = sampled(sampler, known, users_B, 2)
    monkeypatch.setattr(module, "_kernels", lambda device_type: softmax)
    found = sampled(sampler, known, users_B, 2)
    assert torch.equal(found.accepted_BN, expected.accepted_BN)
    same_BN = found.items_BN == expected.items_BN
    assert same_BN.float().mean() > 0.98  # a number near a bound may fall on its other side
    assert_close(found.log_q_BN[same_BN], expected.log_q_BN[same_BN], rtol=1e-4, atol=1e-4)
    accepted_BN, users_BN = found.accepted_BN, users_B[:, None].expand(-1, 2)
    assert not known.contains(users_BN, found.items_BN)[accepted_BN].any()
    assert (found.items_BN[users_B == 1] == n_items // 2).all()
    assert not accepted_BN[users_B == 2].any()
    again = sampled(sampler, known, users_B, 2)
    assert torch.equal(again.items_BN, found.items_BN)
    assert not torch.equal(sampled(sampler, known, users_B, 2, seed=4).items_BN, found.items_BN)


def test_items_are_drawn_as_often_as_the_softmax_says(monkeypatch):
    sampler, known = made(520, 4)  # two blocks, and some items of a third
    monkeypatch.setattr(module, "_kernels", lambda device_type: softmax)
    users_B = torch.zeros(1, dtype=torch.int64, device=DEVICE)
    items_N = sampled(sampler, known, users_B, 600).items_BN[0].cpu()
    q_I = sampler.proposals(users_B)[0].double().cpu()
    assert {int(i) // 256 for i in items_N} == {0, 1, 2}
    assert (q_I[items_N] > 0).all()
    # Items that are too rare to be counted alone are counted together.
    order_I = q_I.argsort()
    group_I = torch.empty_like(order_I)
    group_I[order_I] = (q_I[order_I].cumsum(0) * 12).long().clamp(max=11)
    expected_G = torch.zeros(12, dtype=torch.float64).scatter_add_(0, group_I, q_I)
    counts_G = group_I[items_N].bincount(minlength=12)
    used = expected_G > 0
    wanted_G = expected_G[used].numpy() / float(expected_G.sum()) * len(items_N)
    assert min(wanted_G) > 5
    assert stats.chisquare(counts_G[used].numpy(), wanted_G).pvalue > 1e-3
