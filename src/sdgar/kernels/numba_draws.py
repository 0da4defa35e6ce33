"""Negatives on the CPU: the same draws as ``sdgar.samplers``, for a block of visits at once.

UNIFORM        the r-th item that is not a known positive of the context
POPULARITY     one alias table for all contexts; known positives are drawn again
DECOMPOSABLE   a state from x_c, an item from y_k, by alias tables; known positives again
ADAPTIVE       a factor and a rank, by alias tables, and the item there; known positives again
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sdgar.kernels.compiled import inner, outer, summing
from sdgar.kernels.numba_rng import index_and_fraction, words
from sdgar.kernels.numba_threads import prefetch, prefetch_row

UNIFORM, POPULARITY, DECOMPOSABLE, ADAPTIVE = 0, 1, 2, 3
MAX_TRIES = 16
_HASH_A, _HASH_B = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
_LOW, _HALF, _WORD = np.uint64(0xFFFFFFFF), np.uint64(32), np.uint64(8)


class Known(NamedTuple):
    """The training positives, and a filter that tells most other pairs at one look.

    Bit hash(c, i) is set for every positive (c, i), with 16 bits or more a positive: of all other
    pairs at most 1 in 16 needs a binary search.
    """

    indptr_U1: NDArray[np.int64]
    items_E: NDArray[np.int32]
    bits: NDArray[np.uint8]


class Proposal(NamedTuple):
    """Where negatives come from; arrays that a kind does not use have length 0."""

    kind: int
    n: int
    """Draws a visit."""
    seed: np.uint64
    n_items: int
    n_states: int
    state_bins: NDArray[np.int64]
    item_bins: NDArray[np.int64]
    x_UK: NDArray[np.float32]
    y_IK: NDArray[np.float32]
    q_I: NDArray[np.float32]
    order_KI: NDArray[np.int32]
    downward_UK: NDArray[np.bool_]
    weighted: bool
    """Whether the objective asks for Q(j|c)."""
    pick: int
    """How scores choose among uniform candidates; see ``numba_picks``."""
    candidates: int
    """Draws for each negative that is chosen by its score."""
    margin: np.float32
    """How far below the positive a score may be that counts as a violation."""


@inner
def _bit(user: Any, item: Any, bits: Any) -> Any:
    """Which bit of the filter a pair has; the number of bits is a power of two."""
    key = np.uint64(user) * _HASH_A + np.uint64(item) * _HASH_B
    return (key >> _HALF) & np.uint64(len(bits) * 8 - 1)


@outer
def fill(indptr_U1: Any, items_E: Any, bits: Any) -> Any:
    """Set the bits of all positives."""
    for user in range(len(indptr_U1) - 1):
        for e in range(indptr_U1[user], indptr_U1[user + 1]):
            bit = _bit(user, items_E[e], bits)
            bits[bit >> np.uint64(3)] |= np.uint8(1 << (bit & np.uint64(7)))
    return None


@inner
def _is_known(indptr_U1: Any, items_E: Any, bits: Any, user: Any, item: Any) -> Any:
    bit = _bit(user, item, bits)
    if not (bits[bit >> np.uint64(3)] >> np.uint8(bit & np.uint64(7))) & np.uint8(1):
        return False
    first, last = indptr_U1[user], indptr_U1[user + 1]
    found = _first_at_least(items_E, first, last, item)
    return found < last and items_E[found] == item


@inner
def _first_at_least(sorted_E: Any, first: Any, last: Any, item: Any) -> Any:
    """Index of the first of sorted_E[first:last] that is not less than ``item``."""
    low, size = first, last - first
    while size > 0:
        half = size >> 1
        below = sorted_E[low + half] < item
        low = low + half + 1 if below else low
        size = size - half - 1 if below else half
    return low


@inner
def _nth_unknown(sorted_E: Any, first: Any, last: Any, r: Any) -> Any:
    """R + #{j : p_j - j <= r}: the r-th item that is not among sorted_E[first:last]."""
    low, size = first, last - first
    while size > 0:
        half = size >> 1
        middle = low + half
        below = sorted_E[middle] - (middle - first) <= r
        low = middle + 1 if below else low
        size = size - half - 1 if below else half
    return r + low - first


