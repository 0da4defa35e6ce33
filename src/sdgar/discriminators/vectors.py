"""The base of models that score by vectors of contexts and items, however these are computed."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor
from torch.nn.functional import embedding, normalize

from sdgar.data.interactions import Interactions
from sdgar.models.networks.inner_products import InnerProducts


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

    def rows(self, users_B: Tensor, items_BN: Tensor) -> tuple[Tensor, Tensor]:
        """Return h_BD of contexts and v_BND of items."""
        raise NotImplementedError

    def event_rows(self, rows_B: Tensor, items_BN: Tensor) -> tuple[Tensor, Tensor]:
        """Return h_BD and v_BND for training rows, if they have contexts of their own."""
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

    def _score(self, rows: tuple[Tensor, Tensor], items_BN: Tensor) -> Tensor:
        h_BD, v_BND = rows
        h_BD = self.as_inner_product(h_BD)
        if self.tau:
            v_BND = normalize(v_BND, dim=2)
        return self._product(h_BD, v_BND, items_BN)

    def _product(self, h_BD: Tensor, v_BND: Tensor, items_BN: Tensor) -> Tensor:
        # Not bmm, which takes the products of small matrices one at a time.
        return (v_BND * h_BD[:, None]).sum(dim=2) + self._bias(items_BN)

    def _bias(self, items_BN: Tensor) -> Tensor:
        # Not an index: its gradient adds up an item that occurs often one row at a time.
        return embedding(items_BN, self.bias_I[:, None])[:, :, 0]
