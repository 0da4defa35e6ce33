"""The names of all systems, in the order in which they are listed.

This module imports no torch, so that ``sdgar --help`` and ``import sdgar`` are quick. A system's
class is imported when it is first used.
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
    """The name of the class."""
    title: str
    """A line that describes the system."""


class Systems(Mapping[str, "type[Estimator]"]):
    """The classes of systems by name; ``SYSTEMS["bpr"]`` is ``sdgar.BPR``."""

    def __init__(self, entries: Mapping[str, tuple[str, str, str]]) -> None:
        self._entries = {
            name: Entry(f"sdgar.systems.{home}", class_name, title)
            for name, (home, class_name, title) in entries.items()
        }
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
        """The lines of the table; systems that were registered by users are not among them."""
        return self._entries

    def titles(self) -> dict[str, str]:
        """Return one line for each system; of a registered one, its docstring's first line."""
        own = {name: (kind.__doc__ or "").partition("\n")[0] for name, kind in self._own.items()}
        return {name: entry.title for name, entry in self._entries.items()} | own

    def add(self, name: str, kind: type[Estimator]) -> None:
        """Register a system; the same class may come again, another one of that name may not."""
        home = (kind.__module__, kind.__qualname__)
        before = self._own.get(name)
        again = before is not None and (before.__module__, before.__qualname__) == home
        if name in self and not again:
            raise UsageError(f"there is a system {name!r} already. Choose another name.")
        self._own[name] = kind


SYSTEMS = Systems(
    {
        "popular": (
            "popular",
            "MostPopular",
            "Everyone gets the items that most users have: the baseline of every report.",
        ),
        "item-knn": (
            "item_knn",
            "ItemKNN",
            "Item-based nearest neighbours, by the cosine of items: a baseline.",
        ),
        "ials": (
            "ials",
            "IALS",
            "Alternating least squares on all pairs: the baseline for models with vectors.",
        ),
        "ease": (
            "ease",
            "EASE",
            "Every item predicted from the others by least squares, for small catalogues.",
        ),
        "local-ease": (
            "local_ease",
            "LocalEASE",
            "Every item predicted from its nearest items by least squares, for any catalogue.",
        ),
        "quick": (
            "quick",
            "Quick",
            "What SD-Softmax starts from, with item-item weights: a good model in seconds.",
        ),
        "elsa": (
            "elsa",
            "ELSA",
            "Every item predicted from the others by vectors of items, for any catalogue.",
        ),
        "bpr": (
            "bpr",
            "BPR",
            "Bayesian personalised ranking: one uniform negative for each positive.",
        ),
        "aobpr": (
            "aobpr",
            "AOBPR",
            "BPR with adaptive oversampling: negatives that rank high in a factor.",
        ),
        "warp": (
            "warp",
            "WARP",
            "Weighted approximate-rank pairwise loss, as in LightFM.",
        ),
        "cml": (
            "cml",
            "CML",
            "Collaborative metric learning: points in a unit ball, nearer is better.",
        ),
        "dns": (
            "dns",
            "DNS",
            "Dynamic negative sampling: the hardest of a few uniform negatives.",
        ),
        "irgan": (
            "irgan",
            "IRGAN",
            "IRGAN: a generator with a softmax over all items against a discriminator.",
        ),
        "sa": (
            "sa",
            "SA",
            "Self-adversarial negative sampling: uniform negatives weighted by their own losses.",
        ),
        "sdgar": (
            "sdgar",
            "SDGAR",
            "Sampling-decomposable generative adversarial recommender, the paper's system.",
        ),
        "sdgar-printed": (
            "sdgar",
            "SDGARPrinted",
            "SD-GAR with the generator's equations as printed, whose generator stays uniform.",
        ),
        "sdsoftmax": (
            "sdsoftmax",
            "SDSoftmax",
            "Sampling-decomposable softmax: cosines, and a generator fitted by EM.",
        ),
        "composed": (
            "composed",
            "Composed",
            "Any discriminator with any sampler and any objective, each by its name.",
        ),
    }
)
