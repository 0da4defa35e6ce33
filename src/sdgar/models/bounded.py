"""A bound on what a network may make while it is made from settings that a file gives."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.modules.module import register_module_parameter_registration_hook
from torch.overrides import TorchFunctionMode

_MAKERS = (torch.empty, torch.zeros, torch.ones, torch.full, torch.rand, torch.randn)
"""The functions that make tensors of a size that settings may have chosen."""
_SPARE_PARAMETERS, _SPARE_NUMBERS = 100, 64 << 20
"""How much a network may make beside four times what is saved."""


class _TooLargeError(Exception):
    """The settings ask for a network that cannot be the saved one."""


class _Bounded(TorchFunctionMode):
    """Add up the numbers that are asked for, before there is memory for them."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most, self._asked = most, 0

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func in _MAKERS:
            size = (kwargs or {}).get("size", args[:1] if func is torch.full else args)
            sides = np.array(size, object).ravel().tolist()  # given one by one, or as a list
            self._asked += math.prod(n for n in sides if isinstance(n, int))
            if self._asked > self._most:
                raise _TooLargeError(
                    f"its settings ask for more than {self._most:,} numbers, which are not saved"
                )
        return func(*args, **(kwargs or {}))


@contextmanager
def no_larger_than(tensors: Mapping[str, Tensor]) -> Iterator[None]:
    """Refuse settings that ask for far more than is saved, while a network is made of them."""
    most, found = 4 * len(tensors) + _SPARE_PARAMETERS, 0

    def count(*_: object) -> None:
        nonlocal found
        found += 1
        if found > most:
            raise _TooLargeError(f"its settings ask for more than {most} parameters")

    hook = register_module_parameter_registration_hook(count)
    try:
        with _Bounded(4 * sum(tensor.numel() for tensor in tensors.values()) + _SPARE_NUMBERS):
            yield
    finally:
        hook.remove()
