"""Read the bytes of short texts where Polars has them, by Arrow's C interface.

A text of Arrow's type ``utf8_view`` has 16 bytes: its length in 4 bytes, and then, if it is of at
most 12 bytes, the text itself, filled up with zeros. Two such texts are equal if these bytes are.

https://arrow.apache.org/docs/format/CDataInterface.html
https://arrow.apache.org/docs/format/CStreamInterface.html
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from sdgar.kernels.optional import kernels_for
from sdgar.maths.pieces import Pieces

_VIEW, _WORDS = b"vu", 2
_LONGEST = 12
_NAME = b"arrow_array_stream"
_INSIDE_L2 = np.array(
    [[2 ** (8 * min(n, 4)) - 1, 2 ** (8 * max(n - 4, 0)) - 1] for n in range(_LONGEST + 1)],
    np.uint64,
)
"""The bits of both words in which the bytes of a text of each length lie, the first above 32."""


class _Schema(ctypes.Structure):
    _fields_ = [
        ("format", ctypes.c_char_p),
        ("name", ctypes.c_char_p),
        ("metadata", ctypes.c_char_p),
        ("flags", ctypes.c_int64),
        ("n_children", ctypes.c_int64),
        ("children", ctypes.c_void_p),
        ("dictionary", ctypes.c_void_p),
        ("release", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
        ("private_data", ctypes.c_void_p),
    ]


class _Array(ctypes.Structure):
    _fields_ = [
        ("length", ctypes.c_int64),
        ("null_count", ctypes.c_int64),
        ("offset", ctypes.c_int64),
        ("n_buffers", ctypes.c_int64),
        ("n_children", ctypes.c_int64),
        ("buffers", ctypes.POINTER(ctypes.c_void_p)),
        ("children", ctypes.c_void_p),
        ("dictionary", ctypes.c_void_p),
        ("release", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
        ("private_data", ctypes.c_void_p),
    ]


class _Stream(ctypes.Structure):
    _fields_ = [
        ("get_schema", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)),
        ("get_next", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)),
        ("get_last_error", ctypes.c_void_p),
        ("release", ctypes.c_void_p),
        ("private_data", ctypes.c_void_p),
    ]


@contextmanager
def words_of(text: pl.Series) -> Iterator[list[NDArray[np.uint64]] | None]:
    """Lend the two words of each text, in parts; none if a text is missing or too long.

    The words may be used until the context ends.
    """
    if text.null_count():
        yield None
        return
    capsule = text.__arrow_c_stream__()
    held: list[_Array] = []
    try:
        parts = _parts(_pointer(capsule), held)
        short = parts is not None and all(
            int(part.view(np.uint32)[:, 0].max(initial=0)) <= _LONGEST for part in parts
        )
        yield parts if short else None
    finally:
        for array in held:
            array.release(ctypes.addressof(array))


def are_clean(text: pl.Series) -> bool:
    """Tell whether a long column has nothing but short texts without NUL; if in doubt, it has not.

    Polars takes seconds to look at a hundred million texts.
    """
    if (kernels := kernels_for("texts", len(text))) is None:
        return False
    has_zero_1 = np.zeros(1, np.bool_)
    with words_of(text) as parts:
        if parts is None:
            return False
        Pieces(parts).each(lambda word_N2, _: kernels.find_zero(word_N2, _INSIDE_L2, has_zero_1))
    return not has_zero_1[0]


def _pointer(capsule: Any) -> int:
    """Return the address in a capsule, which stays its owner."""
    read = ctypes.pythonapi.PyCapsule_GetPointer
    read.restype, read.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return int(read(capsule, _NAME))


def _parts(address: int, held: list[_Array]) -> list[NDArray[np.uint64]] | None:
    """Return the words of each array of a stream; none if it has texts of another layout.

    The arrays are added to ``held``, which has to release them.
    """
    stream, schema = _Stream.from_address(address), _Schema()
    _require(stream.get_schema(address, ctypes.addressof(schema)))
    layout = schema.format
    schema.release(ctypes.addressof(schema))
    if layout != _VIEW:
        return None
    parts: list[NDArray[np.uint64]] = []
    while True:
        array = _Array()
        _require(stream.get_next(address, ctypes.addressof(array)))
        if not array.release:  # the end of the stream
            return parts
        held.append(array)
        if array.length:
            start = array.buffers[1] + array.offset * _WORDS * 8
            words = (ctypes.c_uint64 * (array.length * _WORDS)).from_address(start)
            parts.append(np.frombuffer(words, np.uint64).reshape(-1, _WORDS))


def _require(code: int) -> None:
    if code:
        raise OSError(code, "Polars cannot lend the texts of a column")
