"""The store as one object, with a method for each thing that is asked of it."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from sqlalchemy import text

from sdgar.serve.store import migrations
from sdgar.serve.store.address import Address
from sdgar.serve.store.connecting import engine_of
from sdgar.serve.store.deployments import Deployments
from sdgar.serve.store.entries import Entries
from sdgar.serve.store.events import Events
from sdgar.serve.store.impressions import Impressions
from sdgar.serve.store.keys import Keys
from sdgar.serve.store.transactions import SCHEMA_LOCK


class Database(Events, Entries, Keys, Impressions, Deployments):
    """A store of events, entries, keys, impressions and wishes, for any number of threads."""

    @classmethod
    def open(
        cls, url: str | Address, *, read_only: bool = False, must_exist: bool = False
    ) -> Database:
        """Open a store by its address; make it, or bring it up to date, unless it is only read.

        With ``read_only`` or ``must_exist`` a file that is not there is an error, and none is made.
        """
        address = Address.of(url)
        engine = engine_of(address, read_only=read_only, must_exist=must_exist)
        store = cls(engine, address, read_only=read_only)
        try:
            store._prepare()
        except BaseException:
            store.close()
            raise
        return store

    def close(self) -> None:
        """Close all connections that no thread uses."""
        self._engine.dispose()

    def ping(self) -> None:
        """Raise if the store does not answer."""
        with self._reading() as connection:
            connection.execute(text("SELECT 1"))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.close()

    def _prepare(self) -> None:
        """Make or change the tables if that is needed; of several servers one does, others wait."""
        with self._reading() as connection:
            version = migrations.version_of(connection, self.address)
        if self._read_only:
            migrations.require_current(version, self.address)
        elif version < migrations.newest():
            with self._writing() as connection:
                self._alone(connection, SCHEMA_LOCK)
                version = migrations.version_of(connection, self.address)
                migrations.migrate(connection, version)
