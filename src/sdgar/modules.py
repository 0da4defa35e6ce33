"""Networks by name: what a saved one is made of again, without any code in the file.

MODULES["name"](n_users, n_items, **settings).load_state_dict(tensors)
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Self

import torch
from torch import Tensor, nn

from sdgar.errors import ArtifactError

MODULES: dict[str, type[nn.Module]] = {}
"""Classes by the name under which they were registered."""


@dataclass(frozen=True, slots=True)
class ModuleScores:
    """Scores of a network that has no vectors: s_u = module.score_all(u)."""

    module: nn.Module
    n_items: int
    name: str = ""
    """Under which the class is registered; empty if it is not, and then it cannot be saved."""
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def device(self) -> torch.device:
        """Where the parameters live."""
        return next(self.module.parameters()).device

    @torch.no_grad()
    def score_all(self, users_B: Tensor) -> Tensor:
        """s_BI of the whole catalogue."""
        self.module.eval()
        scores_BI: Tensor = self.module.score_all(users_B)  # type: ignore[operator]
        return scores_BI

    def tensors(self) -> dict[str, Tensor]:
        """Parameters and buffers by name."""
        return {name: tensor.detach() for name, tensor in self.module.state_dict().items()}

    def copied(self) -> Self:
        """As it is now, whatever becomes of the module."""
        return type(self)(deepcopy(self.module), self.n_items, self.name, self.settings)


def rebuilt(
    name: str, settings: Mapping[str, Any], sizes: Mapping[str, int], tensors: dict[str, Tensor]
) -> ModuleScores:
    """A saved network, of a class that is registered under its name."""
    if name not in MODULES:
        raise ArtifactError(
            f"the model is a network {name!r}, which is not registered. Import the module of yours "
            f"that has @sdgar.register_discriminator({name!r}), then load again. Code is never "
            "loaded from a model.",
            code="unknown_module",
        )
    try:
        with torch.random.fork_rng([]):
            module = MODULES[name](sizes["users"], sizes["items"], **settings)
        module.load_state_dict(tensors)
    except (TypeError, RuntimeError, ValueError) as error:
        raise ArtifactError(
            f"the saved network does not fit the class that is registered as {name!r}: {error}",
            code="module_mismatch",
        ) from error
    return ModuleScores(module, sizes["items"], name, dict(settings))
