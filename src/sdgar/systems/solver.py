"""Systems that are computed from all rows at once, without a sampler, an engine or epochs."""

from __future__ import annotations

from typing import Any

import torch

from sdgar.data.interactions import Interactions
from sdgar.engines.choose import choose_device
from sdgar.machine import cores
from sdgar.models.model import Model
from sdgar.show import progress
from sdgar.systems.base import estimator
from sdgar.systems.checks import require_features_used, require_learnable
from sdgar.systems.computed import Computed


@estimator
class Solver(Computed):
    """A known model to compare with, computed from all rows at once.

    There are no epochs to choose, so validation rows play no part in ``fit``. The same seed gives
    the same bytes with the same number of threads: iALS, EASE and ELSA are matrix products, whose
    order of adding up is up to the library.
    """

    device: str = "auto"
    """The device that computes: auto, cpu or cuda."""

    def solve(self, data: Interactions, *, device: torch.device) -> Model:
        """Compute the model."""
        raise NotImplementedError

    def _compute(
        self, train: Interactions, *, verbose: bool | None
    ) -> tuple[Model, dict[str, Any]]:
        """Check the rows, and compute the model with all threads."""
        require_learnable(train)
        require_features_used(self, train)
        how = f"computing {self.system_name} by {self.computed_by}"
        progress.tell(f"{how} from {train.sizes()}", verbose=verbose)
        with cores.torch_threads():
            model = self.solve(train, device=choose_device(self.device))
        return model, {"computed_by": self.computed_by}
