"""Prepare a data set from its published raw file, as the paper does."""

from __future__ import annotations

import json
import re
import struct
import zipfile
import zlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdgar.data.ids import Ids
from sdgar.data.interactions import Interactions
from sdgar.data.readers import LoadedRows, read_files, read_frame
from sdgar.data.readers.files import find_file
from sdgar.data.tables import events, write_table
from sdgar.errors import ArtifactError, DataError, UsageError
from sdgar.lab.datasets import Dataset, find
from sdgar.storage import folders, sealed
from sdgar.storage.files import digest, disk_error

_TABLE, _DESCRIPTION = "interactions.parquet", "dataset.json"
_SHOWN_CHARACTERS = 80
_MOST_UNPACKED = 8 << 30
"""The most bytes that a file may unpack to: twice the size of Echonest, the largest."""
_LIBRARY = re.compile("(?:0|[1-9][0-9]{0,17})(?: (?:0|[1-9][0-9]{0,17}))*")
_BROKEN = (
    zipfile.BadZipFile, zlib.error, struct.error, EOFError, NotImplementedError, RuntimeError,
    ValueError,
)  # fmt: skip
"""The errors that zipfile raises for damaged, encrypted or unusual files."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A data set as the paper prepares it."""

    dataset: Dataset
    """The entry of the catalogue."""
    interactions: Interactions
    """The rows that are left."""
    source: Path
    """The raw file."""
    sha256: str
    """The SHA-256 of the raw file."""
    notes: tuple[str, ...]
    """Sentences for people: how the data compares with the paper, and what was left out."""


def prepare(name: str, raw: Path, *, allow_bad_rows: bool = False) -> Prepared:
    """Read a raw file, plain or packed as published, and filter it as the paper does.

    A malformed line is an error; with ``allow_bad_rows`` it is left out and counts as rejected.
    """
    dataset = find(name)
    if not raw.exists():
        raise UsageError(
            f"there is no file {str(raw)!r}. Get it by sdgar data download {name}, or from "
            f"{dataset.homepage}, and name it with --raw.",
            code="no_such_file",
        )
    find_file(raw, "any")  # raises unless it is a file
    positive = _positive(_read(dataset, raw, allow_bad_rows=allow_bad_rows).interactions)
    interactions = at_least(
        positive,
        users=dataset.min_user_interactions,
        items=dataset.min_item_interactions,
    )
    sha256 = digest(raw, "sha256")
    notes = [*_against_paper(dataset, interactions), *dataset.notes]
    if dataset.sha256 not in (None, sha256):
        notes.append(f"The raw file is not the one we know: its SHA-256 is {sha256}.")
    return Prepared(dataset, interactions, raw, sha256, tuple(notes))


def _read(dataset: Dataset, raw: Path, *, allow_bad_rows: bool) -> LoadedRows:
    if dataset.reading is None:
        return _read_libraries(raw)
    options = replace(dataset.reading, allow_bad_rows=allow_bad_rows)
    if not zipfile.is_zipfile(raw):
        return read_files([raw], options)
    try:
        with TemporaryDirectory(dir=raw.parent) as folder:
            return read_files([_unzipped(raw, dataset.member, folder)], options)
    except OSError as error:
        raise disk_error(raw, error) from error


def _unzipped(raw: Path, member: str | None, folder: str) -> Path:
    """Unpack the only file of a zip archive that is read; return its path."""
    try:
        with zipfile.ZipFile(raw) as archive:
            names = archive.namelist()
            if member is None or names.count(member) != 1:
                wanted = "a plain file is expected" if member is None else f"not one {member!r}"
                raise _refused(raw, f"{wanted}, and it has {', '.join(map(repr, names[:5]))}")
            if archive.getinfo(member).file_size > _MOST_UNPACKED:
                raise _refused(raw, f"it unpacks to more than {_MOST_UNPACKED:,} bytes")
            return Path(archive.extract(member, folder))
    except _BROKEN as error:
        raise _refused(raw, f"it is damaged or cut short ({error})") from error


def _positive(data: Interactions) -> Interactions:
    """Return the rows without low ratings, and without users who have no others."""
    users_U, users_E = np.unique(data.users_E, return_inverse=True)
    return Interactions.from_indices(
        Ids(data.users.at(users_U)),
        data.items,
        users_E,
        data.items_E,
        weight_E=data.weight_E,
        time_E=data.time_E,
        account=data.account,
    )


def _refused(raw: Path, why: str) -> DataError:
    return DataError(
        f"{raw}: the archive is refused: {why}. Download it again.", code="bad_archive"
    )


