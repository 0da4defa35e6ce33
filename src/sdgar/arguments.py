"""Check the arguments of calls before anything is done with them."""

from __future__ import annotations

import os
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from sdgar.errors import UsageError, unknown_name

MOST = 2**31 - 1
"""The largest size or count of anything here, as kernels count in 32 bits."""
GREATEST = 1e30
"""The bound of numbers such as rates and penalties, whose products must stay within float32."""


def at_least(name: str, value: Any, least: int) -> int:
    """Return ``value`` if it is an integer of at least ``least``, and of 32 bits."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise UsageError(
            f"{name} must be an integer of at least {least}, got {value!r}.", code="bad_setting"
        )
    if int(value) > MOST:
        raise UsageError(f"{name} must be at most {MOST:,}, got {value!r}.", code="bad_setting")
    return int(value)


def length(name: str, value: Any) -> int:
    """Return ``value`` if it can be the length of a list; it may exceed the number of items."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise UsageError(f"{name} must be an integer of at least 1, got {value!r}.", code="bad_k")
    return int(value)


def not_negative(name: str, value: Any) -> float:
    """Return ``value`` if it is a number of at least 0 that float32 sums can hold."""
    return _below(name, value, GREATEST)


def below_one(name: str, value: Any) -> float:
    """Return ``value`` if it is a number of at least 0 and below 1."""
    return _below(name, value, 1)


def _below(name: str, value: Any, bound: float) -> float:
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= float(value) < bound:
        raise UsageError(
            f"{name} must be a number of at least 0 and below {bound:g}, got {value!r}.",
            code="bad_setting",
        )
    return float(value)


def within(name: str, value: float, least: float, most: float) -> float:
    """Return ``value`` if it lies in the range that was tried."""
    if not least <= value <= most:
        raise UsageError(
            f"{name} must lie between {least:g} and {most:g}, got {value}.", code=f"bad_{name}"
        )
    return value


def one_of(name: str, value: str, choices: tuple[str, ...]) -> Any:
    """Return ``value`` if it is one of the choices."""
    if value not in choices:
        raise unknown_name(name, value, choices)
    return value


def a_path(name: str, value: Any) -> Path:
    """Return ``value`` as a path if it names one."""
    if not isinstance(value, str | os.PathLike) or not os.fspath(value):
        raise UsageError(f"{name} must be a path, as text or Path, got {value!r}.", code="bad_path")
    return Path(value)


def of_kind(name: str, value: Any, kind: type, cure: str) -> None:
    """Raise if ``value`` is not of this class."""
    if not isinstance(value, kind):
        raise UsageError(
            f"{name} must be {kind.__name__}, got {_described(value)}. {cure}", code="bad_type"
        )


def _described(value: Any) -> str:
    kind = type(value)
    shown = repr(value) if value is None or kind in (bool, int, float, str) else ""
    return (
        f"{shown[:60]} of type {kind.__name__}" if shown else f"an object of type {kind.__name__}"
    )