@inner
def from_table(bins: Any, row: Any, n: Any, high: Any, low: Any) -> Any:
    """One entry of an alias table whose bins are alias << 32 | threshold."""
    entry, fraction = index_and_fraction(n, high, low)
    word = np.uint64(bins[np.uint64(row) * np.uint64(n) + entry])
    return np.int64(entry) if fraction < (word & _LOW) else np.int64(word >> _HALF)


@summing
def mix(x_UK: Any, y_IK: Any, user: Any, item: Any) -> Any:
    """Q(i|c) = Σ_k x_ck y_ik."""
    total = np.float32(0)
    for k in range(x_UK.shape[1]):
        total += x_UK[user, k] * y_IK[item, k]
    return total


@inner
def _again(
    seed: Any, tail: Any, row: Any, slot: Any, user: Any, n_items: Any, n_states: Any,
    state_bins: Any, item_bins: Any,
) -> Any:  # fmt: skip
    """One more draw for a (row, slot); without states from the one table there is."""
    w0, w1, w2, w3 = words(seed, row, slot, tail)
    if len(state_bins) == 0:
        return from_table(item_bins, 0, n_items, w0, w1)
    state = from_table(state_bins, user, n_states, w0, w1)
    return from_table(item_bins, state, n_items, w2, w3)


@inner
def unknown_item(
    seed: Any, tail: Any, row: Any, slot: Any, first: Any, last: Any, unknown: Any, known_E: Any
) -> Any:
    """A uniform draw from the items that are not among known_E[first:last]."""
    w0, w1, _, _ = words(seed, row, slot, tail)
    place, _ = index_and_fraction(unknown, w0, w1)
    return _nth_unknown(known_E, first, last, np.int64(place))


