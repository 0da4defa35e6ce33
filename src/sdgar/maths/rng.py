"""Counter-based random numbers (Philox4x32-10, Salmon et al. 2011): each has an address.

Each is computed directly from its address (seed, stream, epoch, row, slot):

    words = philox(key = seed, counter = (row, slot, stream | epoch))

so a number does not depend on the thread count, on the batch it is drawn in, or on
what was drawn before it, and a resumed run continues exactly. The arithmetic is plain
int64 on arrays, written with operators only: the same function serves NumPy and torch
on any device. Triton's ``tl.philox`` gives the same four words.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdgar.errors import UsageError

_MASK = 0xFFFFFFFF
_ROUND_A, _ROUND_B = 0xD2511F53, 0xCD9E8D57
_KEY_A, _KEY_B = 0x9E3779B9, 0xBB67AE85
_ROUNDS = 10

Array = Any
"""The type of an int64 NumPy array or torch tensor; only operators that both have are used."""

Words = tuple[Array, Array, Array, Array]


_MANY = 1 << 17
"""The number of rows from which on Numba computes the words faster."""


class Stream(IntEnum):
    """The uses of random numbers: separate streams, so that a new sampler changes no split."""

    INIT_CONTEXT = 0
    INIT_ITEM = 1
    SHUFFLE = 2
    NEGATIVES = 3
    SPLIT_TEST = 4
    SPLIT_VALID = 5
    VALID_SAMPLE = 6
    SYNTHETIC = 7
    INIT_GENERATOR = 8
    GENERATOR_CONTEXTS = 9
    GENERATOR_ITEMS = 10
    HEALTH = 11  # the contexts that a sampler's health is measured on
    SCRAMBLE = 12  # the other context that each context's states are moved to
    DEAL = 13  # the negatives of a pool that each positive gets
    TRIALS = 14  # the settings that tuning tries
    INIT_GENERATOR_ITEM = 15
    INIT_MODULE = 16
    DROPOUT = 17
    SPLIT_USERS = 18
    DISLIKES = 19
    EXPLORE = 20  # the items that recommendations show to learn of them
    SPLIT_ITEMS = 21
    CALIBRATE = 22  # the trained items that predictions for new items are tried on
    BLOCKS = 23  # the order of blocks of users


def check_seed(seed: object) -> int:
    """Return ``seed`` if it is an integer of 64 bits; raise if not."""
    if isinstance(seed, bool) or not isinstance(seed, Integral) or not 0 <= int(seed) < 2**64:
        raise UsageError(
            f"seed must be an integer from 0 to 2^64 - 1, got {seed!r}.", code="bad_seed"
        )
    return int(seed)


def philox(key: int, c0: Array, c1: Array, c2: Array, c3: Array) -> Words:
    """Return the four 32-bit output words of Philox4x32-10, as int64.

    The 64-bit product of two words wraps in int64 but keeps its bits, so high and low
    halves come out by shift and mask.
    """
    k0, k1 = key & _MASK, (key >> 32) & _MASK
    for _ in range(_ROUNDS):
        a, b = c0 * _ROUND_A, c2 * _ROUND_B
        c0, c1, c2, c3 = (
            ((b >> 32) & _MASK) ^ c1 ^ k0,
            b & _MASK,
            ((a >> 32) & _MASK) ^ c3 ^ k1,
            a & _MASK,
        )
        k0, k1 = (k0 + _KEY_A) & _MASK, (k1 + _KEY_B) & _MASK
    return c0, c1, c2, c3


def last_counter_word(stream: Stream, epoch: int) -> int:
    """Return the last word of a counter."""
    return (int(stream) << 24) | epoch


@dataclass(frozen=True, slots=True)
class Draws:
    """The random numbers of some rows in one epoch of one stream."""

    seed: int
    """The seed of the run."""
    stream: Stream
    """The stream that the numbers are of."""
    epoch: int
    """The epoch that the numbers are for."""
    rows: Array
    """The row numbers, int64, of any shape that broadcasts with the slots."""

    def words(self, slots: Array) -> Words:
        """Return four independent 32-bit words for each (row, slot) of the broadcast shape."""
        rows = self.rows + 0 * slots
        slots = slots + 0 * self.rows
        last = last_counter_word(self.stream, self.epoch)
        if isinstance(rows, np.ndarray) and rows.size >= _MANY:
            from sdgar.kernels.numba.rng import words_of

            return words_of(self.seed, rows, slots, last)
        return philox(self.seed, rows & _MASK, rows >> 32, slots, 0 * rows + last)

    def at(self, rows: Array) -> Draws:
        """Return the same stream for other rows."""
        return Draws(self.seed, self.stream, self.epoch, rows)


def index_and_fraction(n: Array, high: Array, low: Array) -> tuple[Array, Array]:
    """Split n · u / 2^64 for the 64-bit number u = (high, low) into integer and fraction.

    The integer is an index in 0 … n - 1; the fraction, 32 bits of it, is independent of the
    index. For n < 2^31, each index has probability 1/n up to a relative error of n / 2^64.
    """
    product = high * n + ((low * n) >> 32)
    return product >> 32, product & _MASK


def below(n: Array, high: Array, low: Array) -> Array:
    """Return an index in 0 … n - 1 from the 64-bit number (high, low)."""
    return index_and_fraction(n, high, low)[0]


def sort_keys(seed: int, stream: Stream, epoch: int, rows: Array) -> Array:
    """Return 63-bit keys, one a row; sorting by them (stably) is a random permutation."""
    w0, w1, _, _ = Draws(seed, stream, epoch, rows).words(0 * rows)
    return (w0 << 31) ^ w1


_MIX_A, _MIX_B = 0x7FEB352D, 0x846CA68B
_FEISTEL_ROUNDS = 4
_LEAST_BITS = 8
"""The least bits of a permutation: fewer numbers are taken from one of 256, so all orders occur."""


@dataclass(frozen=True, slots=True)
class Permutation:
    """A random order of 0 … n - 1 that is computed place by place, with no memory and no sort.

    A Feistel network permutes the numbers below the next power of two; a result of n or more
    goes through it again until it is below n (cycle walking), which keeps it a bijection:

        left ← left ^ F(right ^ key_0),  right ← right ^ F(left ^ key_1),  left ← …
    """

    n: int
    """The number of places."""
    keys: tuple[int, ...]
    """The keys of the rounds."""

    @classmethod
    def of(cls, n: int, *, seed: int, stream: Stream, epoch: int) -> Permutation:
        """Return the permutation of one epoch of a stream."""
        words = Draws(seed, stream, epoch, np.zeros(2, np.int64)).words(np.arange(2))
        keys = [int(word) for pair in zip(*words, strict=True) for word in pair]
        return cls(n, tuple(keys[:_FEISTEL_ROUNDS]))

    @property
    def left_bits(self) -> int:
        """The bits of the left half; the right half has as many or one less."""
        return (self._bits + 1) // 2

    @property
    def right_bits(self) -> int:
        """The bits of the right half."""
        return self._bits // 2

    @property
    def _bits(self) -> int:
        return max((self.n - 1).bit_length(), _LEAST_BITS)

    def __call__(self, places: Array) -> Array:
        """Return the number at each of these places."""
        out = self._network(places)
        while (outside := out >= self.n).any():
            out[outside] = self._network(out[outside])
        return out

    def _network(self, x: Array) -> Array:
        left_mask, right_mask = (1 << self.left_bits) - 1, (1 << self.right_bits) - 1
        left, right = x >> self.right_bits, x & right_mask
        for i in range(0, _FEISTEL_ROUNDS, 2):
            left = left ^ (_mix(right ^ self.keys[i]) & left_mask)
            right = right ^ (_mix(left ^ self.keys[i + 1]) & right_mask)
        return (left << self.right_bits) | right


def _mix(x: Array) -> Array:
    """Spread every bit of a 32-bit word over all of it (a multiply-xorshift finaliser)."""
    x = ((x ^ (x >> 16)) * _MIX_A) & _MASK
    x = ((x ^ (x >> 15)) * _MIX_B) & _MASK
    return x ^ (x >> 16)


def uniform(seed: int, stream: Stream, epoch: int, rows: Array) -> Array:
    """Return numbers in (0, 1), one a row: 32 random bits, never 0 and never 1."""
    w0, _, _, _ = Draws(seed, stream, epoch, rows).words(0 * rows)
    return (w0 + 0.5) * 2.0**-32


_BLOCK = 1 << 16
"""Rows a block (a row gives one uniform or four normal numbers); it does not change the result."""


def _in_blocks(fill: Callable[[int, int], None], rows: int, numbers: int) -> None:
    """Call fill(first, last) for blocks of the rows, each by a thread that is free."""
    from sdgar.machine.threads import run_parts

    run_parts(fill, rows, numbers, at_once=_BLOCK)


def uniform_range(seed: int, stream: Stream, first: int, last: int) -> NDArray[np.float64]:
    """Return ``uniform`` of the rows first … last - 1, without large temporary arrays."""
    out = np.empty(last - first)

    def fill(begin: int, end: int) -> None:
        out[begin:end] = uniform(seed, stream, 0, np.arange(first + begin, first + end))

    _in_blocks(fill, len(out), len(out))
    return out


def normal(seed: int, stream: Stream, n: int) -> NDArray[np.float32]:
    """Return n standard normal numbers by Box and Muller; each row's four words give four of them.

    They are made in blocks, so that a table of 10^8 numbers needs no more memory than itself.
    """
    n_rows = -(-n // 4)
    out = np.empty(4 * n_rows, np.float32)

    def fill(first: int, last: int) -> None:
        rows = np.arange(first, last)
        w0, w1, w2, w3 = Draws(seed, stream, 0, rows).words(0 * rows)
        pairs = []
        for w_radius, w_angle in ((w0, w1), (w2, w3)):
            radius = np.sqrt(-2.0 * np.log((w_radius + 0.5) * 2.0**-32))
            angle = 2.0 * np.pi * (w_angle * 2.0**-32)
            pairs += [radius * np.cos(angle), radius * np.sin(angle)]
        out[4 * first : 4 * last] = np.stack(pairs, axis=1).ravel()

    _in_blocks(fill, n_rows, n)
    return out[:n]


def torch_seed(seed: int, stream: Stream, epoch: int = 0) -> int:
    """Return a seed for torch's generator, used to initialise modules and for dropout."""
    return int(sort_keys(seed, stream, epoch, np.zeros(1, np.int64))[0])
