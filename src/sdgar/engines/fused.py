"""What both fused engines have code for."""

from __future__ import annotations

from sdgar.contracts import System
from sdgar.discriminators.factorization import MatrixFactorization
from sdgar.maths.optimizers import SGD, LazyAdam, RowAdagrad
from sdgar.objectives import (
    Logistic,
    PairwiseLogistic,
    SampledSoftmax,
    WarpHinge,
    WeightedLogistic,
)
from sdgar.samplers.decomposable import Decomposable
from sdgar.samplers.rank_by_factor import RankByFactor
from sdgar.samplers.score_aware import FirstViolation, HardestOf
from sdgar.samplers.static import Popularity, Uniform

SAMPLERS = (Uniform, Popularity, Decomposable, RankByFactor, HardestOf, FirstViolation)
OBJECTIVES = (PairwiseLogistic, Logistic, WeightedLogistic, WarpHinge, SampledSoftmax)
OPTIMIZERS = (SGD, LazyAdam, RowAdagrad)


def misfit(system: System) -> str | None:
    """Why these engines cannot run parts that go together elsewhere, or None if they can."""
    by_factors = isinstance(system.discriminator, MatrixFactorization)
    if system.sampler.uses_scores and not by_factors:
        return "its samplers that look at scores know those of factorization only"
    return None
