"""Sequence models in training: the context of a row is what its user had before it."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import embedding

from sdgar.data.interactions import Interactions
from sdgar.discriminators.vectors import Vectors
from sdgar.errors import DataError
from sdgar.models.networks.sequence import SequenceEncoder


class Sequence(SequenceEncoder, Vectors):
    """s(c, i) = h_c · v_i + b_i (or a cosine), with h_c from the items of c in their order.

    In training the context of a row is what its user had before it (``by_event``); afterwards that
    of a user is all that is known of them.
    """

    by_event: ClassVar[bool] = True
    item_E: Tensor
    """The items of everybody in the order of time."""
    start_U1: Tensor
    """Where the items of each user begin."""
    user_E: Tensor
    """The user of each training row."""
    rank_E: Tensor
    """How many of the user's items came before each training row."""

    def prepare(self, data: Interactions) -> None:
        """Sort everybody's items by time, and find the place of each training row among them."""
        if data.time_E is None:
            raise DataError(
                "a sequence model needs a time for every row. Name the column with --time, or use "
                "another discriminator.",
                code="no_time",
            )
        order_E = np.lexsort((data.time_E, data.users_E))
        rank_E = np.empty(len(order_E), np.int64)
        rank_E[order_E] = np.arange(len(order_E)) - data.indptr_U1[data.users_E[order_E]]
        items_E = data.items_E[order_E].astype(np.int64)
        for name, array in (
            ("item_E", items_E), ("start_U1", data.indptr_U1), ("user_E", data.users_E),
            ("rank_E", rank_E),
        ):  # fmt: skip
            here = torch.from_numpy(array).to(self.item_JD.device)
            self.register_buffer(name, here, persistent=False)

    def before(self, users_B: Tensor, rank_B: Tensor) -> Tensor:
        """i_BL of the last items of users before their item number ``rank``, from the left."""
        return self.last_items(self.start_U1[users_B], rank_B, self.item_E)

    def rows(self, users_B: Tensor, items_BN: Tensor) -> tuple[Tensor, Tensor]:
        """Return h_BD of users with all they have, and v_BND."""
        return self.encode(self._all_of(users_B)), embedding(items_BN, self.item_JD)

    def event_rows(self, rows_B: Tensor, items_BN: Tensor) -> tuple[Tensor, Tensor]:
        """Return h_BD of what came before each training row, and v_BND."""
        items_BL = self.before(self.user_E[rows_B], self.rank_E[rows_B])
        return self.encode(items_BL), embedding(items_BN, self.item_JD)

    def tables(self) -> tuple[Tensor, Tensor]:
        """h_UD and v_ID."""
        return self.encode_all(self.start_U1, self.item_E), self.item_JD[:-1]

    def _all_of(self, users_B: Tensor) -> Tensor:
        return self.before(users_B, self.start_U1.diff()[users_B])
