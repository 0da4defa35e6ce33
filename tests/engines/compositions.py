"""Compositions that engines are tested with: parts by their class, and which of them meet."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor

from sdgar.contracts import Health, System
from sdgar.data.interactions import Interactions
from sdgar.discriminators.bounded import Cosine, MetricModel
from sdgar.discriminators.factorization import MatrixFactorization
from sdgar.engines.eager import EagerEngine
from sdgar.engines.protocol import Engine, EpochStats
from sdgar.errors import UsageError
from sdgar.maths.optimizers import SGD, LazyAdam, RowAdagrad
from sdgar.objectives import (
    CmlHinge,
    Logistic,
    PairwiseLogistic,
    SampledSoftmax,
    WarpHinge,
    WeightedLogistic,
)
from sdgar.samplers.closed_form import ClosedForm, ClosedFormSettings
from sdgar.samplers.decomposable import Decomposable
from sdgar.samplers.dislikes import WithDislikes
from sdgar.samplers.rank_by_factor import RankByFactor
from sdgar.samplers.score_aware import FirstViolation, HardestOf
from sdgar.samplers.static import Popularity, PopularityMix, Uniform

from ..triton_interpreter import INTERPRETED

CPU = torch.device("cpu")
GPU = CPU if INTERPRETED else torch.device("cuda")
"""Where the fused GPU engine is tested: in Triton's interpreter, or on a GPU."""

DIM = 5
Make = Callable[..., Any]


def _generator(data: Interactions) -> Decomposable:
    update = ClosedForm(temperature=0.5, settings=ClosedFormSettings(samples=8))
    return Decomposable(data.n_users, data.n_items, 6, seed=1, update=update)


def _ranks(data: Interactions) -> RankByFactor:
    """Any model will do for all engines; this one has biases to be ordered by."""
    model = MatrixFactorization(data.n_users, data.n_items, DIM, seed=0)
    model.bias_I.data += torch.arange(data.n_items) * 0.01
    return RankByFactor(model, 0.2)


def _disliking(base: type) -> Make:
    """Every second context dislikes some of what it does not have."""

    def make(data: Interactions) -> WithDislikes:
        free_UI = np.ones((data.n_users, data.n_items), bool)
        free_UI[data.users_E, data.items_E] = False
        free_UI &= np.add.outer(np.arange(data.n_users), np.arange(data.n_items)) % 4 == 0
        users_D, items_D = np.nonzero(free_UI)
        rated = data.with_seen(data.users.at(users_D), data.items.at(items_D))
        return WithDislikes(SAMPLERS[base](data), rated, 0.3)

    return make


def _count(data: Interactions) -> Tensor:
    return torch.from_numpy(np.bincount(data.items_E, minlength=data.n_items))


DISCRIMINATORS: dict[type, Make] = {
    MatrixFactorization: MatrixFactorization,
    Cosine: lambda *size, **common: Cosine(*size, tau=0.3, **common),
    MetricModel: lambda *size, bias, fields, **common: MetricModel(*size, **common),
}
SAMPLERS: dict[type, Make] = {
    Uniform: lambda data: Uniform(),
    Popularity: lambda data: Popularity(_count(data)),
    PopularityMix: lambda data: PopularityMix(_count(data), 0.3),
    Decomposable: _generator,
    RankByFactor: _ranks,
    HardestOf: lambda data: HardestOf(3),
    FirstViolation: lambda data: FirstViolation(0.05, 6),
    WithDislikes: lambda data: _disliking(Decomposable)(data),
}
OBJECTIVES: dict[type, Make] = {
    PairwiseLogistic: lambda data: PairwiseLogistic(),
    Logistic: lambda data: Logistic(),
    WeightedLogistic: lambda data: WeightedLogistic(0.5),
    WarpHinge: lambda data: WarpHinge(0.05, data.n_items),
    CmlHinge: lambda data: CmlHinge(2.0, data.n_items),
    SampledSoftmax: lambda data: SampledSoftmax(1.2),
}
# A larger ε than the default: where a gradient cancels out, ε decides how much of its rounding
# Adam's first steps blow up, and small batches have large gradients.
OPTIMIZERS: dict[type, Any] = {
    SGD: SGD(0.5),
    LazyAdam: LazyAdam(0.02, epsilon=1e-6, horizon=4),  # rates fall from the first epoch on
    RowAdagrad: RowAdagrad(0.1, horizon=3),
}


@functools.cache
def _shared_data(fields: bool) -> Interactions:
    return some_data(fields=fields)


@functools.cache
def _shared_sampler(kind: type, fields: bool) -> Any:
    return SAMPLERS[kind](_shared_data(fields))


