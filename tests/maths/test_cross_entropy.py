"""The cross-entropy in parts is that of all scores at once, and so are its gradients."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from sdgar.maths import cross_entropy as module
from sdgar.maths.cross_entropy import cross_entropy


@pytest.mark.parametrize("scores", [1, 40, 1 << 20])
def test_loss_and_gradients_are_those_of_all_scores_at_once(scores, monkeypatch):
    monkeypatch.setattr(module, "_SCORES", scores)
    torch.manual_seed(0)
    parts = [torch.randn(9, 5), torch.randn(13, 5), torch.randn(13)]
    items_B, weight_B = torch.randint(0, 13, (9,)), torch.rand(9)
    found, wanted = ([one.double().requires_grad_() for one in parts] for _ in range(2))
    loss_B = cross_entropy(*found, items_B)
    whole_B = functional.cross_entropy(
        wanted[0] @ wanted[1].T + wanted[2], items_B, reduction="none"
    )
    torch.testing.assert_close(loss_B, whole_B)
    (loss_B * weight_B).sum().backward()
    (whole_B * weight_B).sum().backward()
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one.grad, other.grad)


def test_large_scores_are_no_overflow():
    h, v = torch.full((1, 2), 100.0), torch.full((3, 2), 50.0)
    assert torch.isfinite(cross_entropy(h, v, torch.zeros(3), torch.tensor([1]))).all()
