"""The package sdgar: recommendations from implicit feedback with learned negative sampling.

    model = sdgar.BPR().fit(sdgar.read("events.csv"))
    model.recommend(["ann"], k=10)

Names are imported when first used, so that ``import sdgar`` is quick.
"""

from __future__ import annotations

from sdgar._version import __version__ as __version__

# This is the constant of ``typing``. Nothing is imported here before it is needed: until the
# command line has run its first lines, Ctrl-C ends it with a traceback.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any

    from sdgar.data.features import Features as Features
    from sdgar.data.interactions import Interactions as Interactions
    from sdgar.data.readers import read as read
    from sdgar.data.readers.tables import read_facts as read_facts
    from sdgar.data.readers.tables import read_features as read_features
    from sdgar.data.splits import folds as folds
    from sdgar.data.splits import split as split
    from sdgar.data.synthetic import synthetic as synthetic
    from sdgar.errors import SdgarError as SdgarError
    from sdgar.evaluation.paired import compare as compare
    from sdgar.exports.export import export as export
    from sdgar.exports.factors import import_factors as import_factors
    from sdgar.lab.blend import blend as blend
    from sdgar.lab.trec_run import evaluate_run as evaluate_run
    from sdgar.parts import register_discriminator as register_discriminator
    from sdgar.parts import register_objective as register_objective
    from sdgar.parts import register_sampler as register_sampler
    from sdgar.recommend.recommender import Recommender as Recommender
    from sdgar.recommend.recommender import load as load
    from sdgar.recommend.rules import Rules as Rules
    from sdgar.scale.shards import Shards as Shards
    from sdgar.scale.training import fit_shards as fit_shards
    from sdgar.show.progress import set_verbose as set_verbose
    from sdgar.systems.base import register_system as register_system
    from sdgar.systems.bpr import AOBPR as AOBPR
    from sdgar.systems.bpr import BPR as BPR
    from sdgar.systems.bpr import DNS as DNS
    from sdgar.systems.composed import Composed as Composed
    from sdgar.systems.ease import EASE as EASE
    from sdgar.systems.elsa import ELSA as ELSA
    from sdgar.systems.hinges import CML as CML
    from sdgar.systems.hinges import WARP as WARP
    from sdgar.systems.ials import IALS as IALS
    from sdgar.systems.irgan import IRGAN as IRGAN
    from sdgar.systems.neighbours import ItemKNN as ItemKNN
    from sdgar.systems.neighbours import LocalEASE as LocalEASE
    from sdgar.systems.next_item import NextItem as NextItem
    from sdgar.systems.quick import Quick as Quick
    from sdgar.systems.sdgar import SA as SA
    from sdgar.systems.sdgar import SDGAR as SDGAR
    from sdgar.systems.sdgar import SDGARPrinted as SDGARPrinted
    from sdgar.systems.sdsoftmax import SDSoftmax as SDSoftmax
    from sdgar.systems.solver import MostPopular as MostPopular
    from sdgar.systems.transitions import Transitions as Transitions

_HOME = {
    "Features": "sdgar.data.features",
    "Interactions": "sdgar.data.interactions",
    "Recommender": "sdgar.recommend.recommender",
    "Rules": "sdgar.recommend.rules",
    "SdgarError": "sdgar.errors",
    "Shards": "sdgar.scale.shards",
    "blend": "sdgar.lab.blend",
    "compare": "sdgar.evaluation.paired",
    "evaluate_run": "sdgar.lab.trec_run",
    "export": "sdgar.exports.export",
    "fit_shards": "sdgar.scale.training",
    "folds": "sdgar.data.splits",
    "import_factors": "sdgar.exports.factors",
    "load": "sdgar.recommend.recommender",
    "read": "sdgar.data.readers",
    "read_facts": "sdgar.data.readers.tables",
    "read_features": "sdgar.data.readers.tables",
    "register_discriminator": "sdgar.parts",
    "register_objective": "sdgar.parts",
    "register_sampler": "sdgar.parts",
    "register_system": "sdgar.systems.base",
    "set_verbose": "sdgar.show.progress",
    "split": "sdgar.data.splits",
    "synthetic": "sdgar.data.synthetic",
}


def _homes() -> dict[str, str]:
    """Return the module of each public name, the names of systems included."""
    from sdgar.systems.names import SYSTEMS

    systems = (home.partition(":") for home in SYSTEMS.homes.values())
    return _HOME | {name: module for module, _, name in systems}


def __getattr__(name: str) -> Any:
    homes = _homes()
    if name == "__all__":
        return sorted(homes)
    if name not in homes:
        msg = f"module 'sdgar' has no attribute {name!r}"
        raise AttributeError(msg)
    from importlib import import_module

    return getattr(import_module(homes[name]), name)


def __dir__() -> list[str]:
    return [*_homes(), "__version__"]
