"""Files that tests of reading write, and small data that is read as many rows are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sdgar import kernels
from sdgar.data.readers import LoadedRows, ReadOptions, read_files

Load = Callable[..., LoadedRows]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Write one file and read it."""

    def write_and_read(content: str | bytes, name: str = "x.csv", **options: object) -> LoadedRows:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return read_files([path], ReadOptions(**options))  # type: ignore[arg-type]

    return write_and_read


@contextmanager
def as_of_many_rows() -> Iterator[None]:
    """Make kernels do all that they can do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "MANY_ROWS", 0)
        yield
