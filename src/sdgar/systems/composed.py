"""A system of any discriminator, sampler and objective; an error says which do not fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import torch

from sdgar.arguments import at_least
from sdgar.contracts import Discriminator, Objective, Sampler
from sdgar.data.interactions import Interactions
from sdgar.discriminators.adapter import Adapter
from sdgar.errors import unknown_name
from sdgar.maths.rng import Stream, torch_seed
from sdgar.models.fold_in import ByNetwork, FoldInRule
from sdgar.models.network import require_comes_back
from sdgar.parts import (
    DISCRIMINATORS,
    KINDS,
    OBJECTIVES,
    SAMPLERS,
    Ingredients,
    checked,
    is_module,
    settings_of,
)
from sdgar.settings import Group, flat_settings, joined, nearest_setting, types_of
from sdgar.systems.defaults import RATES, Choice, EarlyStopping, ItemMemory, Optimization, Sampling
from sdgar.systems.learner import Learner
from sdgar.systems.names import SYSTEMS
from sdgar.systems.parameters import estimator
from sdgar.systems.recipe import SystemSpec
from sdgar.systems.sdsoftmax import SDSoftmax

if TYPE_CHECKING:
    from sdgar.training.item_memory import ItemMemorySolver
    from sdgar.training.records import FitOptions

_LIKE = {"cosine": "sdsoftmax", "metric": "cml"}
"""The named system with the same tables of vectors, by discriminator."""
_LIKE_FACTORIZED = {
    "bpr": "bpr", "logistic": "irgan", "sdgar": "sdgar", "sdsoftmax": "sdsoftmax", "warp": "warp",
}  # fmt: skip
"""The named system with the same tables of vectors as factorization, by objective."""
_NETWORK = {
    "dim": 32, "n_negatives": 16, "sampler__positives_per_visit": 1, "l2": 0.0,
    "sampler__refit_every": 1, "epochs": Learner.epochs,
    "early_stopping__every": Learner.early_stopping.every,
    "optimizer__schedule": Learner.optimizer.schedule,
}  # fmt: skip
"""The settings that networks are trained with, by Adam, unless others are given."""
_RATE = 0.003
"""The learning rate of Adam, and of other optimisers whose steps are as long."""
_LEFT = ("optimizer", "learning_rate", *_NETWORK)
"""The settings that can be left to a rule."""
_ONE_POOL = ("uniform", "popularity", "decomposable")
"""The samplers whose proposals do not depend on the positive: several positives can share them."""


@dataclass(frozen=True, kw_only=True)
class Part(Group):
    """The name of a registered part, and the settings of it that are given."""

    leading: ClassVar[str] = "name"

    name: str = ""
    """The name of the part."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The settings of the part that are given; others are its defaults."""

    def flat(self) -> dict[str, Any]:
        """Return the name of the part, and its settings that are given."""
        own = super().flat()
        given: dict[str, Any] = own.pop("settings")
        return own | given

    def accepts(self, name: str) -> bool:
        """Return True: which settings there are is known once the name of the part is."""
        return name.isidentifier() and name != self.leading

    def changed(self, settings: Mapping[str, Any]) -> Self:
        """Return the part with other settings."""
        own = {"": self.leading} | {f.name: f.name for f in fields(self) if f.name != "settings"}
        given = {name: value for name, value in settings.items() if name not in own}
        known = {own[name]: value for name, value in settings.items() if name in own}
        return replace(self, settings={**self.settings, **given}, **known)


@dataclass(frozen=True, kw_only=True)
class DiscriminatorPart(Part):
    """The discriminator of a composed system."""

    name: str = "cosine"
    """The part that gives the scores: factorization, cosine, metric, lightgcn, two-tower, sequence,
    or a registered one. Its settings have nested names, as discriminator__layers."""


@dataclass(frozen=True, kw_only=True)
class SamplerPart(Part, Sampling):
    """The sampler of a composed system."""

    name: str = "decomposable"
    """The part that proposes negatives: uniform, popularity, popularity-mix, decomposable,
    adaptive, hardest, first-violation, search, or a registered one."""
    positives_per_visit: int | None = None  # type: ignore[assignment]
    """How many positives of a user share one pool of negatives. Without a value it is that of the
    named system with the same tables of vectors, and 1 for networks."""
    refit_every: int | None = None
    """How many epochs lie between two refits of the sampler. Without a value it is that of the
    named system with the same tables of vectors, and 1 for networks."""


@dataclass(frozen=True, kw_only=True)
class ObjectivePart(Part):
    """The objective of a composed system."""

    name: str = "sdsoftmax"
    """The loss that is minimised: bpr, logistic, sdgar, sdsoftmax, warp, cml, or a registered
    one."""


