"""Bags of features: what is known of users or items beside their ids."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdgar.data.ids import Ids, held, plain
from sdgar.errors import DataError
from sdgar.show.printed import Described


@dataclass(frozen=True, slots=True, repr=False)
class Features(Described):
    """The features of some ids, in CSR order: those of ids.values[r] are feature_E[start_R1[r] …].

    >>> sdgar.Features.from_columns(["ann", "bob"], {"city": ["Rome", "Oslo"], "age": [30, None]})
    Features: 3 of 2 ids, 3 set
    such as age=30, city=Oslo, city=Rome
    """

    ids: Ids
    """The ids that have features."""
    names: tuple[str, ...]
    """The names of the features, ``column=value``; the position of a name is the feature's
    number."""
    start_R1: NDArray[np.int64]
    """The features of row r begin at ``start_R1[r]``."""
    feature_E: NDArray[np.int64]
    """The numbers of the features, row by row."""

    @classmethod
    def from_columns(
        cls, ids: Sequence[Any] | NDArray[Any], columns: Mapping[str, Sequence[Any]]
    ) -> Features:
        """Build features from columns with one cell an id.

        A cell is a text, a whole number, several of these, or None for nothing.
        """
        try:
            raw = held(ids)
        except DataError as error:
            raise DataError(
                f"ids of features are all text or all integers: {error}", code="bad_features"
            ) from error
        if not len(raw):
            raise DataError("there is no row of features.", code="bad_features")
        distinct, row_R = np.unique(raw, return_inverse=True)
        if len(distinct) != len(raw):
            twice = distinct[np.bincount(row_R) > 1][0]
            raise DataError(
                f"id {twice!r} has several rows of features. Give one row an id, with a list in a "
                "cell where there are several values.",
                code="features_twice",
            )
        bags: list[set[str]] = [set() for _ in distinct]
        for name, cells in columns.items():
            if len(cells) != len(raw):
                raise DataError(f"column {name!r} has {len(cells)} cells for {len(raw)} ids.")
            for row, cell in zip(row_R, cells, strict=True):
                bags[row] |= {f"{name}={value}" for value in _values(name, cell)}
        names = tuple(sorted(set().union(*bags)))
        number = {name: place for place, name in enumerate(names)}
        feature_E = [number[name] for bag in bags for name in sorted(bag)]
        start_R1 = np.cumsum([0, *map(len, bags)], dtype=np.int64)
        return cls(Ids(distinct), names, start_R1, np.array(feature_E, np.int64))

    @property
    def n_features(self) -> int:
        """The number of distinct features."""
        return len(self.names)

    def _lines(self) -> list[str]:
        more = ", …" if self.n_features > 3 else ""
        return [
            f"Features: {self.n_features:,} of {len(self.ids):,} ids, {len(self.feature_E):,} set",
            f"such as {', '.join(name[:60] for name in self.names[:3])}{more}",
        ]

    def digest(self) -> bytes:
        """Return the SHA-256 of ids, names and who has what."""
        words = (*map(str, self.ids.values.tolist()), "", *self.names)
        arrays = (self.start_R1.tobytes(), self.feature_E.tobytes())
        return hashlib.sha256(b"\0".join(("\0".join(words).encode(), *arrays))).digest()

    def of(self, ids: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the CSR arrays of other ids; an id that has no row here has no features."""
        row_R = self.ids.index_of(ids.tolist())
        length_R = np.where(row_R >= 0, np.diff(self.start_R1)[row_R], 0)
        start_R1 = np.concatenate(([0], np.cumsum(length_R)))
        place_E = np.repeat(self.start_R1[row_R] - start_R1[:-1], length_R)
        return start_R1, self.feature_E[place_E + np.arange(len(place_E))]


def _values(column: str, cell: Any) -> list[str | int]:
    """Return the values of a cell in plain Python; raise if one has more than one spelling."""
    several = isinstance(cell, list | tuple | set | frozenset | np.ndarray)
    values = [plain(one) for one in (cell if several else [cell])]
    for value in values:
        if value is not None and not isinstance(value, str | int):
            raise DataError(
                f"a cell of column {column!r} is {value!r} ({type(value).__name__}): a feature is "
                "a text, a whole number, or several of these in a list. Sort fractions into "
                "ranges.",
                code="bad_features",
            )
    return [value for value in values if value is not None]
