"""Files that are verified before they are used.

The manifest of a folder holds the size and SHA-256 of each file, and a seal: the SHA-256 of
everything else in the manifest. Reading hashes the very bytes that are parsed. That notices damage
and accidents; it does not notice a file that was changed on purpose, with new sums.
Nothing here can run code: tensors are safetensors, the rest is JSON.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import stat
import types
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from sdgar.errors import ArtifactError, ResourceError

if TYPE_CHECKING:  # commands look for folders before they need anything heavy
    from numpy.typing import NDArray

MANIFEST = "manifest.json"
"""The name of the file that describes the others of a folder."""
SEAL = "seal"
"""The name of the entry of a manifest that holds its seal."""
_MAX_JSON_BYTES = 64 << 20
_MAX_HEADER_BYTES = 1 << 20
_AT_ONCE = 1 << 24

Tensors: TypeAlias = "dict[str, NDArray[Any]]"
"""Tensors by name."""
Record = TypeVar("Record")


class DamagedError(ArtifactError):
    """The error for a file that is not what its manifest says, or does not hold what it should."""

    def __init__(self, path: Path, what: str) -> None:
        self.found = f"{path} is damaged: {what}"
        super().__init__(
            f"{self.found}. Restore the folder from a copy, or make it again.", code="damaged"
        )


class NotAFileError(OSError):
    """The error for a pipe, a device or a folder where a regular file should be."""


def seals(contents: Mapping[str, bytes]) -> dict[str, dict[str, Any]]:
    """Return what a manifest says of each file: its size and its SHA-256."""
    return {
        name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for name, data in contents.items()
    }


def with_seal(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table with its seal, which does not depend on how the table is laid out as text."""
    return {**table, SEAL: _seal_of(table)}


def check_seal(path: Path, table: dict[str, Any]) -> None:
    """Raise if something in a table was changed after it was sealed."""
    rest = {name: value for name, value in table.items() if name != SEAL}
    if SEAL not in table:
        raise DamagedError(path, "it has no seal")
    if table[SEAL] != _seal_of(rest):
        raise DamagedError(path, "it does not fit its seal, so something in it was changed")


def _seal_of(table: Mapping[str, Any]) -> str:
    plain = json.loads(json.dumps(table))  # as it is read back: all keys are text
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def read_table(path: Path, *, finite: bool = True) -> dict[str, Any]:
    """Parse a file of one JSON object, of a bounded size, in which no key occurs twice.

    With ``finite``, a number that is not finite is an error too.
    """
    data = _read_bytes(path, _MAX_JSON_BYTES)
    number = _finite if finite else float
    try:
        table = json.loads(
            data, object_pairs_hook=_distinct, parse_float=number, parse_constant=number
        )
        json.dumps(table)  # what is nested too deeply to be written was not written by us
    except (ValueError, RecursionError) as error:
        raise DamagedError(path, f"it is not JSON ({error})") from error
    if not isinstance(table, dict):
        raise DamagedError(path, "it is not a JSON object")
    return table


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(n for n in names if names.count(n) > 1)!r} occurs twice")
    return table


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is not a finite number")
    return number


def read_record(path: Path, kind: type[Record], table: object) -> Record:
    """Return a dataclass from a JSON object; raise if a name or a type is not that of a field."""
    if not isinstance(table, dict):
        raise DamagedError(path, f"{_short(table)} is not a table of {kind.__name__}")
    hints = get_type_hints(kind)
    for name, value in table.items():
        if name not in hints or not _fits(value, hints[name]):
            raise DamagedError(path, f"{name!r} cannot be {_short(value)} in {kind.__name__}")
    try:
        return kind(**table)
    except TypeError as error:
        raise DamagedError(path, f"it does not describe {kind.__name__} ({error})") from error


