"""Systems that are computed from all rows at once, without a sampler, an engine or epochs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import torch

from sdgar.data.interactions import Interactions
from sdgar.engines.choose import choose_device
from sdgar.machine import cores
from sdgar.models.model import Model
from sdgar.show import progress
from sdgar.systems.base import Estimator, estimator
from sdgar.systems.checks import require_features_used, require_learnable
from sdgar.training.protocols import OnPhase

if TYPE_CHECKING:
    from typing import Self


@estimator
class Solver(Estimator):
    """A known model to compare with, computed from all rows at once.

    There are no epochs to choose, so validation rows play no part in ``fit``. The same seed gives
    the same bytes with the same number of threads: iALS and EASE are matrix products, whose order
    of adding up is up to the library.
    """

    device: str = "auto"
    """Where it is computed: auto, cpu or cuda."""

    def solve(self, data: Interactions, *, device: torch.device) -> Model:
        """Compute the model."""
        raise NotImplementedError

    def fit(
        self,
        train: Interactions,
        valid: Interactions | None = None,
        *,
        on_epoch: OnPhase | None = None,
        verbose: bool | None = None,
    ) -> Self:
        """Compute the model from the interactions."""
        self._require_sound(train, valid)
        require_learnable(train)
        require_features_used(self, train)
        start, how = time.perf_counter(), f"computing {self.system_name} by {self.computed_by}"
        progress.tell(f"{how} from {train.sizes()}", verbose=verbose)
        with cores.torch_threads():
            model = self.solve(train, device=choose_device(self.device))
        self._keep(model, train, {"computed_by": self.computed_by})
        self._tell_done(time.perf_counter() - start, verbose)
        return self
