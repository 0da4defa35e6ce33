"""sdgar: recommendations from implicit feedback with learned negative sampling.

    model = sdgar.BPR().fit(sdgar.read("events.csv"))
    model.recommend(["ann"], k=10)

Names are imported when first used, so that ``import sdgar`` is quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from sdgar.data.features import Features
    from sdgar.data.interactions import Interactions
    from sdgar.data.readers import read
    from sdgar.data.readers.feature_tables import read_features
    from sdgar.data.splits import folds, split
    from sdgar.data.synthetic import synthetic
    from sdgar.errors import SdgarError
    from sdgar.estimators import (
        AOBPR,
        BPR,
        CML,
        DNS,
        EASE,
        IALS,
        IRGAN,
        SA,
        SDGAR,
        WARP,
        Composed,
        ItemKNN,
        MostPopular,
        SDGARPrinted,
        SDSoftmax,
    )
    from sdgar.evaluation.report import compare
    from sdgar.parts import register_discriminator, register_objective, register_sampler
    from sdgar.recommend.recommender import Recommender, load
    from sdgar.show.progress import set_verbose

_HOME = {
    "AOBPR": "sdgar.estimators",
    "BPR": "sdgar.estimators",
    "CML": "sdgar.estimators",
    "Composed": "sdgar.estimators",
    "DNS": "sdgar.estimators",
    "EASE": "sdgar.estimators",
    "Features": "sdgar.data.features",
    "IALS": "sdgar.estimators",
    "IRGAN": "sdgar.estimators",
    "Interactions": "sdgar.data.interactions",
    "ItemKNN": "sdgar.estimators",
    "MostPopular": "sdgar.estimators",
    "Recommender": "sdgar.recommend.recommender",
    "SA": "sdgar.estimators",
    "SDGAR": "sdgar.estimators",
    "SDGARPrinted": "sdgar.estimators",
    "SDSoftmax": "sdgar.estimators",
    "SdgarError": "sdgar.errors",
    "WARP": "sdgar.estimators",
    "compare": "sdgar.evaluation.report",
    "folds": "sdgar.data.splits",
    "load": "sdgar.recommend.recommender",
    "read": "sdgar.data.readers",
    "read_features": "sdgar.data.readers.feature_tables",
    "register_discriminator": "sdgar.parts",
    "register_objective": "sdgar.parts",
    "register_sampler": "sdgar.parts",
    "set_verbose": "sdgar.show.progress",
    "split": "sdgar.data.splits",
    "synthetic": "sdgar.data.synthetic",
}

__all__ = [
    "AOBPR",
    "BPR",
    "CML",
    "DNS",
    "EASE",
    "IALS",
    "IRGAN",
    "SA",
    "SDGAR",
    "WARP",
    "Composed",
    "Features",
    "Interactions",
    "ItemKNN",
    "MostPopular",
    "Recommender",
    "SDGARPrinted",
    "SDSoftmax",
    "SdgarError",
    "compare",
    "folds",
    "load",
    "read",
    "read_features",
    "register_discriminator",
    "register_objective",
    "register_sampler",
    "set_verbose",
    "split",
    "synthetic",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        msg = f"module 'sdgar' has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
