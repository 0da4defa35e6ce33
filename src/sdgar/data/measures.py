"""Columns of features that are measured: numbers, words of a text, and embeddings.

number      (x - mean) / deviation, over the ids that have one
text        tf-idf of its words, with a length of 1:  count · (log((1 + n) / (1 + n_w)) + 1)
embedding   (e - mean) / root mean square length
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdgar.arguments import one_of
from sdgar.data.ids import plain
from sdgar.errors import DataError

KINDS = ("category", "number", "text", "embedding")
"""The kinds of columns of features."""
_MOST_WORDS = 2048
"""The most words of a text that are features: those that the most ids have."""
_GREATEST = 1e30
"""The largest number that can be measured, whose square is still a number."""
_WORD = re.compile(r"[^\W_]+")
_SEVERAL: Any = (list, tuple, np.ndarray)


@dataclass(frozen=True, slots=True)
class Block:
    """The features of one column, entry by entry."""

    names: tuple[str, ...]
    """The names of the features."""
    row_E: NDArray[np.int64]
    """The row of each entry."""
    place_E: NDArray[np.int64]
    """The place of its feature among the names."""
    value_E: NDArray[np.float32]
    """How much of the feature the row has."""

    def placed(self, row_R: NDArray[np.int64]) -> Block:
        """Return the same with other numbers of rows."""
        return replace(self, row_E=row_R[self.row_E])


def kind_of(name: str, cells: Sequence[Any] | NDArray[Any], said: str | None) -> str:
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


def block_of(kind: str, name: str, ids: NDArray[Any], cells: Any) -> Block:
    """Return the features of a column that is measured."""
    if kind == "number":
        return _numbers(name, ids, cells)
    return _words(name, ids, cells) if kind == "text" else _embedding(name, ids, cells)


def _numbers(name: str, ids: NDArray[Any], cells: Any) -> Block:
    row_E, found = _filled(cells)
    x_E = np.array([_number(name, ids[row], cell) for row, cell in zip(row_E, found, strict=True)])
    spread = x_E.std() if len(x_E) else 0.0
    value_E = (x_E - x_E.mean()) / spread if spread > 0 else np.zeros(len(x_E))
    place_E = np.zeros(len(row_E), np.int64)
    return Block((name,), row_E, place_E, value_E.astype(np.float32))


def _embedding(name: str, ids: NDArray[Any], cells: Any) -> Block:
    row_N, found = _filled(cells)
    lengths = {len(cell) if isinstance(cell, _SEVERAL) else -1 for cell in found}
    if len(lengths) > 1 or lengths & {-1, 0}:
        usual = Counter(len(c) for c in found if isinstance(c, _SEVERAL)).most_common(1)
        wanted = usual[0][0] if usual else 0
        row = next(
            row
            for row, cell in zip(row_N, found, strict=True)
            if not isinstance(cell, _SEVERAL) or len(cell) != wanted or not wanted
        )
        cell = cells[row]
        has = f"{len(cell)} numbers" if isinstance(cell, _SEVERAL) else f"{cell!r:.40}"
        raise DataError(
            f"the embedding {name!r} of {plain(ids[row])!r} has {has}, and those of others have "
            f"{wanted}. Give every id a list of the same length, or None.",
            code="bad_features",
        )
    n = lengths.pop() if lengths else 0
    e_ND = np.array(
        [[_number(name, ids[row], one) for one in c] for row, c in zip(row_N, found, strict=True)]
    ).reshape(len(row_N), n)
    e_ND = e_ND - e_ND.mean(axis=0) if len(e_ND) else e_ND
    size = np.sqrt(np.square(e_ND).sum(axis=1).mean()) if len(e_ND) else 0.0
    value_ND = e_ND / size if size > 0 else e_ND
    names = tuple(f"{name}[{d}]" for d in range(n))
    place_E = np.tile(np.arange(n), len(row_N))
    return Block(names, np.repeat(row_N, n), place_E, value_ND.ravel().astype(np.float32))


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
    row_E, place_E, value_E = zip(*entries, strict=True) if entries else ((), (), ())
    return Block(
        tuple(f"{name}:{word}" for word in vocabulary),
        np.array(row_E, np.int64),
        np.array(place_E, np.int64),
        np.array(value_E, np.float32),
    )


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
