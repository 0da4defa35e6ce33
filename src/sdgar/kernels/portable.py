"""Compiled code that goes from one machine to another, if their processors are of one kind.

What Numba keeps of a kernel is of use to one processor alone: instructions, beside the code of LLVM
that they were made from. Here that code is packed without its instructions. Where it is unpacked,
LLVM makes instructions of it, which takes a seventh of the time in which Numba compiles the kernel.
A thread can do so while the process is busy with something else: ``begin``.

    portable_code/x86_64-SOURCES.zip    the kernels of exactly these sources, by ``name_of`` each:
        NAME/code                       the code of LLVM
        NAME/rest                       what else Numba needs to know of the kernel

The file lies in the package, and is trusted as the package is: who can write there can change what
any module does. It is made for processors that have ``FEATURES``; others compile as if it were not
there.
"""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import platform
import zipfile
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path
from typing import Any

from llvmlite import binding
from numba.core.registry import cpu_target

from sdgar.kernels.folder import portable_file

FEATURES = {"x86_64": ("avx2", "fma", "bmi", "bmi2", "f16c", "lzcnt"), "aarch64": ("neon",)}
"""What code is made for, by the kind of processor: what all of the last ten years have."""
_CPU = {"x86_64": "x86-64-v3", "aarch64": "generic"}
_BEGUN: dict[str, Future[bytes]] = {}
"""The instructions that a thread makes, by the names of kernels."""
if hasattr(os, "register_at_fork"):  # a process that is forked does not have the thread
    os.register_at_fork(after_in_child=_BEGUN.clear)


def settings() -> dict[str, str]:
    """Return the environment in which Numba compiles for every processor of this kind."""
    kind = platform.machine()
    return {
        "NUMBA_CPU_NAME": _CPU[kind],
        "NUMBA_CPU_FEATURES": ",".join(f"+{one}" for one in FEATURES[kind]),
    }


def name_of(kernel: str, key: Any) -> str:
    """Return the name of a kernel's code for some types: all of Numba's key but the processor."""
    signature, _, code = key
    return hashlib.sha256(f"{kernel} {signature} {code}".encode()).hexdigest()


def pack(kept: Iterable[tuple[str, Any, Any]], path: Path, systems: Iterable[str]) -> int:
    """Write the code of kernels, each with its name and key; return how many they are.

    ``systems`` are those that need no other kernels; the file says so.
    """
    count = 0
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_LZMA) as file:
        for kernel, key, ((library, _, (_, code)), *rest) in kept:
            name = name_of(kernel, key)
            file.writestr(f"{name}/code", code)
            file.writestr(f"{name}/rest", pickle.dumps((library, rest)))
            count += 1
        file.comment = " ".join(systems).encode()
    path.write_bytes(whole.getvalue())
    return count


def begin() -> Callable[[], None]:
    """Let a thread make instructions of all kernels; return what ends it after the next one.

    LLVM needs no lock of Python while it works, so the process can go on with something else.
    """
    packed, codegen = _opened(), cpu_target.target_context.codegen()
    thread = ThreadPoolExecutor(1)
    for part in () if packed is None else packed.namelist():
        name, _, kind = part.partition("/")
        if kind == "code":
            _BEGUN[name] = thread.submit(_instructions, name, codegen)
    return partial(thread.shutdown, wait=False, cancel_futures=True)


def unpack(kernel: str, key: Any, codegen: Any) -> Any:
    """Return what Numba would have kept of a kernel on this machine; None if it is not there."""
    packed, name = _opened(), name_of(kernel, key)
    if packed is None or f"{name}/rest" not in packed.namelist():
        return None
    library, rest = pickle.loads(packed.read(f"{name}/rest"))  # noqa: S301 (as trusted as this module)
    begun = _BEGUN.pop(name, None)
    if begun is None or begun.cancel():
        instructions = _instructions(name, codegen)
    else:
        instructions = begun.result()
    return (library, "object", (instructions, packed.read(f"{name}/code"))), *rest


def _instructions(name: str, codegen: Any) -> bytes:
    """Return the instructions of this processor for what a kernel does."""
    packed = _opened()
    assert packed is not None
    made: bytes = codegen._tm.emit_object(binding.parse_bitcode(packed.read(f"{name}/code")))
    return made


@cache
def _opened() -> zipfile.ZipFile | None:
    """Open the file of code, if it is there and this processor has all that it was made for."""
    has = binding.get_host_cpu_features()
    if not all(has.get(one, False) for one in FEATURES.get(platform.machine(), ("?",))):
        return None
    try:
        return zipfile.ZipFile(io.BytesIO(portable_file().read_bytes()))
    except FileNotFoundError:
        return None
