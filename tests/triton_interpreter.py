"""Triton's interpreter, made quicker.

It exchanges the functions of ``triton.language`` for its own when a kernel is launched, and once
more for every function that the kernel calls, which takes most of its time. Here it is done once a
launch.
"""

from __future__ import annotations

import os
from functools import cache
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import torch

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
NO_GPU = "Triton needs a GPU, or TRITON_INTERPRET=1 set before Python starts, as make test does"


def require_triton() -> torch.device:
    """Return where kernels run: in the interpreter, or on a GPU; the module skips without both."""
    import torch

    pytest.importorskip("triton", reason="Triton is not installed on this machine")
    if not INTERPRETED and not torch.cuda.is_available():
        pytest.skip(NO_GPU, allow_module_level=True)
    return torch.device("cpu" if INTERPRETED else "cuda")


def exchange_once_a_launch() -> None:
    """Make launches from now on exchange the functions of a module once."""
    from triton import language
    from triton.runtime import interpreter

    launch, exchange = interpreter.GridExecutor.__call__, interpreter._patch_lang
    exchanged: set[ModuleType] = set()

    @cache
    def seen_by(function: FunctionType) -> frozenset[ModuleType]:
        """The modules whose functions are exchanged for a function of a kernel."""
        known = function.__globals__.values()
        return frozenset(one for one in known if one is language or one is language.core)

    def launch_again(self: Any, *args: Any, **named: Any) -> None:
        exchanged.clear()
        launch(self, *args, **named)

    def exchange_if_new(function: FunctionType) -> Any:
        if exchanged and seen_by(function) <= exchanged:
            return None  # it is within a launch, which does not look at what comes back
        exchanged.update(seen_by(function))
        return exchange(function)

    interpreter.GridExecutor.__call__ = launch_again
    interpreter._patch_lang = exchange_if_new
