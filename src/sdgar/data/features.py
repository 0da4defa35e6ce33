"""Features of users or items: what is known of them besides their ids."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdgar.arguments import one_of
from sdgar.data.ids import Ids, held, plain
from sdgar.errors import DataError, unknown_name
from sdgar.show.printed import Described

KINDS = ("category", "number", "text", "embedding")
"""The kinds of columns of features."""
_MOST_WORDS = 2048
"""The most words of a text that are features: the words that most ids have."""
_GREATEST = 1e30
"""The largest number that can be measured, whose square is still a number."""
_WORD = re.compile(r"[^\W_]+")
_SEVERAL: Any = (list, tuple, np.ndarray)


Block = tuple[tuple[str, ...], NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]
"""The features of a column: their names, and the row, the place among the names and the value of
each entry."""


def _kind_of(name: str, cells: Sequence[Any] | NDArray[Any], said: str | None) -> str:
    """Return the kind of a column: what is said, or what its cells look like."""
    if said is not None:
        kind: str = one_of(f"kind of column {name}", said, KINDS)
        return kind
    if isinstance(cells, np.ndarray) and cells.dtype.kind == "f":
        return "number" if cells.ndim == 1 else "embedding"
    for cell in cells:
        if isinstance(plain(cell), float):
            return "number"
        if isinstance(cell, _SEVERAL) and any(isinstance(plain(one), float) for one in cell):
            return "embedding"
    return "category"


def _numbers(name: str, ids: NDArray[Any], cells: Any) -> Block:
    row_E, found = _filled(cells)
    x_E = np.array([_number(name, ids[row], cell) for row, cell in zip(row_E, found, strict=True)])
    spread = x_E.std() if len(x_E) else 0.0
    value_E = (x_E - x_E.mean()) / spread if spread > 0 else np.zeros(len(x_E))
    place_E = np.zeros(len(row_E), np.int64)
    return (name,), row_E, place_E, value_E.astype(np.float32)


def _embedding(name: str, ids: NDArray[Any], cells: Any) -> Block:
    row_N, found = _filled(cells)
    lengths = Counter(len(cell) if isinstance(cell, _SEVERAL) else 0 for cell in found)
    n = next((length for length, _ in lengths.most_common() if length), 0)
    for row, cell in zip(row_N, found, strict=True):
        if not isinstance(cell, _SEVERAL) or len(cell) != n or not n:
            has = f"{len(cell)} numbers" if isinstance(cell, _SEVERAL) else f"{cell!r:.40}"
            raise DataError(
                f"the embedding {name!r} of {plain(ids[row])!r} has {has}, and other embeddings "
                f"have {n}. Give every id a list of the same length, or None.",
                code="bad_features",
            )
    e_ND = np.array(
        [[_number(name, ids[row], one) for one in c] for row, c in zip(row_N, found, strict=True)]
    ).reshape(len(row_N), n)
    e_ND = e_ND - e_ND.mean(axis=0) if len(e_ND) else e_ND
    size = np.sqrt(np.square(e_ND).sum(axis=1).mean()) if len(e_ND) else 0.0
    value_ND = e_ND / size if size > 0 else e_ND
    names = tuple(f"{name}[{d}]" for d in range(n))
    place_E = np.tile(np.arange(n), len(row_N))
    return names, np.repeat(row_N, n), place_E, value_ND.ravel().astype(np.float32)


def _words(name: str, ids: NDArray[Any], cells: Any) -> Block:
    row_N, found = _filled(cells)
    for row, cell in zip(row_N, found, strict=True):
        if not isinstance(plain(cell), str):
            raise DataError(
                f"column {name!r} is a text, and that of {plain(ids[row])!r} is {cell!r:.40}. Give "
                "texts, or None.",
                code="bad_features",
            )
    counts = [Counter(_WORD.findall(text.lower())) for text in found]
    rows_of = Counter(word for count in counts for word in count)
    common = sorted(rows_of.items(), key=lambda item: (-item[1], item[0]))[:_MOST_WORDS]
    vocabulary = sorted(word for word, n in common if n > 1)
    place = {word: at for at, word in enumerate(vocabulary)}
    entries: list[tuple[int, int, float]] = []
    for row, count in zip(row_N.tolist(), counts, strict=True):
        weights = {
            place[word]: n * (np.log((1 + len(counts)) / (1 + rows_of[word])) + 1)
            for word, n in count.items()
            if word in place
        }
        size = np.sqrt(sum(weight**2 for weight in weights.values()))
        entries += [(row, at, weight / size) for at, weight in sorted(weights.items())]
    row_E, place_E, value_E = np.array(entries).reshape(-1, 3).T
    names = tuple(f"{name}:{word}" for word in vocabulary)
    return names, row_E.astype(np.int64), place_E.astype(np.int64), value_E.astype(np.float32)


def _filled(cells: Any) -> tuple[NDArray[np.int64], list[Any]]:
    """Return the cells that hold something, with their rows."""
    at = [(row, cell) for row, cell in enumerate(cells) if cell is not None]
    return np.array([row for row, _ in at], np.int64), [cell for _, cell in at]


def _number(name: str, id: Any, value: Any) -> float:
    own = plain(value)
    is_number = isinstance(own, int | float) and not isinstance(own, bool)
    if is_number and abs(own) <= _GREATEST:  # which NaN is not
        return float(own)
    raise DataError(
        f"column {name!r} holds numbers, and that of {plain(id)!r} is {own!r:.40}. Give a number "
        f"of at most {_GREATEST:g}, or None where there is none.",
        code="bad_features",
    )


_BLOCKS = {"number": _numbers, "text": _words, "embedding": _embedding}
"""The functions that measure a column of each kind."""


@dataclass(frozen=True, slots=True, repr=False)
class Features(Described):
    """The features of some ids, in CSR order: ids.values[r] has feature_E[start_R1[r] …].

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
    value_E: NDArray[np.float32] | None = None
    """How much of each feature there is; None if all are categories, which are there or not."""

    @classmethod
    def from_columns(
        cls,
        ids: Sequence[Any] | NDArray[Any],
        columns: Mapping[str, Sequence[Any] | NDArray[Any]],
        *,
        kinds: Mapping[str, str] | None = None,
    ) -> Features:
        """Build features from columns with one cell an id; a cell may be None for nothing.

        A cell is a text, a whole number, or several of these: each of them is a category. Numbers
        with a fraction are measures, which are standardised. An array with a row an id, or a list
        of fractions in each cell, is an embedding. ``kinds`` says it otherwise, by column:
        "category", "number", "embedding", or "text", whose words are counted by tf-idf.

        >>> films = {"title": ["Red Sun", "Red Moon"], "length": [90.5, 120.0]}
        >>> sdgar.Features.from_columns([7, 8], films, kinds={"title": "text"}).names
        ('title:red', 'length')
        """
        raw = held(ids, "ids of features")
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
        blocks: list[Block] = []
        for name in kinds or ():
            if name not in columns:
                raise unknown_name("column of features", name, columns)
        for name, cells in columns.items():
            if len(cells) != len(raw):
                raise DataError(f"column {name!r} has {len(cells)} cells for {len(raw)} ids.")
            kind = _kind_of(name, cells, (kinds or {}).get(name))
            if kind != "category":
                own, row_E, *entries = _BLOCKS[kind](name, raw, cells)
                blocks.append((own, row_R[row_E], *entries))
                continue
            for row, cell in zip(row_R, cells, strict=True):
                bags[row] |= {f"{name}={value}" for value in _values(name, cell)}
        names = tuple(sorted(set().union(*bags)))
        number = {name: place for place, name in enumerate(names)}
        feature_E = [number[name] for bag in bags for name in sorted(bag)]
        start_R1 = np.cumsum([0, *map(len, bags)], dtype=np.int64)
        made = cls(Ids(distinct), names, start_R1, np.array(feature_E, np.int64))
        return made._followed_by(blocks) if blocks else made

    def _followed_by(self, blocks: Sequence[Block]) -> Features:
        """Return the features with measures behind the categories, each of which counts 1."""
        names = list(self.names)
        rows = [np.repeat(np.arange(len(self.ids)), np.diff(self.start_R1))]
        places, values = [self.feature_E], [np.ones(len(self.feature_E), np.float32)]
        for own, row_E, place_E, value_E in blocks:
            rows.append(row_E)
            places.append(place_E + len(names))
            values.append(value_E)
            names += own
        row_E, place_E = np.concatenate(rows), np.concatenate(places)
        value_E = np.concatenate(values)
        order_E = np.lexsort((place_E, row_E))
        counts_R = np.bincount(row_E, minlength=len(self.ids))
        start_R1 = np.concatenate(([0], np.cumsum(counts_R)))
        return Features(self.ids, tuple(names), start_R1, place_E[order_E], value_E[order_E])

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
        values = b"" if self.value_E is None else self.value_E.tobytes()
        arrays = (self.start_R1.tobytes(), self.feature_E.tobytes() + values)
        return hashlib.sha256(b"\0".join(("\0".join(words).encode(), *arrays))).digest()

    def of(self, ids: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the CSR arrays of other ids; an id that has no row here has no features."""
        start_R1, at_E = self._entries(ids)
        return start_R1, self.feature_E[at_E]

    def matrix(self, ids: NDArray[Any]) -> Any:
        """Return how much of each feature other ids have, as a sparse matrix of scipy."""
        from scipy.sparse import csr_array

        start_R1, at_E = self._entries(ids)
        value_E = np.ones(len(at_E)) if self.value_E is None else self.value_E[at_E]
        shape = (len(ids), self.n_features)
        return csr_array((value_E.astype(np.float64), self.feature_E[at_E], start_R1), shape)

    def _entries(self, ids: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return where the entries of other ids begin, and which entries they are."""
        row_R = self.ids.index_of(ids.tolist())
        length_R = np.where(row_R >= 0, np.diff(self.start_R1)[row_R], 0)
        start_R1 = np.concatenate(([0], np.cumsum(length_R)))
        place_E = np.repeat(self.start_R1[row_R] - start_R1[:-1], length_R)
        return start_R1, place_E + np.arange(len(place_E))


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
