"""Records of arrays and numbers, laid out in memory for kernels.

A kernel takes dozens of arrays, in named tuples. Numba itself passes such a tuple by its parts,
seven numbers for each array, to every function that is called on the way to where they are used,
and to compile that takes long. Here a named tuple is laid out once, before a kernel
is called, and functions pass on its address. What they use of it is read there::

    words of a record      its fields, one after the other
    of a number            itself
    of an array            where its data are | its shape | its strides, unless it is contiguous
    of a named tuple       its words
    of a tuple of these    the words of all, which have one type; kernels take one by its number

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
"""The types of all that was laid out, by what decides about them."""


class RecordType(types.Type):  # type: ignore[misc]
    """The type of a named tuple that is laid out: its class, and the types of its fields."""

    def __init__(self, kind: Any, fields: tuple[Any, ...]) -> None:
        self.instance_class = kind
        """The class of the named tuple."""
        self.fields = dict(zip(kind._fields, fields, strict=True))
        """The type of each field."""
        self.places: dict[str, int] = {}
        """How many words are before each field."""
        self.words = 0
        """How many words it has."""
        for name, one in self.fields.items():
            self.places[name] = self.words
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
    """The type of an array of a record, or of its numbers one after the other, which is flat."""

    def __init__(self, array: Any, *, flat: bool = False) -> None:
        self.array, self.dtype, self.flat = array, array.dtype, flat
        self.axes = 1 if flat else array.ndim
        self.words = 1 + array.ndim * (1 if array.layout == "C" else 2)
        super().__init__(name=f"{'Flat' if flat else 'At'}({array})")


class SeveralType(types.Type):  # type: ignore[misc]
    """The type of several records of one type, one after the other."""

    def __init__(self, record: RecordType, count: int) -> None:
        self.record, self.words = record, count * record.words
        super().__init__(name=f"Several({record}, {count})")


class Record:
    """A named tuple that is laid out; it stays as it is, and its arrays stay where they are."""

    __slots__ = ("_buffer", "_numba_type_", "address", "record")

    def __init__(self, record: Any) -> None:
        self.record = record
        """The named tuple, which keeps its arrays alive."""
        words: list[int] = []
        self._numba_type_ = _lay(record, words)
        self._buffer = (ctypes.c_uint64 * max(1, len(words)))(*words)
        self.address = ctypes.addressof(self._buffer)
        """Where its words are."""


def records_of(args: Sequence[Any]) -> Iterator[Any]:
    """Lay out the named tuples among the arguments of a kernel."""
    return (Record(one) if hasattr(one, "_fields") else one for one in args)


def _lay(record: Any, words: list[int]) -> Any:
    """Add the words of a named tuple, and return its type."""
    kind, fields = type(record), tuple([_lay_field(one, words) for one in record])
    # Types are made once and kept, so that their ids distinguish them, which is quicker.
    return _once((kind, *map(id, fields)), lambda: RecordType(kind, fields))


def _lay_field(value: Any, words: list[int]) -> Any:
    """Add the words of a field, and return its type."""
    if hasattr(value, "_fields"):
        return _lay(value, words)
    if isinstance(value, tuple):
        kinds = [_lay(one, words) for one in value]
        if any(kind is not kinds[0] for kind in kinds):
            msg = "several records for kernels are of one type"
            raise TypeError(msg)
        return _once((id(kinds[0]), len(kinds)), lambda: SeveralType(kinds[0], len(kinds)))
    if not isinstance(value, np.ndarray):
        kind = _once(type(value), lambda: numba.typeof(value))
        words.append(_word(value, kind))
        return kind
    what = value.dtype, value.ndim, value.flags.num
    kind = _once(what, lambda: ArrayType(numba.typeof(value)))
    words.append(value.__array_interface__["data"][0])
    words += value.shape
    if kind.array.layout != "C":
        words += (stride % _WORDS for stride in value.strides)
    return kind


def _once(key: Any, make: Callable[[], Any]) -> Any:
    """Return the type with a key, which is made if it was not made before."""
    if key not in _TYPES:
        _TYPES[key] = make()
    return _TYPES[key]


def _word(value: Any, kind: Any) -> int:
    """Return the word of a number."""
    if kind == types.float32:
        return int(np.float32(value).view(np.uint32))
    if not isinstance(kind, types.Integer | types.Boolean):
        msg = f"a record for kernels has no place for {value!r}"
        raise TypeError(msg)
    return int(value) % _WORDS
