"""The plainest recommender: the items that most users have."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, ClassVar

from sdgar.data.interactions import Interactions
from sdgar.evaluation.popularity import popularity
from sdgar.models.fold_in import NoVector, Rule
from sdgar.systems.base import Estimator, estimator
from sdgar.training.protocols import OnPhase

if TYPE_CHECKING:
    from typing import Self


@estimator
class MostPopular(Estimator):
    """Everyone gets the items that most users have: the yardstick of every report.

    >>> data = sdgar.Interactions.from_arrays([1, 1, 2, 2, 3], ["a", "b", "b", "c", "a"])
    >>> model = sdgar.MostPopular().fit(data)
    >>> model.recommend([3], k=2)["item"].to_list()
    ['b', 'c']
    """

    system_name: ClassVar[str] = "popular"
    uses_weights: ClassVar[bool] = False

    def fold_rule(self, data: Interactions) -> Rule | None:
        """Everyone gets the same list, new or not."""
        return NoVector()

    def fit(
        self,
        train: Interactions,
        valid: Interactions | None = None,
        *,
        on_epoch: OnPhase | None = None,
        verbose: bool | None = None,
    ) -> Self:
        """Count the users of each item."""
        self._require_sound(train, valid)
        start = time.perf_counter()
        self._keep(popularity(train.history, train.n_items, train.fields), train, {})
        self._tell_done(time.perf_counter() - start, verbose)
        return self
