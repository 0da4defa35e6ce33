"""The positives of some contexts in the memory of a GPU, and how they are visited."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from sdgar.engines import host

if TYPE_CHECKING:
    from typing import Self

    from sdgar.data.interactions import Interactions


@dataclass(frozen=True, slots=True)
class Rows:
    """The training positives, context by context, and their visits; see ``engines/visits.py``."""

    start_U1: Tensor
    """The rows of context u are ``start_U1[u]`` to ``start_U1[u + 1] - 1``."""
    items_E: Tensor
    """The item of each row."""
    weight_E: Tensor | None
    """The weights ω of the rows, with a mean of 1; None if all are 1."""
    n_items: int
    """The number of items."""
    n_visits: int
    """The number of visits of an epoch."""
    search_steps: int
    """The number of halvings that find an item in the longest history."""
    user_E: Tensor | None = None
    """The context of each row, where a visit has one positive."""
    context_V: Tensor | None = None
    """The context of each visit, where visits have several positives."""
    place_V: Tensor | None = None
    """The number of positives that the context has in earlier visits."""

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.items_E)

    @property
    def n_users(self) -> int:
        """The number of contexts."""
        return len(self.start_U1) - 1

    @classmethod
    def of(cls, data: Interactions, positives: int, device: torch.device) -> Self:
        """Bring rows to a device, for visits with so many positives."""
        weight_E = host.scaled_weights(data)
        return cls.there(
            torch.from_numpy(data.indptr_U1).to(device),
            torch.from_numpy(data.items_E).to(device),
            None if weight_E is None else torch.from_numpy(weight_E).to(device),
            n_items=data.n_items,
            positives=positives,
        )

    @classmethod
    def there(
        cls,
        start_U1: Tensor,
        items_E: Tensor,
        weight_E: Tensor | None,
        *,
        n_items: int,
        positives: int,
    ) -> Self:
        """Lay out the visits of rows that are on the device already."""
        count_U = start_U1.diff()
        users_U = torch.arange(len(count_U), dtype=torch.int32, device=start_U1.device)
        steps = int(count_U.max()).bit_length()
        if positives == 1:
            user_E = torch.repeat_interleave(users_U, count_U, output_size=len(items_E))
            return cls(start_U1, items_E, weight_E, n_items, len(items_E), steps, user_E)
        visits_U = (count_U + positives - 1) // positives
        context_V = torch.repeat_interleave(users_U, visits_U)
        first_V = (visits_U.cumsum(0) - visits_U)[context_V.long()]
        place_V = positives * (torch.arange(len(context_V), device=first_V.device) - first_V)
        return cls(
            start_U1, items_E, weight_E, n_items, len(context_V), steps,
            context_V=context_V, place_V=place_V,
        )  # fmt: skip
