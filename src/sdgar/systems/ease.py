"""The system EASE: item weights by one matrix inverse (Steck 2019), with options of later papers.

Dropout is from EDLAE (Steck 2020), the bound on the diagonal from RDLAE (Moon et al. 2023),
and the powers of users and items are from DAN (Park et al. 2025).
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import torch
from torch import Tensor
from torch.linalg import LinAlgError  # type: ignore[attr-defined]

from sdgar.arguments import below_one, not_negative
from sdgar.data.interactions import Interactions
from sdgar.errors import NumericalError, ResourceError
from sdgar.machine.memory import free_bytes
from sdgar.maths.neighbours_on_device import user_weights
from sdgar.maths.sparse import SparseMatrix
from sdgar.models.item_weights import ItemWeights
from sdgar.systems.defaults import Choice, Range
from sdgar.systems.parameters import estimator
from sdgar.systems.recipe import SystemSpec
from sdgar.systems.solver import ItemItem

_BLOCK, _SMALL_BLOCK = 1024, 128
_BLOCK_BYTES = 64 << 20


@estimator
class EASE(ItemItem):
    """Predict every item of a user from the others, by least squares.

        min_W ‖X - X W‖² + λ ‖W‖²  with diag W = 0:   P = (X'X + λ I)^-1,   w_ij = -P_ij / P_jj

    Four options of later papers change this, and are off by default. With all of them:

        G    = Σ_u d_u x_u x_u',   d_u ∝ |I_u|^-β,   Λ = λ I + p / (1 - p) diag G,   P = (G + Λ)^-1
        w_ij = -P_ij max((1 - ξ) / P_jj, Λ_jj) (n_i / n_j)^α  for i ≠ j,   w_ii = 0

    n_i is the number of users who have item i.

    Time grows with the third power of the number of items and memory with the second, so EASE
    refuses data for which there is not enough. Weights of interactions are not used.

    >>> data = sdgar.Interactions.from_arrays([1, 1, 2, 2, 3], ["a", "b", "b", "c", "a"])
    >>> model = sdgar.EASE(l2=1.0).fit(data)
    >>> model.recommend(history=["a"], k=1)["item"].to_list()  # someone new
    ['b']
    """

    _spec: ClassVar[SystemSpec] = SystemSpec(
        name="ease",
        computed_by="matrix inverse",
        searched={
            "l2": Range(3.0, 3000.0),
            "beta": Choice((0.0, 0.25, 0.5)),
            "dropout": Choice((0.0, 0.2, 0.4, 0.6)),
            "xi": Choice((0.0, 0.1, 0.3)),
            "alpha": Choice((0.0, 0.1, 0.2, 0.3)),
        },
        uses_weights=False,
    )

    l2: float = 100.0
    """The weight λ of the squared weights between items, in units of the mean user weight."""
    beta: float = 0.0
    """The power β by which users with long histories count less; 0 counts all users alike."""
    dropout: float = 0.0
    """The share p of a history that is hidden from the prediction, on average over all ways to hide
    it; 0 hides nothing."""
    xi: float = 0.0
    """The bound ξ on the weight of an item for itself in the solution, before it is set to 0."""
    alpha: float = 0.0
    """The power α by which popular items speak louder and are spoken for less; 0 treats all items
    alike."""
    ram_gib: float = 0.0
    """The most memory in GiB that may be used; 0 means half of what is free."""

    def _solve(self, data: Interactions, *, device: torch.device) -> ItemWeights:
        """Count which items occur together, invert the counts, and scale."""
        l2, beta = not_negative("l2", self.l2), not_negative("beta", self.beta)
        dropout, xi = below_one("dropout", self.dropout), below_one("xi", self.xi)
        alpha = not_negative("alpha", self.alpha)
        _require_memory(data.n_items, not_negative("ram_gib", self.ram_gib), device)
        history = SparseMatrix.of(data.indptr_U1, data.items_E, data.n_items, device=device)
        weight_II = item_weights(co_counts(history, beta), l2, dropout, xi)
        loud_I = torch.bincount(history.column_E, minlength=data.n_items).clamp(min=1) ** alpha
        weight_II.mul_(loud_I[:, None]).div_(loud_I)
        return ItemWeights(data.history, weight_II.cpu().numpy())


def co_counts(history: SparseMatrix, beta: float) -> Tensor:
    """Return G = Σ_u d_u x_u x_u', d_u ∝ |I_u|^-β: with β = 0 how many contexts have both items."""
    n, users_of = history.n_columns, history.transposed()
    d_U = user_weights(history, beta)
    users_of = replace(users_of, weight_E=d_U[users_of.column_E])
    both_II = torch.empty(n, n, device=history.device)
    at_once = max(1, _BLOCK_BYTES // (4 * n))
    for start in range(0, n, at_once):
        items_B = torch.arange(start, min(start + at_once, n), device=history.device)
        both_II[items_B] = users_of.rows(items_B) @ history
    return both_II


def item_weights(both_II: Tensor, l2: float, dropout: float, xi: float) -> Tensor:
    """Return w_ij = -P_ij max((1 - ξ) / P_jj, Λ_jj), w_ii = 0, in the memory of G.

    P = (G + Λ)^-1 and Λ = λ I + p / (1 - p) diag G.
    """
    penalty_I = l2 + dropout / (1 - dropout) * both_II.diagonal()
    both_II.diagonal().add_(penalty_I)
    try:
        minus_II = minus_inverse_(both_II)
    except LinAlgError as error:
        raise NumericalError(
            f"G + Λ has no inverse in float32 with l2={l2:g}. Use a larger l2, such as 100.",
            code="singular",
        ) from error
    minus_II /= torch.minimum(-minus_II.diagonal() / (1 - xi), 1 / penalty_I)
    return minus_II.fill_diagonal_(0)


def minus_inverse_(a_II: Tensor, block: int = _BLOCK) -> Tensor:
    """Replace A, symmetric and positive definite, by -A^-1: every block k is swept once.

        A_kk ← -A_kk^-1,   A_ik ← A_ik A_kk^-1,   A_ij ← A_ij - A_ik A_kk^-1 A_kj

    A factor and an inverse in addition to A would take three times the RAM, and OpenBLAS's
    Cholesky, with two threads and 24,436 rows, crashed. Only blocks on and below the diagonal are
    computed; the others are filled in at the end.
    """
    n = len(a_II)
    blocks = [slice(start, min(start + block, n)) for start in range(0, n, block)]
    for k in blocks:
        panel_IK = torch.cat((a_II[k, : k.start].T, a_II[k.start :, k]))
        pivot_KK = panel_IK[k].clone()
        if block > _SMALL_BLOCK:
            minus_inverse_(pivot_KK, _SMALL_BLOCK)
        else:
            pivot_KK = -torch.cholesky_inverse(torch.linalg.cholesky(pivot_KK))
        minus_IK = panel_IK @ pivot_KK
        for j in blocks:
            a_II[j.start :, j].addmm_(minus_IK[j.start :], panel_IK[j].T)
        a_II[k, : k.start] = -minus_IK[: k.start].T
        a_II[k.start :, k] = -minus_IK[k.start :]
        a_II[k, k] = pivot_KK
    for j in blocks:
        a_II[j, j.stop :] = a_II[j.stop :, j].T
    return a_II


def _require_memory(n_items: int, allowed_gib: float, device: torch.device) -> None:
    # One matrix and some panels of it.
    needed = 4 * n_items * (n_items + 4 * _BLOCK) / 2**30
    limit = "ram_gib allows"
    if allowed_gib == 0:
        allowed_gib, limit = free_bytes(device) / 2 / 2**30, f"half of what is free on {device} is"
    if needed > allowed_gib:
        raise ResourceError(
            f"EASE needs {needed:.2f} GiB for {n_items:,} items, and {limit} {allowed_gib:.2f} "
            "GiB. Leave rare items out, set ram_gib to what it may take, or use ials or "
            "item-knn.",
            code="out_of_memory",
        )
