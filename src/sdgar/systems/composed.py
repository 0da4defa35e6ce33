"""A system of any discriminator, sampler and objective; an error says which do not fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any, ClassVar

import torch

from sdgar.arguments import at_least
from sdgar.contracts import Discriminator, Objective, Sampler
from sdgar.data.interactions import Interactions
from sdgar.discriminators.adapter import Adapter
from sdgar.errors import UsageError, unknown_name
from sdgar.maths.rng import Stream, torch_seed
from sdgar.models.fold_in import ByNetwork, Rule
from sdgar.models.network import require_comes_back
from sdgar.parts.register import (
    DISCRIMINATORS,
    KINDS,
    OBJECTIVES,
    SAMPLERS,
    Ingredients,
    checked,
    is_module,
    settings_of,
)
from sdgar.systems.base import estimator
from sdgar.systems.learner import Learner
from sdgar.systems.loop import Looped
from sdgar.systems.names import SYSTEMS
from sdgar.systems.sdsoftmax import SDSoftmax
from sdgar.systems.spaces import RATES, Choice, Space
from sdgar.training.fit import FitOptions
from sdgar.training.memory import Memory

_LIKE = {"cosine": "sdsoftmax", "metric": "cml"}
"""The named system with the same tables of vectors, by discriminator."""
_LIKE_FACTORIZED = {
    "bpr": "bpr", "logistic": "irgan", "sdgar": "sdgar", "sdsoftmax": "sdsoftmax", "warp": "warp",
}  # fmt: skip
"""The named system with the same tables of vectors as factorization, by objective."""
_NETWORK = {
    "dim": 32, "n_negatives": 16, "positives_per_visit": 1, "l2": 0.0, "refit_every": 1,
    "epochs": Looped.epochs, "evaluate_every": Looped.evaluate_every, "schedule": Learner.schedule,
}  # fmt: skip
"""The settings that networks are trained with, by Adam, unless others are given."""
_RATE = 0.003
"""The learning rate of Adam, and of other optimisers whose steps are as long."""
_LEFT = ("optimizer", "learning_rate", *_NETWORK)
"""The settings that can be left to a rule."""
_ONE_POOL = ("uniform", "popularity", "decomposable")
"""The samplers whose proposals do not depend on the positive: several positives can share them."""


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

    system_name: ClassVar[str] = "composed"
    # What else its parts have is for --set: it differs from one composition to the next.
    searched: ClassVar[Space] = {
        "learning_rate": RATES["adam"],
        "n_negatives": Choice((1, 5, 16, 20, 32)),
    }
    rules: ClassVar[Mapping[str, str]] = dict.fromkeys(_LEFT, "the parts")

    discriminator: str = "cosine"
    """The part that gives the scores: factorization, cosine, metric, lightgcn, two-tower, sequence,
    or a registered one."""
    sampler: str = "decomposable"
    """The part that proposes negatives: uniform, popularity, popularity-mix, decomposable,
    adaptive, hardest, first-violation, search, or a registered one."""
    objective: str = "sdsoftmax"
    """The loss that is minimised: bpr, logistic, sdgar, sdsoftmax, warp, cml, or a registered
    one."""
    settings: dict[str, Any] = field(default_factory=dict)
    """The settings of the parts by ``part.name``, as in {"discriminator.layers": 2}."""
    epochs: int | None = None  # type: ignore[assignment]
    """The most passes over the training positives. Without a value it is that of the named system
    with the same tables of vectors, and 200 for networks."""
    evaluate_every: int | None = None  # type: ignore[assignment]
    """How many epochs lie between two looks at the validation rows. Without a value it is that of
    the named system with the same tables of vectors, and 5 for networks."""
    dim: int | None = None  # type: ignore[assignment]
    """The size D of vectors. Without a value it is that of the named system with the same tables of
    vectors, and 32 for networks."""
    learning_rate: float | None = None  # type: ignore[assignment]
    """The learning rate of the optimiser. Without a value it is that of the named system with the
    same tables of vectors, and 0.003 for networks and for all optimisers but adagrad."""
    optimizer: str | None = None  # type: ignore[assignment]
    """How steps are taken: adam (which moves all rows, as networks need), lazy-adam, adagrad (one
    sum of squares a row) or sgd. Without a name it is adagrad for factorization, cosine and metric,
    and adam for networks."""
    schedule: str | None = None  # type: ignore[assignment]
    """How the learning rate changes: constant, or linear, which lets it fall evenly to nothing over
    ``epochs``. Without a name it is that of the named system with the same tables of vectors, and
    constant for networks."""
    n_negatives: int | None = None  # type: ignore[assignment]
    """How many negatives are drawn for each positive. Without a value it is that of the named
    system with the same tables of vectors, and 16 for networks."""
    positives_per_visit: int | None = None  # type: ignore[assignment]
    """How many positives of a user share one pool of negatives. Without a value it is that of the
    named system with the same tables of vectors, and 1 for networks."""
    l2: float | None = None
    """The weight λ of the discriminator's penalty. Without a value it is that of the named system
    with the same tables of vectors, and 0 for networks."""
    refit_every: int | None = None
    """How many epochs lie between two refits of the sampler. Without a value it is that of the
    named system with the same tables of vectors, and 1 for networks."""

    memory: float | None = None
    """The weight γ of a memory that is added to the scores: weights between items, found by least
    squares. Without a value it is chosen on validation rows where the named system with the same
    tables of vectors does so, and 0 elsewhere, which leaves the memory out."""

    def make_discriminator(self, given: Ingredients) -> Discriminator:
        """Make the discriminator of this name; a network gets an adapter around it."""
        part, settings = DISCRIMINATORS[self._known("discriminator")], self._given("discriminator")
        if not is_module(part):
            found: Discriminator = part(given, **settings)
            return found
        if "dim" in settings_of("discriminator", self.discriminator):
            settings = {"dim": self.dim} | settings
        data = given.data
        with torch.random.fork_rng([]):
            torch.manual_seed(torch_seed(given.seed, Stream.INIT_MODULE))
            module: Any = part(data.n_users, data.n_items, **settings)
            if hasattr(module, "prepare"):
                module.prepare(data)
        adapter = Adapter(
            module, data.n_users, data.n_items, l2=self.penalty(data), name=self.discriminator,
            settings=settings,
        )  # fmt: skip
        network = adapter.saved_whole()
        if network is not None:
            require_comes_back(network)
        return adapter.to(given.device)

    def make_objective(self, given: Ingredients) -> Objective:
        """Make the objective of this name."""
        return OBJECTIVES[self._known("objective")](given, **self._given("objective"))

    def make_sampler(self, given: Ingredients) -> Sampler:
        """Make the sampler of this name."""
        return SAMPLERS[self._known("sampler")](given, **self._given("sampler"))

    def n_states(self) -> int:
        """Return the number K of states of the generator; 0 without one."""
        if self.sampler != "decomposable":
            return 0
        return at_least("sampler.states", self._given("sampler").get("states", 1), 1)

    def step(self) -> tuple[str, float]:
        """Return the optimiser as given; what is not given suits the discriminator."""
        twin = self._twin()
        name = self.optimizer or ("adam" if twin is None else "adagrad")
        by_rule = _RATE if twin is None or name != "adagrad" else twin.learning_rate
        return name, by_rule if self.learning_rate is None else self.learning_rate

    def decided(self, data: Interactions) -> dict[str, Any]:
        """Return what is not given, as the named system with the same tables has it."""
        twin = self._twin()
        by_rule = {} if twin is None else twin.decided(data)
        return self._left_out(by_rule)

    def fit_options(self) -> FitOptions:
        """Return the settings of the loop, with nothing left to a rule."""
        return Learner.fit_options(replace(self, **self._left_out({})))

    def beside(self, data: Interactions) -> Memory | None:
        """Say which memory is added, as the named system with the same tables does by default."""
        twin = self._twin()
        none = self.memory is None and (twin is None or twin.memory is not None)
        return Learner.beside(replace(self, memory=0.0) if none else self, data)

    def _left_out(self, by_rule: dict[str, Any]) -> dict[str, Any]:
        """Return a value for each setting that is not given; some follow a rule of the data."""
        twin = self._twin()
        found: dict[str, Any] = dict(_NETWORK)
        if twin is not None:
            found |= {name: getattr(twin, name) for name in found if hasattr(twin, name)}
            found["epochs"] = twin.fit_options().epochs
        found |= by_rule
        if self.sampler not in _ONE_POOL:
            found["positives_per_visit"] = 1
        if self.sampler == "first-violation":
            found["n_negatives"] = 1
        found["optimizer"], found["learning_rate"] = self.step()
        return {name: found[name] for name in _LEFT if getattr(self, name) is None}

    @property
    def looks_at_features(self) -> bool:  # type: ignore[override]
        """Whether the discriminator looks at features of users and items."""
        return bool(getattr(DISCRIMINATORS.get(self.discriminator), "looks_at_features", False))

    def fold_rule(self, data: Interactions) -> Rule | None:
        """Return the rule of the network if it has one; cosines can have that of sdsoftmax."""
        part = DISCRIMINATORS.get(self.discriminator)
        if (self.discriminator, self.objective) == ("cosine", "sdsoftmax"):
            tau = self._given("discriminator").get("tau")
            twin = SDSoftmax(tau=tau, rho=self._given("objective").get("rho", SDSoftmax.rho))
            return twin.fold_rule(data)
        if part is None or not is_module(part):
            return None
        return ByNetwork() if hasattr(part, "fold_in") and hasattr(part, "vectors") else None

    def _twin(self) -> Learner | None:
        """Return the named system with the same tables of vectors, if there is one."""
        name = _LIKE.get(self.discriminator)
        if self.discriminator == "factorization":
            name = _LIKE_FACTORIZED.get(self.objective, "sdgar")
        found: Any = None if name is None else SYSTEMS[name]()
        return found  # type: ignore[no-any-return]

    def type_of(self, setting: str) -> type:
        """Return the type of a setting of a part, by ``part.name``."""
        kind, _, name = setting.partition(".")
        if kind not in KINDS:
            raise UsageError(
                f"setting {setting!r} names no part. Write discriminator.{name}, sampler.{name} "
                f"or objective.{name}.",
                code="bad_setting",
            )
        have = settings_of(kind, self._known(kind))
        if name not in have:
            raise unknown_name(f"setting of {kind} {getattr(self, kind)}", name, have)
        return have[name]

    def _known(self, kind: str) -> str:
        """Return the name of a part; raise if it is not registered."""
        chosen: str = getattr(self, kind)
        if chosen not in KINDS[kind]:
            raise unknown_name(kind, str(chosen), KINDS[kind])
        return chosen

    def _given(self, kind: str) -> dict[str, Any]:
        """Return the settings that are given for a part; raise if it has no such setting."""
        typed = {name: checked(name, v, self.type_of(name)) for name, v in self.settings.items()}
        own = {name.partition("."): value for name, value in typed.items()}
        return {name: value for (part, _, name), value in own.items() if part == kind}
