"""The values of options: numbers, sources of events, and files and folders to read or write.

Places to write to are checked before any work is done.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sdgar.data.sources import EventSource, source_of
from sdgar.errors import UsageError
from sdgar.storage import remote
from sdgar.storage.remote import is_remote

_LONGEST_NAME = 220
"""The most bytes of a name: file systems take 255, and a run adds its own endings."""


def number(option: str, kind: type[int] | type[float]) -> Callable[[str | float], Any]:
    """Return the function that parses the number of an option."""
    what = "an integer" if kind is int else "a number"

    def parse(text: str | float) -> Any:
        try:
            return kind(text)
        except ValueError:
            raise UsageError(
                f"{option} must be {what}, got {str(text)[:40]!r}.", code="bad_number"
            ) from None

    return parse


def bytes_of(option: str) -> Callable[[str], int]:
    """Return the function that parses a number of bytes: 2000000000, 8G or 800MiB."""

    def parse(text: str) -> int:
        found = re.fullmatch(r"(\d+)([KMGT]?)(?:i?B)?", text, re.IGNORECASE)
        if found is None:
            raise UsageError(
                f"{option} must be a number of bytes, such as 8G, got {text!r}.",
                code="bad_option",
            )
        count, unit = found.groups()
        return int(count) << 10 * " KMGT".index(unit.upper() or " ")

    return parse


def source(text: str | Path | EventSource) -> Path | EventSource:
    """Parse the name of a file, an address such as s3://…, or a store: sqlite:///store.db."""
    return remote.fetched(text) if is_remote(text) else source_of(text)


def folder_for_files(text: str | Path) -> Path:
    """Check a folder that a command writes files into; it may exist.

    For an address such as s3://BUCKET/PATH this is a local folder, to be uploaded later.
    """
    place = _place(remote.place_for(text) if is_remote(text) else text)
    if not place.is_dir() and place.exists():
        raise UsageError(
            f"--out {place} is a file, and a folder is needed. Choose another.", code="bad_out"
        )
    return place


def new_file(text: str | Path) -> Path:
    """Check the path of a file that a command writes."""
    place = _place(text)
    if place.is_dir():
        raise UsageError(
            f"{place} is a folder, and a file is needed. Add a name, such as "
            f"{place / 'lists.parquet'}.",
            code="bad_out",
        )
    return place


def _place(text: str | Path) -> Path:
    """Check that a path is in folders that exist or can be made."""
    place = Path(text)
    if not str(text).strip() or place == Path(place.anchor) != Path():
        raise UsageError(
            f"{str(text)!r} is no place to write to. Name one, such as runs/mine.", code="bad_out"
        )
    longest = max((*place.parts, ""), key=lambda part: len(os.fsencode(part)))
    size = len(os.fsencode(longest))
    if size > _LONGEST_NAME or "\0" in str(place):
        raise UsageError(
            f"{longest[:40] + '…'!r} is too long for the name of a file or folder: it has {size:,} "
            f"bytes, and at most {_LONGEST_NAME} are possible.",
            code="bad_out",
        )
    parent = next((parent for parent in place.parents if parent.exists()), Path())
    if not parent.is_dir():
        raise UsageError(
            f"{parent} is a file, so that {place} cannot be in it. Choose another place.",
            code="bad_out",
        )
    return place


def require_new(file: Path | None, *, overwrite: bool) -> None:
    """Refuse a file that exists, before any work is spent on it."""
    if file is not None and file.exists() and not overwrite:
        raise UsageError(f"{file} exists. Choose another file, or --overwrite.", code="out_exists")


def require_new_table(file: Path | None, *, overwrite: bool) -> None:
    """Refuse a table that exists, or whose ending names no format."""
    if file is not None:
        from sdgar.data.tables import require_format

        require_format(file)
        require_new(file, overwrite=overwrite)
