"""Self-attentive sequences (Kang & McAuley 2018): from the items of a context to its vector."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, embedding, relu, scaled_dot_product_attention

from sdgar.errors import UsageError
from sdgar.models.networks.inner_products import InnerProducts

_ATTENTION_AT_ONCE = 1 << 24
"""How many pairs of places are looked at in one go, where no gradient is asked for."""


class Block(nn.Module):
    """x ← x + attention(x) from each place to those before it, then x ← x + W₂ relu(W₁ x)."""

    def __init__(self, dim: int, heads: int, rate: float) -> None:
        super().__init__()
        self.heads, self.rate = heads, rate
        self.before, self.between = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.query, self.key_value = nn.Linear(dim, dim), nn.Linear(dim, 2 * dim)
        self.out = nn.Linear(dim, dim)
        self.inner, self.outer = nn.Linear(dim, dim), nn.Linear(dim, dim)

    def forward(self, x_BLD: Tensor, seen_BLL: Tensor, *, last: bool) -> Tensor:
        """Compute all places, or only the last one, which is all that a final block needs."""
        y_BLD = self.before(x_BLD)
        asks_BQD, from_BQD = (t[:, -1:] if last else t for t in (y_BLD, x_BLD))
        seen_BQL = seen_BLL[:, -1:] if last else seen_BLL
        query, key, value = (
            t.unflatten(2, (self.heads, -1)).transpose(1, 2)
            for t in (self.query(asks_BQD), *self.key_value(y_BLD).chunk(2, dim=2))
        )
        mixed = scaled_dot_product_attention(query, key, value, attn_mask=seen_BQL[:, None])
        x_BQD = from_BQD + self._drop(self.out(mixed.transpose(1, 2).flatten(2)))
        y_BQD = self.outer(self._drop(relu(self.inner(self.between(x_BQD)))))
        return x_BQD + self._drop(y_BQD)

    def _drop(self, x: Tensor) -> Tensor:
        return dropout(x, self.rate, self.training)


class SequenceEncoder(InnerProducts):
    """h = the last place of L attentive blocks over the last items of the context.

        x_t = v_{i_t} + p_t,   x ← block(x) …,   h = norm(x_last),   s = h · v_i + b_i (or a cosine)

    with p a vector for each place, counted from the end. A context without items is the sequence of
    one empty place.
    """

    def __init__(
        self,
        n_users: int,
        n_items: int,
        *,
        dim: int = 64,
        blocks: int = 2,
        heads: int = 2,
        length: int = 50,
        dropout: float = 0.2,
        tau: float = 0.12,
    ) -> None:
        super().__init__(n_items, tau=tau, dim=dim, blocks=blocks, heads=heads, length=length)
        if not 0 <= dropout < 1:
            raise UsageError(f"dropout must be at least 0 and less than 1, got {dropout}.")
        if dim % heads:
            raise UsageError(f"dim must be a multiple of heads, got {dim} and {heads}.")
        self.n_users, self.empty, self.length, self.rate = n_users, n_items, length, dropout
        self.item_JD = nn.Parameter(torch.randn(n_items + 1, dim) / dim**0.5)
        """The last row stands for an empty place, and stays 0."""
        nn.init.zeros_(self.item_JD[-1])
        self.place_LD = nn.Parameter(torch.randn(length, dim) / dim**0.5)
        self.blocks = nn.ModuleList(Block(dim, heads, dropout) for _ in range(blocks))
        self.norm = nn.LayerNorm(dim)

    def encode(self, items_BL: Tensor) -> Tensor:
        """h_BD of sequences, which end at the right and have empty places on the left.

        Most sequences are short: on a CPU, those of about one length go together, without the
        empty places before them. A GPU is quicker with all of them at once.
        """
        if items_BL.device.type != "cpu":
            return self._encode(items_BL)
        length_B = (items_BL != self.empty).sum(dim=1)
        size_B = length_B.clamp(min=1).log2().ceil().int()
        order_B = size_B.argsort(stable=True)
        rows = order_B.split(size_B.bincount().tolist())  # type: ignore[no-untyped-call]
        parts = [
            self._encode(items_BL[rows_C, -(1 << size) :])
            for size, rows_C in enumerate(rows)
            if len(rows_C)
        ]
        return torch.cat(parts)[order_B.argsort()]

    def _encode(self, items_BL: Tensor) -> Tensor:
        length = items_BL.shape[1]
        v_BLD = embedding(items_BL, self.item_JD, padding_idx=self.empty)
        x_BLD = dropout(v_BLD + self.place_LD[-length:], self.rate, self.training)
        place_L = torch.arange(length, device=items_BL.device)
        filled_BL = (items_BL != self.empty) | (place_L == length - 1)
        # A place sees itself and filled ones before it; one that saw nothing would be NaN.
        seen_BLL = (place_L <= place_L[:, None]) & filled_BL[:, None]
        seen_BLL = seen_BLL | torch.eye(length, dtype=torch.bool, device=place_L.device)
        for number, block in enumerate(self.blocks, start=1):
            x_BLD = block(x_BLD, seen_BLL, last=number == len(self.blocks))
        h_BD: Tensor = self.norm(x_BLD[:, -1])
        return h_BD

    def fold_in(self, start_T1: Tensor, item_E: Tensor) -> Tensor:
        """h_TD of users with these items, in the order of time."""
        return self.as_inner_product(self.encode_all(start_T1, item_E))

    def encode_all(self, start_U1: Tensor, item_E: Tensor) -> Tensor:
        """h_UD of users whose items are item_E[start_U1[u] … start_U1[u + 1]], before any τ."""
        rows = torch.stack((start_U1[:-1], start_U1.diff()))
        at_once = max(1, _ATTENTION_AT_ONCE // self.length**2)
        parts = rows.split(at_once, dim=1)  # type: ignore[no-untyped-call]
        return torch.cat([self.encode(self.last_items(start, n, item_E)) for start, n in parts])

    def last_items(self, start_B: Tensor, rank_B: Tensor, item_E: Tensor) -> Tensor:
        """i_BL of the items before number ``rank`` from ``start`` on, from the left."""
        back_L = torch.arange(-self.length, 0, device=start_B.device)
        place_BL = rank_B[:, None] + back_L
        at_BL = (start_B[:, None] + place_BL).clamp(min=0)
        return torch.where(place_BL >= 0, item_E[at_BL], self.empty)
