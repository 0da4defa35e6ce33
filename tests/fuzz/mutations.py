"""Damage: bytes and JSON values that are almost what they were."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from random import Random
from typing import Any

_MAGIC = [
    *(n.to_bytes(size, "little") for size in (1, 2, 4, 8)
      for n in (0, 1, 2 ** (8 * size - 1) - 1, 2 ** (8 * size - 1), 2 ** (8 * size) - 1)),
    b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", b"\x80\x80\x80\x01",
    b"\0", b"\r", b"\n", b"\r\n", b'"', b'""', b",", b"::", b"\t", b"\xef\xbb\xbf", b"\xff\xfe",
    b"\xc3", b"\xed\xa0\x80", "é".encode(), b"nan", b"inf", b"-1", b"1e999", b"1e-400", b"007",
    b"18446744073709551616", b"9223372036854775808", b"null", b"{}", b"[]", b"[[[[", b"\\ud800",
]  # fmt: skip
"""Bytes at which readers tend to stumble: greatest and least numbers, varints, marks of text."""

ODD_VALUES: list[Any] = [
    None, True, False, 0, -1, 1, 7, 2**31, 2**53 + 1, 2**63, 2**64, -(2**63) - 1, 10**400, 0.5,
    -0.0, 1e308, float("nan"), float("inf"), "", "7", "\0", "é", "\ud800", "factors", "int64",
    "user", "x" * 300, [], [0], [[]], {}, {"": None}, ["user", "user"], ["user", 7], "<deep>",
]  # fmt: skip
"""What may stand in JSON where something else is meant; ``<deep>`` is written as many lists."""


def mutated(data: bytes, random: Random) -> bytes:
    """Bytes with one to four changes, mostly one, and more often at the end than elsewhere."""
    for _ in range(random.choice((1, 1, 1, 2, 2, 4))):
        data = random.choice(_CHANGES)(data, random)
    return data


def _place(data: bytes, random: Random) -> int:
    """Footers and headers say how large things are, so they are hit more often."""
    n = len(data)
    near = min(n, 400)
    least, most = random.choice(((0, n), (n - near, n), (0, near)))
    return random.randint(least, most)


def _span(data: bytes, random: Random) -> tuple[int, int]:
    start = _place(data, random)
    return start, min(len(data), start + random.choice((1, 1, 2, 4, 8, 64, 512)))


def _flip(data: bytes, random: Random) -> bytes:
    at = _place(data, random)
    flipped = bytes(b ^ 1 << random.randrange(8) for b in data[at : at + 1])
    return data[:at] + flipped + data[at + 1 :]


def _replace(data: bytes, random: Random) -> bytes:
    at = _place(data, random)
    return data[:at] + random.randbytes(1) + data[at + 1 :]


def _magic(data: bytes, random: Random) -> bytes:
    at, word = _place(data, random), random.choice(_MAGIC)
    return data[:at] + word + data[at + random.choice((0, len(word))) :]


def _delete(data: bytes, random: Random) -> bytes:
    start, end = _span(data, random)
    return data[:start] + data[end:]


def _duplicate(data: bytes, random: Random) -> bytes:
    start, end = _span(data, random)
    return data[:end] + data[start:end] * random.choice((1, 1, 3)) + data[end:]


def _splice(data: bytes, random: Random) -> bytes:
    start, end = _span(data, random)
    at = _place(data, random)
    return data[:at] + data[start:end] + data[at + random.choice((0, end - start)) :]


def _cut(data: bytes, random: Random) -> bytes:
    return data[: _place(data, random)]


_CHANGES: list[Callable[[bytes, Random], bytes]] = [
    _flip, _flip, _replace, _magic, _magic, _delete, _duplicate, _splice, _cut,
]  # fmt: skip


def mutated_json(value: Any, random: Random) -> Any:
    """A copy of a JSON value in which one to three entries are other ones, gone, new or swapped."""
    value = deepcopy(value)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        holders = [one for one in _walk(value) if one]
        if not holders:
            return _odd(random)
        value = _changed(value, holders, random)
    return value


def _odd(random: Random) -> Any:
    """A copy, or a change of it would change what other cases are made of."""
    return deepcopy(random.choice(ODD_VALUES))


def _walk(value: Any) -> list[Any]:
    """All lists and objects in a JSON value."""
    if not isinstance(value, dict | list):
        return []
    inner = value.values() if isinstance(value, dict) else value
    return [value, *(found for one in inner for found in _walk(one))]


def _changed(value: Any, holders: list[Any], random: Random) -> Any:
    table, other = random.choice(holders), random.choice(holders)
    key, other_key = _key(table, random), _key(other, random)
    match random.randrange(6):
        case 0:
            del table[key]
        case 1 if isinstance(table, dict):
            table[random.choice(("", "x", "é", "seal", str(key) + "x"))] = _odd(random)
        case 2:
            own = table[key]
            table[key] = deepcopy(other[other_key])
            other[other_key] = deepcopy(own)
        case 3 if isinstance(table[key], int | float):
            more = random.choice((-1, 1, 2**31, 2**40, -(2**40), 0.5))
            with suppress(OverflowError):  # an integer beyond all floats stays as it is
                table[key] += more
        case _:
            table[key] = _odd(random)
    return value


def _key(table: Any, random: Random) -> Any:
    return random.choice(list(table)) if isinstance(table, dict) else random.randrange(len(table))


def as_bytes(value: Any) -> bytes:
    """JSON as it may lie on a disk."""
    return json.dumps(value).encode().replace(b'"<deep>"', b"[" * 5000 + b"]" * 5000)
