"""A system is refused when it is made if its parts do not go together, own parts included."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
import torch

from sdgar.contracts import System
from sdgar.discriminators.factorization import MatrixFactorization
from sdgar.errors import UsageError
from sdgar.maths.optimizers import SGD
from sdgar.objectives import (
    Logistic,
    PairwiseLogistic,
    SampledSoftmax,
    WarpHinge,
    WeightedLogistic,
)
from sdgar.samplers.score_aware import FirstViolation, HardestOf
from sdgar.samplers.static import Popularity, Static, Uniform


def system_of(sampler: Any, objective: Any, *, n_negatives: int = 1) -> System:
    return System(
        name="test",
        discriminator=MatrixFactorization(3, 4, 2, seed=0),
        sampler=sampler,
        objective=objective,
        optimizer=SGD(0.1),
        n_negatives=n_negatives,
        batch_size=2,
        l2=0.0,
    )


class Silent(Static):
    """An own sampler that states that it cannot say how likely its negatives are."""

    knows_log_q: ClassVar[bool] = False


class Says(Static):
    """An own sampler that states nothing."""


class Ranks(PairwiseLogistic):
    """An own objective that states what it needs."""

    needs_tries: ClassVar[bool] = True


@pytest.mark.parametrize(
    ("sampler", "objective", "n_negatives", "said"),
    [
        (HardestOf(2), WeightedLogistic(0.5), 1, "WeightedLogistic weighs.*HardestOf cannot say"),
        (HardestOf(2), SampledSoftmax(), 1, "SampledSoftmax weighs.*use sampler decomposable"),
        (Silent(), SampledSoftmax(), 1, "Silent cannot say"),
        (Uniform(), WarpHinge(1.0, 4), 1, "Uniform does not count. Use sampler first-viol"),
        (Uniform(), Ranks(), 1, "Ranks estimates ranks"),
        (
            FirstViolation(1.0, 9),
            WarpHinge(1.0, 4),
            2,
            "no more than 1 of the 2",
        ),
    ],
)
def test_parts_that_do_not_go_together_are_refused_with_the_cure(
    sampler, objective, n_negatives, said
):
    with pytest.raises(UsageError, match=said) as refused:
        system_of(sampler, objective, n_negatives=n_negatives)
    assert refused.value.code == "parts_do_not_fit"


@pytest.mark.parametrize(
    ("sampler", "objective"),
    [
        (HardestOf(2), Logistic()),
        (Popularity(torch.ones(4)), SampledSoftmax()),
        (FirstViolation(1.0, 9), WarpHinge(1.0, 4)),
        (Says(), SampledSoftmax()),
    ],
)
def test_parts_that_go_together_make_a_system(sampler, objective):
    assert system_of(sampler, objective).sampler is sampler
