"""What both fused engines have code for."""

from __future__ import annotations

from sdgar.contracts import System
from sdgar.discriminators.factorization import MatrixFactorization
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
OBJECTIVES = (PairwiseLogistic, Logistic, WeightedLogistic, RankHingeByTries, SampledSoftmax)
OPTIMIZERS = (SGD, LazyAdam, RowAdagrad)


def misfit(system: System) -> str | None:
    """Why the parts do not go together in these engines, or None if they do."""
    objective, sampler = system.objective, system.sampler
    if sampler.uses_scores and not isinstance(system.discriminator, MatrixFactorization):
        return "its samplers that look at scores know those of factorization only"
    needs_q = isinstance(objective, WeightedLogistic | SampledSoftmax)
    if needs_q and not isinstance(sampler, KNOW_LOG_Q):
        return "importance weights need log Q, which this sampler does not know"
    if isinstance(objective, RankHingeByTries) and not isinstance(sampler, FirstViolation):
        return "ranks by tries need a sampler that counts its tries"
    if isinstance(sampler, FirstViolation) and system.n_negatives != 1:
        return "the search for a violation gives one negative a positive"
    return None