def _read_libraries(raw: Path) -> LoadedRows:
    """Read lines of one user each: the number of articles, then their ids."""
    users: list[int] = []
    items: list[int] = []
    with raw.open(encoding="latin-1") as lines:  # any byte can be decoded, and shown if it is wrong
        for user, line in enumerate(lines):
            text = line.removesuffix("\n")
            if not _LIBRARY.fullmatch(text) or text.count(" ") != int(text.split(" ")[0]):
                raise DataError(
                    f"{raw}, line {user + 1}: {text[:_SHOWN_CHARACTERS]!a} is malformed: a line is "
                    "a count, then that many article ids, separated by single blanks. Get the file "
                    "again.",
                    code="bad_rows",
                )
            articles = text.split(" ")[1:]
            users += [user] * len(articles)
            items += map(int, articles)
    return read_frame({"user": users, "item": items})


def write_prepared(prepared: Prepared, out_dir: Path, *, overwrite: bool = False) -> Path:
    """Write ``interactions.parquet`` and ``dataset.json`` as a folder; return it."""
    place = require_free(out_dir, overwrite=overwrite)
    text = json.dumps(_description(prepared), indent=2, ensure_ascii=False) + "\n"
    try:
        with folders.whole(place, replace=overwrite) as temporary:
            write_table(events(prepared.interactions), temporary / _TABLE)
            folders.write(temporary / _DESCRIPTION, text.encode())
    except OSError as error:
        raise disk_error(place, error) from error
    return place


def require_free(out_dir: Path, *, overwrite: bool) -> Path:
    """Return the folder with links followed; raise if no data set can be written to it.

    Only a data set that was prepared before is ever replaced.
    """
    return folders.require_free(out_dir, overwrite=overwrite, own=_own, what="a prepared data set")


def _own(folder: Path) -> Collection[str]:
    """Return the files of a prepared data set that a folder may hold."""
    try:
        found = sealed.read_table(folder / _DESCRIPTION)
    except ArtifactError:
        return ()
    is_ours = {"name", "preparation", "fingerprint"} <= set(found)
    return (_DESCRIPTION, _TABLE) if is_ours else ()


def _against_paper(dataset: Dataset, interactions: Interactions) -> Iterator[str]:
    for what, ours, papers in (
        ("users", interactions.n_users, dataset.shape.users),
        ("items", interactions.n_items, dataset.shape.items),
        ("interactions", len(interactions), dataset.shape.interactions),
    ):
        if ours == papers:
            yield f"{ours:,} {what}, equal to the paper's Table 1."
        else:
            yield f"{ours:,} {what}, differs by {ours - papers:+,} from the paper's {papers:,}."


def _description(prepared: Prepared) -> dict[str, Any]:
    dataset, interactions = prepared.dataset, prepared.interactions
    return {
        "name": dataset.name,
        "title": dataset.title,
        "source": {
            "file": prepared.source.name,
            "sha256": prepared.sha256,
            "url": dataset.url,
            "citation": dataset.citation,
            "terms": dataset.terms,
        },
        "preparation": {
            "min_rating": dataset.reading and dataset.reading.min_rating,
            "min_user_interactions": dataset.min_user_interactions,
            "min_item_interactions": dataset.min_item_interactions,
        },
        "rows": interactions.account.as_dict(),
        "statistics": interactions.stats(),
        "fingerprint": interactions.fingerprint(),
        "notes": list(prepared.notes),
    }


def at_least(interactions: Interactions, *, users: int = 0, items: int = 0) -> Interactions:
    """Keep users with at least ``users`` items, and items with at least ``items`` users.

    With both, each pass can undo the other, so they alternate until nothing changes. What is
    left does not depend on the order; with equal numbers it is the k-core.
    """
    left = interactions
    while True:
        few_E = np.bincount(left.users_E)[left.users_E] < users
        if few_E.any():
            left = _without(left, few_E, f"user_below_{users}")
        rare_E = np.bincount(left.items_E)[left.items_E] < items
        if not rare_E.any():
            return left
        left = _without(left, rare_E, f"item_below_{items}")


def _without(data: Interactions, drop_E: NDArray[np.bool_], reason: str) -> Interactions:
    if drop_E.all():
        raise DataError(
            f"nothing is left of {data.account.read:,} interactions when users and items need so "
            f"many others ({reason}). Ask for less.",
            code="no_rows",
        )
    return data.subset(~drop_E, reason)
