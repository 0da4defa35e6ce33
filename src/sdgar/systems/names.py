"""The names of all systems, in the order in which they are listed.

This module imports no torch, so that ``sdgar --help`` and ``import sdgar`` are quick. A system's
class is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sdgar.registry import Registry

if TYPE_CHECKING:
    from sdgar.systems.base import Estimator

_TABLE = {
    "popular": (
        "solver:MostPopular",
        "Everyone gets the items that most users have: the baseline of every report.",
    ),
    "item-knn": (
        "neighbours:ItemKNN",
        "Item-based nearest neighbours, by the cosine of items: a baseline.",
    ),
    "ials": (
        "ials:IALS",
        "Alternating least squares on all pairs: the baseline for models with vectors.",
    ),
    "ease": (
        "ease:EASE",
        "Every item predicted from the others by least squares, for small catalogues.",
    ),
    "local-ease": (
        "neighbours:LocalEASE",
        "Every item predicted from its nearest items by least squares, for any catalogue.",
    ),
    "quick": (
        "quick:Quick",
        "What SD-Softmax starts from, with item-item weights: a good model in seconds.",
    ),
    "elsa": (
        "elsa:ELSA",
        "Every item predicted from the others by vectors of items, for any catalogue.",
    ),
    "bpr": (
        "bpr:BPR",
        "Bayesian personalised ranking: one uniform negative for each positive.",
    ),
    "aobpr": (
        "bpr:AOBPR",
        "BPR with adaptive oversampling: negatives that rank high in a factor.",
    ),
    "warp": (
        "warp:WARP",
        "Weighted approximate-rank pairwise loss, as in LightFM.",
    ),
    "cml": (
        "cml:CML",
        "Collaborative metric learning: points in a unit ball, nearer is better.",
    ),
    "dns": (
        "bpr:DNS",
        "Dynamic negative sampling: the hardest of a few uniform negatives.",
    ),
    "irgan": (
        "irgan:IRGAN",
        "IRGAN: a generator with a softmax over all items against a discriminator.",
    ),
    "sa": (
        "sdgar:SA",
        "Self-adversarial negative sampling: uniform negatives weighted by their own losses.",
    ),
    "sdgar": (
        "sdgar:SDGAR",
        "Sampling-decomposable generative adversarial recommender, the paper's system.",
    ),
    "sdgar-printed": (
        "sdgar:SDGARPrinted",
        "SD-GAR with the generator's equations as printed, whose generator stays uniform.",
    ),
    "sdsoftmax": (
        "sdsoftmax:SDSoftmax",
        "Sampling-decomposable softmax: cosines, and a generator fitted by EM.",
    ),
    "composed": (
        "composed:Composed",
        "Any discriminator with any sampler and any objective, each by its name.",
    ),
}
"""The module and class of each system, and a line that describes it."""

SYSTEMS: Registry[type[Estimator]] = Registry(
    "system", {name: f"sdgar.systems.{home}" for name, (home, _) in _TABLE.items()}
)
"""The classes of systems by name; ``SYSTEMS["bpr"]`` is ``sdgar.BPR``."""


def titles() -> dict[str, str]:
    """Return one line for each system; of a registered one, its docstring's first line."""
    own = {name: (kind.__doc__ or "").partition("\n")[0] for name, kind in SYSTEMS.own.items()}
    return {name: title for name, (_, title) in _TABLE.items()} | own
