"""Use any ``torch.nn.Module`` as a discriminator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from sdgar.errors import UsageError
from sdgar.models.factor_tensors import FactorTensors
from sdgar.models.network import Encoder, ModuleScores, Network

if TYPE_CHECKING:
    from sdgar.contracts import Learned, Score


class Adapter(nn.Module):
    """A discriminator of any module, trained with any sampler and objective on the eager engine.

    The module has

    - ``score(users_B, items_BN)``: s_BN of N items for each context (a number 0 … U - 1), with a
      gradient;
    - ``vectors()``: (h_UD, v_ID) or (h_UD, v_ID, b_I) for ranking and for saving,
      s = h_c · v_i + b_i; or ``score_all(users_B)`` if scores are no inner products;
    - optional ``fold_in(start_T1, item_E)``: h_TD of new contexts from their histories, in order;
    - optional ``penalty(context_B, items_BN)``, one value a row, which l2 weighs;
    - if every training row is a separate context, ``by_event = True`` and
      ``score_event(rows_B, items_BN)``; if it computes some of these rows in one pass,
      ``together_E``, a group number for each training row.
    """

    def __init__(
        self,
        module: nn.Module,
        n_users: int,
        n_items: int,
        *,
        l2: float,
        name: str = "",
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        ranks = hasattr(module, "vectors") or hasattr(module, "score_all")
        if not ranks or not hasattr(module, "score"):
            raise UsageError(
                f"{type(module).__name__} lacks {'score' if ranks else 'a way to rank'}. A model "
                "needs score(context_B, items_BN) and vectors(), or score_all(context_B) where "
                "scores come down to no vectors; see docs/bring-your-own.md.",
                code="no_such_method",
            )
        if l2 and not hasattr(module, "penalty"):
            raise UsageError(
                f"l2 is {l2:g}, but {type(module).__name__} has no penalty(context_B, items_BN) "
                "that it could weigh. Set l2 to 0, or add the method.",
                code="no_penalty",
            )
        self.module = module
        self.has_vectors = hasattr(module, "vectors")
        """Whether scores are inner products of vectors."""
        self.by_event: bool = getattr(module, "by_event", False)
        self._n_users, self.n_items = n_users, n_items
        self._name, self._settings = name, dict(settings or {})

    @property
    def together_E(self) -> Tensor | None:
        """The number that rows have in common which are computed in one pass; None without."""
        together_E: Tensor | None = getattr(self.module, "together_E", None)
        return together_E

    @property
    def device(self) -> torch.device:
        """The device of the parameters."""
        return next(self.module.parameters()).device

    def score(self, users_B: Tensor, items_BN: Tensor) -> Tensor:
        """Return s_BN of N items for each context, without dropout."""
        self.module.eval()
        scores_BN: Tensor = self.module.score(users_B, items_BN)  # type: ignore[operator]
        return scores_BN

    def score_and_penalty(self, context_B: Tensor, items_BN: Tensor) -> tuple[Tensor, Tensor]:
        """Return s_BN of the positive (first) and the negatives, in training, and the penalty."""
        self.module.train()
        score = self.module.score_event if self.by_event else self.module.score
        s_BN: Tensor = score(context_B, items_BN)  # type: ignore[operator]
        if hasattr(self.module, "penalty"):
            return s_BN, self.module.penalty(context_B, items_BN)  # type: ignore[operator]
        return s_BN, torch.zeros_like(s_BN[:, 0])

    def loss_over_all_items(self, context_B: Tensor, items_B: Tensor) -> Tensor:
        """Return the cross-entropy of the positive of each row over all items, in training."""
        self.module.train()
        loss_B: Tensor = self.module.loss_over_all_items(context_B, items_B)  # type: ignore[operator]
        return loss_B

    def project(self, context_B: Tensor, items_BN: Tensor) -> None:
        """Do nothing, as the parameters of a module have no bounds."""

    def learned(self) -> Learned:
        """Vectors, detached; the module itself where there are none, or for new contexts."""
        if not self.has_vectors:
            return ModuleScores(*self._recipe())
        if not hasattr(self.module, "fold_in"):
            return self.factors()
        found, encoder = self.factors(), Encoder(*self._recipe())
        return FactorTensors(found.user_UD, found.item_ID, found.bias_I, encoder=encoder)

    def saved_whole(self) -> Network | None:
        """Return the network, if its vectors are not all of the trained model."""
        if self.has_vectors and not hasattr(self.module, "fold_in"):
            return None
        return (Encoder if self.has_vectors else ModuleScores)(*self._recipe())

    def _recipe(self) -> tuple[nn.Module, int, int, str, dict[str, Any]]:
        return self.module, self._n_users, self.n_items, self._name, self._settings

    @torch.no_grad()
    def factors(self) -> FactorTensors:
        """Return the scores as inner products, detached."""
        if not self.has_vectors:
            raise UsageError(
                f"{type(self.module).__name__} has no vectors, which this sampler looks at. Use "
                "another sampler, such as decomposable.",
                code="no_vectors",
            )
        self.module.eval()
        user_UD, item_ID, *bias = self.module.vectors()  # type: ignore[operator]
        bias_I = bias[0] if bias else torch.zeros_like(item_ID[:, 0])
        return FactorTensors(user_UD.detach(), item_ID.detach(), bias_I.detach())

    def frozen(self) -> Score:
        """Return scores from vectors that are computed once, if the module has vectors."""
        return self.factors().score if self.has_vectors else self.score

    def score_all(self, users_B: Tensor) -> Tensor:
        """Return s_BI of all items."""
        if self.has_vectors:
            return self.factors().score_all(users_B)
        scores_BI: Tensor = self.module.score_all(users_B)  # type: ignore[operator]
        return scores_BI
