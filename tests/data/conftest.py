"""Files that tests of reading write."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

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