@functools.cache
def _shared_discriminator(kind: type, bias: bool, fields: bool, sparse: bool) -> Any:
    return _discriminator(kind, _shared_data(fields), DIM, bias=bias, sparse=sparse)


def _discriminator(kind: type, data: Interactions, dim: int, *, bias: bool, sparse: bool) -> Any:
    common: dict[str, Any] = {"seed": 0, "sparse": sparse, "fields": data.fields}
    if kind is not MatrixFactorization:
        common["bias"] = bias
    return DISCRIMINATORS[kind](data.n_users, data.n_items, dim, **common)


class Composition(NamedTuple):
    """The classes of the parts; cosines may have biases, and contexts may be sums of fields."""

    sampler: type
    discriminator: type
    objective: type
    optimizer: type
    bias: bool = False
    fields: bool = False

    def __str__(self) -> str:
        names = [part.__name__ for part in self[:4]]
        return "-".join(names + ["bias"] * self.bias + ["fields"] * self.fields)

    def system(self, data: Interactions, **changes: Any) -> System:
        """The parts, made for some data."""
        optimizer = changes.get("optimizer", OPTIMIZERS[self.optimizer])
        dim = changes.pop("dim", DIM)
        sampler = changes.get("sampler")
        if sampler is None:
            sampler = SAMPLERS[self.sampler](data)
        if "discriminator" not in changes:
            changes["discriminator"] = _discriminator(
                self.discriminator, data, dim, bias=self.bias, sparse=optimizer.row_wise
            )
        parts = {
            "name": "test",
            "sampler": sampler,
            "objective": OBJECTIVES[self.objective](data),
            "optimizer": optimizer,
            "n_negatives": min(3, getattr(sampler, "most_negatives", None) or 3),
            "batch_size": 12,
            "l2": 0.0 if self.discriminator is MetricModel else 0.02,
        }
        if getattr(sampler, "by_positive", False):
            changes["positives_per_visit"] = 1
        return System(**(parts | changes))

    def probe(self) -> System:
        """A system for questions and not for training, because others share its parts."""
        sparse = OPTIMIZERS[self.optimizer].row_wise
        return self.system(
            _shared_data(self.fields),
            sampler=_shared_sampler(self.sampler, self.fields),
            discriminator=_shared_discriminator(self.discriminator, self.bias, self.fields, sparse),
        )

    def data(self, **options: Any) -> Interactions:
        """Data for it, with contexts of several fields if it wants them."""
        return some_data(fields=self.fields, **options)


# What the loop of the CPU is compiled for is a draw, a score, a loss and a step; each combination
# compiles for seconds. These few meet every class that an engine has code for, and the pairs that
# depend on each other: draws that look at scores with losses, losses that weigh with draws that
# know Q, and cosines with the softmax. Where there is a choice they belong to systems and
# examples, which are compiled anyway. All the others are met by ``-m exhaustive``.
PAIRWISE_ADAM = Composition(Uniform, MatrixFactorization, PairwiseLogistic, LazyAdam)
LOGISTIC_SGD = Composition(Popularity, MatrixFactorization, Logistic, SGD)
SDGAR = Composition(Decomposable, MatrixFactorization, WeightedLogistic, RowAdagrad)
POPULAR = Composition(Popularity, MatrixFactorization, WeightedLogistic, RowAdagrad)
VIOLATION = Composition(FirstViolation, MatrixFactorization, WarpHinge, RowAdagrad)
SOFTMAX_ADAM = Composition(Decomposable, Cosine, SampledSoftmax, LazyAdam)
RANKS_ADAGRAD = Composition(RankByFactor, MatrixFactorization, PairwiseLogistic, RowAdagrad)
METRIC = Composition(Uniform, MetricModel, CmlHinge, RowAdagrad)
METRIC_ADAM = Composition(Uniform, MetricModel, CmlHinge, LazyAdam)
DISLIKING = Composition(WithDislikes, Cosine, SampledSoftmax, RowAdagrad, bias=True)
SUMS_OF_FIELDS = (
    Composition(Uniform, MatrixFactorization, PairwiseLogistic, RowAdagrad, fields=True),
    Composition(Decomposable, Cosine, SampledSoftmax, RowAdagrad, bias=True, fields=True),
)
MET = (
    PAIRWISE_ADAM,
    LOGISTIC_SGD,
    SDGAR,
    POPULAR,
    Composition(Decomposable, Cosine, SampledSoftmax, RowAdagrad, bias=True),
    SOFTMAX_ADAM,
    RANKS_ADAGRAD,
    # It draws from the table of popularity, so nothing more is compiled for it.
    Composition(PopularityMix, MatrixFactorization, Logistic, SGD),
    Composition(HardestOf, MatrixFactorization, PairwiseLogistic, RowAdagrad),
    VIOLATION,
    DISLIKING,
    *SUMS_OF_FIELDS,
    METRIC,
)


