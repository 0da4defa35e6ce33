"""Compiled code of one machine is of use to another, and never in the way."""

from __future__ import annotations

import platform
import subprocess
import sys
import zipfile
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
        (name,) = file.namelist()
        packed = file.read(name)
    assert b"\x7fELF" in kept
    assert b"\x7fELF" not in packed
    monkeypatch.setattr(folder, "digest_of_sources", lambda: "other sources")
    assert not came_along(machine("second"))


def test_code_for_other_processors_is_left_alone(machine, monkeypatch):
    assert not came_along(machine("first"))
    pack()
    monkeypatch.setitem(portable.FEATURES, platform.machine(), ("wings",))
    assert not came_along(machine("second"))


@pytest.mark.parametrize("cut", [False, True])
def test_damaged_code_is_told_of_and_compiled_anew(machine, cut):
    assert not came_along(machine("first"))
    path = pack()
    with zipfile.ZipFile(path) as file:
        (name,) = file.namelist()
        whole = file.read(name)
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(name, whole[: len(whole) // 2])
    if cut:
        path.write_bytes(path.read_bytes()[:100])
        assert folder.portable_systems() == []
    with pytest.warns(UserWarning, match=r"package.*zip cannot be read .* compiled anew"):
        assert not came_along(machine("second"))


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
    done = subprocess.run(
        [sys.executable, "-m", "sdgar.cli.compile", '["popular"]', str(path)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(path) as file:
        assert len(file.namelist()) > 2
