"""Code is chosen by the class of a tuple, and kept for each class."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import NamedTuple

import numba
import pytest
from numba.core.errors import TypingError

from sdgar.kernels import cache, compiled


class Plus(NamedTuple):
    a: int


class Times(NamedTuple):
    a: int


class Other(NamedTuple):
    a: int


def apply(what, b):
    """Some b."""


@compiled.variant(apply, Plus)
def _plus(what, b):
    return what.a + b


@compiled.variant(apply, Times)
def _times(what, b):
    return what.a * b


@compiled.by_default
def size_of(what, b):
    """Some number."""
    return b


@compiled.variant(size_of, Times)
def _size_of_times(what, b):
    return what.a


@numba.njit
def kernel(what, b):
    return apply(what, b)


@numba.njit
def kernel_with_default(what, b):
    return size_of(what, b)


def test_the_class_of_the_first_argument_chooses():
    assert kernel(Plus(3), 5) == 8
    assert kernel(Times(3), 5) == 15


def test_the_default_is_for_classes_without_a_variant():
    found = [kernel_with_default(kind(3), 5) for kind in (Plus, Times, Other)]
    assert found == [5, 3, 5]


def test_a_class_without_a_variant_is_an_error_of_the_compiler():
    with pytest.raises(TypingError, match="No implementation of function"):
        kernel(Other(3), 5)


def test_what_is_noted_is_known_for_these_sources_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    cache.cache_folder.cache_clear()
    cache.note("kernel.A-B")
    assert not cache.is_noted("kernel.A-B")  # no code is kept, so there is nothing to note
    assert cache.safe_folder()
    cache.note("kernel.A-B")
    assert cache.is_noted("kernel.A-B")
    assert not cache.is_noted("kernel.A-C")
    cache.cache_folder.cache_clear()


MODULE = """
from typing import NamedTuple
from sdgar.kernels.compiled import outer, variant

class Plus(NamedTuple):
    a: int

class Times(NamedTuple):
    a: int

def apply(what, b): ...

@variant(apply, Plus)
def plus(what, b):
    return what.a + b

@variant(apply, Times)
def times(what, b):
    return what.a * b

@outer
def kernel(what, b):
    return apply(what, b)
"""


def test_variants_of_a_kernel_are_kept_side_by_side(tmp_path):
    """Hits and misses of three processes: what one has compiled no other compiles again."""
    (tmp_path / "kinds.py").write_text(MODULE)
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "PYTHONPATH": str(tmp_path)}
    environment.pop("NUMBA_CACHE_DIR", None)

    def found(*kinds: str) -> str:
        code = (
            f"from kinds import *; print(*(kernel(kind(3), 5) for kind in ({', '.join(kinds)},)), "
            "*(sum(count.values()) for count in kernel.stats[1:]))"
        )
        return subprocess.run(
            [sys.executable, "-c", code],
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()

    assert found("Plus") == "8 0 1"
    assert found("Times") == "15 0 1"
    assert found("Plus", "Times") == "8 15 2 0"
