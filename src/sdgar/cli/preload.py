"""Load the largest library of torch beside the first imports of a command.

``import torch`` waits for the system to load that library, half a second in which Python could
import and read other things. A thread does it meanwhile, and ``import torch`` finds it loaded.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from threading import Thread

_LIBRARY = {"linux": "libtorch_cpu.so", "darwin": "libtorch_cpu.dylib"}
"""The library by system; others look for libraries in ways that are torch's own business."""


def load_torch_ahead() -> None:
    """Begin to load the library, if it is where torch has it and not loaded yet."""
    found = None if "torch" in sys.modules else find_spec("torch")
    if found is None or found.origin is None or sys.platform not in _LIBRARY:
        return
    path = Path(found.origin).parent / "lib" / _LIBRARY[sys.platform]
    if path.exists():
        Thread(target=_load, args=(path,), daemon=True).start()


def _load(path: Path) -> None:
    """Load a library; if that fails, ``import torch`` does it in its own way and says why."""
    import ctypes

    with suppress(OSError):
        ctypes.CDLL(str(path))
