"""Draw items that rank high for a context, found through sorted factors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Self

import torch
from torch import Tensor

from sdgar.contracts import Discriminator, Health, Negatives, Positives, Score
from sdgar.errors import UsageError
from sdgar.maths.rng import Draws
from sdgar.samplers.alias import AliasTables
from sdgar.samplers.static import redraw_known

if TYPE_CHECKING:
    from sdgar.parts import Ingredients


class RankByFactor:
    """A sampler that ranks by one factor at a time (Rendle & Freudenthaler 2014), in O(1) a draw.

        P(k | c) ∝ |u_ck| σ_k          σ_k the standard deviation of v_.k over the items
        P(r) ∝ exp(-r / λ)             r = 0 … M - 1
        j = r-th item by v_.k, from the largest if u_ck > 0, from the smallest if not

    An item that is high in a factor that matters to a context tends to be high in its scores,
    so j is drawn near the top of c's list without a single score. The item bias b is one more
    factor, with u = 1. Orders, σ and the tables of the contexts are computed by a refit;
    log Q would need a sum over all factors' ranks and is not known.
    """

    uses_scores: ClassVar[bool] = False
    knows_log_q: ClassVar[bool] = False
    counts_tries: ClassVar[bool] = False

    def __init__(self, discriminator: Discriminator, rank_scale: float) -> None:
        if not rank_scale > 0:
            raise UsageError(
                f"rank_scale must be a positive share of the items, got {rank_scale!r}.",
                code="bad_rank_scale",
            )
        self._discriminator = discriminator
        rank_I = torch.arange(discriminator.n_items, dtype=torch.float64)
        weight_I = torch.exp(-rank_I / (rank_scale * discriminator.n_items))
        self.rank_of = AliasTables.of(weight_I[None])
        """The tables of P(r), one distribution for all contexts."""
        self._follow()

    def _follow(self) -> None:
        """Sort the items by each factor, and weigh the factors of each context."""
        factors = self._discriminator.factors()
        v_KI = torch.cat((factors.item_ID.T, factors.bias_I[None]))
        u_UK = torch.cat((factors.user_UD, torch.ones_like(factors.user_UD[:, :1])), dim=1)
        weight_UK = u_UK.abs() * v_KI.std(dim=1, correction=0)
        # If no factor separates items, no order is better than another.
        indifferent_U1 = (weight_UK == 0).all(dim=1, keepdim=True)
        self.factor_of = AliasTables.of(torch.where(indifferent_U1, 1.0, weight_UK))
        """The tables of P(k | c)."""
        self.downward_UK = u_UK > 0
        """True if the context counts from the largest v_.k."""
        self.order_KI = v_KI.argsort(dim=1, descending=True, stable=True).int()
        """The items from the largest v_.k to the smallest."""

    def draw(self, users: Tensor, draws: Draws, slots: Tensor) -> Tensor:
        """Draw one item for each (row, slot): two words for the factor, two for the rank."""
        w0, w1, w2, w3 = draws.words(slots)
        factor = self.factor_of.draw(users, w0, w1)
        rank = self.rank_of.draw(torch.zeros_like(factor), w2, w3)
        place = torch.where(self.downward_UK[users, factor], rank, self.rank_of.n - 1 - rank)
        return self.order_KI[factor, place].long()

    def sample(self, positives: Positives, n: int) -> Negatives:
        """Draw n independent items a row; known positives are drawn again."""
        items_BN, accepted_BN = redraw_known(self.draw, positives, n)
        return Negatives(items_BN, accepted_BN)

    def refit(self, score: Score, *, seed: int, epoch: int) -> Health:
        """Take the orders, σ and weights of the factors from the discriminator."""
        self._follow()
        self.to(self.rank_of.bin_RN.device)  # the model may be elsewhere
        return Health()

    def to(self, device: torch.device) -> Self:
        """Move the tables to a device."""
        self.rank_of = self.rank_of.to(device)
        self.factor_of = self.factor_of.to(device)
        self.downward_UK = self.downward_UK.to(device)
        self.order_KI = self.order_KI.to(device)
        return self

    def state(self) -> dict[str, Tensor]:
        """Return what the last refit saw; the table of ranks follows from the settings."""
        return {
            "factor_bin_UK": self.factor_of.bin_RN,
            "downward_UK": self.downward_UK,
            "order_KI": self.order_KI,
        }

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore the state that ``state`` returned."""
        factor_of, order_KI = AliasTables(state["factor_bin_UK"]), state["order_KI"]
        if factor_of.alias_RN.amin() < 0 or factor_of.alias_RN.amax() >= factor_of.n:
            raise ValueError("a bin of the factors leads nowhere")
        if (order_KI.sort(dim=1).values != torch.arange(self.rank_of.n).to(order_KI)).any():
            raise ValueError("an order of the items does not hold each of them once")
        self.factor_of, self.downward_UK, self.order_KI = factor_of, state["downward_UK"], order_KI


def adaptive(given: Ingredients, *, rank_scale: float = 0.05) -> RankByFactor:
    """Return the sampler of items that rank high in one of the factors of the user."""
    assert given.discriminator is not None
    return RankByFactor(given.discriminator, rank_scale)
