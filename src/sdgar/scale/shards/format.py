"""The format of a folder of shards: arrays of NumPy, and sealed manifests with their SHA-256.

    manifest.json           sizes, ids, the account of rows, and the seal of each shard
    items.npy               the ids of items: integers, or items.offsets.npy and items.bytes.npy
    shard-00000/            one folder for each shard
        manifest.json       sizes, and the SHA-256 of each file of the shard
        indptr.npy          rows of user u are indptr[u] to indptr[u + 1] - 1
        items.npy           the item of each row
        weight.npy          the weight of each row, where there are weights
        time.npy            the time of each row, where there are times
        users.npy           the ids of the users, in the format of the items
        rank.npy            the number of each user in a load in RAM
        seen.indptr.npy …   pairs that users know and dislike, where there are any

A shard of another set has another seal, so that it is refused before one of its rows is read.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
from numpy.typing import NDArray

from sdgar.data.building import RowAccount
from sdgar.errors import ArtifactError, ResourceError
from sdgar.storage import folders, remote, sealed
from sdgar.storage.files import digest
from sdgar.storage.sealed import MANIFEST, DamagedError, read_record

Arrays = Mapping[str, NDArray[Any]]
Files = dict[str, dict[str, Any]]
"""The size and the SHA-256 of each file by its name."""


def write_arrays(folder: Path, arrays: Arrays) -> None:
    """Write arrays as ``NAME.npy``, and wait until the disk has them."""
    for name, array in arrays.items():
        with file_of(folder, name).open("xb") as file:
            save(file, array)
            file.flush()
            os.fsync(file.fileno())


def save(file: BinaryIO, array: NDArray[Any]) -> None:
    """Write an array as ``np.save`` does, which does not say why a disk refuses to take it."""
    array = np.ascontiguousarray(array)
    np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(array))
    file.write(array.data)


def sums_of(folder: Path) -> Files:
    """Return the sizes and the SHA-256 of the arrays in a folder."""
    return {
        path.name: {"bytes": path.stat().st_size, "sha256": digest(path, "sha256")}
        for path in sorted(folder.glob("*.npy"))
    }


def _write_sealed(folder: Path, table: Mapping[str, Any]) -> str:
    """Write a sealed manifest, and return its seal."""
    manifest = sealed.with_seal(table)
    text = json.dumps(manifest, indent=1, allow_nan=False, ensure_ascii=False)
    folders.write(folder / MANIFEST, text.encode())
    return str(manifest[sealed.SEAL])


def require_files(folder: Path, files: Any, *, verify: bool) -> None:
    """Raise if a file is missing or has another size than its manifest says.

    With ``verify``, the SHA-256 of every file is compared too.
    """
    if not isinstance(files, dict):
        raise DamagedError(folder / MANIFEST, "it has no table 'files'")
    for name, entry in files.items():
        path = folder / name
        if Path(name).name != name or not isinstance(entry, dict):
            raise DamagedError(folder / MANIFEST, f"it says nothing right of {name!r}")
        if verify:
            remote.ensure(path)
        if path.exists() or remote.origin_of(path) is None:  # else the address has it
            sealed.check_file(path, files, contents=verify)


def mapped(
    folder: Path, name: str, dtype: str | None = None, length: int | None = None
) -> NDArray[Any]:
    """Map an array into memory, read-only; raise if it is not of this type and length."""
    path = file_of(folder, name)
    remote.ensure(path)
    try:
        array: NDArray[Any] = np.load(path, mmap_mode="r")
    except FileNotFoundError as error:
        raise DamagedError(path, "the file is missing") from error
    except (ValueError, EOFError, OSError, SyntaxError) as error:
        raise DamagedError(path, f"it is no array of NumPy ({error})") from error
    wrong = (dtype is not None and array.dtype != dtype) or array.ndim != 1
    if wrong or (length is not None and len(array) != length):
        wanted = f"{'some' if length is None else f'{length:,}'} numbers of type {dtype}"
        raise DamagedError(path, f"it holds {array.shape} of type {array.dtype}, not {wanted}")
    return array


def has_file(folder: Path, name: str) -> bool:
    """Return whether a folder has an array, here or at the address that it stands for."""
    path = file_of(folder, name)
    if path.exists() or remote.origin_of(path) is None:
        return path.exists()
    return path.name in sealed.read_table(folder / MANIFEST)["files"]


def file_of(folder: Path, name: str) -> Path:
    """Return the file of an array."""
    return folder / f"{name}.npy"


HASH = "splitmix64-of-spelling"
"""The name of the hash of users by which they lie in shards; see ``writing.shard_of``."""
FORMAT, SHARD_FORMAT = "sdgar-shards", "sdgar-shard"
FORMAT_VERSION = 1
WEIGHT, TIME = "weight", "time"
IdKind = Literal["int64", "uint64", "text"]
"""A type of ids."""


@dataclass(frozen=True, slots=True)
class ShardRecord:
    """What the manifest says of one shard."""

    users: int
    """The number of its users."""
    rows: int
    """The number of its rows."""
    seen: int
    """The number of pairs that its users know and dislike."""
    seal: str
    """The seal of the shard's own manifest."""


