"""What networks have in common whose contexts and items come down to vectors."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from sdgar.errors import UsageError


class InnerProducts(nn.Module):
    """s(c, i) = h_c · v_i + b_i; with τ > 0 instead cos(h_c, v_i)/τ + b_i."""

    def __init__(self, n_items: int, *, tau: float, **sizes: int) -> None:
        super().__init__()
        for name, size in sizes.items():
            if size < 1:
                raise UsageError(f"{name} must be at least 1, got {size}.", code="bad_size")
        if not 0 <= tau < float("inf"):
            raise UsageError(f"tau must be a number of at least 0, got {tau!r}.", code="bad_tau")
        self.tau = tau
        """The temperature of cosines; 0 for inner products."""
        self.bias_I = nn.Parameter(torch.zeros(n_items))

    def as_inner_product(self, h_UD: Tensor) -> Tensor:
        """h/(‖h‖ τ), which makes the cosine an inner product; h itself where there is no τ."""
        return normalize(h_UD, dim=1) / self.tau if self.tau else h_UD
