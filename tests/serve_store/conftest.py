"""A store of each kind; PostgreSQL is skipped where no server is installed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sdgar.serve.store import Database


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path) -> str:
    """The address of a store that is not there yet."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/store.db"
    return request.getfixturevalue("postgresql_url")


@pytest.fixture
def store(url) -> Iterator[Database]:
    with Database.open(url) as opened:
        yield opened
