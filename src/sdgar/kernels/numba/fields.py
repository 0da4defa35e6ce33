"""Read whole numbers from delimited text; see ``data/readers/delimited.py``.

A number counts if it is spelled as Python would: "7" and "-7", but none of "007", "+7" and "-0".
Written again, it gives the same text.
"""

from __future__ import annotations

import numpy as np

from sdgar.kernels.compiled import outer

_END, _RETURN, _MINUS, _ZERO, _TEN = (np.uint8(n) for n in (10, 13, 45, 48, 10))
_HIGHEST, _ONE = np.uint8(127), np.uint64(1)
_DIGITS = 18
"""The most digits that are read, which int64 holds."""
UNEVEN, OTHER, ASCII = -1, 0, 1
"""What a block is: not regular, or text, or text of plain ASCII."""


@outer
def count_lines(byte_B):
    """Return the number of ends of lines."""
    lines = 0
    for byte in byte_B:
        lines += byte == _END
    return lines


@outer
def read(byte_B, separator, n_fields, column_F, value_CN, is_text_C):
    """Read the numbers of some fields, and return what the block is.

    Its last byte ends a line. In a regular block, every line has so many fields, and a carriage
    return stands before the end of a line only. ``column_F`` has the column of each field, -1 for
    none. A column is text if one of its fields is no number, or if it was text before.
    """
    b, end = np.uint64(0), np.uint64(len(byte_B))  # an unsigned index is never counted from the end
    field, line, all_bits = 0, 0, np.uint8(0)
    while b < end:
        c = column_F[field]
        if c >= 0 and not is_text_C[c]:
            is_negative = byte_B[b] == _MINUS
            b += np.uint64(is_negative)
            start, number = b, np.int64(0)
            digit = np.uint8(byte_B[b] - _ZERO)
            while digit < _TEN:
                number = number * 10 + np.int64(digit)
                b += _ONE
                digit = np.uint8(byte_B[b] - _ZERO)
            n_digits, least = np.int64(b - start), 1 if is_negative else 0
            is_text_C[c] |= n_digits == 0 or n_digits > _DIGITS or number < least
            is_text_C[c] |= n_digits > 1 and byte_B[start] == _ZERO
            value_CN[c, line] = -number if is_negative else number
            if (byte_B[b] != separator) & (byte_B[b] != _END) & (byte_B[b] != _RETURN):
                is_text_C[c] = True
        byte = byte_B[b]
        while byte != separator and byte != _END:
            if byte == _RETURN and byte_B[b + _ONE] != _END:
                return UNEVEN
            all_bits |= byte
            b += _ONE
            byte = byte_B[b]
        b += _ONE
        field += 1
        if (field == n_fields) != (byte == _END):
            return UNEVEN
        if byte == _END:
            field, line = 0, line + 1
    return ASCII if all_bits <= _HIGHEST else OTHER
