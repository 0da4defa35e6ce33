"""Folders that are whole or absent, and files that are verified before they are used.

A folder is written under a temporary name beside its place, every file and the folder itself
are flushed to disk, and one rename makes it visible. Its manifest holds the size and SHA-256 of
each file, and a seal: the SHA-256 of everything else in the manifest. Reading hashes the very
bytes that are parsed. That notices damage and accidents; it does not notice someone who changes a
file on purpose and computes the sums anew. Nothing here can run code: tensors are safetensors, the
rest is JSON. Saved models and checkpoints are both such folders.
"""

from __future__ import annotations

import ctypes
import glob
import hashlib
import io
import json
import math
import os
import re
import secrets
import shutil
import stat
import sys
import types
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from numpy.typing import NDArray

from sdgar.errors import ArtifactError, ResourceError, UsageError

MANIFEST = "manifest.json"
SEAL = "seal"
_MAX_JSON_BYTES = 64 << 20
_MAX_HEADER_BYTES = 1 << 20
_MAX_NAME_BYTES = 255 - len(".") - len(".tmp-4194304-01234567.old")
"""What a file system allows, less what a temporary name adds."""

Tensors = dict[str, NDArray[Any]]
Record = TypeVar("Record")


class DamagedError(ArtifactError):
    """A file that is not what its manifest says, or not what it should hold."""

    def __init__(self, path: Path, what: str) -> None:
        self.found = f"{path} is damaged: {what}"
        super().__init__(
            f"{self.found}. Restore the folder from a copy, or train again.", code="damaged"
        )


class NotAFileError(OSError):
    """A pipe, a device or a folder where a regular file should be."""


def place_of(path: str | Path) -> Path:
    """Where a folder of this name lies or would lie; links are followed.

    Refuses, before any work is spent on it, what no folder can be called and a place where none
    can be made. The folder is replaced as a whole, so it cannot be the one the process works in.
    """
    try:
        place = Path(path).resolve()
        links = [one for one in (place, *place.parents) if one.is_symlink()]
        above = next(one for one in place.parents if one.exists())
        long = len(os.fsencode(place.name)) > _MAX_NAME_BYTES
    except (OSError, StopIteration, TypeError, ValueError) as error:
        raise _bad_place(path, str(error) or "it names no folder") from error
    except RuntimeError as error:  # what some versions of Python make of such a link
        raise _bad_place(path, "a link leads back to itself") from error
    if links:
        raise _bad_place(path, "a link leads back to itself")
    if long:
        raise _bad_place(path, f"its name has more than {_MAX_NAME_BYTES} bytes")
    if _works_in(place):
        raise _bad_place(path, f"it is the folder {place}, which this process works in")
    if not above.is_dir():
        raise _bad_place(path, f"{above} is not a folder")
    if not os.access(above, os.W_OK | os.X_OK):
        raise ResourceError(
            f"cannot write to {above}, where {place} would lie. Change its permissions, or choose "
            "another place.",
            code="unwritable",
        )
    return place


def _bad_place(path: object, why: str) -> UsageError:
    return UsageError(
        f"{str(path)!r} cannot be a folder for results: {why}. Choose another place.",
        code="bad_out",
    )


def _works_in(place: Path) -> bool:
    try:
        return Path.cwd().is_relative_to(place)
    except FileNotFoundError:  # the process works in a folder that is gone
        return False


def in_the_way(place: Path, names: list[str], what: str) -> UsageError:
    """Build the error for a folder that would be replaced, but holds files that are not ours."""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return UsageError(
        f"{place} holds {', '.join(map(repr, names[:3]))}{more}, which {what}, so nothing there is "
        "replaced. Move that away, or choose another place.",
        code="out_foreign",
    )


@contextmanager
def whole(target: Path, *, replace: bool) -> Iterator[Path]:
    """Give a temporary folder to fill, and make it ``target`` in one step if nothing fails.

    A folder that is there already is exchanged for the new one, or without ``replace`` is an
    ``OSError``, as is whatever the disk refuses; then nothing has changed.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = _temporary_for(target)
    temporary.mkdir(mode=0o755)
    try:
        yield temporary
        sync(temporary)
        if replace:
            _exchange_for(target, temporary)
        else:
            temporary.rename(target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    sync(target.parent)


def remove(target: Path) -> None:
    """Make a folder disappear in one step, and then take the time to delete what was in it."""
    doomed = _temporary_for(target)
    target.rename(doomed)
    shutil.rmtree(doomed, ignore_errors=True)


def write(path: Path, data: bytes) -> None:
    """Write a new file and wait until the disk has it."""
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def sync(folder: Path) -> None:
    """Wait until the disk has the names in a folder."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def seals(contents: Mapping[str, bytes]) -> dict[str, dict[str, Any]]:
    """What a manifest says of each file: its size and its SHA-256."""
    return {
        name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for name, data in contents.items()
    }


def sealed(table: Mapping[str, Any]) -> dict[str, Any]:
    """A table with its seal, which does not depend on how the table is laid out as text."""
    return {**table, SEAL: _seal_of(table)}


