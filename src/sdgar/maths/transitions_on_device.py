"""The memory of transitions by torch alone, on a GPU: products of dense matrices.

See ``transitions.py`` for the equations. Three matrices of items × items are held at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sdgar.machine.memory import require_memory
from sdgar.maths.rows import Rows
from sdgar.maths.sequences import Sequences

if TYPE_CHECKING:
    from sdgar.maths.transitions import Decay, Neighbours, Solution

_NUMBERS = 1 << 29
"""The most numbers of a block of targets × items."""
_IN_SYSTEMS = 1 << 27
"""The most numbers of systems that are solved together."""


def weights_on_device(
    events: Sequences,
    n_items: int,
    decay: Decay,
    near: Neighbours,
    solutions: Sequence[Solution],
    device: torch.device,
) -> list[Rows]:
    """Return W for each solution, as ``transitions.weights`` does."""
    require_memory("transitions", 16 * n_items**2, device)
    same_II, past_II, next_II = moments(events, n_items, decay, device)
    if near.k >= n_items - 1:
        solved = (_all(same_II, past_II, next_II, one, near.repeats) for one in solutions)
        every_I, start_I1 = np.arange(n_items, dtype=np.int32), np.arange(n_items + 1) * n_items
        return [
            Rows(start_I1, np.tile(every_I, n_items), w.flatten().cpu().numpy()) for w in solved
        ]
    near_IK = _nearest(same_II, past_II, next_II, near)
    found = []
    for one in solutions:
        w_IK = torch.empty(near_IK.shape, device=device)
        for some in _blocks(n_items, max(1, _IN_SYSTEMS // near_IK.shape[1] ** 2)):
            w_IK[some] = _systems(same_II, past_II, next_II, near_IK[some], some, one)
        found.append(_by_neighbour(near_IK, w_IK, n_items))
    return found


def moments(
    events: Sequences, n_items: int, decay: Decay, device: torch.device
) -> tuple[Tensor, Tensor, Tensor]:
    """Return X'X, S'S and S'T."""
    item_E = torch.from_numpy(events.item_E.astype(np.int64)).to(device)
    user_E = torch.from_numpy(events.users_E).to(device)
    rank_E = torch.arange(len(item_E), device=device)
    rank_E -= torch.from_numpy(events.start_U1).to(device)[user_E]
    same_II, past_II, next_II = (torch.zeros(n_items, n_items, device=device) for _ in range(3))
    at_once = max(1, _NUMBERS // n_items)
    for some in _blocks(events.n_users, at_once):
        first, last = int(events.start_U1[some.start]), int(events.start_U1[some.stop])
        x_UI = torch.zeros(some.stop - some.start, n_items, device=device)
        at = user_E[first:last] - some.start, item_E[first:last]
        x_UI.index_put_(at, torch.ones((), device=device), accumulate=True)
        same_II.addmm_(x_UI.T, x_UI)
    target_T = torch.nonzero(rank_E > 0)[:, 0]
    for some in _blocks(len(target_T), at_once):
        own_T = target_T[some]
        s_TI, t_TI = (torch.zeros(len(own_T), n_items, device=device) for _ in range(2))
        for lag in range(int(rank_E[own_T].max())):
            (row,) = torch.nonzero(rank_E[own_T] > lag, as_tuple=True)
            s_TI[row, item_E[own_T[row] - 1 - lag]] += decay.after(lag)
        t_TI[torch.arange(len(own_T), device=device), item_E[own_T]] = 1
        past_II.addmm_(s_TI.T, s_TI)
        next_II.addmm_(s_TI.T, t_TI)
    return same_II, past_II, next_II


def ranks_on_device(
    history: Sequences,
    strength_E: NDArray[np.float32],
    target_T: NDArray[np.int64],
    w: Rows,
    scale_GI: NDArray[np.float32],
    device: torch.device,
    *,
    hidden: bool,
) -> NDArray[np.int32]:
    """Return how many items score above each target under each scale; -1 without a score."""
    n_items = scale_GI.shape[1]
    w_II = torch.zeros(n_items, n_items, device=device)
    row_E = np.repeat(np.arange(n_items), np.diff(w.start_R1))
    at = (torch.from_numpy(one.astype(np.int64)).to(device) for one in (row_E, w.column_E))
    w_II[tuple(at)] = torch.from_numpy(w.weight_E).to(device)
    scales_GI, found = torch.from_numpy(scale_GI).to(device), []
    for some in _blocks(history.n_users, max(1, _NUMBERS // (4 * n_items))):
        own = slice(int(history.start_U1[some.start]), int(history.start_U1[some.stop]))
        user_E = torch.from_numpy(history.users_E[own] - some.start).to(device)
        item_E = torch.from_numpy(history.item_E[own].astype(np.int64)).to(device)
        s_TI = torch.zeros(some.stop - some.start, n_items, device=device)
        s_TI.index_put_(
            (user_E, item_E), torch.from_numpy(strength_E[own]).to(device), accumulate=True
        )
        s_TI = s_TI @ w_II
        if hidden:
            s_TI[user_E, item_E] = -torch.inf
        own_T1 = torch.from_numpy(target_T[some]).to(device)[:, None]
        score_T1 = s_TI.gather(1, own_T1)
        rank_TG = []
        for scale_I in scales_GI:
            above_T = (s_TI * scale_I >= score_T1 * scale_I[own_T1]).sum(dim=1) - 1
            rank_TG.append(torch.where(score_T1[:, 0] > 0, above_T, -1))
        found.append(torch.stack(rank_TG, dim=1).int().cpu().numpy())
    return np.concatenate(found)


def _both(one: Tensor, other: Tensor, solution: Solution) -> Tensor:
    return solution.alpha * one + (1 - solution.alpha) * other


def _all(same_II: Tensor, past_II: Tensor, next_II: Tensor, one: Solution, repeats: bool) -> Tensor:
    """Return W where all items are neighbours of all others."""
    a_II = _both(same_II, past_II, one).double()
    a_II.diagonal().add_(one.l2)
    inverse_II = torch.linalg.inv(a_II)
    w_II = inverse_II @ _both(same_II, next_II, one).double()
    if not repeats:
        w_II -= inverse_II * (w_II.diagonal() / inverse_II.diagonal())
        w_II.fill_diagonal_(0)
    solved_II: Tensor = w_II.float()
    return solved_II


def _nearest(same_II: Tensor, past_II: Tensor, next_II: Tensor, near: Neighbours) -> Tensor:
    """Return the neighbours of each item in ascending order; -1 where there is none."""
    n = len(same_II)
    own_I = near.share * same_II.diagonal() + (1 - near.share) * past_II.diagonal()
    found = []
    for some in _blocks(n, max(1, _NUMBERS // (4 * n))):
        value_IB = near.share * same_II[:, some] + (1 - near.share) * next_II[:, some]
        norm_IB = (own_I[:, None] * same_II.diagonal()[some]).sqrt() + near.shrink
        value_IB = (value_IB / norm_IB).masked_fill_(same_II[:, some] == 0, -torch.inf)
        if not near.repeats:
            at = torch.arange(some.start, some.stop, device=value_IB.device)
            value_IB[at, at - some.start] = -torch.inf
        best = value_IB.topk(min(near.k, n), dim=0)
        found.append(best.indices.masked_fill(best.values == -torch.inf, n).sort(dim=0).values.T)
    near_IK = torch.cat(found)
    return near_IK.masked_fill(near_IK == n, -1)


def _systems(
    same_II: Tensor,
    past_II: Tensor,
    next_II: Tensor,
    near_BK: Tensor,
    some: slice,
    one: Solution,
) -> Tensor:
    """Return the weights of a block of items; a place without a neighbour has 0."""
    at_BK = near_BK.clamp(min=0)
    there_BK = near_BK >= 0
    pairs = at_BK[:, :, None], at_BK[:, None, :]
    a_BKK = _both(same_II[pairs], past_II[pairs], one)
    a_BKK *= there_BK[:, :, None] & there_BK[:, None, :]
    a_BKK.diagonal(dim1=1, dim2=2).add_(one.l2)
    item_B1 = torch.arange(some.start, some.stop, device=at_BK.device)[:, None]
    b_BK = _both(same_II[at_BK, item_B1], next_II[at_BK, item_B1], one) * there_BK
    factor_BKK = torch.linalg.cholesky(a_BKK)
    return torch.cholesky_solve(b_BK[..., None], factor_BKK)[..., 0]


def _by_neighbour(near_IK: Tensor, w_IK: Tensor, n_items: int) -> Rows:
    """Return W with a row for each neighbour, the items of a row in ascending order."""
    there_IK = near_IK >= 0
    flat = near_IK[there_IK]
    order_E = flat.argsort(stable=True)
    item_E = torch.nonzero(there_IK)[:, 0][order_E]
    start_I1 = np.zeros(n_items + 1, np.int64)
    start_I1[1:] = torch.bincount(flat, minlength=n_items).cumsum(0).cpu().numpy()
    weight_E = w_IK[there_IK][order_E].float().cpu().numpy()
    return Rows(start_I1, item_E.int().cpu().numpy(), weight_E)


def _blocks(n: int, at_once: int) -> Iterator[slice]:
    for start in range(0, n, at_once):
        yield slice(start, min(start + at_once, n))
