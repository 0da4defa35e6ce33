"""Attention within packed sequences: the sums as they are defined, and kernels against torch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from torch import Tensor

from sdgar.models.sequence import PackedSequences

_LENGTH = 12
_lengths = st.lists(st.integers(1, _LENGTH), min_size=1, max_size=9)
_shapes = st.sampled_from([(1, 1), (1, 6), (2, 8), (4, 32)])  # heads, and numbers of a place


def _made_up(lengths: list[int], heads: int, dim: int, dtype: torch.dtype) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(sum(lengths) + dim)
    shapes = ((sum(lengths), 3 * dim), (heads, _LENGTH), (sum(lengths), dim))
    x, bias, grad = (torch.randn(shape, generator=generator).to(dtype) for shape in shapes)
    return x.requires_grad_(), bias.requires_grad_(), grad


def _attended(lengths: list[int], heads: int, dim: int, dtype: torch.dtype) -> list[Tensor]:
    """Return y, ∇x and ∇β for the same random numbers in either type."""
    x_TE, bias_HL, grad_TD = _made_up(lengths, heads, dim, dtype)
    packed = PackedSequences.of(torch.tensor(lengths), dtype)
    assert (packed.rectangle is None) == (dtype == torch.float32)
    y_TD = packed.attention(x_TE, bias_HL)
    return [y_TD.detach(), *torch.autograd.grad(y_TD, (x_TE, bias_HL), grad_TD)]


@given(_lengths, _shapes)
def test_attention_is_its_definition(lengths: list[int], shape: tuple[int, int]) -> None:
    """Each y_t is computed alone here, in float64."""
    heads, dim = shape
    x_TE, bias_HL, _ = (t.detach().numpy() for t in _made_up(lengths, heads, dim, torch.float64))
    per_head = dim // heads
    x_T3Hd = x_TE.reshape(-1, 3, heads, per_head)
    wanted_TD = np.empty((len(x_TE), dim))
    first = 0
    for length in lengths:
        for t in range(first, first + length):
            for h in range(heads):
                q_d, k_Pd, v_Pd = x_T3Hd[t, 0, h], *x_T3Hd[first : t + 1, 1:, h].swapaxes(0, 1)
                a_P = k_Pd @ q_d / per_head**0.5 + bias_HL[h, t - first :: -1]
                p_P = np.exp(a_P - a_P.max())
                wanted_TD[t, h * per_head : (h + 1) * per_head] = p_P / p_P.sum() @ v_Pd
        first += length
    for dtype, tolerance in ((torch.float32, 2e-5), (torch.float64, 1e-12)):
        y_TD, *_ = _attended(lengths, heads, dim, dtype)
        assert_allclose(y_TD.numpy(), wanted_TD, rtol=tolerance, atol=tolerance)


@given(_lengths, _shapes)
def test_gradients_of_kernels_are_those_of_torch(
    lengths: list[int], shape: tuple[int, int]
) -> None:
    """Torch has derived its gradients itself, in float64."""
    found = _attended(lengths, *shape, torch.float32)
    for one, wanted in zip(found, _attended(lengths, *shape, torch.float64), strict=True):
        assert_allclose(one.numpy(), wanted.numpy(), rtol=1e-4, atol=1e-4)


@pytest.mark.usefixtures("plenty_of_cores")
def test_any_number_of_threads_gives_the_same_bytes(set_threads) -> None:
    """A sequence is computed by one thread, and sequences are added up in their order."""
    lengths = [1, 7, 12, 3, 5, 2, 11, 4] * 60
    found = []
    for threads in (1, 2, 5):
        set_threads(threads)
        found.append(_attended(lengths, 2, 64, torch.float32))
    for one in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(one, found[0], strict=True))
