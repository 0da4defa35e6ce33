"""Systems that are computed from all rows at once, without a sampler, an engine or epochs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, ClassVar

from sdgar.data.interactions import Interactions
from sdgar.data.merge import merge
from sdgar.models.factors import popularity
from sdgar.models.fold_in import ByHistory, FoldInRule, NoVector
from sdgar.models.model import Model
from sdgar.show import progress
from sdgar.systems.base import Estimator
from sdgar.systems.checks import require_features_used, require_learnable
from sdgar.systems.parameters import estimator
from sdgar.systems.recipe import SystemSpec

if TYPE_CHECKING:
    import torch

    from sdgar.training.fitting import Fit


@estimator
class Computed(Estimator):
    """A model without epochs, which is computed from all rows at once."""

    def _compute(self, train: Interactions, how: Fit) -> tuple[Model, dict[str, Any]]:
        """Return the model, and what is saved about how it was computed."""
        raise NotImplementedError

    def _fit(self, how: Fit) -> None:
        """Compute the model; no epoch is chosen on validation or test rows.

        After a measurement, when all rows are trained on, ``trained`` is still the measured model.
        """
        from sdgar.training.records import Seconds, Trained

        again = how.protocol == "all" or how.phase == "all"
        measured = self._trained_as if again else None
        rows = how.rows if how.valid is None or not how.refit else merge(how.rows, how.valid)
        start = time.perf_counter()
        model, about = self._compute(rows, how)
        seconds = time.perf_counter() - start
        speed = len(rows) / seconds if seconds else 0.0
        clock = Seconds(train=seconds, total=seconds)
        trained = Trained(model, self._spec.computed_by, clock, speed)
        self.__dict__["_trained"] = measured or trained
        self._keep(model, rows, about)
        self._show_ready(seconds, how.verbose)


@estimator
class Solver(Computed):
    """A known model to compare with, computed from all rows at once.

    There are no epochs to choose, so validation rows play no part in ``fit``. The same seed gives
    bit-identical models with the same number of threads: iALS, EASE and ELSA are matrix products,
    whose order of sums depends on the library.
    """

    device: str = "auto"
    """The device that computes: auto, cpu or cuda."""

    def _solve(self, data: Interactions, *, device: torch.device) -> Model:
        """Return the model."""
        raise NotImplementedError

    def _compute(self, train: Interactions, how: Fit) -> tuple[Model, dict[str, Any]]:
        """Check the rows, and compute the model with all threads."""
        from sdgar.engines.choose import choose_device
        from sdgar.machine import cores

        require_learnable(train)
        require_features_used(self, train)
        what = f"computing {self._spec.name} by {self._spec.computed_by}"
        progress.report(f"{what} from {train.size_text()}", verbose=how.verbose)
        with cores.torch_threads():
            model = self._solve(train, device=choose_device(self.device))
        return model, {"computed_by": self._spec.computed_by}


@estimator
class ItemItem(Solver):
    """A model that scores by weights between items, and so folds in every history."""

    def _fold_rule(self, data: Interactions) -> FoldInRule | None:
        """Return the rule by which the history of a new user is multiplied by the weights."""
        return ByHistory()


@estimator
class MostPopular(Computed):
    """Recommend to everyone the items that most users have: the baseline of every report.

    >>> data = sdgar.Interactions.from_arrays([1, 1, 2, 2, 3], ["a", "b", "b", "c", "a"])
    >>> model = sdgar.MostPopular().fit(data)
    >>> model.recommend([3], k=2)["item"].to_list()
    ['b', 'c']
    """

    _spec: ClassVar[SystemSpec] = SystemSpec(name="popular", uses_weights=False)

    def _fold_rule(self, data: Interactions) -> FoldInRule | None:
        """Return the rule that gives everyone the same list, new or not."""
        return NoVector()

    def _compute(self, train: Interactions, how: Fit) -> tuple[Model, dict[str, Any]]:
        """Count the users of each item."""
        return popularity(train.history, train.n_items, train.fields), {}
