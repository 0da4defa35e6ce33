"""Folders that are whole or absent, and files that are verified before they are used.

A folder is written under a temporary name beside its place, every file and the folder itself
are flushed to disk, and one rename makes it visible. Its manifest holds the size and SHA-256 of
each file; reading hashes the very bytes that are parsed. Nothing here can run code: tensors are
safetensors, the rest is JSON. Saved models and checkpoints are both such folders.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import secrets
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import safetensors
import safetensors.numpy
from numpy.typing import NDArray

from sdgar.errors import ArtifactError, ResourceError

MANIFEST = "manifest.json"
_MAX_JSON_BYTES = 64 << 20
_MAX_HEADER_BYTES = 1 << 20

Tensors = dict[str, NDArray[Any]]


class DamagedError(ArtifactError):
    """A file that is not what its manifest says, or not what it should hold."""

    def __init__(self, path: Path, what: str) -> None:
        self.found = f"{path} is damaged: {what}"
        super().__init__(
            f"{self.found}. Restore the folder from a copy, or train again.", code="damaged"
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


def read_json(path: Path) -> Any:
    """Parse a file of JSON, of a bounded size."""
    data = _read_bytes(path, _MAX_JSON_BYTES)
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise DamagedError(path, f"it is not JSON ({error})") from error


def read_sealed(path: Path, files: Mapping[str, Any]) -> bytes:
    """The bytes of a file, if they are those its manifest speaks of."""
    seal = files.get(path.name)
    if not isinstance(seal, dict):
        raise DamagedError(path, "the manifest does not name it")
    data = _read_bytes(path, seal.get("bytes"))
    if len(data) != seal.get("bytes"):
        raise DamagedError(
            path, f"it has {len(data):,} bytes, the manifest says {seal.get('bytes')}"
        )
    digest = hashlib.sha256(data).hexdigest()
    if digest != seal.get("sha256"):
        raise DamagedError(path, f"its SHA-256 is {digest}, the manifest says {seal.get('sha256')}")
    return data


def read_tensors(path: Path, files: Mapping[str, Any]) -> Tensors:
    """The tensors of a verified safetensors file."""
    data = read_sealed(path, files)
    if int.from_bytes(data[:8], "little") > _MAX_HEADER_BYTES:
        raise DamagedError(path, "its header is larger than 1 MiB")
    try:
        return safetensors.numpy.load(data)
    except (safetensors.SafetensorError, KeyError, ValueError, TypeError) as error:
        raise DamagedError(path, f"it is not a safetensors file ({error})") from error


def _read_bytes(path: Path, most: object) -> bytes:
    try:
        size = path.stat().st_size
        if isinstance(most, int) and size > most:
            raise DamagedError(path, f"it has {size:,} bytes, at most {most:,} are expected")
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise DamagedError(path, "the file is missing") from error
    except OSError as error:
        raise ResourceError(f"cannot read {path}: {error.strerror}.", code="unreadable") from error


def _exchange_for(target: Path, temporary: Path) -> None:
    """Rename; over an existing folder, exchange the two names in one step where Linux can."""
    if not target.exists() or not any(target.iterdir()):
        temporary.replace(target)  # over an empty folder this is one step as well
        return
    if sys.platform == "linux" and _exchange(temporary, target):
        return  # the temporary name now holds the old folder, and is removed by the caller
    old = target.with_name(temporary.name + ".old")
    target.rename(old)
    temporary.rename(target)
    shutil.rmtree(old)


def _exchange(a: Path, b: Path) -> bool:
    """renameat2(RENAME_EXCHANGE); False where the file system or the C library lacks it."""
    at_cwd, rename_exchange = -100, 2
    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if renameat2 is None:
        return False
    return bool(renameat2(at_cwd, os.fsencode(a), at_cwd, os.fsencode(b), rename_exchange) == 0)


def _temporary_for(target: Path) -> Path:
    """A free name beside the target, after temporary folders of killed processes are removed."""
    for orphan in target.parent.glob(f".{target.name}.tmp-*"):
        writer = orphan.name.removeprefix(f".{target.name}.tmp-").partition("-")[0]
        if writer.isdigit() and not _alive(int(writer)):
            shutil.rmtree(orphan, ignore_errors=True)
    return target.with_name(f".{target.name}.tmp-{os.getpid()}-{secrets.token_hex(4)}")


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
