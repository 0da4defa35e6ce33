"""The sum of two models, with a weight that validation rows choose.

    s_ci = a_ci + γ b_ci

Scores of two models have different units, so the weights that are tried are multiples of the ratio
of their standard deviations over items.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sdgar._version import __version__
from sdgar.arguments import not_negative
from sdgar.data import splits
from sdgar.data.held_out import HeldOut
from sdgar.data.interactions import Interactions
from sdgar.errors import UsageError
from sdgar.evaluation.measures import check_metric
from sdgar.evaluation.ranked import warn_of_known
from sdgar.models.sum import Sum
from sdgar.recommend.recommender import Recommender
from sdgar.settings import METRIC
from sdgar.systems.base import Estimator
from sdgar.systems.make import estimator_from_params
from sdgar.training.item_memory import WeightSearch

MULTIPLES = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
"""The weights that are tried, in units of the ratio of the two standard deviations."""
_MOST = 1_000
"""The most users by whose scores the standard deviations are found."""


@dataclass(frozen=True, slots=True)
class Blend:
    """The sum of two models, and how its weight was found."""

    model: Recommender
    """The sum, which is a model like any other."""
    weight: float
    """The weight γ of the second model."""
    chosen_on: int
    """The number of users on whose validation rows the weight was chosen; 0 if it was given."""


def blend(
    first: Recommender | Estimator,
    second: Recommender | Estimator,
    valid: Interactions | None = None,
    *,
    train: Interactions | None = None,
    weight: float | None = None,
    metric: str = METRIC,
) -> Blend:
    """Add the scores of two models that were trained on the same users and items.

    The weight is ``weight``, or it is chosen on rows that neither model was trained on: on
    ``valid``, or on a tenth of ``train``. With ``train`` both systems are trained once more on the
    other nine tenths, only to choose the weight.

    >>> data = sdgar.synthetic("demo")
    >>> train, valid = sdgar.split(data, "paper")
    >>> ials, near = sdgar.IALS(dim=8).fit(train), sdgar.LocalEASE().fit(train)
    >>> both = sdgar.blend(ials, near, valid)
    >>> both.weight > 0
    True
    """
    first, second = (
        one.recommender_ if isinstance(one, Estimator) else one for one in (first, second)
    )
    _require_alike(first, second)
    check_metric(metric)
    if sum(one is not None for one in (valid, train, weight)) != 1:
        raise UsageError(
            "a weight is chosen on validation rows (valid) or on a part of the training rows "
            "(train), or it is given (weight). Give one of the three.",
            code="no_weight",
        )
    users = 0
    if weight is None:
        measured, rows = (
            ((first, second), valid) if train is None else _trained(first, second, train)
        )
        assert rows is not None
        held_out = HeldOut.of(rows, measured[0])
        seen = measured[0].history
        warn_of_known(held_out, seen)
        users = len(held_out.users_T)
        unit = _spread(measured[0]) / _spread(measured[1])
        weights = [multiple * unit for multiple in MULTIPLES]
        models = measured[0].model, measured[1].model
        weight = WeightSearch(*models, held_out, seen, metric).chosen(weights)
        if weight == 0:
            raise UsageError(
                f"the second model adds nothing to the first one on the validation rows of {users} "
                "users. Keep the first one, or give a weight.",
                code="nothing_gained",
            )
    weight = not_negative("weight", weight)
    return Blend(_added(first, second, weight), weight, users)


def _require_alike(first: Recommender, second: Recommender) -> None:
    for what, one, other in (
        ("users", first.users.values, second.users.values),
        ("items", first.items.values, second.items.values),
        ("numbers of rows", first.history.indptr_U1, second.history.indptr_U1),
        ("rows", first.history.items_E, second.history.items_E),
    ):
        if not np.array_equal(one, other):
            raise UsageError(
                f"the two models have different {what}. Train both on the same events.",
                code="other_data",
            )


def _trained(
    first: Recommender, second: Recommender, train: Interactions
) -> tuple[tuple[Recommender, Recommender], Interactions]:
    """Train both systems again on nine tenths of the rows, and return the other tenth."""
    for model in (first, second):
        if "hyper_parameters" not in model.about:
            raise UsageError(
                f"a model of system {model.about.get('system')!r} has no settings to train it with "
                "again. Choose the weight on validation rows (valid), or give it (weight).",
                code="no_weight",
            )
    part = splits.validation(train, seed=0)
    again = [
        estimator_from_params(str(model.about["system"]), model.about["hyper_parameters"]).fit(
            part.train
        )
        for model in (first, second)
    ]
    return (again[0].recommender_, again[1].recommender_), part.held_out


def _spread(model: Recommender) -> float:
    """Return the mean standard deviation over items of the scores of some users."""
    scores_BI = model.model.score_all(np.arange(min(_MOST, len(model.users))))
    scores_BI[scores_BI == -np.inf] = 0
    return max(float(scores_BI.astype(np.float64).std(axis=1, ddof=1).mean()), 1e-12)


def _added(first: Recommender, second: Recommender, weight: float) -> Recommender:
    """Return the sum as a model whose description names both parts."""
    made_of = {
        name: {key: model.about.get(key) for key in ("system", "hyper_parameters")}
        for name, model in (("first", first), ("second", second))
    }
    kept = ("data", "context", "seen_by", "folded_in")
    about = {key: first.about[key] for key in kept if key in first.about}
    about |= {"created_by": f"sdgar {__version__}", "system": "blend"}
    about |= {"blend": {**made_of, "weight": weight}}
    return first.with_model(Sum(first.model, second.model, weight), about)
