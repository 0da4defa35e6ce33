"""Any discriminator, sampler and objective together: what fits runs, the rest says why."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import torch

from sdgar.arguments import at_least, not_negative
from sdgar.contracts import Discriminator, Objective, Sampler, System
from sdgar.data.interactions import Interactions
from sdgar.discriminators.adapter import Adapter
from sdgar.errors import UsageError, unknown_name
from sdgar.modules import require_comes_back
from sdgar.objectives import (
    RankHingeByTries,
    SampledSoftmax,
    WeightedLogistic,
)
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
from sdgar.rng import Stream, torch_seed
from sdgar.samplers.adaptive import AdaptiveOrder
from sdgar.samplers.score_aware import FirstViolation, Hardest
from sdgar.samplers.search import NearTop
from sdgar.systems import CPU, Composition, make_optimizer


@dataclass(kw_only=True, eq=False)
class Composed(Composition):
    """A discriminator, a sampler and an objective of your choice."""

    system_name: ClassVar[str] = "composed"

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
    learning_rate: float = 0.003
    """The learning rate of the optimiser; row-wise Adagrad wants about 0.1."""
    optimizer: str = "adam"
    """How steps are taken: adam (which moves all rows, as networks need), lazy-adam, adagrad or
    sgd."""
    n_negatives: int = 16
    """How many negatives are drawn for each positive."""
    l2: float = 0.0
    """The weight λ of the discriminator's penalty."""
    refit_every: int = 1
    """How many epochs lie between two refits of the sampler."""

    def compose(self, data: Interactions, *, seed: int, device: torch.device = CPU) -> System:
        """Make the parts, or say why they do not go together."""
        row_wise = make_optimizer(self.optimizer, self.learning_rate).row_wise
        given = self._given()
        making = Making(data, seed, device, self.dim, row_wise)
        discriminator = self._discriminator(making, given["discriminator"])
        making = replace(making, discriminator=discriminator)
        objective = OBJECTIVES[self.objective](making, **given["objective"])
        making = replace(making, objective=objective)
        sampler = SAMPLERS[self.sampler](making, **given["sampler"])
        _require_fit(self, discriminator, sampler, objective)
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
            module, data.n_users, data.n_items, l2=self.l2, name=self.discriminator,
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


def _require_fit(
    chosen: Composed, discriminator: Discriminator, sampler: Sampler, objective: Objective
) -> None:
    """Refuse parts that do not go together, and say which do."""
    silent = isinstance(sampler, AdaptiveOrder | Hardest | FirstViolation) or (
        isinstance(sampler, NearTop) and sampler.explore == 0
    )
    if silent and isinstance(objective, WeightedLogistic | SampledSoftmax):
        raise UsageError(
            f"objective {chosen.objective} weighs negatives by how likely they were proposed, "
            f"which sampler {chosen.sampler} cannot say. With it use objective bpr or logistic; "
            "with this objective use sampler decomposable, uniform, popularity, or search with "
            "sampler.explore above 0.",
            code="parts_do_not_fit",
        )
    if isinstance(objective, RankHingeByTries) and not isinstance(sampler, FirstViolation):
        raise UsageError(
            "objective warp estimates ranks from the number of tries, which only sampler "
            f"first-violation counts; the sampler is {chosen.sampler}. Use that sampler, or "
            "objective cml, which estimates ranks from several negatives.",
            code="parts_do_not_fit",
        )
    if isinstance(sampler, FirstViolation) and chosen.n_negatives != 1:
        raise UsageError(
            f"sampler first-violation gives 1 negative a positive, and n_negatives is "
            f"{chosen.n_negatives}. Set n_negatives to 1.",
            code="parts_do_not_fit",
        )
    if sampler.uses_scores and discriminator.by_event:
        raise UsageError(
            f"sampler {chosen.sampler} looks at the scores of users, but discriminator "
            f"{chosen.discriminator} scores what came before each row. Use sampler decomposable, "
            "uniform, popularity or search.",
            code="parts_do_not_fit",
        )
