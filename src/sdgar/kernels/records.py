"""Records of arrays and numbers, laid out in memory for kernels.

A kernel takes dozens of arrays, in named tuples. Numba passes a named tuple as separate values,
seven for each array, through every call, which makes compilation slow. Here a named tuple is laid
out once, before a kernel is called. Functions receive only its address and read the fields from
memory, laid out in words of 64 bits::

    words of a record      its fields, one after the other
    of a number            itself
    of an array            where its data are | its shape | its strides, unless it is contiguous
    of a named tuple       its words
    of a tuple of these    the words of all, which have one type; kernels select one by its index

A record stays as it is while a kernel runs, so what was read once need not be read again.

``record_access.py`` has the code that reads them.
"""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numba
import numpy as np
from numba import types

_WORDS = 1 << 64
"""The number of different words."""
_TYPES: dict[Any, Any] = {}
"""The types that were made so far, by their keys."""


class RecordType(types.Type):  # type: ignore[misc]
    """The type of a named tuple that is laid out: its class, and the types of its fields."""

    def __init__(self, kind: Any, fields: tuple[Any, ...]) -> None:
        self.instance_class = kind
        """The class of the named tuple."""
        self.fields = dict(zip(kind._fields, fields, strict=True))
        """The type of each field."""
        self.offsets: dict[str, int] = {}
        """The number of words before each field."""
        self.words = 0
        """How many words it has."""
        for name, one in self.fields.items():
            self.offsets[name] = self.words
            self.words += getattr(one, "words", 1)
        names = ", ".join(f"{name}: {one}" for name, one in self.fields.items())
        # Numba puts the names of types into the names of functions, which would be pages long.
        digest = hashlib.sha256(names.encode()).hexdigest()[:16]
        super().__init__(name=f"Record({kind.__module__}.{kind.__qualname__}, {digest})")

    @property
    def key(self) -> Any:
        """Return what distinguishes it from other types."""
        return self.instance_class, tuple(self.fields.values())


class ArrayType(types.Type):  # type: ignore[misc]
    """The type of an array field, or of its flat view."""

    def __init__(self, array: Any, *, flat: bool = False) -> None:
        self.array, self.dtype, self.flat = array, array.dtype, flat
        self.axes = 1 if flat else array.ndim
        self.words = 1 + array.ndim * (1 if array.layout == "C" else 2)
        super().__init__(name=f"{'Flat' if flat else 'At'}({array})")


class RecordTupleType(types.Type):  # type: ignore[misc]
    """The type of a tuple of records of one type, one after the other."""

    def __init__(self, record: RecordType, count: int) -> None:
        self.record, self.words = record, count * record.words
        super().__init__(name=f"RecordTuple({record}, {count})")


class Record:
    """A named tuple that is laid out; it stays as it is, and its arrays stay where they are."""

    __slots__ = ("_buffer", "_numba_type_", "address", "record")

    def __init__(self, record: Any) -> None:
        self.record = record
        """The named tuple, which keeps its arrays alive."""
        words: list[int] = []
        self._numba_type_ = _append_words(record, words)
        self._buffer = (ctypes.c_uint64 * max(1, len(words)))(*words)
        self.address = ctypes.addressof(self._buffer)
        """Where its words are."""


def with_records(args: Sequence[Any]) -> Iterator[Any]:
    """Return the arguments of a kernel with records for named tuples."""
    return (Record(one) if hasattr(one, "_fields") else one for one in args)


def _append_words(record: Any, words: list[int]) -> Any:
    """Add the words of a named tuple, and return its type."""
    kind, fields = type(record), tuple([_append_field(one, words) for one in record])
    # Types are made once and kept, so that their ids distinguish them, which is quicker.
    return _cached_type((kind, *map(id, fields)), lambda: RecordType(kind, fields))


def _append_field(value: Any, words: list[int]) -> Any:
    """Add the words of a field, and return its type."""
    if hasattr(value, "_fields"):
        return _append_words(value, words)
    if isinstance(value, tuple):
        kinds = [_append_words(one, words) for one in value]
        if any(kind is not kinds[0] for kind in kinds):
            msg = "all records in a tuple must have the same type"
            raise TypeError(msg)
        record, count = kinds[0], len(kinds)
        return _cached_type((id(record), count), lambda: RecordTupleType(record, count))
    if not isinstance(value, np.ndarray):
        kind = _cached_type(type(value), lambda: numba.typeof(value))
        words.append(_word(value, kind))
        return kind
    what = value.dtype, value.ndim, value.flags.num
    kind = _cached_type(what, lambda: ArrayType(numba.typeof(value)))
    words.append(value.__array_interface__["data"][0])
    words += value.shape
    if kind.array.layout != "C":
        words += (stride % _WORDS for stride in value.strides)
    return kind


def _cached_type(key: Any, make: Callable[[], Any]) -> Any:
    """Return the type of a key; make it if it was not made before."""
    if key not in _TYPES:
        _TYPES[key] = make()
    return _TYPES[key]


def _word(value: Any, kind: Any) -> int:
    """Return the word of a number."""
    if kind == types.float32:
        return int(np.float32(value).view(np.uint32))
    if not isinstance(kind, types.Integer | types.Boolean):
        msg = f"a kernel record can hold arrays, integers, booleans and np.float32, not {value!r}"
        raise TypeError(msg)
    return int(value) % _WORDS
