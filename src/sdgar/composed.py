"""Any discriminator, sampler and objective together: what fits runs, the rest says why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import torch

from sdgar.arguments import at_least, not_negative
from sdgar.contracts import Discriminator, System
from sdgar.data.interactions import Interactions
from sdgar.discriminators.adapter import Adapter
from sdgar.errors import UsageError, unknown_name
from sdgar.maths.rng import Stream, torch_seed
from sdgar.modules import require_comes_back
from sdgar.parts import (
    DISCRIMINATORS,
    KINDS,
    OBJECTIVES,
    SAMPLERS,
    Making,
    checked,
    is_module,
    settings_of,
)
from sdgar.systems import (
    BPR,
    CML,
    CPU,
    IRGAN,
    SDGAR,
    WARP,
    Composition,
    SDSoftmax,
    make_optimizer,
)

_OTHERS: Mapping[str, type[Composition]] = {"cosine": SDSoftmax, "metric": CML}
_FACTORIZED: Mapping[str, type[Composition]] = {
    "bpr": BPR, "logistic": IRGAN, "sdgar": SDGAR, "sdsoftmax": SDSoftmax, "warp": WARP,
}  # fmt: skip
"""By objective."""
_NETWORK = {
    "dim": 32, "n_negatives": 16, "positives_per_visit": 1, "l2": 0.0, "refit_every": 1,
}  # fmt: skip
"""What networks are trained with, by Adam."""
_RATE = 0.003
"""Of Adam and of what moves rows as far."""
_LEFT = ("optimizer", "learning_rate", *_NETWORK)
"""Settings that can be left to a rule."""
_ONE_POOL = ("uniform", "popularity", "decomposable")
"""Samplers whose proposals for a user do not depend on the positive, so that some can share."""


@dataclass(kw_only=True, eq=False)
class Composed(Composition):
    """A discriminator, a sampler and an objective of your choice.

    What is not given is as in the named system with the same tables of vectors: sdsoftmax for
    cosine, cml for metric, and for factorization the one that has the objective.
    """

    system_name: ClassVar[str] = "composed"
    rules: ClassVar[Mapping[str, str]] = dict.fromkeys(_LEFT, "the parts")

    discriminator: str = "cosine"
    """What gives the scores: factorization, cosine, metric, lightgcn, two-tower, sequence, or a
    registered one."""
    sampler: str = "decomposable"
    """Who proposes negatives: uniform, popularity, decomposable, adaptive, hardest,
    first-violation, search, or a registered one."""
    objective: str = "sdsoftmax"
    """What is minimised: bpr, logistic, sdgar, sdsoftmax, warp, cml, or a registered one."""
    settings: dict[str, Any] = field(default_factory=dict)
    """The settings of the parts by ``part.name``, as in {"discriminator.layers": 2}."""
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

    def compose(self, data: Interactions, *, seed: int, device: torch.device = CPU) -> System:
        """Make the parts, or say why they do not go together."""
        return self._settled(data)._composed(data, seed, device)

    def least_bytes(self, data: Interactions) -> int:
        """Memory that training takes in any case."""
        return Composition.least_bytes(self._settled(data), data)

    def _composed(self, data: Interactions, seed: int, device: torch.device) -> System:
        given = self._given()
        row_wise = make_optimizer(*self.step()).row_wise
        making = Making(data, seed, device, at_least("dim", self.dim, 1), row_wise)
        discriminator = self._discriminator(making, given["discriminator"])
        making = replace(making, discriminator=discriminator)
        objective = OBJECTIVES[self.objective](making, **given["objective"])
        making = replace(making, objective=objective)
        sampler = SAMPLERS[self.sampler](making, **given["sampler"])
        return self._system(
            data,
            discriminator,
            sampler,
            objective,
            refit_every=at_least("refit_every", self.refit_every, 1),
        )

    def _states(self) -> int:
        if self.sampler != "decomposable":
            return 0
        return at_least("sampler.states", self._given()["sampler"].get("states", 1), 1)

    def step(self) -> tuple[str, float]:
        """What is given, and for the rest what suits the discriminator."""
        twin = self._twin()
        name = self.optimizer or ("adam" if twin is None else "adagrad")
        by_rule = _RATE if twin is None or name != "adagrad" else twin.learning_rate
        return name, by_rule if self.learning_rate is None else self.learning_rate

    def decided(self, data: Interactions) -> dict[str, Any]:
        """What is not given, as it is in the named system with the same tables."""
        twin = self._twin()
        found: dict[str, Any] = dict(_NETWORK)
        if twin is not None:
            named = twin()
            found |= {name: getattr(named, name) for name in found if hasattr(named, name)}
            found |= named.decided(data)
        if self.sampler not in _ONE_POOL:
            found["positives_per_visit"] = 1
        if self.sampler == "first-violation":
            found["n_negatives"] = 1
        found["optimizer"], found["learning_rate"] = self.step()
        return {name: found[name] for name in _LEFT if getattr(self, name) is None}

    @property
    def folds_in(self) -> bool:
        """Whether the discriminator is a network that finds vectors from histories."""
        part = DISCRIMINATORS.get(self.discriminator)
        return (
            part is not None
            and is_module(part)
            and hasattr(part, "fold_in")
            and hasattr(part, "vectors")
        )

    def _settled(self, data: Interactions) -> Self:
        """The same with nothing left to a rule."""
        return replace(self, **self.decided(data))

    def _twin(self) -> type[Composition] | None:
        """The named system with the same tables of vectors, if there is one."""
        if self.discriminator == "factorization":
            return _FACTORIZED.get(self.objective, SDGAR)
        return _OTHERS.get(self.discriminator)

    def _penalty(self, data: Interactions) -> float:
        return not_negative("l2", self.l2)

    def type_of(self, setting: str) -> type:
        """The type of a setting of a part, by ``part.name``."""
        kind, _, name = setting.partition(".")
        self._require_known()
        if kind not in KINDS:
            raise UsageError(
                f"setting {setting!r} names no part. Write discriminator.{name}, sampler.{name} "
                f"or objective.{name}.",
                code="bad_setting",
            )
        have = settings_of(kind, getattr(self, kind))
        if name not in have:
            raise unknown_name(f"setting of {kind} {getattr(self, kind)}", name, have)
        return have[name]

    def _require_known(self) -> None:
        for kind, known in KINDS.items():
            chosen = getattr(self, kind)
            if chosen not in known:
                raise unknown_name(kind, str(chosen), known)

    def _given(self) -> dict[str, dict[str, Any]]:
        """The settings of each part, which must have them."""
        self._require_known()
        given: dict[str, dict[str, Any]] = {kind: {} for kind in KINDS}
        for setting, value in self.settings.items():
            kind, _, name = setting.partition(".")
            given[kind][name] = checked(setting, value, self.type_of(setting))
        return given

    def _discriminator(self, making: Making, settings: dict[str, Any]) -> Discriminator:
        part, data = DISCRIMINATORS[self.discriminator], making.data
        if not is_module(part):
            found: Discriminator = part(making, **settings)
            return found
        if "dim" in settings_of("discriminator", self.discriminator):
            settings = {"dim": self.dim} | settings
        with torch.random.fork_rng([]):
            torch.manual_seed(torch_seed(making.seed, Stream.INIT_MODULE))
            module: Any = part(data.n_users, data.n_items, **settings)
            if hasattr(module, "prepare"):
                module.prepare(data)
        adapter = Adapter(
            module, data.n_users, data.n_items, l2=self._penalty(data), name=self.discriminator,
            settings=settings,
        )  # fmt: skip
        network = adapter.saved_whole()
        if network is not None:
            require_comes_back(network)
        return adapter.to(making.device)


def require_looks(recipe: Any, data: Interactions) -> None:
    """Refuse features of users or items where no part of a system looks at them."""
    if data.user_features is not None or data.item_features is not None:
        require_looker(recipe)


def require_looker(recipe: Any) -> None:
    """Refuse a system that looks at no features."""
    part = DISCRIMINATORS.get(getattr(recipe, "discriminator", ""))
    if not getattr(part, "looks_at_features", False):
        raise UsageError(
            f"system {recipe.system_name} looks at no features. Use discriminator two-tower "
            "(--discriminator two-tower), or leave the features out.",
            code="unused_features",
        )
