"""Dropout by 16 bits a number."""

from __future__ import annotations

import pytest
import torch

from sdgar.models.sequence import dropped


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_so_many_are_dropped_and_the_mean_stays(rate):
    torch.manual_seed(0)
    x = torch.ones(401, 1001, requires_grad=True)
    y = dropped(x, rate)
    n, gone = y.numel(), (y == 0)
    spread = (n * rate * (1 - rate)) ** 0.5
    assert abs(gone.sum().item() - n * rate) < 4 * spread
    assert y.detach()[~gone].unique().tolist() == pytest.approx([1 / (1 - rate)], rel=1e-3)
    # Of four numbers from one draw, any two are dropped independently of each other.
    of_four = gone.view(-1)[: n - n % 4].view(-1, 4).double()
    both = (of_four.T @ of_four / len(of_four))[~torch.eye(4, dtype=torch.bool)]
    assert both.tolist() == pytest.approx([rate**2] * 12, abs=4 * rate / len(of_four) ** 0.5)
    y.sum().backward()
    assert torch.equal(x.grad, y.detach())


def test_a_rate_near_1_leaves_finite_numbers():
    torch.manual_seed(0)
    y = dropped(torch.ones(500, 500), 1 - 1e-9)
    assert torch.isfinite(y).all()


def test_a_rate_of_0_drops_nothing_and_the_seed_decides_the_rest():
    x = torch.ones(5, 3)
    assert dropped(x, 0.0) is x
    found = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        found.append(dropped(x, 0.5))
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])
