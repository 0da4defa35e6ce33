"""How the fused engines lower the parts of a system to what their kernels read.

Each engine has a table for each kind of part, keyed by the class of a part. An engine covers the
keys of its tables and nothing else: a class that is no key has no code, and there is no default.

Every lowering receives the package of kernels ``k``, which is imported when a part is lowered,
because its compiler need not be installed.
"""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sdgar.contracts import System
from sdgar.discriminators.bounded import Cosine, MetricModel
from sdgar.discriminators.factorization import MatrixFactorization
from sdgar.engines.fused.records import (
    Draw,
    DrawSettings,
    Loss,
    Pick,
    Scores,
    Step,
    lined_up,
    packed,
)
from sdgar.machine.memory import aligned
from sdgar.maths.optimizers import SGD, LazyAdam, RowAdagrad
from sdgar.maths.rng import Stream, last_counter_word
from sdgar.objectives import (
    CmlHinge,
    Logistic,
    PairwiseLogistic,
    SampledSoftmax,
    WarpHinge,
    WeightedLogistic,
)
from sdgar.samplers.decomposable import Decomposable
from sdgar.samplers.dislikes import WithDislikes
from sdgar.samplers.rank_by_factor import RankByFactor
from sdgar.samplers.score_aware import FirstViolation, HardestOf
from sdgar.samplers.static import Popularity, PopularityMix, Uniform

Lower = Callable[..., Any]
"""A function that lowers a part: it returns the record of the part that kernels read."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The lowerings of one engine, by the class of a part."""

    package: str
    """The package of the kernels."""
    modules: tuple[str, ...]
    """The modules of the package that have code for parts."""
    code: str
    """The name of the engine's code, in sentences about parts that it has no code for."""
    tables: Mapping[str, Mapping[type, Lower]]
    """The lowerings of discriminators, samplers, objectives and optimizers."""
    mixed_with_dislikes: tuple[type, ...] = ()
    """The samplers whose draws can be mixed with draws of dislikes."""

    def misfit(self, system: System) -> str | None:
        """Return why the engine has no code for the parts of a system; None if it has."""
        for name, table in self.tables.items():
            kind = type(getattr(system, name))
            if kind not in table:
                known = _names(table)
                return f"it has no {self.code} for the {name} {kind.__name__} (only for {known})"
        base = getattr(system.sampler, "base", None)
        if base is not None and type(base) not in self.mixed_with_dislikes:
            names = _names(self.mixed_with_dislikes)
            return f"it mixes dislikes with {names} only, not with {type(base).__name__}"
        discriminator = type(system.discriminator)
        if discriminator is MetricModel and system.l2 > 0:
            return "it has no code for the covariances of a metric's axes, only for a weight of 0"
        if discriminator is not MatrixFactorization and system.sampler.uses_scores:
            return "its samplers that read scores have code for factorization only"
        return None

    def lower(self, name: str, system: System, *args: Any) -> Any:
        """Lower a part of a system, a sampler with its tables as they are now."""
        for module in self.modules:
            importlib.import_module(f"{self.package}.{module}")
        part = getattr(system, name)
        return self.tables[name][type(part)](sys.modules[self.package], part, *args)


def _names(kinds: Iterable[type]) -> str:
    return ", ".join(kind.__name__ for kind in kinds)


# The CPU. Lowerings give the named tuples of ``kernels/numba``, which have the same class names.


def _cpu_popularity(k: Any, sampler: Popularity, settings: DrawSettings) -> Any:
    return k.alias_draws.Popularity(
        *settings,
        item_bins=sampler.table.bin_RN.reshape(-1).numpy(),
        q_I=sampler.log_q_I.exp().numpy(),
    )


def _cpu_decomposable(k: Any, sampler: Decomposable, settings: DrawSettings) -> Any:
    return k.alias_draws.Decomposable(
        *settings,
        n_states=sampler.state_of.n,
        item_bins=lined_up(sampler.item_of.bin_RN.reshape(-1)),
        y_IK=lined_up(sampler.y_IK),
        state_bins=lined_up(sampler.state_of.bin_RN.reshape(-1)),
        x_UK=lined_up(sampler.x_UK),
    )