@dataclass(frozen=True)
class Manifest:
    """What a folder of shards says of itself."""

    ids: dict[str, IdKind]
    """The types of the ids of users and items."""
    items: int
    """The number of items."""
    weights: bool
    """True if rows have weights."""
    times: bool
    """True if rows have times."""
    account: RowAccount
    """What became of every row that was read."""
    shards: tuple[ShardRecord, ...]
    """The shards, in order."""
    files: Files
    """The files of the ids of items."""
    about: dict[str, Any] = field(default_factory=dict)
    """What else is known: the columns, and how the rows came to be."""
    hash: str = HASH
    """The name of the hash of users by which they lie in shards."""

    @cached_property
    def users(self) -> int:
        """The number of users."""
        return sum(shard.users for shard in self.shards)

    @cached_property
    def rows(self) -> int:
        """The number of rows."""
        return sum(shard.rows for shard in self.shards)


def folder_of(path: Path, number: int) -> Path:
    """Return the folder of one shard."""
    return path / f"shard-{number:05d}"


def write_shard(folder: Path, number: int, of: int, arrays: Arrays) -> ShardRecord:
    """Write the arrays of one shard and its manifest."""
    place = folder_of(folder, number)
    place.mkdir()
    write_arrays(place, arrays)
    return seal_shard(folder, number, of)


def seal_shard(folder: Path, number: int, of: int) -> ShardRecord:
    """Write the manifest of one shard, whose arrays are there."""
    place = folder_of(folder, number)
    files = sums_of(place)
    users, rows, seen = (
        len(mapped(place, name)) if file_of(place, name).exists() else 0
        for name in ("rank", "items", "seen.items")
    )
    table = {
        "format": SHARD_FORMAT,
        "format_version": FORMAT_VERSION,
        "shard": number,
        "of": of,
        "users": users,
        "rows": rows,
        "seen": seen,
        "files": files,
    }
    part = ShardRecord(users, rows, seen, _write_sealed(place, table))
    folders.sync(place)
    return part


def is_shards(folder: Path) -> bool:
    """Return whether a folder says that it holds shards, whole or not."""
    try:
        return sealed.read_table(folder / MANIFEST).get("format") == FORMAT
    except (ArtifactError, ResourceError):
        return False


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write the manifest of all shards, whose folders are there."""
    table = {"format": FORMAT, "format_version": FORMAT_VERSION, **asdict(manifest)}
    _write_sealed(folder, table)


def read_manifest(folder: Path, *, verify: bool) -> tuple[Manifest, str]:
    """Read what a folder of shards says of itself, and its seal.

    Raise if a shard is not what it should be.
    """
    path = folder / MANIFEST
    if not (path.exists() or path.is_symlink()):
        raise ArtifactError(
            f"{folder} holds no {MANIFEST}, so it is no folder of shards. Write one with "
            "`sdgar data shard EVENTS --out FOLDER`.",
            code="not_shards",
        )
    table = _read(folder, FORMAT)
    seal = str(table.pop(sealed.SEAL))
    match table:
        case {"shards": [_, *_] as listed, "ids": {"users": _, "items": _}}:
            table["shards"] = tuple(read_record(path, ShardRecord, part) for part in listed)
        case _:
            raise DamagedError(path, "it does not say what the shards hold")
    try:
        table["account"] = read_record(path, RowAccount, table.get("account"))
    except AssertionError as error:
        raise DamagedError(path, f"its account is wrong: {error}") from error
    found = read_record(path, Manifest, table)
    if found.hash != HASH:
        raise DamagedError(path, f"its users lie in shards by {found.hash!r}, which is new")
    if found.account.kept != found.rows:
        raise DamagedError(
            path, f"it has {found.rows:,} rows, and its account keeps {found.account.kept:,}"
        )
    require_files(folder, found.files, verify=verify)
    for number, part in enumerate(found.shards):
        _require_part(folder_of(folder, number), part, verify=verify)
    return found, seal


def _require_part(folder: Path, part: ShardRecord, *, verify: bool) -> None:
    """Raise if a shard is missing, damaged or of another set."""
    table = _read(folder, SHARD_FORMAT)
    if table[sealed.SEAL] != part.seal:
        raise ArtifactError(
            f"{folder} belongs to another set of shards, or to another place in this set: its seal "
            f"is not the one that {folder.parent / MANIFEST} has for it. Put the right shard back, "
            "or write all of them again.",
            code="mixed_shards",
        )
    require_files(folder, table.get("files"), verify=verify)


def _read(folder: Path, name: str) -> dict[str, Any]:
    """Read a manifest; raise if it is of another format or version, or was changed."""
    path = folder / MANIFEST
    table = sealed.read_table(path)
    sealed_table = dict(table)
    kind, version = (table.pop(key, None) for key in ("format", "format_version"))
    if kind != name:
        raise ArtifactError(f"{path} describes {kind!r}, and not shards.", code="not_shards")
    if version != FORMAT_VERSION:
        newer = isinstance(version, int) and version > FORMAT_VERSION
        cure = "Upgrade sdgar." if newer else "Write the shards again with this version."
        raise ArtifactError(
            f"{folder} has format version {version!r}, this sdgar reads {FORMAT_VERSION}. {cure}",
            code="format_version",
        )
    sealed.check_seal(path, sealed_table)
    return table
