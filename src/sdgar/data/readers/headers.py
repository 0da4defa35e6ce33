"""Check the first line of a file: is it a header or data; and name columns that have no name."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sdgar.data.read_options import ReadOptions, repeated
from sdgar.data.readers.known_names import KNOWN, squash
from sdgar.errors import DataError

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
TIME = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d.*)?")
KEY = re.compile(r"[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_GREATEST_RATING = 10
_LEAST_TIME = 10**8


def check_distinct(names: Sequence[str]) -> None:
    """Raise if a column name occurs twice; columns without a name may."""
    twice = repeated(names)
    if twice:
        raise DataError(
            f"the input has more than one column named {twice}. Rename or remove one of them.",
            code="duplicate_columns",
        )


def check_header(first: Sequence[str], where: str, options: ReadOptions) -> None:
    """Raise if a header is data, or if data (with ``header_columns``) is a header."""
    line = ", ".join(first)[:80]
    if options.header_columns is None:
        chosen = options.user in first and options.item in first
        if all(NUMBER.fullmatch(name) for name in first) and not chosen:
            raise no_header(first, where)
        return
    expected = {squash(name) for name in options.header_columns}.union(*KNOWN.values())
    if any(squash(field) in expected for field in first):
        raise DataError(
            f"the first line of {where} looks like a header: {line}. "
            "Leave out --columns, which is for files without one.",
            code="unexpected_header",
        )
    if len(first) != len(options.header_columns):
        raise DataError(
            f"--columns names {len(options.header_columns)} columns, but the first line of "
            f"{where} has {len(first)} fields: {line}. Name every column, or check --delimiter.",
            code="columns_mismatch",
        )


def no_header(first: Sequence[str], where: str) -> DataError:
    """Build the error for an input without a header, with names that would fit its columns."""
    names = ",".join(_fitting_names(first))
    return DataError(
        f"{where} seems to have no header: its first line is {', '.join(first)[:80]}. "
        f"Name the {len(first)} columns in their order, such as --columns {names} "
        f"(header_columns={tuple(names.split(','))!r} in Python).",
        code="no_header",
    )


def _fitting_names(first: Sequence[str]) -> list[str]:
    """Return names that would fit the fields of a line: a time, else first user, then item."""
    names: list[str] = []
    for place, text in enumerate(first, 1):
        needed = next((role for role in ("user", "item") if role not in names), None)
        name = needed if needed and not TIME.fullmatch(text) else _name_by_value(text)
        names.append(name if name and name not in names else f"column{place}")
    return names


def _name_by_value(text: str) -> str:
    """Return what a value beside the ids looks like; empty if it could be anything."""
    if TIME.fullmatch(text):
        return "timestamp"
    if not NUMBER.fullmatch(text):
        return ""
    if float(text) >= _LEAST_TIME:
        return "timestamp"
    return "rating" if float(text) <= _GREATEST_RATING else "weight"