def _cpu_rank_by_factor(k: Any, sampler: RankByFactor, settings: DrawSettings) -> Any:
    return k.alias_draws.RankByFactor(
        *settings,
        n_factors=sampler.factor_of.n,
        factor_bins=sampler.factor_of.bin_RN.reshape(-1).numpy(),
        rank_bins=sampler.rank_of.bin_RN.reshape(-1).numpy(),
        order_KI=sampler.order_KI.contiguous().numpy(),
        downward_UK=sampler.downward_UK.contiguous().numpy(),
    )


def _cpu_with_dislikes(k: Any, sampler: WithDislikes, settings: DrawSettings) -> Any:
    start_U1, item_D, kept_U = sampler.tables()
    return k.draws.WithDislikes(
        *settings,
        base=CPU.tables["sampler"][type(sampler.base)](k, sampler.base, settings),
        share=np.float32(sampler.p),
        stream=np.uint64(last_counter_word(Stream.DISLIKES, 0)),
        start_U1=start_U1.numpy(),
        item_D=item_D.numpy(),
        kept_U=kept_U.numpy(),
    )


def _cpu_cosine(k: Any, model: Cosine, columns: int) -> Any:
    over_tau = np.float32(1 / model.tau)
    if model.bias_I is None:
        return k.scores.Cosine(over_tau)
    return k.scores.BiasedCosine(over_tau, packed(model.bias_I, columns))


def _cpu_weighted_logistic(k: Any, objective: WeightedLogistic) -> Any:
    through = 0.0 if objective.hold_weights else 1 / objective.temperature
    return k.losses.WeightedLogistic(np.float32(objective.temperature), np.float32(through))


def _cpu_lazy_adam(k: Any, optimizer: LazyAdam, n_rows: int) -> Any:
    numbers = optimizer.learning_rate, optimizer.beta1, optimizer.beta2, optimizer.epsilon
    return k.steps.LazyAdam(*map(np.float32, numbers))


def _cpu_row_adagrad(k: Any, optimizer: RowAdagrad, n_rows: int) -> Any:
    sum_R = aligned((n_rows,))
    sum_R[:] = 0
    numbers = optimizer.learning_rate, optimizer.epsilon
    return k.steps.RowAdagrad(*map(np.float32, numbers), sum_R)


CPU = Plan(
    package="sdgar.kernels.numba",
    modules=("draws", "alias_draws", "picks", "scores", "losses", "steps"),
    code="code",
    tables={
        "discriminator": {
            MatrixFactorization: lambda k, model, columns: k.scores.MatrixFactorization(
                packed(model.bias_I, columns)
            ),
            MetricModel: lambda k, model, columns: k.scores.Metric(),
            Cosine: _cpu_cosine,
        },
        "sampler": {
            Uniform: lambda k, sampler, settings: k.draws.Uniform(*settings),
            Popularity: _cpu_popularity,
            PopularityMix: _cpu_popularity,
            Decomposable: _cpu_decomposable,
            RankByFactor: _cpu_rank_by_factor,
            HardestOf: lambda k, sampler, settings: k.picks.HardestOf(
                *settings, sampler.candidates
            ),
            FirstViolation: lambda k, sampler, settings: k.picks.FirstViolation(
                *settings, sampler.max_tries, np.float32(sampler.margin)
            ),
            WithDislikes: _cpu_with_dislikes,
        },
        "objective": {
            PairwiseLogistic: lambda k, objective: k.losses.PairwiseLogistic(),
            Logistic: lambda k, objective: k.losses.Logistic(),
            WeightedLogistic: _cpu_weighted_logistic,
            WarpHinge: lambda k, objective: k.losses.WarpHinge(
                objective.n_items, np.float32(objective.margin)
            ),
            CmlHinge: lambda k, objective: k.losses.CmlHinge(
                objective.n_items, np.float32(objective.margin)
            ),
            SampledSoftmax: lambda k, objective: k.losses.SampledSoftmax(np.float32(objective.rho)),
        },
        "optimizer": {
            SGD: lambda k, optimizer, n_rows: k.steps.SGD(np.float32(optimizer.learning_rate)),
            LazyAdam: _cpu_lazy_adam,
            RowAdagrad: _cpu_row_adagrad,
        },
    },
    mixed_with_dislikes=(Uniform, Popularity, Decomposable, RankByFactor),
)


# The GPU. The kinds of ``kernels/triton`` are named like the classes, in capitals.


def _gpu_popularity(k: Any, sampler: Popularity) -> Draw:
    return Draw(k.draws.POPULARITY, item_bins=sampler.table.bin_RN, log_q_I=sampler.log_q_I)


