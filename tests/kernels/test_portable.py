"""Compiled code of one machine is of use to another, and never in the way."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import threading
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sdgar.kernels import compiled, folder, portable


def _squares(x_E: Any) -> Any:
    """Σ x²."""
    total = 0.0
    for e in range(len(x_E)):
        total += x_E[e] * x_E[e]
    return total


X = np.arange(5.0)


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Go to another machine, on which nothing is kept, with the same package."""
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setattr(folder, "PORTABLE", tmp_path / "package")
    monkeypatch.setattr(compiled, "KEPT", [])

    def go(name: str) -> Any:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / name))
        folder.folder_of_sources.cache_clear()
        portable._opened.cache_clear()
        portable._BEGUN.clear()
        return compiled.outer(_squares)

    yield go
    folder.folder_of_sources.cache_clear()
    portable._opened.cache_clear()


def came_along(kernel: Any) -> bool:
    """Call a kernel; tell whether its code was there."""
    assert kernel(X) == 30
    return sum(kernel.kernel.stats.cache_hits.values()) == 1


def pack(path: Path | None = None) -> Path:
    path = path or folder.portable_file()
    kept = (one for kernel in compiled.KEPT for one in kernel.all_kept())
    assert portable.pack(kept, path, ["squares", "bpr"]) == 1
    return path


def test_code_of_one_machine_is_unpacked_on_another_and_kept_there(machine, tmp_path):
    assert not came_along(machine("first"))
    pack()
    assert came_along(machine("second"))
    assert list((tmp_path / "second").glob("**/*.nbc"))
    folder.portable_file().unlink()
    assert came_along(machine("second"))


def test_the_file_has_no_instructions_and_is_made_for_exactly_these_sources(machine, monkeypatch):
    assert not came_along(machine("first"))
    path = pack()
    assert folder.digest_of_sources() in path.name
    assert folder.portable_systems() == ["squares", "bpr"]
    kept = next(Path(compiled.KEPT[0].cache_path).glob("*.nbc")).read_bytes()
    with zipfile.ZipFile(path) as file:
        packed = [file.read(part) for part in file.namelist()]
    assert b"\x7fELF" in kept
    assert not any(b"\x7fELF" in part for part in packed)
    monkeypatch.setattr(folder, "digest_of_sources", lambda: "other sources")
    assert not came_along(machine("second"))


def test_code_for_other_processors_is_left_alone(machine, monkeypatch):
    assert not came_along(machine("first"))
    pack()
    monkeypatch.setitem(portable.FEATURES, platform.machine(), ("wings",))
    assert not came_along(machine("second"))


@pytest.mark.parametrize("damaged", ["code", "rest", "file"])
@pytest.mark.parametrize("begun", [False, True])
def test_damaged_code_is_told_of_and_compiled_anew(machine, damaged, begun):
    assert not came_along(machine("first"))
    path = pack()
    with zipfile.ZipFile(path) as file:
        parts = {part: file.read(part) for part in file.namelist()}
    with zipfile.ZipFile(path, "w") as file:
        for part, whole in parts.items():
            file.writestr(part, whole[: len(whole) // 2] if part.endswith(damaged) else whole)
    if damaged == "file":
        path.write_bytes(path.read_bytes()[:100])
        assert folder.portable_systems() == []
    kernel = machine("second")
    if begun and damaged != "file":  # of a file that cannot be read nothing is begun
        portable.begin()
    with pytest.warns(UserWarning, match=r"package.*zip cannot be read .* compiled anew"):
        assert not came_along(kernel)


def test_a_thread_makes_instructions_before_a_kernel_asks_for_them(machine, monkeypatch):
    assert not came_along(machine("first"))
    pack()
    kernel, makers = machine("second"), []
    make = portable._instructions

    def seen(*args: object) -> bytes:
        makers.append(threading.current_thread())
        return make(*args)

    monkeypatch.setattr(portable, "_instructions", seen)
    end = portable.begin()
    until = time.monotonic() + 60
    while not makers and time.monotonic() < until:
        time.sleep(0.01)
    assert came_along(kernel)
    assert len(makers) == 1
    assert makers[0] is not threading.main_thread()
    end()


def test_what_the_thread_has_not_begun_is_made_when_a_kernel_asks(machine, monkeypatch):
    assert not came_along(machine("first"))
    pack()
    kernel, hold = machine("second"), threading.Event()
    with monkeypatch.context() as patched:
        patched.setattr(portable, "ThreadPoolExecutor", lambda n: busy(hold))
        end = portable.begin()
    assert came_along(kernel)
    hold.set()
    end()


def busy(until: threading.Event) -> ThreadPoolExecutor:
    """Return a thread that is at something else until it is told."""
    thread = ThreadPoolExecutor(1)
    thread.submit(until.wait)
    return thread


def test_where_nothing_can_be_kept_what_came_along_is_of_use_still(machine, tmp_path, monkeypatch):
    assert not came_along(machine("first"))
    pack()
    kernel = machine("second")

    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(kernel.kernel._cache._cache_file, "save", full)
    with pytest.warns(UserWarning, match="No space left"):
        assert came_along(kernel)


def test_what_systems_need_is_packed(tmp_path):
    path = tmp_path / "package" / "code.zip"
    asked = {"systems": ["popular"], "files": False}
    done = subprocess.run(
        [sys.executable, "-m", "sdgar.cli.compile", json.dumps(asked), str(path)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(path) as file:
        assert len(file.namelist()) > 2
