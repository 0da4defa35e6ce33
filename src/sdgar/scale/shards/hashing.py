"""The shard of a user: a hash of the id's spelling, the same on every machine and in every version.

    h ← number of bytes,   then for each word w of eight bytes:   h ← mix(h xor w)
    shard = ⌊(h >> 32) · number of shards / 2^32⌋

The spelling of an id is its text in UTF-8, or the decimal digits of an integer, filled up with zero
bytes to whole words, little-endian. ``mix`` is the step of SplitMix64 (Steele et al. 2014). An
integer and its spelling thus lie in the same shard.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdgar.data.id_file import value_arrays

NAME = "splitmix64-of-spelling"
"""The name of the hash in a manifest."""
_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MIX_A, _MIX_B = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_WORD = 8
_LONGEST = 20
"""The most characters of an integer of 64 bits."""


def shard_of(values: NDArray[Any], n_shards: int) -> NDArray[np.uint16]:
    """Return the shard of each id; ids are integers, or texts as objects."""
    high_U = hashes(*_spelled(values)) >> np.uint64(32)
    return (high_U * np.uint64(n_shards) >> np.uint64(32)).astype(np.uint16)


def _spelled(values: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Return the spelling of all ids as bytes, and where each begins."""
    if values.dtype.kind not in "iu":
        arrays = value_arrays(values, "ids")
        return arrays["ids.offsets"], arrays["ids.bytes"]
    digits = values.astype(f"S{_LONGEST}").view(np.uint8).reshape(-1, _LONGEST)
    used = digits != 0  # the digit 0 is the byte 48
    offsets = np.concatenate(([0], np.cumsum(used.sum(axis=1))))
    return offsets, digits[used]


def hashes(offsets_U1: NDArray[np.int64], spelling: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Return the 64-bit hash of each spelling."""
    padded = np.concatenate((spelling, np.zeros(_WORD, np.uint8)))
    # A word begins at every byte: the view below overlaps itself.
    word_B = np.ndarray(len(spelling) + 1, "<u8", padded, strides=(1,))
    start_U, length_U = offsets_U1[:-1], np.diff(offsets_U1)
    hash_U = length_U.astype(np.uint64)
    for at in range(0, int(length_U.max(initial=0)), _WORD):
        longer = np.flatnonzero(length_U > at)
        left = np.minimum(length_U[longer] - at, _WORD).astype(np.uint64)
        unused = np.uint64(_WORD) * (np.uint64(_WORD) - left)  # bits of the bytes after the end
        word = word_B[start_U[longer] + at] << unused >> unused
        hash_U[longer] = _mix(hash_U[longer] ^ word)
    return hash_U


def _mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    x = x + _GAMMA
    x = (x ^ (x >> np.uint64(30))) * _MIX_A
    x = (x ^ (x >> np.uint64(27))) * _MIX_B
    return x ^ (x >> np.uint64(31))
