"""The base of models that score by vectors of contexts and items, however these are computed."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NamedTuple

from torch import Tensor
from torch.nn.functional import normalize

from sdgar.discriminators.picked import picked_cosines, picked_products, picked_values
from sdgar.models.networks.inner_products import InnerProducts

if TYPE_CHECKING:
    from sdgar.data.interactions import Interactions


class Picks(NamedTuple):
    """The vectors of a batch: h_b of each context, and v of the items that are picked for it."""

    h_BD: Tensor
    """The vectors of contexts."""
    v_RD: Tensor
    """The vectors of items, each of them once."""
    row_BN: Tensor
    """The rows of ``v_RD`` that are picked for each context."""


class Vectors(InnerProducts):
    """s(c, i) = h_c · v_i + b_i; with τ > 0 instead cos(h_c, v_i)/τ + b_i.

    A model says what h and v are: ``rows`` for the pairs of a batch, ``tables`` for all of them.
    """

    by_event: ClassVar[bool] = False
    """True if a training row has a context of its own, such as what came before it."""
    looks_at_features: ClassVar[bool] = False
    """True if ``prepare`` takes the features of users and items."""

    def prepare(self, data: Interactions) -> None:
        """Take from the training data what scores need beside parameters."""

    def rows(self, users_B: Tensor, items_BN: Tensor) -> Picks:
        """Return the vectors of contexts and of items."""
        raise NotImplementedError

    def event_rows(self, rows_B: Tensor, items_BN: Tensor) -> Picks:
        """Return the same for training rows, if they have contexts of their own."""
        raise NotImplementedError

    def tables(self) -> tuple[Tensor, Tensor]:
        """Return h_UD of all contexts and v_ID of all items."""
        raise NotImplementedError

    def penalty(self, context_B: Tensor, items_BN: Tensor) -> Tensor:
        """b⁺² + mean_j b_j², plus what a model adds."""
        square_BN = self._bias(items_BN).square()
        return square_BN[:, 0] + square_BN[:, 1:].mean(dim=1)

    def score(self, users_B: Tensor, items_BN: Tensor) -> Tensor:
        """Return s_BN of N items for each context."""
        return self._score(self.rows(users_B, items_BN), items_BN)

    def score_event(self, rows_B: Tensor, items_BN: Tensor) -> Tensor:
        """Return s_BN of N items for the context of each training row."""
        return self._score(self.event_rows(rows_B, items_BN), items_BN)

    def vectors(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return (h, v, b) as inner products."""
        h_UD, v_ID = self.tables()
        return (
            self.as_inner_product(h_UD),
            normalize(v_ID, dim=1) if self.tau else v_ID,
            self.bias_I,
        )

    def _score(self, picks: Picks, items_BN: Tensor) -> Tensor:
        h_BD, v_RD, row_BN = picks
        picked = picked_cosines if self.tau else picked_products
        return picked(self.as_inner_product(h_BD), v_RD, row_BN) + self._bias(items_BN)

    def _bias(self, items_BN: Tensor) -> Tensor:
        return picked_values(self.bias_I, items_BN)
