"""Products of picked pairs, compared with products of copied vectors."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import normalize
from torch.testing import assert_close

from sdgar.discriminators.vectors import picked_cosines, picked_products, picked_values


@pytest.mark.parametrize("cosine", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_products_and_gradients_are_those_of_copied_vectors(dtype, cosine):
    torch.manual_seed(0)
    h_BD, v_RD = torch.randn(7, 5, dtype=dtype), torch.randn(9, 5, dtype=dtype)
    row_BN = torch.randint(0, 8, (7, 4))  # some several times, and the last never
    weight_BN = torch.randn(7, 4, dtype=dtype)
    found = {}
    for way in ("picked", "copied"):
        h, v = h_BD.clone().requires_grad_(), v_RD.clone().requires_grad_()
        if way == "picked":
            s_BN = (picked_cosines if cosine else picked_products)(h, v, row_BN)
        else:
            s_BN = (h[:, None] * (normalize(v, dim=1) if cosine else v)[row_BN]).sum(dim=2)
        (s_BN * weight_BN).sum().backward()
        found[way] = s_BN, h.grad, v.grad
    assert_close(found["picked"], found["copied"])
    assert found["picked"][2][8].tolist() == [0] * 5


@pytest.mark.parametrize("picked", [picked_products, picked_cosines])
def test_gradients_have_the_same_bytes_for_any_number_of_threads(picked, set_threads):
    torch.manual_seed(0)
    row_BN = torch.randint(0, 50, (3000, 17))
    h_BD, v_RD = torch.randn(3000, 64), torch.randn(50, 64)
    found = []
    for threads in (1, 2):
        set_threads(threads)
        h, v = h_BD.clone().requires_grad_(), v_RD.clone().requires_grad_()
        s_BN = picked(h, v, row_BN)
        s_BN.square().sum().backward()
        found.append((s_BN, h.grad, v.grad))
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


def test_a_value_that_is_picked_often_gets_the_sum_of_its_gradients():
    x_R = torch.arange(4.0).requires_grad_()
    row_BN = torch.tensor([[1, 3], [1, 1]])
    (picked_values(x_R, row_BN) * torch.tensor([[1.0, 2.0], [4.0, 8.0]])).sum().backward()
    assert picked_values(x_R, row_BN).tolist() == [[1, 3], [1, 1]]
    assert x_R.grad.tolist() == [0, 13, 0, 2]