def require_sealed(path: Path, table: dict[str, Any], unsealed: Collection[str]) -> None:
    """Refuse a table in which something was changed after it was sealed.

    A table from before there were seals has none, and then only the keys ``unsealed``: a seal
    whose own name is damaged does not pass for no seal.
    """
    rest = {name: value for name, value in table.items() if name != SEAL}
    if SEAL in table:
        if table[SEAL] != _seal_of(rest):
            raise DamagedError(path, "it does not fit its seal, so something in it was changed")
    elif unknown := sorted(set(table) - set(unsealed)):
        raise DamagedError(path, f"it has an entry {unknown[0]!r} and no seal")


def _seal_of(table: Mapping[str, Any]) -> str:
    plain = json.loads(json.dumps(table))  # as it is read back: all keys are text
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def read_table(path: Path, *, finite: bool = True) -> dict[str, Any]:
    """Parse a file of one JSON object, of a bounded size, in which no key occurs twice.

    With ``finite``, a number that is not finite is refused as well.
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
    """A dataclass from a JSON object, if the fields are those of the class and of their types."""
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
    """Whether a value out of JSON is of the type of a field."""
    kind, inner = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if kind in (Union, types.UnionType):
        return any(_fits(value, one) for one in inner)
    if kind is Literal:
        return value in inner
    if kind in (list, tuple):  # JSON knows no tuples
        return isinstance(value, list | tuple) and all(_fits(one, inner[0]) for one in value)
    if kind is dict:
        return isinstance(value, dict) and all(_fits(one, inner[1]) for one in value.values())
    if hint is float and isinstance(value, int):
        return not isinstance(value, bool) and value.bit_length() <= 1023  # or it is no float
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, hint)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def read_sealed(path: Path, files: Mapping[str, Any]) -> bytes:
    """The bytes of a file, if they are those its manifest speaks of."""
    match files.get(path.name):
        case {"bytes": int(size), "sha256": str(sha256)}:
            pass
        case _:
            raise DamagedError(path, "the manifest does not name its size and SHA-256")
    data = _read_bytes(path, size)
    if len(data) != size:
        raise DamagedError(path, f"it has {len(data):,} bytes, the manifest says {size:,}")
    digest = hashlib.sha256(data).hexdigest()
    if digest != sha256:
        raise DamagedError(path, f"its SHA-256 is {digest}, the manifest says {_short(sha256)}")
    return data


def read_tensors(path: Path, files: Mapping[str, Any]) -> Tensors:
    """The tensors of a verified safetensors file."""
    import safetensors.numpy

    data = read_sealed(path, files)
    if int.from_bytes(data[:8], "little") > _MAX_HEADER_BYTES:
        raise DamagedError(path, "its header is larger than 1 MiB")
    try:
        return safetensors.numpy.load(data)
    except (safetensors.SafetensorError, KeyError, ValueError, TypeError) as error:
        raise DamagedError(path, f"it is not a safetensors file ({error})") from error


def tensor_bytes(tensors: Tensors) -> bytes:
    """The contents of a safetensors file with these tensors.

    safetensors is imported here, so that training from arrays works without it.
    """
    import safetensors.numpy

    return safetensors.numpy.save(tensors)


def open_file(path: Path) -> io.BufferedReader:
    """Open a regular file to read; what could keep us waiting forever is a ``NotAFileError``."""
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
    try:
        with open_file(path) as file:
            size = os.fstat(file.fileno()).st_size
            if size > most:
                raise DamagedError(path, f"it has {size:,} bytes, at most {most:,} are expected")
            return file.read(size + 1)
    except NotAFileError as error:
        raise DamagedError(path, str(error)) from error
    except (FileNotFoundError, NotADirectoryError) as error:
        raise DamagedError(path, "the file is missing") from error
    except OSError as error:
        raise ResourceError(f"cannot read {path}: {error.strerror}.", code="unreadable") from error
    except MemoryError as error:
        raise ResourceError(
            f"cannot read {path}: its {size:,} bytes do not fit in memory.", code="out_of_memory"
        ) from error


def _exchange_for(target: Path, temporary: Path) -> None:
    """Rename; over an existing folder, exchange the two names in one step where Linux can."""
    if not target.exists() or not any(target.iterdir()):
        temporary.replace(target)  # over an empty folder this is one step as well
        return
    if sys.platform == "linux" and _exchange(temporary, target):
        return  # the temporary name now holds the old folder, and is removed by the caller
    old = target.with_name(temporary.name + ".old")
    target.rename(old)
    try:
        temporary.rename(target)
    except OSError:
        old.rename(target)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _exchange(a: Path, b: Path) -> bool:
    """renameat2(RENAME_EXCHANGE); False where the file system or the C library lacks it."""
    at_cwd, rename_exchange = -100, 2
    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if renameat2 is None:
        return False
    return bool(renameat2(at_cwd, os.fsencode(a), at_cwd, os.fsencode(b), rename_exchange) == 0)


def _temporary_for(target: Path) -> Path:
    """A free name beside the target, after temporary folders of killed processes are removed."""
    prefix = f".{target.name}.tmp-"
    for orphan in target.parent.glob(f"{glob.escape(prefix)}*"):
        writer = re.fullmatch(r"([0-9]{1,9})-[0-9a-f]+(\.old)?", orphan.name.removeprefix(prefix))
        only_copy = bool(writer and writer[2] and not target.exists())
        if writer and not _alive(int(writer[1])) and not only_copy:
            shutil.rmtree(orphan, ignore_errors=True)
    return target.with_name(f"{prefix}{os.getpid()}-{secrets.token_hex(4)}")


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
