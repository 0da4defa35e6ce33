"""The same address gives the same words in torch and in Triton."""

from __future__ import annotations

import pytest
import torch

from sdgar.maths.rng import Draws, Permutation, Stream, index_and_fraction

from ..triton_interpreter import require_triton

DEVICE = require_triton()

import triton  # noqa: E402
import triton.language as tl  # noqa: E402

from sdgar.kernels.triton.rng import index_and_fraction as triton_index_and_fraction  # noqa: E402
from sdgar.kernels.triton.rng import permuted  # noqa: E402
from sdgar.kernels.triton.rng import words as triton_words  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION")

ADDRESSES = [
    (0, Stream.INIT_CONTEXT, 0, 0, 0),
    (2**63 + 12345, Stream.NEGATIVES, 2**24 - 1, 2**40 + 3, 2**31 - 1),
    (123456789, Stream.GENERATOR_ITEMS, 75, 2**32 - 5, 17),
]


@triton.jit
def kernel(out, seed, first_row, slot, tail, n, SIZE: tl.constexpr):
    lane = tl.arange(0, SIZE)
    row = first_row + lane.to(tl.int64)
    w0, w1, w2, w3 = triton_words(seed, row, slot + 0 * lane, tail)
    index, fraction = triton_index_and_fraction(n, w0, w1)
    tl.store(out + 0 * SIZE + lane, w0.to(tl.int64))
    tl.store(out + 1 * SIZE + lane, w1.to(tl.int64))
    tl.store(out + 2 * SIZE + lane, w2.to(tl.int64))
    tl.store(out + 3 * SIZE + lane, w3.to(tl.int64))
    tl.store(out + 4 * SIZE + lane, index.to(tl.int64))
    tl.store(out + 5 * SIZE + lane, fraction.to(tl.int64))


@pytest.mark.parametrize("address", ADDRESSES)
def test_triton_draws_the_words_of_torch(address):
    seed, stream, epoch, row, slot = address
    n, size = 40_988, 16
    out = torch.zeros(6, size, dtype=torch.int64, device=DEVICE)
    tail = (int(stream) << 24) | epoch
    kernel[(1,)](out, seed, row, slot, tail, n, SIZE=size)
    rows = row + torch.arange(size)
    words = Draws(seed, stream, epoch, rows).words(torch.tensor(slot))
    index, fraction = index_and_fraction(n, words[0], words[1])
    assert torch.equal(out.cpu(), torch.stack((*words, index, fraction)))


@triton.jit
def permuting_kernel(
    out,
    n,
    keys,
    ROUNDS: tl.constexpr,
    LEFT_BITS: tl.constexpr,
    RIGHT_BITS: tl.constexpr,
    SIZE: tl.constexpr,
):
    lane = tl.arange(0, SIZE)
    place = tl.where(lane < n, lane, 0)
    number = permuted(n, keys, place, ROUNDS, LEFT_BITS, RIGHT_BITS)
    tl.store(out + lane, number, mask=lane < n)


@pytest.mark.parametrize("n", [100, 256, 300])
def test_triton_puts_the_same_number_at_every_place(n):
    order = Permutation.of(n, seed=9, stream=Stream.SHUFFLE, epoch=2)
    out = torch.zeros(n, dtype=torch.int64, device=DEVICE)
    permuting_kernel[(1,)](
        out,
        n,
        torch.tensor(order.keys, device=DEVICE),
        ROUNDS=len(order.keys),
        LEFT_BITS=order.left_bits,
        RIGHT_BITS=order.right_bits,
        SIZE=512,
    )
    assert torch.equal(out.cpu(), order(torch.arange(n)))
