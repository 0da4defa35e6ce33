"""Where a command writes: places are checked before any work is done."""

from __future__ import annotations

import os
from pathlib import Path

from sdgar.errors import UsageError
from sdgar.storage import remote
from sdgar.storage.addresses import is_remote

_LONGEST_NAME = 220
"""The most bytes of a name: file systems take 255, and a run adds its own endings."""


def folder_for_files(text: str | Path) -> Path:
    """Check the place of a folder that a command writes files into; it may be there already.

    For an address such as s3://BUCKET/PATH this is a folder of the cache, to be uploaded later.
    """
    place = _place(remote.place_for(text) if is_remote(text) else text)
    if not place.is_dir() and place.exists():
        raise UsageError(
            f"--out {place} is a file, and a folder is needed. Choose another.", code="bad_out"
        )
    return place


def run_folder(text: str | Path) -> Path:
    """Understand the folder of a run; at an address, it is one of the cache until it is whole."""
    return remote.place_for(text) if is_remote(text) else Path(text)


def fetched(text: str | Path) -> Path:
    """Understand a file or a folder; one at an address is fetched."""
    return remote.fetched(text) if is_remote(text) else Path(text)


def saved_folder(text: str | Path) -> Path:
    """Understand the folder of a saved model; one at an address is fetched."""
    return remote.fetched_folder(text) if is_remote(text) else Path(text)


def new_file(text: str | Path) -> Path:
    """Check the place of a file that a command writes."""
    place = _place(text)
    if place.is_dir():
        raise UsageError(
            f"{place} is a folder, and a file is needed. Add a name, such as "
            f"{place / 'lists.parquet'}.",
            code="bad_out",
        )
    return place


def _place(text: str | Path) -> Path:
    """Check that a path lies in folders that are there or can be made."""
    place = Path(text)
    if not str(text).strip() or place == Path(place.anchor) != Path():
        raise UsageError(
            f"{str(text)!r} is no place to write to. Name one, such as runs/mine.", code="bad_out"
        )
    longest = max((part for part in (*place.parts, "")), key=lambda part: len(os.fsencode(part)))
    size = len(os.fsencode(longest))
    if size > _LONGEST_NAME or "\0" in str(place):
        raise UsageError(
            f"{longest[:40] + '…'!r} is too long for the name of a file or folder: it has {size:,} "
            f"bytes, and there is room for {_LONGEST_NAME}.",
            code="bad_out",
        )
    there = next((parent for parent in place.parents if parent.exists()), Path())
    if not there.is_dir():
        raise UsageError(
            f"{there} is a file, so that {place} cannot be in it. Choose another place.",
            code="bad_out",
        )
    return place


def require_new(file: Path, *, overwrite: bool) -> None:
    """Refuse a file that is there already, before any work is spent on it."""
    if file.exists() and not overwrite:
        raise UsageError(f"{file} exists. Choose another file, or --overwrite.", code="out_exists")


def require_new_table(file: Path, *, overwrite: bool) -> None:
    """Refuse a table that is there already, or whose name tells no format."""
    from sdgar.data.tables import require_format

    require_format(file)
    require_new(file, overwrite=overwrite)
