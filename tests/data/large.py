"""Small data that is worked on as that of many rows is: by kernels, and in several threads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from sdgar import kernels


@contextmanager
def as_of_many_rows() -> Iterator[None]:
    """Make kernels do all that they can do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "MANY_ROWS", 0)
        yield
