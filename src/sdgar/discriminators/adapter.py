"""Any ``torch.nn.Module`` as a discriminator."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from sdgar.contracts import Factors
from sdgar.errors import UsageError


@runtime_checkable
class Scoring(Protocol):
    """What a module must have to be trained here.

    ``score`` gets contexts (as numbers 0 … U - 1) and items, and gives a score with a gradient.
    ``vectors`` gives what scores come down to, s = h_c · v_i + b_i, for ranking and for saving:
    (h_UD, v_ID) or (h_UD, v_ID, b_I).

    It may also have ``penalty(context_B, items_BN)``, which l2 weighs; and ``by_event = True`` with
    ``score_event(rows_B, items_BN)``, if every training row is a context of its own.
    """

    def score(self, users_B: Tensor, items_BN: Tensor) -> Tensor:
        """s_BN of N items for each context."""
        ...

    def vectors(self) -> tuple[Tensor, ...]:
        """(h_UD, v_ID) or (h_UD, v_ID, b_I), with s = h_c · v_i + b_i."""
        ...


class Adapter(nn.Module):
    """Trains a module with any sampler and objective, on the eager engine."""

    def __init__(self, module: nn.Module, *, l2: float) -> None:
        super().__init__()
        missing = [name for name in ("score", "vectors") if not hasattr(module, name)]
        if missing:
            raise UsageError(
                f"{type(module).__name__} has no method {' and no '.join(missing)}. A model needs "
                "score(context_B, items_BN) and vectors(); see docs/bring-your-own.md.",
                code="no_such_method",
            )
        if l2 and not hasattr(module, "penalty"):
            raise UsageError(
                f"l2 is {l2:g}, but {type(module).__name__} has no penalty(context_B, items_BN) "
                "that it could weigh. Set l2 to 0, or add the method.",
                code="no_penalty",
            )
        self.module = module
        self.by_event: bool = getattr(module, "by_event", False)
        n_items = len(self.factors().item_ID)
        self._n_items = n_items

    @property
    def n_items(self) -> int:
        """Number of items in the catalogue."""
        return self._n_items

    @property
    def device(self) -> torch.device:
        """Where the parameters live."""
        return next(self.module.parameters()).device

    def score(self, users_B: Tensor, items_BN: Tensor) -> Tensor:
        """s_BN of N items for each context, as it is now: no dropout."""
        self.module.eval()
        scores_BN: Tensor = self.module.score(users_B, items_BN)  # type: ignore[operator]
        return scores_BN

    def score_and_penalty(self, context_B: Tensor, items_BN: Tensor) -> tuple[Tensor, Tensor]:
        """s_BN of the positive (first) and the negatives, in training, and the module's penalty."""
        self.module.train()
        score = self.module.score_event if self.by_event else self.module.score
        s_BN: Tensor = score(context_B, items_BN)  # type: ignore[operator]
        if hasattr(self.module, "penalty"):
            return s_BN, self.module.penalty(context_B, items_BN)  # type: ignore[operator]
        return s_BN, torch.zeros_like(s_BN[:, 0])

    def settle(self, context_B: Tensor, items_BN: Tensor) -> None:
        """A module has no bounds."""

    @torch.no_grad()
    def factors(self) -> Factors:
        """What the scores come down to, detached."""
        self.module.eval()
        user_UD, item_ID, *bias = self.module.vectors()  # type: ignore[operator]
        bias_I = bias[0] if bias else torch.zeros_like(item_ID[:, 0])
        return Factors(user_UD.detach(), item_ID.detach(), bias_I.detach())

    def score_all(self, users_B: Tensor) -> Tensor:
        """s_BI of the whole catalogue."""
        return self.factors().score_all(users_B)