@dataclass(frozen=True, kw_only=True)
class OptimizationByParts(Optimization):
    """The rule for steps of a composed system, which may follow from its parts."""

    name: str | None = None  # type: ignore[assignment]
    """How steps are taken: adam (which moves all rows, as networks need), lazy-adam, adagrad (one
    sum of squares a row) or sgd. Without a name it is adagrad for factorization, cosine and metric,
    and adam for networks."""
    schedule: str | None = None  # type: ignore[assignment]
    """How the learning rate changes: constant, or linear, which lets it fall evenly to nothing over
    ``epochs``. Without a name it is that of the named system with the same tables of vectors, and
    constant for networks."""


@dataclass(frozen=True, kw_only=True)
class EarlyStoppingByParts(EarlyStopping):
    """How the number of epochs of a composed system is chosen, which may follow from its parts."""

    every: int | None = None  # type: ignore[assignment]
    """How many epochs lie between two evaluations on the validation rows. Without a value it is
    that of the named system with the same tables of vectors, and 5 for networks."""


@estimator
class Composed(Learner):
    """A discriminator, a sampler and an objective of your choice, each by its name.

    A setting that is not given is as in the named system with the same tables of vectors: sdsoftmax
    for cosine, cml for metric, and for factorization the one that has the objective.

    >>> data = sdgar.Interactions.from_arrays([1, 1, 2, 2, 3], ["a", "b", "b", "c", "a"])
    >>> parts = {"discriminator": "metric", "sampler": "uniform", "objective": "cml"}
    >>> model = sdgar.Composed(**parts, epochs=3, early_stopping=False).fit(data)
    >>> sorted(model.recommend([3], k=2)["item"])
    ['b', 'c']
    """

    _spec: ClassVar[SystemSpec] = SystemSpec(
        name="composed",
        searched={
            "learning_rate": RATES["adam"],
            "n_negatives": Choice((1, 5, 16, 20, 32)),
        },
        rules=dict.fromkeys(_LEFT, "the parts"),
    )
    # settings of parts are not searched: they differ from one composition to the next

    discriminator: DiscriminatorPart = DiscriminatorPart()
    """The part that gives the scores."""
    sampler: SamplerPart = SamplerPart()
    """The part that proposes negatives."""
    objective: ObjectivePart = ObjectivePart()
    """The loss that is minimised."""
    epochs: int | None = None  # type: ignore[assignment]
    """The most passes over the training positives. Without a value it is that of the named system
    with the same tables of vectors, and 200 for networks."""
    early_stopping: EarlyStoppingByParts = EarlyStoppingByParts()
    """How the number of epochs is chosen on validation rows."""
    dim: int | None = None  # type: ignore[assignment]
    """The size D of vectors. Without a value it is that of the named system with the same tables of
    vectors, and 32 for networks."""
    learning_rate: float | None = None  # type: ignore[assignment]
    """The learning rate of the optimiser. Without a value it is that of the named system with the
    same tables of vectors, and 0.003 for networks and for all optimisers but adagrad."""
    optimizer: OptimizationByParts = OptimizationByParts()
    """The rule for steps."""
    n_negatives: int | None = None  # type: ignore[assignment]
    """How many negatives are drawn for each positive. Without a value it is that of the named
    system with the same tables of vectors, and 16 for networks."""
    l2: float | None = None
    """The weight λ of the discriminator's penalty. Without a value it is that of the named system
    with the same tables of vectors, and 0 for networks."""
    item_memory: ItemMemory = ItemMemory(weight=None)
    """The item-item weights that are added to the scores. Without a weight it is chosen on
    validation rows where the named system with the same tables of vectors does so, and 0 elsewhere,
    which leaves them out."""

    def _make_discriminator(self, given: Ingredients) -> Discriminator:
        """Make the discriminator of this name; a network gets an adapter around it."""
        part, settings = DISCRIMINATORS[self._known("discriminator")], self._given("discriminator")
        if not is_module(part):
            found: Discriminator = part(given, **settings)
            return found
        if "dim" in settings_of("discriminator", self.discriminator.name):
            settings = {"dim": self.dim} | settings
        data = given.data
        with torch.random.fork_rng([]):
            torch.manual_seed(torch_seed(given.seed, Stream.INIT_MODULE))
            module: Any = part(data.n_users, data.n_items, **settings)
            if hasattr(module, "prepare"):
                module.prepare(data)
        adapter = Adapter(
            module,
            data.n_users,
            data.n_items,
            l2=self._penalty(data),
            name=self.discriminator.name,
            settings=settings,
        )
        network = adapter.saved_whole()
        if network is not None:
            require_comes_back(network)
        return adapter.to(given.device)

    def _make_objective(self, given: Ingredients) -> Objective:
        """Make the objective of this name."""
        return OBJECTIVES[self._known("objective")](given, **self._given("objective"))

    def _make_sampler(self, given: Ingredients) -> Sampler:
        """Make the sampler of this name."""
        return SAMPLERS[self._known("sampler")](given, **self._given("sampler"))

    def _n_states(self) -> int:
        """Return the number K of states of the generator; 0 without one."""
        if self.sampler.name != "decomposable":
            return 0
        return at_least("sampler__states", self._given("sampler").get("states", 1), 1)

    def _step(self) -> tuple[str, float]:
        """Return the optimiser as given; what is not given suits the discriminator."""
        twin = self._twin()
        name = self.optimizer.name or ("adam" if twin is None else "adagrad")
        by_rule = _RATE if twin is None or name != "adagrad" else twin.learning_rate
        return name, by_rule if self.learning_rate is None else self.learning_rate

    def _decided(self, data: Interactions) -> dict[str, Any]:
        """Return what is not given, as the named system with the same tables has it."""
        twin = self._twin()
        by_rule = {} if twin is None else twin._decided(data)
        return self._defaults_of_twin(by_rule)

    def _loop(self) -> FitOptions:
        """Return the settings of the loop, with nothing left to a rule."""
        return Learner._loop(self._changed(**self._defaults_of_twin({})))

    def _item_memory(self, data: Interactions) -> ItemMemorySolver | None:
        """Return how the item memory is made, by default as in the named system."""
        twin = self._twin()
        none = self.item_memory.weight is None and (
            twin is None or twin.item_memory.weight is not None
        )
        return Learner._item_memory(self._changed(item_memory=0.0) if none else self, data)

    def _defaults_of_twin(self, by_rule: dict[str, Any]) -> dict[str, Any]:
        """Return a value for each setting that is not given; some follow a rule of the data."""
        twin = self._twin()
        found: dict[str, Any] = dict(_NETWORK)
        if twin is not None:
            own = flat_settings(twin)
            found |= {name: own[name] for name in found if name in own}
            found["epochs"] = twin._loop().epochs
        found |= by_rule
        if self.sampler.name not in _ONE_POOL:
            found["sampler__positives_per_visit"] = 1
        if self.sampler.name == "first-violation":
            found["n_negatives"] = 1
        found["optimizer"], found["learning_rate"] = self._step()
        return self._left_to_rules({name: found[name] for name in _LEFT})

    @property
    def _looks_at_features(self) -> bool:
        """Whether the discriminator looks at features of users and items."""
        return bool(
            getattr(DISCRIMINATORS.get(self.discriminator.name), "looks_at_features", False)
        )

    def _fold_rule(self, data: Interactions) -> FoldInRule | None:
        """Return the rule of the network if it has one; cosines can have that of sdsoftmax."""
        part = DISCRIMINATORS.get(self.discriminator.name)
        if (self.discriminator.name, self.objective.name) == ("cosine", "sdsoftmax"):
            tau = self._given("discriminator").get("tau")
            rho = self._given("objective").get("rho", SDSoftmax.similarity.rho)
            return SDSoftmax(tau=tau, similarity__rho=rho)._fold_rule(data)
        if part is None or not is_module(part):
            return None
        return ByNetwork() if hasattr(part, "fold_in") and hasattr(part, "vectors") else None

    def _twin(self) -> Learner | None:
        """Return the named system with the same tables of vectors, if there is one."""
        name = _LIKE.get(self.discriminator.name)
        if self.discriminator.name == "factorization":
            name = _LIKE_FACTORIZED.get(self.objective.name, "sdgar")
        found: Any = None if name is None else SYSTEMS[name]()
        return found  # type: ignore[no-any-return]

    def _type_of(self, setting: str) -> Any:
        """Return the type of a setting by its nested name, also of a setting of a part."""
        kind, _, name = setting.partition("__")
        if setting in types_of(type(self)) or kind not in KINDS:
            return super()._type_of(setting)
        have = settings_of(kind, self._known(kind))
        if name not in have:
            known = [joined(kind, known) for known in have]
            raise nearest_setting(f"setting of {kind} {getattr(self, kind).name}", setting, known)
        return have[name]

    def _known(self, kind: str) -> str:
        """Return the name of a part; raise if it is not registered."""
        chosen: str = getattr(self, kind).name
        if chosen not in KINDS[kind]:
            raise unknown_name(kind, str(chosen), KINDS[kind])
        return chosen

    def _given(self, kind: str) -> dict[str, Any]:
        """Return the settings that are given for a part; raise if it has no such setting."""
        given = getattr(self, kind).settings
        names = {name: joined(kind, name) for name in given}
        return {n: checked(names[n], value, self._type_of(names[n])) for n, value in given.items()}