def every_composition() -> Iterator[Composition]:
    """All classes with all, as far as their parts go together."""
    tables = SAMPLERS, DISCRIMINATORS, OBJECTIVES, OPTIMIZERS
    for classes in itertools.product(*tables):
        for bias in (False, True) if classes[1] is Cosine else (False,):
            one = Composition(*classes, bias=bias)
            try:
                one.probe()
            except UsageError:
                continue
            yield one


KNOWS_ALL_BUT_ONE, KNOWS_ALL = 3, 4


def some_data(
    *,
    weighted: bool = True,
    fields: bool = False,
    users: int = 30,
    items: int = 24,
    density: float = 0.25,
    seen_by: str = "user",
) -> Interactions:
    """Every item but the last, a rare one, is known to one context, and all items to another."""
    rng = np.random.default_rng(0)
    liked = rng.random((users, items)) < density
    liked[:, -1] = rng.random(users) < 0.1
    liked[KNOWS_ALL_BUT_ONE, :-1], liked[KNOWS_ALL_BUT_ONE, -1] = True, False
    liked[KNOWS_ALL] = True
    users_E, items_E = np.nonzero(liked)
    weight = rng.uniform(0.2, 3, len(users_E)) if weighted else None
    if not fields:
        return Interactions.from_arrays(users_E, items_E, weight=weight)
    # Some users have one context, most have two; the parts of the day are shared by all.
    contexts = {"user": users_E // 2, "part": users_E % 3, "end": users_E % 2}
    return Interactions.from_contexts(contexts, items_E, weight=weight, seen_by=seen_by)


def parameters(engine: Engine) -> dict[str, Tensor]:
    """What the discriminator has learned."""
    return {k: v for k, v in engine.state().items() if k.startswith("model.")}


def far(some: dict[str, Tensor], other: dict[str, Tensor]) -> dict[str, float]:
    """‖a - b‖ / ‖b‖ of each table."""
    assert some.keys() == other.keys()
    return {
        name: float((a.double().cpu() - b.double().cpu()).norm() / b.norm())
        for name, a, b in ((name, some[name], other[name]) for name in some)
    }


TOLERANCE = 1e-5
"""Of the norm of a table: what the engines promise each other."""


def assert_same_stats(stats: EpochStats, expected: EpochStats) -> None:
    assert stats.loss == pytest.approx(expected.loss, rel=TOLERANCE)
    assert (stats.positives, stats.unanswered) == (expected.positives, expected.unanswered)
    assert (stats.effective is None) == (expected.effective is None)
    if expected.effective is not None:
        assert stats.effective == pytest.approx(expected.effective, rel=10 * TOLERANCE)


def assert_same_health(health: Health, expected: Health) -> None:
    assert dict(health.numbers) == pytest.approx(dict(expected.numbers), rel=1e-3)


def assert_same_epochs(
    kind: type[Engine],
    device: torch.device,
    one: Composition,
    data: Interactions,
    *,
    epochs: int = 3,
    refit: bool = False,
    **changes: Any,
) -> tuple[Engine, EpochStats]:
    """Compare an engine with eager: the same numbers every epoch, the same parameters at the end.

    One other negative, or one other weight, would be seen in the parameters.
    """
    engine, expected = (
        made(one.system(data, **changes), data, seed=5, device=device)
        for made in (kind, EagerEngine)
    )
    start = parameters(expected)
    for epoch in range(1, epochs + 1):
        if refit:
            assert_same_health(engine.refit(epoch), expected.refit(epoch))
        last = expected.run_epoch(epoch)
        assert_same_stats(engine.run_epoch(epoch), last)
    distance = far(parameters(engine), parameters(expected))
    assert max(distance.values()) < TOLERANCE, distance
    # Standing still would be the same for both.
    if "model.bias_I" in start:
        start["model.bias_I"] = torch.ones(1)
    assert min(far(parameters(expected), start).values()) > 0.001
    return engine, last


def assert_same_bytes(found: list[tuple[object, dict[str, Tensor]]]) -> None:
    for stats, state in found[1:]:
        assert stats == found[0][0]
        assert state.keys() == found[0][1].keys()
        assert all(torch.equal(state[k], found[0][1][k]) for k in state)