@inner
def _draw_unknown(
    visits: Any, n: Any, seed: Any, tail: Any, row_V: Any, user_V: Any, n_items: Any,
    indptr_U1: Any, known_E: Any, item_VN: Any, ok_VN: Any,
) -> Any:  # fmt: skip
    """UNIFORM: one number and one binary search; a context that knows every item has no draw."""
    address = known_E.ctypes.data
    for v in range(visits):
        # The first probes of the search: their lines are asked for all at once.
        first = np.uint64(indptr_U1[user_V[v]])
        count = np.uint64(indptr_U1[user_V[v] + 1]) - first
        for eighth in range(np.uint64(1), np.uint64(8)):
            prefetch(address + (first + count * eighth // np.uint64(8)) * np.uint64(4))
    for v in range(visits):
        first, last = indptr_U1[user_V[v]], indptr_U1[user_V[v] + 1]
        unknown = n_items - (last - first)
        for j in range(n):
            item_VN[v, j] = unknown_item(
                seed, tail, row_V[v], j, first, last, unknown, known_E
            )  # fmt: skip
            ok_VN[v, j] = unknown > 0
            if unknown == 0:
                item_VN[v, j] = known_E[row_V[v]]
    return None


@inner
def _draw_states(
    visits: Any, n: Any, seed: Any, tail: Any, row_V: Any, user_V: Any, n_items: Any,
    n_states: Any, state_bins: Any, item_bins: Any, x_UK: Any, place_VN: Any, fraction_VN: Any,
    rest_VN: Any,
) -> Any:  # fmt: skip
    """First half of a draw: which bin of the item tables, and the fraction that decides in it.

    rest_VN says in the end whose bin it is. A bin is asked for one sweep before it is read, so
    that its cache miss is hidden.
    """
    items, states = np.uint64(n_items), np.uint64(n_states)
    state_address, item_address = state_bins.ctypes.data, item_bins.ctypes.data
    x_address, x_bytes = x_UK.ctypes.data, np.uint64(x_UK.shape[1] * 4)
    if len(state_bins) == 0:
        for v in range(visits):
            for j in range(n):
                w0, w1, _, _ = words(seed, row_V[v], j, tail)
                place, fraction = index_and_fraction(items, w0, w1)
                place_VN[v, j], fraction_VN[v, j], rest_VN[v, j] = place, fraction, place
                prefetch(item_address + place * _WORD)
        return None
    for v in range(visits):
        for j in range(n):
            w0, w1, w2, w3 = words(seed, row_V[v], j, tail)
            place, fraction = index_and_fraction(states, w0, w1)
            place += np.uint64(user_V[v]) * states
            place_VN[v, j], fraction_VN[v, j] = place, fraction
            rest_VN[v, j] = (w2 << _HALF) | w3
            prefetch(state_address + place * _WORD)
    for v in range(visits):
        for j in range(n):
            word = np.uint64(state_bins[place_VN[v, j]])
            entry = place_VN[v, j] - np.uint64(user_V[v]) * states
            state = entry if fraction_VN[v, j] < (word & _LOW) else word >> _HALF
            place, fraction = index_and_fraction(
                items, rest_VN[v, j] >> _HALF, rest_VN[v, j] & _LOW
            )
            place_VN[v, j], fraction_VN[v, j] = place + state * items, fraction
            rest_VN[v, j] = place
            prefetch(item_address + place_VN[v, j] * _WORD)
        prefetch_row(x_address, user_V[v], x_bytes, x_bytes)
    return None


@inner
def _draw_items(
    visits: Any, n: Any, seed: Any, tail: Any, row_V: Any, user_V: Any, n_items: Any,
    n_states: Any, state_bins: Any, item_bins: Any, y_IK: Any, indptr_U1: Any, known_E: Any,
    bits: Any, place_VN: Any, fraction_VN: Any, rest_VN: Any, item_VN: Any, ok_VN: Any,
) -> Any:  # fmt: skip
    """Second half: the item in the bin; known positives are drawn again, up to 16 times in all."""
    y_address, y_bytes = y_IK.ctypes.data, np.uint64(y_IK.shape[1] * 4)
    bits_address = bits.ctypes.data
    for v in range(visits):
        for j in range(n):
            word = np.uint64(item_bins[place_VN[v, j]])
            own = fraction_VN[v, j] < (word & _LOW)
            item = rest_VN[v, j] if own else word >> _HALF
            item_VN[v, j] = np.int64(item)
            prefetch(bits_address + (_bit(user_V[v], item, bits) >> np.uint64(3)))
            if len(y_IK):
                prefetch_row(y_address, item, y_bytes, y_bytes)
    for v in range(visits):
        user = user_V[v]
        for j in range(n):
            known, t = _is_known(indptr_U1, known_E, bits, user, item_VN[v, j]), 1
            while known and t < MAX_TRIES:
                item_VN[v, j] = _again(
                    seed, tail, row_V[v], t * n + j, user, n_items, n_states, state_bins, item_bins
                )  # fmt: skip
                known = _is_known(indptr_U1, known_E, bits, user, item_VN[v, j])
                t += 1
            ok_VN[v, j] = not known
    return None


@inner
def _draw_ranked(
    p: Any, known: Any, tail: Any, visits: Any, row_V: Any, user_V: Any, item_VN: Any, ok_VN: Any
) -> Any:
    """ADAPTIVE: items high in the order of a factor that matters to the context."""
    order_KI, downward_UK = p.order_KI, p.downward_UK
    for v in range(visits):
        user = user_V[v]
        for j in range(p.n):
            unaccepted, t = True, 0
            while unaccepted and t < MAX_TRIES:
                w0, w1, w2, w3 = words(p.seed, row_V[v], t * p.n + j, tail)
                factor = from_table(p.state_bins, user, p.n_states, w0, w1)
                rank = from_table(p.item_bins, 0, p.n_items, w2, w3)
                place = rank if downward_UK[user, factor] else p.n_items - 1 - rank
                item_VN[v, j] = order_KI[factor, place]
                unaccepted = _is_known(
                    known.indptr_U1, known.items_E, known.bits, user, item_VN[v, j]
                )  # fmt: skip
                t += 1
            ok_VN[v, j] = not unaccepted
    return None


@inner
def draw_block(
    n: Any, start: Any, seed: Any, tail: Any, n_states: Any, n_entries: Any, state_bins: Any,
    entry_bins: Any, row_B: Any, address_B: Any, slot_B: Any, place_B: Any, fraction_B: Any,
    rest_B: Any, drawn_B: Any,
) -> Any:  # fmt: skip
    """A state from each row's table, then an entry from the state's, n draws from ``start`` on."""
    states, entries = np.uint64(n_states), np.uint64(n_entries)
    state_address, entry_address = state_bins.ctypes.data, entry_bins.ctypes.data
    for b in range(n):
        w0, w1, w2, w3 = words(seed, address_B[start + b], slot_B[start + b], tail)
        place, fraction_B[b] = index_and_fraction(states, w0, w1)
        place_B[b] = place + np.uint64(row_B[start + b]) * states
        rest_B[b] = (w2 << _HALF) | w3
        prefetch(state_address + place_B[b] * _WORD)
    for b in range(n):
        word = np.uint64(state_bins[place_B[b]])
        own = fraction_B[b] < (word & _LOW)
        state = place_B[b] - np.uint64(row_B[start + b]) * states if own else word >> _HALF
        place, fraction_B[b] = index_and_fraction(entries, rest_B[b] >> _HALF, rest_B[b] & _LOW)
        place_B[b], rest_B[b] = place + state * entries, place
        prefetch(entry_address + place_B[b] * _WORD)
    for b in range(n):
        word = np.uint64(entry_bins[place_B[b]])
        drawn_B[start + b] = rest_B[b] if fraction_B[b] < (word & _LOW) else word >> _HALF
    return None


@inner
def draw(
    p: Any, known: Any, tail: Any, visits: Any, row_V: Any, user_V: Any,
    place_VN: Any, fraction_VN: Any, rest_VN: Any, item_VN: Any, ok_VN: Any,
) -> Any:  # fmt: skip
    """N negatives for each of some visits, and whether each is accepted."""
    if p.kind == UNIFORM:
        _draw_unknown(
            visits, p.n, p.seed, tail, row_V, user_V, p.n_items, known.indptr_U1, known.items_E,
            item_VN, ok_VN,
        )  # fmt: skip
        return None
    if p.kind == ADAPTIVE:
        _draw_ranked(p, known, tail, visits, row_V, user_V, item_VN, ok_VN)
        return None
    _draw_states(
        visits, p.n, p.seed, tail, row_V, user_V, p.n_items, p.n_states, p.state_bins,
        p.item_bins, p.x_UK, place_VN, fraction_VN, rest_VN,
    )  # fmt: skip
    _draw_items(
        visits, p.n, p.seed, tail, row_V, user_V, p.n_items, p.n_states, p.state_bins,
        p.item_bins, p.y_IK, known.indptr_U1, known.items_E, known.bits, place_VN, fraction_VN,
        rest_VN, item_VN, ok_VN,
    )  # fmt: skip
    return None


@inner
def probability(p: Any, visits: Any, user_V: Any, indptr_U1: Any, item_VN: Any, q_VN: Any) -> Any:
    """Q(j|c) of the negatives, up to a constant of the visit."""
    x_UK, y_IK, q_I = p.x_UK, p.y_IK, p.q_I
    for v in range(visits):
        user = user_V[v]
        for j in range(p.n):
            if p.kind == DECOMPOSABLE:
                q_VN[v, j] = mix(x_UK, y_IK, user, item_VN[v, j])
            elif p.kind == POPULARITY:
                q_VN[v, j] = q_I[item_VN[v, j]]
            else:
                unknown = p.n_items - (indptr_U1[user + 1] - indptr_U1[user])
                q_VN[v, j] = np.float32(1) / np.float32(max(unknown, 1))
    return None