def _fits(value: object, hint: Any) -> bool:
    """Return whether a value out of JSON is of the type of a field."""
    kind, inner = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if kind in (Union, types.UnionType):
        return any(_fits(value, one) for one in inner)
    if kind is Literal:
        return value in inner
    if kind in (list, tuple):  # JSON has no tuples
        return isinstance(value, list | tuple) and all(_fits(one, inner[0]) for one in value)
    if kind in (dict, Mapping):
        return isinstance(value, dict) and all(_fits(one, inner[1]) for one in value.values())
    if hint is float and isinstance(value, int):
        return not isinstance(value, bool) and value.bit_length() <= 1023  # or it is no float
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, hint)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def read_file(path: Path, files: Mapping[str, Any]) -> bytes:
    """Return the bytes of a file; raise if they differ from its manifest."""
    size, sha256 = _seal_in(path, files)
    data = _read_bytes(path, size)
    _require_sums(path, (len(data), hashlib.sha256(data).hexdigest()), (size, sha256))
    return data


def check_file(path: Path, files: Mapping[str, Any], *, contents: bool = True) -> None:
    """Raise if the bytes of a file, or only their number, differ from its manifest."""
    seal, digest, found = _seal_in(path, files), hashlib.sha256(), 0
    with _opened(path) as file:
        if not contents:
            size = os.fstat(file.fileno()).st_size
            _require_sums(path, (size, seal[1]), seal)
            return
        while piece := file.read(_AT_ONCE):
            digest.update(piece)
            found += len(piece)
    _require_sums(path, (found, digest.hexdigest()), seal)


def _seal_in(path: Path, files: Mapping[str, Any]) -> tuple[int, str]:
    match files.get(path.name):
        case {"bytes": int(size), "sha256": str(sha256)}:
            return size, sha256
    raise DamagedError(path, "the manifest does not name its size and SHA-256")


def _require_sums(path: Path, found: tuple[int, str], seal: tuple[int, str]) -> None:
    (size, digest), (said, sha256) = found, seal
    if size != said:
        raise DamagedError(path, f"it has {size:,} bytes, the manifest says {said:,}")
    if digest != sha256:
        raise DamagedError(path, f"its SHA-256 is {digest}, the manifest says {_short(sha256)}")


def read_tensors(path: Path, files: Mapping[str, Any]) -> Tensors:
    """Return the tensors of a safetensors file; raise if it is not that of its manifest."""
    import safetensors.numpy

    data = read_file(path, files)
    if int.from_bytes(data[:8], "little") > _MAX_HEADER_BYTES:
        raise DamagedError(path, "its header is larger than 1 MiB")
    try:
        return safetensors.numpy.load(data)
    except (safetensors.SafetensorError, KeyError, ValueError, TypeError) as error:
        raise DamagedError(path, f"it is not a safetensors file ({error})") from error


def open_file(path: Path) -> io.BufferedReader:
    """Open a regular file to read; raise ``NotAFileError`` for what could make us wait forever."""
    kinds = {
        stat.S_IFDIR: "a folder",
        stat.S_IFIFO: "a pipe",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
    }
    kind = stat.S_IFMT(path.stat().st_mode)  # first, as opening a device may do something
    if kind == stat.S_IFREG:
        # Without waiting, in case it has become a pipe since.
        file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb")
        kind = stat.S_IFMT(os.fstat(file.fileno()).st_mode)
        if kind == stat.S_IFREG:
            return file
        file.close()
    raise NotAFileError(f"it is {kinds.get(kind, 'something else')}, not a file")


def _read_bytes(path: Path, most: int) -> bytes:
    with _opened(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise DamagedError(path, f"it has {size:,} bytes, at most {most:,} are expected")
        return file.read(size + 1)


@contextmanager
def _opened(path: Path) -> Iterator[io.BufferedReader]:
    """Open a file to read; raise errors that name it."""
    try:
        with open_file(path) as file:
            yield file
    except NotAFileError as error:
        raise DamagedError(path, str(error)) from error
    except (FileNotFoundError, NotADirectoryError) as error:
        raise DamagedError(path, "the file is missing") from error
    except OSError as error:
        raise ResourceError(f"cannot read {path}: {error.strerror}.", code="unreadable") from error
    except MemoryError as error:
        raise ResourceError(f"{path} does not fit in RAM.", code="out_of_memory") from error
