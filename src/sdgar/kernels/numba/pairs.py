"""Sort rows by two numbers and a time, and make a sparse matrix of them; see ``maths/order.py``.

    key_n = first_n · C + second_n

Every thread puts an equal share of the rows into buckets, by the highest bits of their keys. A
bucket is small enough for a cache, and one thread sorts it by the other bits, a digit at a time.
Both steps leave rows with equal keys in the order in which they came; times come last.
"""

from __future__ import annotations

import numpy as np

from sdgar.kernels.compiled import inner, outer
from sdgar.kernels.numba.threads import meet, take


@inner
def _starts(count_TB, first_B1):
    """Turn counts of rows into the place of the first row of each bucket and thread."""
    start = 0
    for b in range(count_TB.shape[1]):
        first_B1[b] = start
        for t in range(len(count_TB)):
            count = count_TB[t, b]
            count_TB[t, b] = start
            start += count
    first_B1[count_TB.shape[1]] = start


@inner
def _by_digit(
    first, last, shift, mask, place_G, from_key_E, from_time_E, from_weight_E, key_E, time_E,
    weight_E,
):  # fmt: skip
    """Put the rows of a bucket in the order of one digit of their keys."""
    timed, weighted = len(time_E) > 0, len(weight_E) > 0
    for e in range(first, last):
        key = from_key_E[e]
        digit = (key >> shift) & mask
        place = place_G[digit]
        place_G[digit] = place + 1
        key_E[place] = key
        if timed:
            time_E[place] = from_time_E[e]
        if weighted:
            weight_E[place] = from_weight_E[e]


@inner
def _by_digits(
    first, last, bits, place_PG, other_key_E, other_time_E, other_weight_E, key_E, time_E, weight_E
):
    """Sort a bucket by an odd number of digits, from the lowest on; it starts in the others."""
    mask = (1 << bits) - 1
    place_PG[:] = 0
    for e in range(first, last):
        key = other_key_E[e]
        # One pass counts all digits, as their counts do not depend on the order of rows.
        for p in range(len(place_PG)):
            place_PG[p, (key >> (p * bits)) & mask] += 1
    for p in range(len(place_PG)):
        start = first
        for digit in range(mask + 1):
            count = place_PG[p, digit]
            place_PG[p, digit] = start
            start += count
        if p % 2 == 0:
            _by_digit(
                first, last, p * bits, mask, place_PG[p], other_key_E, other_time_E,
                other_weight_E, key_E, time_E, weight_E,
            )  # fmt: skip
        else:
            _by_digit(
                first, last, p * bits, mask, place_PG[p], key_E, time_E, weight_E, other_key_E,
                other_time_E, other_weight_E,
            )  # fmt: skip


@inner
def _merge(first, middle, last, from_time_E, from_weight_E, time_E, weight_E):
    """Merge two runs of rows in the order of time; of equal times, the first run's come first."""
    left, right = first, middle
    for e in range(first, last):
        if left < middle and (right == last or from_time_E[left] <= from_time_E[right]):
            best, left = left, left + 1
        else:
            best, right = right, right + 1
        time_E[e] = from_time_E[best]
        if len(weight_E) > 0:
            weight_E[e] = from_weight_E[best]


@inner
def _by_time(first, last, time_E, weight_E, other_time_E, other_weight_E):
    """Sort rows of one key by time, as they came where times are equal."""
    in_order = True
    for e in range(first + 1, last):
        in_order &= time_E[e - 1] <= time_E[e]
    length = 1
    while not in_order and length < last - first:
        for e in range(first, last):
            other_time_E[e] = time_E[e]
            if len(weight_E) > 0:
                other_weight_E[e] = weight_E[e]
        for start in range(first, last, 2 * length):
            middle = min(start + length, last)
            end = min(middle + length, last)
            _merge(start, middle, end, other_time_E, other_weight_E, time_E, weight_E)
        length *= 2


@outer
def sort(
    t, threads, barrier_5, first_N, second_N, time_N, weight_N, n_columns, shift, bits, count_TB,
    first_B1, place_TPG, other_key_E, other_time_E, other_weight_E, key_E, time_E, weight_E,
):  # fmt: skip
    """Sort rows by key and time, as they came where both are equal.

    Times and weights are empty arrays if there are none, and weights are only moved. The number of
    digits is odd, so that rows that begin in the other arrays end in the arrays of the result.
    """
    begin, end = len(first_N) * t // threads, len(first_N) * (t + 1) // threads
    timed, weighted = len(time_N) > 0, len(weight_N) > 0
    for n in range(begin, end):
        key = np.int64(first_N[n]) * n_columns + np.int64(second_N[n])
        count_TB[t, key >> shift] += 1
    meet(barrier_5, threads)
    if t == 0:
        _starts(count_TB, first_B1)
    meet(barrier_5, threads)
    # Each thread has its own places in every bucket, so it writes without locks, and in order.
    for n in range(begin, end):
        key = np.int64(first_N[n]) * n_columns + np.int64(second_N[n])
        place = count_TB[t, key >> shift]
        count_TB[t, key >> shift] = place + 1
        other_key_E[place] = key
        if timed:
            other_time_E[place] = time_N[n]
        if weighted:
            other_weight_E[place] = weight_N[n]
    meet(barrier_5, threads)
    b = take(barrier_5)
    while b < len(first_B1) - 1:
        first, last = first_B1[b], first_B1[b + 1]
        _by_digits(
            first, last, bits, place_TPG[t], other_key_E, other_time_E, other_weight_E, key_E,
            time_E, weight_E,
        )  # fmt: skip
        start = first
        for e in range(first, last):
            if timed and (e + 1 == last or key_E[e + 1] != key_E[e]):
                if e > start:
                    _by_time(start, e + 1, time_E, weight_E, other_time_E, other_weight_E)
                start = e + 1
        b = take(barrier_5)


@outer
def count(t, threads, barrier_5, key_E, kept_T):
    """Count the last rows of keys in the share of each thread."""
    begin, end = len(key_E) * t // threads, len(key_E) * (t + 1) // threads
    kept = 0
    for e in range(begin, end):
        kept += e + 1 == len(key_E) or key_E[e + 1] != key_E[e]
    kept_T[t] = kept


@outer
def rows(t, threads, barrier_5, key_E, time_E, n_columns, kept_T, start_R1, column_F, time_F):
    """Make rows of a sparse matrix of sorted keys, and keep the last row of each key.

    start_r = the number of different keys below r · C
    """
    begin, end = len(key_E) * t // threads, len(key_E) * (t + 1) // threads
    to = 0
    for other in range(t):
        to += kept_T[other]
    row = key_E[begin - 1] // n_columns + 1 if begin > 0 else 0
    edge = row * n_columns
    for e in range(begin, end):
        key = key_E[e]
        while edge <= key:
            start_R1[row] = to
            row, edge = row + 1, edge + n_columns
        if e + 1 == len(key_E) or key_E[e + 1] != key:
            column_F[to] = key - (edge - n_columns)
            if len(time_E) > 0:
                time_F[to] = time_E[e]
            to += 1
    if t == threads - 1:
        for after in range(row, len(start_R1)):
            start_R1[after] = to
