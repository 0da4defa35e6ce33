"""What both fused engines have code for."""

from __future__ import annotations

from sdgar.contracts import System
from sdgar.objectives import (
    Logistic,
    PairwiseLogistic,
    RankHingeByTries,
    SampledSoftmax,
    WeightedLogistic,
)
from sdgar.optimizers import SGD, LazyAdam, RowAdagrad
from sdgar.samplers.adaptive import AdaptiveOrder
from sdgar.samplers.decomposable import Decomposable
from sdgar.samplers.score_aware import FirstViolation, Hardest
from sdgar.samplers.static import Popularity, Uniform

KNOW_LOG_Q = (Uniform, Popularity, Decomposable)
SAMPLERS = (*KNOW_LOG_Q, AdaptiveOrder, Hardest, FirstViolation)
OBJECTIVES = (PairwiseLogistic, Logistic, WeightedLogistic, RankHingeByTries)
OPTIMIZERS = (SGD, LazyAdam, RowAdagrad)


def misfit(system: System) -> str | None:
    """Why the sampler and the objective do not go together, or None if they do."""
    objective, sampler = system.objective, system.sampler
    needs_q = isinstance(objective, WeightedLogistic | SampledSoftmax)
    if needs_q and not isinstance(sampler, KNOW_LOG_Q):
        return "importance weights need log Q, which this sampler does not know"
    if isinstance(objective, RankHingeByTries) and not isinstance(sampler, FirstViolation):
        return "ranks by tries need a sampler that counts its tries"
    if isinstance(sampler, FirstViolation) and system.n_negatives != 1:
        return "the search for a violation gives one negative a positive"
    return None
