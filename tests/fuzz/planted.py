"""Bugs that are there on purpose, one kind each, shown by a quarter of the cases."""

from __future__ import annotations

import os
import time
from pathlib import Path
from random import Random

from .target import Files, Target


def _make(random: Random) -> Files:
    return {"word": random.choice((b"good", b"good", b"good", b"bad"))}


def _is_bad(folder: Path) -> bool:
    return (folder / "word").read_bytes() == b"bad"


def _crash(folder: Path) -> None:
    if _is_bad(folder):
        os.abort()


def _hang(folder: Path) -> None:
    while _is_bad(folder):
        time.sleep(1)


def _flood(folder: Path) -> None:
    if _is_bad(folder):
        bytearray(b"x") * (1 << 40)


def _wrong_error(folder: Path) -> None:
    if _is_bad(folder):
        raise KeyError("bad")


TARGETS = {
    "a crash": Target(_make, _crash),
    "a hang": Target(_make, _hang),
    "a flood": Target(_make, _flood),
    "a wrong error": Target(_make, _wrong_error),
}