def _gpu_decomposable(k: Any, sampler: Decomposable) -> Draw:
    return Draw(
        k.draws.DECOMPOSABLE,
        n_states=sampler.state_of.n,
        state_bins=sampler.state_of.bin_RN,
        item_bins=sampler.item_of.bin_RN,
        x_UK=sampler.x_UK,
        y_IK=sampler.y_IK,
    )


def _gpu_rank_by_factor(k: Any, sampler: RankByFactor) -> Draw:
    return Draw(
        k.draws.RANK_BY_FACTOR,
        n_states=sampler.factor_of.n,
        state_bins=sampler.factor_of.bin_RN,
        item_bins=sampler.rank_of.bin_RN,
        order_KI=sampler.order_KI,
        downward_UK=sampler.downward_UK,
    )


def _gpu_weighted_logistic(k: Any, objective: WeightedLogistic) -> Loss:
    """Lower the loss; gradients through its weights have no bound.

    Σ_j |∂l/∂s_j| is ½ (1 + E_w |f - E_w f| / T) there, and a spread of f by 32 is allowed.
    """
    held = objective.hold_weights
    return Loss(
        k.losses.WEIGHTED_LOGISTIC,
        temperature=objective.temperature,
        hold=held,
        slope_limit=1.0 if held else 1 + 16 / objective.temperature,
        needs_q=True,
    )


def _gpu_hinge(kind: Any, objective: WarpHinge | CmlHinge) -> Loss:
    """Lower a hinge that is weighed by the logarithm of a rank."""
    n_items = objective.n_items
    limit = 1 + math.log(n_items)
    return Loss(kind, margin=objective.margin, n_items=n_items, slope_limit=limit)


def _gpu_sampled_softmax(k: Any, objective: SampledSoftmax) -> Loss:
    return Loss(
        k.losses.SAMPLED_SOFTMAX,
        rho=objective.rho,
        slope_limit=max(1.0, 1 / objective.rho),
        needs_q=True,
        needs_same_q=True,
    )


def _gpu_lazy_adam(k: Any, optimizer: LazyAdam) -> Step:
    moments = ("first", "second")
    return Step(
        k.steps.LAZY_ADAM, optimizer.beta1, optimizer.beta2, optimizer.epsilon, moments=moments
    )


def _gpu_row_adagrad(k: Any, optimizer: RowAdagrad) -> Step:
    return Step(k.steps.ROW_ADAGRAD, epsilon=optimizer.epsilon, moments=("second",), one_a_row=True)


GPU = Plan(
    package="sdgar.kernels.triton",
    modules=("draws", "picks", "scores", "losses", "steps"),
    code="kernel",
    tables={
        "discriminator": {
            MatrixFactorization: lambda k, model: Scores(k.scores.MATRIX_FACTORIZATION),
            MetricModel: lambda k, model: Scores(k.scores.METRIC),
            Cosine: lambda k, model: Scores(k.scores.COSINE, tau=model.tau, steepest=2 / model.tau),
        },
        "sampler": {
            Uniform: lambda k, sampler: Draw(k.draws.UNIFORM, same_q=True),
            Popularity: _gpu_popularity,
            PopularityMix: _gpu_popularity,
            Decomposable: _gpu_decomposable,
            RankByFactor: _gpu_rank_by_factor,
            HardestOf: lambda k, sampler: Draw(
                k.draws.UNIFORM, pick=Pick(k.picks.HARDEST_OF, sampler.candidates)
            ),
            FirstViolation: lambda k, sampler: Draw(
                k.draws.UNIFORM,
                pick=Pick(k.picks.FIRST_VIOLATION, sampler.max_tries, sampler.margin),
            ),
        },
        "objective": {
            PairwiseLogistic: lambda k, objective: Loss(k.losses.PAIRWISE_LOGISTIC),
            Logistic: lambda k, objective: Loss(k.losses.LOGISTIC),
            WeightedLogistic: _gpu_weighted_logistic,
            WarpHinge: lambda k, objective: _gpu_hinge(k.losses.WARP_HINGE, objective),
            CmlHinge: lambda k, objective: _gpu_hinge(k.losses.CML_HINGE, objective),
            SampledSoftmax: _gpu_sampled_softmax,
        },
        "optimizer": {
            SGD: lambda k, optimizer: Step(k.steps.SGD),
            LazyAdam: _gpu_lazy_adam,
            RowAdagrad: _gpu_row_adagrad,
        },
    },
)
