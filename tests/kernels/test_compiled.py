"""Compiled code is kept where only its owner can write, and apart for other sources."""

from __future__ import annotations

import os
import shutil
import stat
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from numba import _dynfunc
from numba.core import config
from numba.core.codegen import JITCodeLibrary
from numba.core.registry import cpu_target
from numba.core.typing import templates

from sdgar.kernels import cache as folders
from sdgar.kernels import compiled

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"


@pytest.fixture(autouse=True)
def _another_folder() -> Iterator[None]:
    """The folder is found once a process; each test here finds it again."""
    folders.cache_folder.cache_clear()
    yield
    folders.cache_folder.cache_clear()


@pytest.fixture
def root(tmp_path, monkeypatch) -> Path:
    """An empty cache folder of the user's."""
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "sdgar"


def test_the_folder_is_private(root):
    before = os.umask(0)
    try:
        folder = Path(folders.safe_folder())
    finally:
        os.umask(before)
    assert folder.parent == root
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert folders.safe_folder() == str(folder)


@pytest.mark.parametrize("mode", [0o770, 0o702, 0o777])
def test_a_folder_that_others_can_write_to_is_refused_aloud(root, mode):
    folder = Path(folders.safe_folder())
    folder.chmod(mode)
    with pytest.warns(UserWarning, match="can be written to by others"):
        assert folders.safe_folder() == ""
    folder.chmod(0o755)
    assert folders.safe_folder() == str(folder)


def test_a_folder_of_another_user_is_refused_with_a_warning(root, monkeypatch):
    assert folders.safe_folder()
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    with pytest.warns(UserWarning, match="can be written to by others"):
        assert folders.safe_folder() == ""


def found_again() -> Path:
    """The folder as a new process finds it."""
    folders.cache_folder.cache_clear()
    return folders.cache_folder()


def test_changed_sources_have_another_folder(root, tmp_path, monkeypatch):
    sources = tmp_path / "kernels"
    shutil.copytree(Path(compiled.__file__).parent, sources)
    monkeypatch.setattr(folders, "__file__", str(sources / "cache.py"))
    same = found_again()
    assert same == found_again()
    changed = sources / "numba" / "math.py"
    changed.write_text(changed.read_text() + "\n# changed\n")
    assert found_again() != same
    # Triton keeps its own account of its sources.
    before = found_again()
    (sources / "triton" / "rng.py").write_text("# changed\n")
    assert found_again() == before


def test_another_numba_has_another_folder(root, monkeypatch):
    first = found_again()
    monkeypatch.setattr(folders, "version", lambda _: "0.0")
    assert found_again() != first


def test_a_folder_for_numba_is_taken_where_the_user_named_one(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "mine"))
    assert folders.cache_root() == tmp_path / "mine"
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert folders.cache_root() == tmp_path / ".cache" / "sdgar"


def test_the_parts_of_numba_that_may_change_are_there():
    """``compiled.py`` and ``record_access.py`` need more than Numba's public interface promises."""
    dependencies = tomllib.loads(PYPROJECT.read_text())["project"]["dependencies"]
    (numba,) = (one for one in dependencies if one.startswith("numba"))
    assert "<" in numba
    for name in ("_optimize_final_module", "_finalize_final_module", "_ensure_finalized"):
        assert callable(getattr(JITCodeLibrary, name))
    assert callable(_dynfunc.make_function)
    assert callable(cpu_target.target_context.insert_user_function)
    for name in ("AbstractTemplate", "AttributeTemplate", "infer_global"):
        assert callable(getattr(templates, name))


def doubling() -> Callable[..., object]:
    """A kernel as a new process would define it."""

    def twice(x_N):
        for i in range(len(x_N)):
            x_N[i] *= 2

    return compiled.outer(twice)


def doubled(kernel: Callable[..., object]) -> list[float]:
    numbers = np.arange(3.0)
    kernel(numbers)
    return numbers.tolist()


def test_without_a_place_for_a_folder_kernels_work_and_nothing_is_kept(tmp_path, monkeypatch):
    file = tmp_path / "file"
    file.write_text("no folder")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(file))
    with pytest.warns(UserWarning, match=r"cannot be made .* compiled again in each process"):
        kernel = doubling()
    assert doubled(kernel) == [0, 2, 4]
    assert str(file) == config.CACHE_DIR  # Numba reads its setting again


def test_a_folder_that_cannot_be_written_to_is_not_replaced_by_one_of_numbas(root, monkeypatch):
    def read_only(*_: object, **__: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("tempfile.TemporaryFile", read_only)
    with pytest.warns(UserWarning, match="cannot be written to, so compiled code is not kept"):
        kernel = doubling()
    assert doubled(kernel) == [0, 2, 4]
    assert kernel.stats.cache_path is None


def test_without_a_home_nothing_is_kept(monkeypatch):
    def nowhere() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", nowhere)
    with pytest.warns(UserWarning, match="no home folder, so compiled code is not kept"):
        kernel = doubling()
    assert doubled(kernel) == [0, 2, 4]
    folders.note("twice")
    assert not folders.is_noted("twice")


@pytest.mark.parametrize("named", ["cache", "../cache", "."])
def test_a_cache_folder_that_depends_on_where_one_works_is_not_taken(tmp_path, monkeypatch, named):
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", named)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert folders.cache_root() == tmp_path / ".cache" / "sdgar"
    monkeypatch.setenv("HOME", "here")
    assert folders.cache_root() is None


def test_a_folder_that_others_can_exchange_is_refused_aloud(root, tmp_path):
    tmp_path.chmod(0o777)
    with pytest.warns(UserWarning, match="a folder above .* can be written to by others"):
        assert folders.safe_folder() == ""
    tmp_path.chmod(0o1777)
    assert folders.safe_folder()
