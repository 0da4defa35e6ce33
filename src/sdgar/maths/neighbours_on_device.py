"""Least squares on the neighbourhood of each item, by torch alone, on any device.

    blocks of rows of G are dense matrices, and many systems are solved at once

See ``neighbours.py`` for the equations; on a CPU, compiled kernels solve for whole histories there.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.functional import pad

from sdgar.maths.rows import Rows
from sdgar.maths.sparse import SparseMatrix

if TYPE_CHECKING:
    from sdgar.maths.neighbours import Neighbourhoods

MOST_IN_SYSTEMS = 1 << 28
"""The most numbers of the systems G_SS that are held at once, in 1 GiB."""
_DENSE = 1 << 26
"""The most numbers of a dense block of G, in 256 MiB."""


def matrix(rows: Rows, n_columns: int, device: torch.device) -> SparseMatrix:
    """Return a copy of rows as a matrix of tensors."""
    weight_E = rows.weight_E if len(rows.weight_E) else None
    return SparseMatrix.of(rows.start_R1, rows.column_E, n_columns, weight_E, device=device)


def as_rows(matrix: SparseMatrix) -> Rows:
    """Return a matrix as arrays."""
    column_E = matrix.column_E.to(torch.int32).cpu().numpy()
    return Rows(matrix.start_R1.cpu().numpy(), column_E, matrix.weights().cpu().numpy())


def user_weights(history: SparseMatrix, beta: float) -> Tensor:
    """d_u ∝ |I_u|^-β, with a mean of 1 over users with items."""
    d_L = length_weights(torch.bincount(history.length_R).cpu(), beta)
    return d_L.to(history.device)[history.length_R]


def length_weights(count_L: Tensor, beta: float) -> Tensor:
    """d_l ∝ l^-β with a mean of 1, if count_l users have l items; those without items have d_1."""
    d_L = torch.arange(len(count_L)).clamp(min=1).double().pow(-beta)
    there = count_L.nonzero()[:, 0]
    there = there[there > 0]
    users = int(count_L[there].sum())
    # An exact sum, whose last bit does not depend on its order.
    total = math.fsum((count_L[there] * d_L[there]).tolist())
    return (d_L / (total / users) if users else d_L).float()


def rows_by_neighbour(near_IK: Tensor, weight_IK: Tensor) -> Rows:
    """Return W with a row for each neighbour j, from the k weights w_ji of each item i."""
    there_IK = near_IK >= 0
    start_I1 = pad(there_IK.sum(dim=1).cumsum(0), (1, 0))
    by_item = SparseMatrix(start_I1, near_IK[there_IK], len(near_IK), weight_IK[there_IK])
    return as_rows(by_item.transposed())


def _inverse(near_BK: Tensor, n_items: int) -> tuple[Tensor, Tensor, Tensor]:
    """For each item j: the rows b and places p with near_bp = j, as (from_I1, b_R, p_R)."""
    flat = near_BK.reshape(-1)
    order_R = torch.argsort(flat, stable=True)[int((flat < 0).sum()) :]
    count_I = torch.bincount(flat[order_R], minlength=n_items)
    k = near_BK.shape[1]
    return pad(count_I.cumsum(0), (1, 0)), order_R // k, order_R % k


class TorchNeighbours:
    """The weights by torch alone, on any device: dense blocks of G, batches of systems."""

    def __init__(self, rule: Neighbourhoods, history: SparseMatrix) -> None:
        items_of = replace(history, weight_E=history.weights())
        users_of = items_of.transposed()
        own_E = users_of.weights()
        d_U = user_weights(items_of, rule.beta)
        users_of = replace(users_of, weight_E=own_E * d_U[users_of.column_E])
        zeros_I = torch.zeros(users_of.n_rows, device=history.device)
        self._root_I = zeros_I.index_add_(0, users_of.row_E, users_of.weights() * own_E).sqrt_()
        self._rule, self._users_of, self._items_of = rule, users_of, items_of
        """Users of items, weighted by d_u, and items of users."""
        self._n, self._device = users_of.n_rows, users_of.device
        self._rows = max(1, _DENSE // self._n)

    def _rows_of_g(self, items_B: Tensor) -> Tensor:
        return self._users_of.rows(items_B) @ self._items_of

    def solved(self) -> tuple[Tensor, Tensor]:
        """Return the neighbours of all items, and the weight of each."""
        near_IK, both_IK = self.nearest(torch.arange(self._n, device=self._device))
        return near_IK, self.systems(near_IK, both_IK)

    def similarities(self) -> tuple[Tensor, Tensor]:
        """Return the neighbours of all items, and how similar each is."""
        near_IK, both_IK = self.nearest(torch.arange(self._n, device=self._device))
        root_IK = self._root_I[:, None] * self._root_I[near_IK.clamp(min=0)]
        return near_IK, both_IK / (root_IK + self._rule.shrink)

    def nearest(self, items_R: Tensor) -> tuple[Tensor, Tensor]:
        """Return the neighbours of some items, ascending, and the entry of G for each."""
        k, n, root_I = self._rule.k, self._n, self._root_I
        near, both = [], []
        for items_B in items_R.split(self._rows):  # type: ignore[no-untyped-call]
            g_BI = self._rows_of_g(items_B)
            value_BI = g_BI / (root_I[items_B, None] * root_I + self._rule.shrink)
            value_BI[torch.arange(len(items_B), device=self._device), items_B] = 0
            value_BK, near_BK = value_BI.topk(min(k, n), dim=1)
            near_BK = torch.where(value_BK > 0, near_BK, n).sort(dim=1).values
            there_BK = near_BK < n
            both.append(g_BI.gather(1, near_BK.clamp(max=n - 1)) * there_BK)
            near.append(torch.where(there_BK, near_BK, -1))
        return torch.cat(near), torch.cat(both)

    def systems(self, near_RK: Tensor, both_RK: Tensor) -> Tensor:
        """Return the weights of the neighbours of each item."""
        at_once = max(1, MOST_IN_SYSTEMS // near_RK.shape[1] ** 2)
        pieces = zip(near_RK.split(at_once), both_RK.split(at_once), strict=True)  # type: ignore[no-untyped-call]
        return torch.cat([self._solve(*piece) for piece in pieces])

    def _solve(self, near_BK: Tensor, both_BK: Tensor) -> Tensor:
        k = near_BK.shape[1]
        from_I1, of_R, at_R = _inverse(near_BK, self._n)
        g_BKK = torch.zeros(len(near_BK), k, k, device=self._device)
        needed_J = torch.nonzero(from_I1.diff())[:, 0]
        for items_J in needed_J.split(self._rows) if len(needed_J) else ():  # type: ignore[no-untyped-call]
            first, last = from_I1[items_J[0]], from_I1[items_J[-1] + 1]
            g_JI = self._rows_of_g(items_J)
            b_R, p_R = of_R[first:last], at_R[first:last]
            row_R = torch.searchsorted(items_J, near_BK[b_R, p_R])
            other_RK = near_BK[b_R]
            g_BKK[b_R, p_R] = g_JI[row_R[:, None], other_RK.clamp(min=0)] * (other_RK >= 0)
        # A neighbour that is not there is a row of the unit matrix, and its weight 0.
        there_BK = near_BK >= 0
        diagonal_BK = torch.where(there_BK, self._rule.l2, 1.0).to(g_BKK)
        a_BKK = (g_BKK + torch.diag_embed(diagonal_BK)).double()
        factor_BKK, bad_B = torch.linalg.cholesky_ex(a_BKK)
        weight_BK = torch.cholesky_solve(both_BK.double()[:, :, None], factor_BKK)[:, :, 0]
        return torch.where(bad_B[:, None] > 0, torch.nan, weight_BK).float() * there_BK

    def solved_with(self, before: SparseMatrix, new_N: Tensor) -> SparseMatrix:
        """Return the weights of a history with new items, given the weights before they came."""
        users_of, items_of, history = self._users_of, self._items_of, self._items_of
        new_I = torch.zeros(history.n_columns, dtype=torch.bool, device=history.device)
        new_I[new_N] = True
        met_I = new_I.index_fill(0, items_of.rows(users_of.rows(new_N).column_E).column_E, True)
        met_M = torch.nonzero(met_I)[:, 0]
        near_MK, both_MK = self.nearest(met_M)
        near_new_M = (new_I[near_MK.clamp(min=0)] & (near_MK >= 0)).any(dim=1)
        again_M = new_I[met_M] | near_new_M
        near_BK = near_MK[again_M]
        weight_BK = self.systems(near_BK, both_MK[again_M])
        if not torch.isfinite(weight_BK).all():
            raise self._rule.not_finite()
        by_item = before.transposed()
        at_B, there_BK = met_M[again_M], near_BK >= 0
        stays_E = torch.ones(history.n_columns, dtype=torch.bool, device=history.device)
        stays_E = stays_E.index_fill(0, at_B, False)[by_item.row_E]
        item_E = torch.cat((by_item.row_E[stays_E], at_B[:, None].expand_as(near_BK)[there_BK]))
        neighbour_E = torch.cat((by_item.column_E[stays_E], near_BK[there_BK]))
        weight_E = torch.cat((by_item.weights()[stays_E], weight_BK[there_BK]))
        order_E = torch.argsort(neighbour_E * history.n_columns + item_E)
        start_I1 = torch.bincount(neighbour_E, minlength=history.n_columns).cumsum(0)
        start_I1 = pad(start_I1, (1, 0))
        return SparseMatrix(start_I1, item_E[order_E], history.n_columns, weight_E[order_E])
