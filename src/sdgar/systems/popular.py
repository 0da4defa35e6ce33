"""The system that recommends the items that most users have."""

from __future__ import annotations

from typing import Any, ClassVar

from sdgar.data.interactions import Interactions
from sdgar.models.factors import popularity
from sdgar.models.fold_in import NoVector, Rule
from sdgar.models.model import Model
from sdgar.systems.base import estimator
from sdgar.systems.recipe import SystemSpec
from sdgar.systems.solver import Computed


@estimator
class MostPopular(Computed):
    """Recommend to everyone the items that most users have: the baseline of every report.

    >>> data = sdgar.Interactions.from_arrays([1, 1, 2, 2, 3], ["a", "b", "b", "c", "a"])
    >>> model = sdgar.MostPopular().fit(data)
    >>> model.recommend([3], k=2)["item"].to_list()
    ['b', 'c']
    """

    _spec: ClassVar[SystemSpec] = SystemSpec(name="popular", uses_weights=False)

    def _fold_rule(self, data: Interactions) -> Rule | None:
        """Return the rule that gives everyone the same list, new or not."""
        return NoVector()

    def _compute(
        self, train: Interactions, *, verbose: bool | None
    ) -> tuple[Model, dict[str, Any]]:
        """Count the users of each item."""
        return popularity(train.history, train.n_items, train.fields), {}
