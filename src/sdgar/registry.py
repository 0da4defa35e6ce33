"""Registers: classes and functions by name, built in or added by users.

An entry of this package is written "module:name", and imported when it is first used, so that the
names alone cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from importlib import import_module
from typing import Any, TypeVar

from sdgar.errors import UsageError

T = TypeVar("T")


class Registry(MutableMapping[str, T]):
    """Classes or functions by name, in the order in which they are listed."""

    def __init__(self, what: str, homes: Mapping[str, str]) -> None:
        self._what = what
        self.homes = dict(homes)
        """The place of each entry of this package, as "module:name"."""
        self._own: dict[str, T] = {}

    def __getitem__(self, name: str) -> T:
        """Return an entry; one of this package is imported."""
        if name in self._own:
            return self._own[name]
        module, _, attribute = self.homes[name].partition(":")
        found: T = getattr(import_module(module), attribute)
        return found

    def __setitem__(self, name: str, entry: T) -> None:
        self._own[name] = entry

    def __delitem__(self, name: str) -> None:
        del self._own[name]

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*self.homes, *self._own)))

    def __len__(self) -> int:
        return len({*self.homes, *self._own})

    def __contains__(self, name: object) -> bool:
        """Return whether there is an entry of this name, without an import."""
        return name in self._own or name in self.homes

    @property
    def own(self) -> Mapping[str, T]:
        """The entries that users added."""
        return self._own

    def add(self, name: str, entry: T) -> None:
        """Register an entry under a name that no other one has.

        The same definition may come again, as when a cell of a notebook is run twice.
        """
        before = self._own.get(name)
        again = before is not None and _origin(before) == _origin(entry)
        if name in self and not again:
            raise UsageError(f"there is a {self._what} {name!r} already. Choose another name.")
        self._own[name] = entry


def _origin(entry: Any) -> tuple[str, str]:
    """Return where a class or function is defined."""
    return entry.__module__, entry.__qualname__
