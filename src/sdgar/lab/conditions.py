"""The conditions that all systems of a comparison share, so that their numbers can be compared."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sdgar.arguments import one_of
from sdgar.data.interactions import Interactions
from sdgar.data.splits import Split
from sdgar.errors import UsageError, unknown_name
from sdgar.evaluation.beyond import CATEGORY, newest
from sdgar.evaluation.measures import DEFINITIONS, check_metric, metrics_of, split_name
from sdgar.evaluation.report import Report
from sdgar.lab.tune import searched_of, with_settings
from sdgar.maths.rng import check_seed
from sdgar.recommend.evaluating import among_cold
from sdgar.runs.run import PROTOCOLS, identity_of
from sdgar.settings import KS, nearest_setting
from sdgar.systems.base import Estimator
from sdgar.systems.defaults import Space
from sdgar.systems.make import estimator_from_text
from sdgar.systems.names import SYSTEMS
from sdgar.systems.recipe import recipe_of
from sdgar.training.checkpoint_file import Identity


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """The conditions that all systems of a comparison share: rows, protocol, seeds and search."""

    folds: tuple[Split, ...]
    """The training and test rows: one pair, or several folds."""
    valid: Interactions | None = None
    """The validation rows; None sets some of the training rows aside."""
    protocol: str = "validated"
    """The way in which the number of epochs is chosen: validated or paper."""
    ks: tuple[int, ...] = KS
    """The lengths of the lists that are measured."""
    seeds: tuple[int, ...] = (0, 1, 2)
    """The seeds that each system is trained with."""
    trials: int | None = None
    """How many trials the search on validation rows has, with the first seed; None searches
    nothing."""
    metric: str | None = None
    """The metric that epochs and settings are chosen by and systems are sorted by. Without one,
    epochs and settings are chosen as each system has it, and systems are sorted by the first metric
    of accuracy among ``metrics``, or by NDCG on the longest lists."""
    metrics: tuple[str, ...] | None = None
    """The names of the metrics that are measured and shown, with the one that systems are sorted
    by; None measures all of accuracy."""
    facts: Mapping[Any, Mapping[str, Any]] | None = None
    """The fields of items by id, for metrics that need a column; None without a table."""

    def __post_init__(self) -> None:
        """Raise if the comparison would not be fair."""
        one_of("protocol", self.protocol, PROTOCOLS)
        if not self.seeds:
            raise UsageError("a comparison needs at least 1 seed, got none.", code="no_seeds")
        for seed in self.seeds:
            check_seed(seed)
        if not self.folds:
            raise UsageError("a comparison needs test rows, got none.", code="no_test")
        if self.trials is not None and any(
            _common(fold.held_out, self.folds[0].train) for fold in self.folds[1:]
        ):
            raise UsageError(
                "settings are searched on the training rows of the first fold, among which are "
                "test rows of the others. Tune with `sdgar tune` first and compare with --set, or "
                "use a split by time.",
                code="tuned_on_test",
            )
        if self.metric is not None:
            check_metric(self.metric)
        self._require_comparable_items()

    def _require_comparable_items(self) -> None:
        """Raise if items would be compared by vectors, which differ between systems."""
        for name in self.metrics or ():
            if split_name(name)[:2] == ("diversity", None) and self.facts is None:
                raise UsageError(
                    f"{name} compares items by the vectors of a model, and systems have different "
                    "ones or none, so that their numbers could not be compared. Give --item-facts "
                    "TABLE, by whose categories items are compared then, or another column, as in "
                    "diversity:genres@10.",
                    code="nothing_to_go_by",
                )

    @property
    def sorted_by(self) -> str:
        """The metric that systems are sorted by."""
        named = metrics_of(self.metrics, self.ks) if self.metrics else ()
        accurate = [metric.name for metric in named if metric.kind in DEFINITIONS]
        return self.metric or next(iter(accurate), f"ndcg@{max(self.ks)}")

    @property
    def measured(self) -> tuple[str, ...] | None:
        """The names of all metrics that are measured; None for all of accuracy.

        Items are compared by their categories where no column is named.
        """
        if self.metrics is None:
            return None
        metrics = metrics_of(self.metrics, self.ks)
        names = [
            (one._replace(by=one.by or CATEGORY) if one.kind == "diversity" else one).name
            for one in metrics
        ]
        return tuple(dict.fromkeys((self.sorted_by, *names)))

    @property
    def shown(self) -> tuple[str, ...]:
        """The metrics that the table shows after the one that systems are sorted by."""
        return tuple(name for name in self.measured or () if name != self.sorted_by)

    def evaluate(self, estimator: Estimator, fold: Split) -> Report:
        """Measure a fitted system on the test rows of a fold."""
        new_I = newest(fold.train)
        return estimator.evaluate(
            fold.held_out,
            ks=self.lists,
            histories=fold.histories,
            metrics=self.measured,
            facts=self.facts,
            new_items=None if new_I is None else fold.train.items.values[new_I],
        )

    def among_cold(self, estimator: Estimator, fold: Split) -> Report | None:
        """Measure accuracy among cold items alone; None if there are none with test rows."""
        return among_cold(
            estimator.recommender_,
            fold.held_out,
            ks=self.lists,
            histories=fold.histories,
            metrics=self.measured,
        )

    @property
    def lists(self) -> tuple[int, ...]:
        """The lengths of the lists that are measured."""
        return tuple(dict.fromkeys((*self.ks, check_metric(self.sorted_by)[1])))

    def ready(self, estimator: Estimator, seed: int | None) -> Estimator:
        """Return a new estimator with this seed and metric, if it has these settings."""
        own = estimator.get_params()
        wanted = {"seed": seed, "early_stopping__metric": self.metric}
        given = {name: value for name, value in wanted.items() if value is not None}
        return with_settings(estimator, {k: v for k, v in given.items() if k in own})

    def identity_of(self, estimator: Estimator, fold: Split) -> Identity:
        """Return what must be the same for a finished run to be used again."""
        identity = identity_of(
            estimator, fold.train, fold.held_out, self.valid, self.protocol, self.lists,
            fold.histories,
        )  # fmt: skip
        if self.metrics is not None:
            identity |= {"metrics": list(self.measured or ())}
        if self.facts is not None:
            identity |= {"facts of items": _fingerprint(self.facts)}
        return identity


def _fingerprint(facts: Mapping[Any, Mapping[str, Any]]) -> str:
    """Return a digest of the fields of items."""
    text = json.dumps({str(item): row for item, row in facts.items()}, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def _common(one: Interactions, other: Interactions) -> bool:
    """Return whether two sets of rows have a pair in common."""
    users_E = other.users.index_of(one.users.values)[one.users_E]
    items_E = other.items.index_of(one.items.values)[one.items_E]
    known = (users_E >= 0) & (items_E >= 0)
    pairs = users_E[known] * other.n_items + items_E[known]
    return bool(np.isin(pairs, other.users_E * other.n_items + other.items_E).any())


@dataclass(frozen=True, slots=True)
class Candidate:
    """A system to be compared, with its settings."""

    estimator: Estimator
    """The system as it is compared; a search may change its settings first."""
    fixed: Collection[str] = ()
    """The names of settings that a search must leave alone."""

    @property
    def system(self) -> str:
        """The name of the system."""
        return recipe_of(self.estimator).name

    @property
    def searched(self) -> Space:
        """The settings that a search would try, and their values."""
        return searched_of(self.estimator, self.fixed)

    def seeds(self, seeds: Sequence[int]) -> Sequence[int | None]:
        """Return the seeds to train with; one run is enough for a system that draws nothing."""
        return seeds if "seed" in self.estimator.get_params() else (None,)


def candidates_of(
    names: str, settings: Mapping[str, str], common: Mapping[str, Any]
) -> list[Candidate]:
    """Make every system with its settings, which are given as text.

    ``names`` are separated by commas. A key SYSTEM.KEY is for that system alone, and a bare KEY
    for all systems that have it.
    """
    systems = [name.strip() for name in names.split(",") if name.strip()]
    for name in systems:
        one_of("system", name, tuple(SYSTEMS))
    known = {name: list(recipe_of(SYSTEMS[name]()).settings) for name in systems}
    for key in settings:
        system, dot, name = key.rpartition(".")
        if dot and system not in systems:
            raise unknown_name("compared system", system, systems)
        if not dot and not any(name in fields for fields in known.values()):
            raise nearest_setting("setting", name, {key for own in known.values() for key in own})
    found = []
    for name in systems:
        own = {key: value for key, value in settings.items() if key in known[name]}
        for key, value in settings.items():
            if key.startswith(f"{name}."):
                own[key.removeprefix(f"{name}.")] = value
        found.append(Candidate(estimator_from_text(name, own, common=common), own))
    return found
