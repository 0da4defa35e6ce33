"""Write a safetensors file tensor by tensor, and map one: tensors need not fit in memory.

The library for these files makes all of their bytes in memory before it writes the first, and
reads all of them. The bytes are the same: a header of JSON, then the tensors, those with the
longest numbers first.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sdgar.storage.folders import sync
from sdgar.storage.sealed import DamagedError, Tensors, check_file

_NAMES = {
    "uint64": "U64", "int64": "I64", "float64": "F64", "float32": "F32", "uint32": "U32",
    "int32": "I32", "float16": "F16", "uint16": "U16", "int16": "I16", "int8": "I8", "uint8": "U8",
    "bool": "BOOL",
}  # fmt: skip
"""The names of types in a header, in the order in which tensors lie in the file."""
_AT_ONCE = 1 << 24
"""The most bytes that are copied at once."""


def write_tensors(path: Path, tensors: Tensors) -> dict[str, Any]:
    """Write a new file of tensors and wait until the disk has it; return its size and SHA-256."""
    digest, size = hashlib.sha256(), 0
    with path.open("xb") as file:
        for piece in _pieces(tensors):
            digest.update(piece)
            size += file.write(piece)
        file.flush()
        os.fsync(file.fileno())
    return {"bytes": size, "sha256": digest.hexdigest()}


def map_sealed(path: Path, files: Mapping[str, Any]) -> Tensors:
    """Return the tensors of a file without holding it in memory; what changes them stays here.

    All bytes are looked at once: a file that is not that of its manifest is an error. The file must
    stay as it is while the tensors are used, as the files of a folder that is whole or absent do.
    """
    check_file(path, files)
    try:
        return map_tensors(path, to_change=True)
    except ValueError as error:
        raise DamagedError(path, f"it is not a safetensors file ({error})") from error


def map_tensors(path: Path, *, to_change: bool = False) -> Tensors:
    """Return the tensors of a file, mapped into memory and not to be written to.

    With ``to_change`` they can be written to, which does not change the file. It raises
    ``ValueError`` if the file is cut or is no file of tensors. The numbers in it are not verified.
    """
    whole = np.memmap(path, np.uint8, "c" if to_change else "r")
    length = int.from_bytes(whole[:8].tobytes(), "little")
    if length > len(whole) - 8:
        raise ValueError(
            f"its header should have {length:,} bytes, and the file has {len(whole):,}"
        )
    types = {name: np.dtype(dtype) for dtype, name in _NAMES.items()}
    data, tensors = whole[8 + length :], {}
    try:
        for name, about in json.loads(whole[8 : 8 + length].tobytes()).items():
            start, stop = about["data_offsets"]
            if not 0 <= start <= stop <= len(data):
                raise ValueError(f"{name} should end at byte {stop:,} of {len(data):,}")
            tensors[name] = data[start:stop].view(types[about["dtype"]]).reshape(about["shape"])
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"its header is not that of tensors ({error!r})") from error
    return tensors


def size_of(tensors: Tensors) -> int:
    """Return the bytes of the file of these tensors."""
    return len(_header(tensors)) + sum(tensor.nbytes for tensor in tensors.values())


def _in_order(tensors: Tensors) -> Tensors:
    order = list(_NAMES)
    names = sorted(tensors, key=lambda name: (order.index(tensors[name].dtype.name), name))
    return {name: tensors[name] for name in names}


def _header(tensors: Tensors) -> bytes:
    table, start = {}, 0
    for name, tensor in _in_order(tensors).items():
        stop = start + tensor.nbytes
        table[name] = {
            "dtype": _NAMES[tensor.dtype.name],
            "shape": list(tensor.shape),
            "data_offsets": [start, stop],
        }
        start = stop
    text = json.dumps(table, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def _pieces(tensors: Tensors) -> Any:
    yield _header(tensors)
    for tensor in _in_order(tensors).values():
        flat = np.ascontiguousarray(tensor).reshape(-1)
        step = max(1, _AT_ONCE // max(1, flat.itemsize))
        for start in range(0, len(flat), step):
            yield flat[start : start + step].tobytes()


def reserve(path: Path) -> None:
    """Reserve disk space for all of a file; raise ``OSError`` if there is too little.

    A page of a mapped file for which the disk has no space would end the process.
    """
    if hasattr(os, "posix_fallocate") and (size := path.stat().st_size):
        with path.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, size)


class MappedArrays:
    """New arrays in the files ``NAME.npy`` of a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def array(self, name: str, shape: int | tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """Return a new array to be filled; raise ``OSError`` if the disk has no space for it."""
        path = self._folder / f"{name}.npy"
        sizes = (shape,) if isinstance(shape, int) else shape
        mapped = np.lib.format.open_memmap(path, "w+", dtype, sizes)
        reserve(path)
        return np.asarray(mapped)

    def keep(self, names: Collection[str]) -> None:
        """Wait until the disk has these arrays, and remove the files of all others.

        An array whose file is removed can be used as long as it is referred to.
        """
        for path in sorted(self._folder.glob("*.npy")):
            if path.name.removesuffix(".npy") not in names:
                path.unlink()
                continue
            sync(path)
