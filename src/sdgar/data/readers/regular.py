"""Read blocks of delimited text about which there is nothing to guess: every line is a record."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import polars as pl

from sdgar.data.readers.text_scan import BOM, MAX_LINE, Layout

_STAND_IN = "\x1f"
"""The character (ASCII's own separator) that stands for a separator of two characters in Polars."""
_OF_NUMBERS = "0123456789-"
"""The separators that may also be a part of a number."""
_TEXTS = ("kind",)
"""The parts whose values are text, whatever they spell."""


class RegularBlocks:
    """The blocks of a file that can be read as a whole.

    Polars pads short records, cuts long ones and guesses about stray quotes, so it is only given
    blocks about which there is nothing to guess. ``kernels``, where they are given, look at the
    fields and read those columns that hold nothing but whole numbers; as text they would be spelled
    the same.
    """

    def __init__(self, layout: Layout, kernels: Any) -> None:
        self._layout = layout
        self._fields = sorted(set(layout.wanted.values()))
        mark = layout.separator
        self._kernels = None if len(mark) > 1 or mark in _OF_NUMBERS else kernels
        texts = {layout.wanted[role] for role in _TEXTS if role in layout.wanted}
        # Blocks are read side by side. A column that is text in one of them is text in all.
        self._is_text_C = np.array([field in texts for field in self._fields])

    def frame(self, block: bytes, last: bool) -> pl.DataFrame | None:
        """Return the rows of a block in which every line is one well-formed record, or None."""
        if last:
            block = block.rstrip(b"\r\n") + b"\n"
        if block.startswith((BOM, b"\n", b"\r")) or _has_overlong_line(block):
            return None
        if self._kernels is not None and b'"' not in block and block.endswith(b"\n"):
            columns = self._by_fields(block, self._kernels)
        else:
            columns = self._by_marks(block)
        if columns is None:
            return None
        place = self._fields.index
        wanted = self._layout.wanted.items()
        return pl.DataFrame({role: columns[place(field)] for role, field in wanted})

    def _by_fields(self, block: bytes, kernels: Any) -> list[pl.Series] | None:
        """Return the columns of a block without quotes; None if it is not regular."""
        layout = self._layout
        column_F = np.full(layout.n_fields, -1)
        column_F[self._fields] = np.arange(len(self._fields))
        byte_B = np.frombuffer(block, np.uint8)
        value_CN = np.empty((len(self._fields), kernels.count_lines(byte_B)), np.int64)
        found = kernels.read(
            byte_B,
            np.uint8(ord(layout.separator)),
            layout.n_fields,
            column_F,
            value_CN,
            self._is_text_C,
        )
        if found == kernels.UNEVEN or not (found == kernels.ASCII or _is_utf8(block)):
            return None
        texts = [field for c, field in enumerate(self._fields) if self._is_text_C[c]]
        text_of = dict(zip(texts, _texts(block, layout, texts, None), strict=True))
        return [
            text_of[field] if field in text_of else pl.Series(value_CN[c])
            for c, field in enumerate(self._fields)
        ]

    def _by_marks(self, block: bytes) -> list[pl.Series] | None:
        """Return the columns of a block as text; None if it is not regular."""
        layout = self._layout
        if b"\r" in block and block.count(b"\r") != block.count(b"\r\n"):
            return None
        if not _is_utf8(block):
            return None
        if len(layout.separator) > 1:
            if b'"' in block or _STAND_IN.encode() in block:
                return None
            block = block.replace(layout.separator.encode(), _STAND_IN.encode())
            layout = replace(layout, separator=_STAND_IN)
        quoted = b'"' in block and _opening_quote(layout.separator).search(block) is not None
        if quoted:
            regular = _records(layout.separator, layout.n_fields).fullmatch(block) is not None
        else:
            regular = _has_even_fields(block, layout)
        return _texts(block, layout, self._fields, '"' if quoted else None) if regular else None


def _texts(
    block: bytes, layout: Layout, fields: list[int], quote_char: str | None
) -> list[pl.Series]:
    """Return some fields of a block as Polars reads them."""
    if not fields:
        return []
    frame = pl.read_csv(
        block,
        has_header=False,
        separator=layout.separator,
        quote_char=quote_char,
        schema={f"column_{at + 1}": pl.String for at in range(layout.n_fields)},
        columns=fields,
    )
    return [frame[f"column_{at + 1}"] for at in fields]


def _is_utf8(block: bytes) -> bool:
    try:
        return block.isascii() or bool(block.decode())
    except UnicodeDecodeError:
        return False


def _has_overlong_line(block: bytes) -> bool:
    start = 0
    while len(block) - start > MAX_LINE:
        start = block.rfind(b"\n", start, start + MAX_LINE + 1) + 1
        if start == 0:
            return True
    return False


def _has_even_fields(block: bytes, layout: Layout) -> bool:
    """Tell whether all lines of a block without quotes have as many fields as the layout."""
    data = np.frombuffer(block, np.uint8)
    is_end = data[(data == ord(layout.separator)) | (data == ord("\n"))] == ord("\n")
    n_lines = np.count_nonzero(is_end)
    last_in_line = is_end[layout.n_fields - 1 :: layout.n_fields]
    return len(is_end) == n_lines * layout.n_fields and bool(last_in_line.all())


@cache
def _opening_quote(separator: str) -> re.Pattern[bytes]:
    return re.compile(rb'(?:^|\n|%b)"' % re.escape(separator.encode()))


@cache
def _records(separator: str, n_fields: int) -> re.Pattern[bytes]:
    """Return a pattern of records of one line each, possessive: a mismatch costs no second look."""
    mark = re.escape(separator.encode())
    in_quotes = rb'"[^"\r\n]*+(?:""[^"\r\n]*+)*+"'
    field = rb'(?:%b|[^"\r\n%b]*+)' % (in_quotes, mark)
    return re.compile(rb"(?:(?:%b%b){%d}%b\r?\n)*+" % (field, mark, n_fields - 1, field))
