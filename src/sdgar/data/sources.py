"""Sources of events other than files, which packages register by the schemes of their addresses.

An entry point of the group ``sdgar.readers`` is named by a scheme, such as ``sqlite``; its value is
a function that takes an address and returns an ``EventSource``. It is loaded when the first such
address is read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard

from sdgar.errors import UsageError

if TYPE_CHECKING:
    from sdgar.data.read_options import ReadOptions
    from sdgar.data.readers.chunks import Chunk

GROUP = "sdgar.readers"
"""The group of entry points that read events at addresses."""
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9.-]*)(?:\+[A-Za-z0-9]+)?://.*", re.DOTALL)


class Events(Protocol):
    """The events of a source while it is open."""

    names: tuple[str, ...]
    """The names of the columns."""

    def chunks(self, used: dict[str, str]) -> Iterator[Chunk]:
        """Yield the used columns of all rows, by the part that each plays."""


class EventSource(Protocol):
    """A source of events at an address."""

    @property
    def name(self) -> str:
        """The name of the source in messages."""

    def open(self, options: ReadOptions) -> AbstractContextManager[Events]:
        """Open the source; its columns have the types of text."""

    def absolute(self) -> str:
        """Return an address that is valid in any folder, without a password."""

    def up_to_now(self) -> EventSource:
        """Return the source without events that are added later."""


def is_address(text: object) -> TypeGuard[str]:
    """Return whether a text is the address of a source rather than the name of a file.

    >>> from sdgar.data.sources import is_address
    >>> [is_address(text) for text in ("sqlite:///store.db", "events.csv")]
    [True, False]
    """
    return isinstance(text, str) and _SCHEME.fullmatch(text) is not None


def source_of(given: Any) -> Path | EventSource:
    """Return the path of a file, or the source at an address; raise if none is registered."""
    if not isinstance(given, str | os.PathLike):
        source: EventSource = given
        return source
    if not is_address(given):
        return Path(given)
    found = _SCHEME.fullmatch(given)
    scheme = found[1].lower() if found else ""
    readers = {point.name: point for point in entry_points(group=GROUP)}
    if scheme not in readers:
        raise UsageError(
            f"{scheme}:// is no known source of events. Known: "
            f"{', '.join(f'{name}://' for name in sorted(readers)) or 'none'}.",
            code="unknown_store",
        )
    opened: EventSource = readers[scheme].load()(given)
    return opened


def is_source(given: object) -> bool:
    """Return whether an input is a source, or its address, rather than a file."""
    return is_address(given) or not isinstance(given, str | os.PathLike)


def only_source(given: list[Any]) -> EventSource:
    """Return the one source among the inputs; raise if there are others: it is read alone."""
    if len(given) > 1:
        raise UsageError(
            "a store is read alone, and several inputs are given. Write its events to a file with "
            "`sdgar data export`, and read that together with others.",
            code="mixed_formats",
        )
    source = source_of(given[0])
    assert not isinstance(source, Path)
    return source
