"""Sequence models in training: the context of a row is what its user had before it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from sdgar.discriminators.vectors import Picks, Vectors
from sdgar.errors import DataError
from sdgar.maths.cross_entropy import cross_entropy
from sdgar.models.sequence import SequenceEncoder

if TYPE_CHECKING:
    from sdgar.data.interactions import Interactions


class Sequence(SequenceEncoder, Vectors):
    """s(c, i) = h_c · v_i + b_i (or a cosine), with h_c from the items of c in their order.

    In training the context of a row is what its user had before it (``by_event``); afterwards the
    context of a user is all their items. If a user has more than ``length`` items, several rows
    share a window: each sees at most ``length`` items before it, and at least half as many. The
    rows of a window are computed in one pass.
    """

    by_event: ClassVar[bool] = True
    item_J: Tensor
    """The items of each user in the order of time, user after user; at the end the padding item."""
    start_U1: Tensor
    """Where the items of each user begin."""
    begin_E: Tensor
    """The first place in ``item_J`` that each training row sees."""
    count_E: Tensor
    """How many places from there each training row sees; 1 for the padding item alone."""
    together_E: Tensor
    """The number of the window of each training row."""

    def prepare(self, data: Interactions) -> None:
        """Sort the items of each user by time, and find what each training row sees of them."""
        if data.time_E is None:
            raise DataError(
                "a sequence model needs a time for every row. Name the column with "
                "--time-column, or use another discriminator.",
                code="no_time",
            )
        n_rows = len(data)
        order_E = np.lexsort((data.time_E, data.users_E))
        rank_E = np.empty(n_rows, np.int64)
        rank_E[order_E] = np.arange(n_rows) - data.indptr_U1[data.users_E[order_E]]
        items_J = np.append(data.items_E[order_E].astype(np.int64), self.empty)
        step = -(-self.length // 2)
        skipped_E = step * np.maximum(-(-(rank_E - self.length) // step), 0)
        window_E = data.indptr_U1[data.users_E] + skipped_E
        for name, array in (
            ("item_J", items_J),
            ("start_U1", data.indptr_U1),
            ("begin_E", np.where(rank_E > 0, window_E, n_rows)),
            ("count_E", np.maximum(rank_E - skipped_E, 1)),
            ("together_E", window_E),
        ):
            tensor = torch.from_numpy(array).to(self.item_JD.device)
            self.register_buffer(name, tensor, persistent=False)

    def rows(self, users_B: Tensor, items_BN: Tensor) -> Picks:
        """Return h_BD of users with all they have, and the vectors of items."""
        start_B, length_B = self.start_U1[users_B], self.start_U1.diff()[users_B]
        return Picks(self.encode(start_B, length_B, self.item_J), self.item_JD, items_BN)

    def event_rows(self, rows_B: Tensor, items_BN: Tensor) -> Picks:
        """Return h_BD of what each training row sees, and the vectors of items.

        Rows whose items begin at the same place belong to one sequence.
        """
        count_B = self.count_E[rows_B]
        begin_S, sequence_B = torch.unique(self.begin_E[rows_B], return_inverse=True)
        length_S = torch.zeros_like(begin_S).scatter_reduce(0, sequence_B, count_B, "amax")
        h_TD, start_S = self.states(begin_S, length_S, self.item_J)
        h_BD = h_TD.index_select(0, start_S[sequence_B] + count_B - 1)
        return Picks(h_BD, self.item_JD, items_BN)

    def loss_over_all_items(self, rows_B: Tensor, items_B: Tensor) -> Tensor:
        """Return the cross-entropy of the item of each training row over all items."""
        h_BD = self.as_inner_product(self.event_rows(rows_B, items_B[:, None]).h_BD)
        v_ID = self.item_JD[:-1]
        return cross_entropy(h_BD, normalize(v_ID) if self.tau else v_ID, self.bias_I, items_B)

    def tables(self) -> tuple[Tensor, Tensor]:
        """h_UD and v_ID."""
        return self.encode_all(self.start_U1, self.item_J[:-1]), self.item_JD[:-1]
