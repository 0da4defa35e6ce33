"""The names of all systems, in the order in which they are listed.

This module imports no torch, so that ``sdgar --help`` and ``import sdgar`` are quick. A system's
class is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sdgar.registry import Registry

if TYPE_CHECKING:
    from sdgar.systems.base import Estimator

_HOMES = {
    "popular": "solver:MostPopular",
    "item-knn": "neighbours:ItemKNN",
    "ials": "ials:IALS",
    "ease": "ease:EASE",
    "local-ease": "neighbours:LocalEASE",
    "transitions": "transitions:Transitions",
    "next-item": "next_item:NextItem",
    "quick": "quick:Quick",
    "elsa": "elsa:ELSA",
    "bpr": "bpr:BPR",
    "aobpr": "bpr:AOBPR",
    "warp": "hinges:WARP",
    "cml": "hinges:CML",
    "dns": "bpr:DNS",
    "irgan": "irgan:IRGAN",
    "sa": "sdgar:SA",
    "sdgar": "sdgar:SDGAR",
    "sdgar-printed": "sdgar:SDGARPrinted",
    "sdsoftmax": "sdsoftmax:SDSoftmax",
    "composed": "composed:Composed",
}
"""The module and class of each system."""
_TITLES = {
    "popular": "Everyone gets the items that most users have: the baseline of every report.",
    "item-knn": "Item-based nearest neighbours, by the cosine of items: a baseline.",
    "ials": "Alternating least squares on all pairs: the baseline for models with vectors.",
    "ease": "Every item predicted from the others by least squares, for small catalogues.",
    "local-ease": (
        "Every item predicted from its nearest items by least squares, for any catalogue."
    ),
    "transitions": "The next item predicted from the last ones by least squares, in seconds.",
    "next-item": "The next item by a sequence network and a memory of transitions.",
    "quick": "What SD-Softmax starts from, with item-item weights: a good model in seconds.",
    "elsa": "Every item predicted from the others by vectors of items, for any catalogue.",
    "bpr": "Bayesian personalised ranking: one uniform negative for each positive.",
    "aobpr": "BPR with adaptive oversampling: negatives that rank high in a factor.",
    "warp": "Weighted approximate-rank pairwise loss, as in LightFM.",
    "cml": "Collaborative metric learning: points in a unit ball, nearer is better.",
    "dns": "Dynamic negative sampling: the hardest of a few uniform negatives.",
    "irgan": "IRGAN: a generator with a softmax over all items against a discriminator.",
    "sa": "Self-adversarial negative sampling: uniform negatives weighted by their own losses.",
    "sdgar": "Sampling-decomposable generative adversarial recommender, the paper's system.",
    "sdgar-printed": (
        "SD-GAR with the generator's equations as printed, whose generator stays uniform."
    ),
    "sdsoftmax": "Sampling-decomposable softmax: cosines, and a generator fitted by EM.",
    "composed": "Any discriminator with any sampler and any objective, each by its name.",
}
"""A line that describes each system."""

SYSTEMS: Registry[type[Estimator]] = Registry(
    "system", {name: f"sdgar.systems.{home}" for name, home in _HOMES.items()}
)
"""The classes of systems by name; ``SYSTEMS["bpr"]`` is ``sdgar.BPR``."""


def titles() -> dict[str, str]:
    """Return one line for each system; of a registered one, its docstring's first line."""
    own = {name: (kind.__doc__ or "").partition("\n")[0] for name, kind in SYSTEMS.own.items()}
    return _TITLES | own
