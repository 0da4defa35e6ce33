"""The bytes that processes send each other in a step, stated once for engines, reports, estimates.

A step has V visits, each with P positives and N negatives; vectors have D numbers and the generator
has K states. Every number has 32 bits, but for random numbers and counts, which have 64.
"""

from __future__ import annotations

_NUMBER, _LONG = 4, 8
_BESIDE = 4
"""The numbers of a visit beside its vector, slopes and items: a count, and three for the log."""


def words_of(dim: int, entries: int) -> int:
    """Return how many numbers the factors of a visit are: D + 2 (P + N) + 4.

    >>> from sdgar.scale.traffic import words_of
    >>> words_of(64, 1 + 32)
    134
    """
    return dim + 2 * entries + _BESIDE


def to_all(visits: int, dim: int, entries: int, machines: int) -> int:
    """Return the bytes that a machine sends in a step if every machine has all items.

        (M - 1) V (4 D + 8 (P + N) + 16)

    ``visits`` are those of the machine that has most of them in this step, ``entries`` is P + N.

    >>> from sdgar.scale.traffic import to_all
    >>> to_all(1024, 64, 1 + 32, 2)
    548864
    """
    return (machines - 1) * visits * _NUMBER * words_of(dim, entries)


def to_owners(
    *, draws: int, rows: int, visits: int, entries: int, dim: int, states: int, workers: int
) -> int:
    """Return the bytes that a worker sends in a step if every worker has a part of the items.

        16 draws + 4 (D + K + 2) rows + (4 D + 8) visits + 12 entries + 8 L (R - 1)

    Only what another one of the R workers owns is counted: draws by its tables (a state and 64
    random bits are asked, an item is answered), which are negatives and 15 further tries of each
    that is a known positive; rows of different items (a number is asked; a vector, a bias and the y
    of K states are answered); visits, once for each owner of some of their items (a place, a count
    and a vector); and entries of those visits (a slot, an item and a slope). A worker answers as
    much as it asks, on average. L messages to each have a length: 4, or 2 without a generator.

    >>> from sdgar.scale.traffic import to_owners
    >>> to_owners(draws=100, rows=50, visits=10, entries=120, dim=8, states=4, workers=2)
    6272
    """
    asked = (_NUMBER + _LONG + _NUMBER) * draws + _NUMBER * (dim + states + 2) * rows
    told = _NUMBER * (dim + 2) * visits + 3 * _NUMBER * entries
    return asked + told + _LONG * (4 if states else 2) * (workers - 1)
