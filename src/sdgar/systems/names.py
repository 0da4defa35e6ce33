"""The names of all systems, in the order in which people are shown them.

This module imports no torch, so that ``sdgar --help`` and ``import sdgar`` are quick. A system's
class is imported when it is first asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from sdgar.errors import UsageError

if TYPE_CHECKING:
    from sdgar.systems.base import Estimator


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the table of systems."""

    home: str
    """The module that holds the class."""
    class_name: str
    title: str
    """A few words that say what the system is."""


class Systems(Mapping[str, "type[Estimator]"]):
    """The classes of systems by name; ``SYSTEMS["bpr"]`` is ``sdgar.BPR``."""

    def __init__(self, entries: Mapping[str, tuple[str, str, str]]) -> None:
        self._entries = {name: Entry(*line) for name, line in entries.items()}
        self._own: dict[str, type[Estimator]] = {}

    def __getitem__(self, name: str) -> type[Estimator]:
        """Import the class of this name."""
        if name in self._own:
            return self._own[name]
        entry = self._entries[name]
        found: type[Estimator] = getattr(import_module(entry.home), entry.class_name)
        return found

    def __iter__(self) -> Iterator[str]:
        """Go over the names, in the order of the table."""
        yield from self._entries
        yield from self._own

    def __len__(self) -> int:
        """Count the systems."""
        return len(self._entries) + len(self._own)

    @property
    def entries(self) -> Mapping[str, Entry]:
        """The lines of the table; systems that were registered are not among them."""
        return self._entries

    def add(self, name: str, kind: type[Estimator]) -> None:
        """Make an own system known; the same class may come again, another one may not."""
        home = (kind.__module__, kind.__qualname__)
        before = self._own.get(name)
        again = before is not None and (before.__module__, before.__qualname__) == home
        if name in self and not again:
            raise UsageError(f"there is a system {name!r} already. Choose another name.")
        self._own[name] = kind


SYSTEMS = Systems(
    {
        "popular": ("sdgar.systems.popular", "MostPopular", "the items that most users have"),
        "item-knn": ("sdgar.systems.item_knn", "ItemKNN", "nearest items by cosine"),
        "ials": ("sdgar.systems.ials", "IALS", "alternating least squares on all pairs"),
        "ease": ("sdgar.systems.ease", "EASE", "item weights by one matrix inverse"),
        "bpr": ("sdgar.systems.bpr", "BPR", "Bayesian personalised ranking"),
        "aobpr": ("sdgar.systems.aobpr", "AOBPR", "BPR with negatives from top ranks"),
        "warp": ("sdgar.systems.warp", "WARP", "weighted approximate-rank pairwise loss"),
        "cml": ("sdgar.systems.cml", "CML", "collaborative metric learning"),
        "dns": ("sdgar.systems.dns", "DNS", "dynamic negative sampling"),
        "irgan": ("sdgar.systems.irgan", "IRGAN", "the minimax game of IRGAN"),
        "sa": ("sdgar.systems.sa", "SA", "self-adversarial negative sampling"),
        "sdgar": ("sdgar.systems.sdgar", "SDGAR", "the paper's system"),
        "sdgar-printed": (
            "sdgar.systems.sdgar",
            "SDGARPrinted",
            "SD-GAR as printed",
        ),
        "sdsoftmax": ("sdgar.systems.sdsoftmax", "SDSoftmax", "sampling-decomposable softmax"),
        "composed": ("sdgar.systems.composed", "Composed", "parts of your choice"),
    }
)
