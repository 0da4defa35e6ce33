"""The files of a folder of shards: arrays in NumPy's format, with sealed tables of their sums."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from sdgar.storage import folders, remote
from sdgar.storage.folders import MANIFEST, DamagedError, NotAFileError
from sdgar.storage.whole_files import digest

Arrays = Mapping[str, NDArray[Any]]
Files = dict[str, dict[str, Any]]
"""The size and the SHA-256 of each file by its name."""


def write_arrays(folder: Path, arrays: Arrays) -> Files:
    """Write arrays as ``NAME.npy``, wait until the disk has them, and return their sums."""
    write_plain(folder, arrays)
    return sums_of(folder)


def write_plain(folder: Path, arrays: Arrays) -> None:
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


def write_manifest(folder: Path, table: Mapping[str, Any]) -> str:
    """Write a sealed manifest, and return its seal."""
    sealed = folders.sealed(table)
    text = json.dumps(sealed, indent=1, allow_nan=False, ensure_ascii=False)
    folders.write(folder / MANIFEST, text.encode())
    return str(sealed[folders.SEAL])


def require_files(folder: Path, files: Any, *, verify: bool) -> None:
    """Raise if a file is missing or has another size than its manifest says.

    With ``verify``, the SHA-256 of every file is compared too.
    """
    if not isinstance(files, dict):
        raise DamagedError(folder / MANIFEST, "it has no table 'files'")
    for name, entry in files.items():
        path = folder / name
        match entry:
            case {"bytes": int(size), "sha256": str(sha256)} if Path(name).name == name:
                pass
            case _:
                raise DamagedError(folder / MANIFEST, f"it says nothing right of {name!r}")
        try:
            with folders.open_file(path) as file:
                found = os.fstat(file.fileno()).st_size
        except FileNotFoundError as error:
            if remote.origin_of(path) is None:
                raise DamagedError(path, "the file is missing") from error
            found = size  # as the folder at the address has it
            if verify:
                remote.ensure(path)
        except NotAFileError as error:
            raise DamagedError(path, str(error)) from error
        if found != size:
            raise DamagedError(path, f"it has {found:,} bytes, the manifest says {size:,}")
        if verify and (sha := digest(path, "sha256")) != sha256:
            raise DamagedError(path, f"its SHA-256 is {sha}, the manifest says {sha256}")


def mapped(folder: Path, name: str, dtype: str | None, length: int | None) -> NDArray[Any]:
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
    """Tell whether a folder has an array, here or at the address that it stands for."""
    path = file_of(folder, name)
    if path.exists() or remote.origin_of(path) is None:
        return path.exists()
    return path.name in folders.read_table(folder / MANIFEST)["files"]


def file_of(folder: Path, name: str) -> Path:
    """Return the file of an array."""
    return folder / f"{name}.npy"
