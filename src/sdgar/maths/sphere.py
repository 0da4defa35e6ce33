"""The vectors of contexts on the sphere that suit the softmax of cosines, for given items."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize, pad

from sdgar.kernels.optional import kernels_of
from sdgar.maths.sparse import SparseMatrix

LOOKS, STEP_SIZE = 5, 3.0
"""How many points are tried, and η of the first steps; docs/results-sdsoftmax.md measures both."""
_SUPPORT = 2048
"""How many items at most stand for all of them."""
_BLOCK = 512
"""How many contexts are computed at a time."""
_FEW = 64
"""Up to so many contexts are computed one after the other, which is the faster way for a few."""
_kernels = partial(kernels_of, "sphere")


@dataclass(frozen=True, slots=True)
class Support:
    """Items that stand for the catalogue in a sum over all items."""

    item_S: Tensor
    """The numbers of the items."""
    log_weight_S: Tensor
    """The logarithm of how many items each one stands for."""
    place_I: Tensor
    """The place of each item of the catalogue among ``item_S``; -1 if it is not there."""

    @classmethod
    def of(cls, popularity_I: Tensor) -> Support:
        """Choose the items by how popular they are; see ``support``."""
        item_S, log_weight_S = support(popularity_I)
        place_I = torch.full_like(popularity_I, -1, dtype=torch.long)
        place_I[item_S] = torch.arange(len(item_S), device=item_S.device)
        return cls(item_S, log_weight_S, place_I)

    def to(self, device: torch.device) -> Support:
        """Move the tables to a device."""
        tables = (self.item_S, self.log_weight_S, self.place_I)
        return Support(*(table.to(device) for table in tables))


def directions(
    known: SparseMatrix,
    unit_ID: Tensor,
    bias_I: Tensor,
    stand_in: Support,
    *,
    tau: float,
    rho: float = 1.0,
) -> Tensor:
    """Return û of each context, from the items that it is known to have.

    Each û climbs the objective of the softmax, with the items as they are,

        f(û) = û · m / τ - log Σ_{j ∉ I_c} exp(û · v̂_j / τ + b_j),   m = mean_{i ∈ I_c} v̂_i / ρ
        û ← (û + η τ ∇f) normalised,   τ ∇f = m - Σ_j P(j|c) v̂_j

    from the mean of the history. f is smooth and its slope points far: a few steps are enough. In
    a large catalogue some 2,000 items stand for all, the same for every context, so that what a
    context gets does not depend on who else is asked for.
    """
    on_cpu = unit_ID.device.type == "cpu" and unit_ID.dtype == bias_I.dtype == torch.float32
    if known.n_rows <= _FEW and on_cpu and (kernels := _kernels()) is not None:
        m_BD = (known @ unit_ID) / (rho * known.length_R[:, None])
        return _climb_each(kernels, known, m_BD, unit_ID, bias_I, stand_in, tau)
    v_SD = unit_ID[stand_in.item_S]
    offset_S = bias_I[stand_in.item_S] + stand_in.log_weight_S
    blocks = torch.arange(known.n_rows, device=unit_ID.device).split(_BLOCK)  # type: ignore[no-untyped-call]
    found = []
    for block in blocks:
        some = known.rows(block)
        m_BD = (some @ unit_ID) / (rho * some.length_R[:, None])
        found.append(_climb(some, m_BD, v_SD, offset_S, stand_in.place_I, tau))
    return torch.cat(found)


@dataclass(frozen=True, slots=True)
class Contexts:
    """The contexts of a model as new items meet them: the mirror of ``directions``.

    As a function of one item i, and with b_i at its best, the objective of the softmax is

        f(v̂) = v̂ · m / τ - log Σ_{c ∉ U_i} exp(û_c · v̂ / τ + a_c),   m = mean_{c ∈ U_i} û_c / ρ
        a_c = log |I_c| - log Σ_j exp(û_c · v̂_j / τ + b_j)
        b_i = log |U_i| - log Σ_c exp(û_c · v̂ / τ + a_c)

    so that items are found among contexts as contexts are among items.
    """

    unit_UD: Tensor
    """The directions û of the contexts."""
    offset_U: Tensor
    """The offset a of each context; -inf for one without items."""
    stand_in: Support
    """The contexts that stand for all of them."""
    tau: float
    """The temperature τ of cosines."""
    rho: float
    """The temperature ρ of positives over that of negatives."""

    @classmethod
    def of(
        cls,
        unit_UD: Tensor,
        length_U: Tensor,
        unit_ID: Tensor,
        bias_I: Tensor,
        items: Support,
        *,
        tau: float,
        rho: float = 1.0,
    ) -> Contexts:
        """Sum up the softmax of each context over the items that stand for the catalogue."""
        v_SD = unit_ID[items.item_S]
        offset_S = bias_I[items.item_S] + items.log_weight_S
        blocks = unit_UD.split(_BLOCK)  # type: ignore[no-untyped-call]
        log_z = [torch.addmm(offset_S, u_BD, v_SD.T, alpha=1 / tau).logsumexp(1) for u_BD in blocks]
        offset_U = length_U.to(unit_UD).log() - torch.cat(log_z)
        return cls(unit_UD, offset_U, Support.of(length_U), tau, rho)

    def directions(self, known: SparseMatrix) -> Tensor:
        """Return v̂ of each item, from the contexts that are known to have it."""
        return directions(
            known, self.unit_UD, self.offset_U, self.stand_in, tau=self.tau, rho=self.rho
        )

    def biases(self, unit_ND: Tensor, count_N: Tensor) -> Tensor:
        """Return b of items with these directions, which so many contexts have."""
        at_S = self.stand_in.item_S
        offset_S = self.offset_U[at_S] + self.stand_in.log_weight_S
        blocks = unit_ND.split(_BLOCK)  # type: ignore[no-untyped-call]
        u_SD = self.unit_UD[at_S]
        sums = [
            torch.addmm(offset_S, v_BD, u_SD.T, alpha=1 / self.tau).logsumexp(1) for v_BD in blocks
        ]
        return count_N.to(unit_ND).log() - torch.cat(sums)


def support(popularity_I: Tensor) -> tuple[Tensor, Tensor]:
    """Choose items that stand for the catalogue, and log of how many each stands for.

    These are all items, or those that n evenly spaced places meet in the running sum of
    popularity + 1: an item that is met m times with expectation n q stands for m / (n q).
    """
    n_items = len(popularity_I)
    if n_items <= _SUPPORT:
        everything = torch.arange(n_items, device=popularity_I.device)
        return everything, torch.zeros(n_items, device=popularity_I.device)
    share_I = (popularity_I + 1).double()
    share_I /= share_I.sum()
    place_S = (torch.arange(_SUPPORT, device=share_I.device, dtype=torch.double) + 0.5) / _SUPPORT
    met_S = torch.searchsorted(share_I.cumsum(0), place_S).clamp(max=n_items - 1)
    item_S, times_S = torch.unique_consecutive(met_S, return_counts=True)
    return item_S, (times_S / (_SUPPORT * share_I[item_S])).log().float()


def _climb(
    known: SparseMatrix,
    m_BD: Tensor,
    v_SD: Tensor,
    offset_S: Tensor,
    place_I: Tensor,
    tau: float,
) -> Tensor:
    """Climb for a block of contexts; a step that does not gain is taken back for a shorter one."""
    at_E = place_I[known.column_E]
    row_E, at_E = known.row_E[at_E >= 0], at_E[at_E >= 0]
    u_BD = best_BD = normalize(m_BD, dim=1)
    slope_BD = torch.zeros_like(u_BD)
    best_B = torch.full_like(u_BD[:, 0], -torch.inf)
    step_B = torch.full_like(best_B, STEP_SIZE)
    for _ in range(LOOKS):
        s_BS = torch.addmm(offset_S, u_BD, v_SD.T, alpha=1 / tau)
        s_BS[row_E, at_E] = -torch.inf
        log_z_B = s_BS.logsumexp(dim=1)
        f_B = (u_BD * m_BD).sum(dim=1) / tau - log_z_B
        gains_B = f_B >= best_B
        p_BS = s_BS.sub_(log_z_B[:, None]).exp_()
        best_B = torch.where(gains_B, f_B, best_B)
        best_BD = torch.where(gains_B[:, None], u_BD, best_BD)
        slope_BD = torch.where(gains_B[:, None], m_BD - p_BS @ v_SD, slope_BD)
        step_B = torch.where(gains_B, step_B, step_B / 4)
        u_BD = normalize(best_BD + step_B[:, None] * slope_BD, dim=1)
    return best_BD


def _climb_each(
    kernels: Any,
    known: SparseMatrix,
    m_BD: Tensor,
    unit_ID: Tensor,
    bias_I: Tensor,
    stand_in: Support,
    tau: float,
) -> Tensor:
    """Climb for one context after the other, in compiled code."""
    odd = -len(stand_in.item_S) % kernels.FOUR
    item_S = pad(stand_in.item_S, (0, odd))  # the first item again, which then stands for nothing
    log_weight_S = pad(stand_in.log_weight_S, (0, odd), value=-torch.inf)
    v_SD = unit_ID.detach().index_select(0, item_S)
    offset_S = bias_I.detach().index_select(0, item_S) + log_weight_S
    best_BD, m_BD = torch.empty_like(m_BD), m_BD.detach()
    room = torch.empty(2, m_BD.shape[1]), torch.empty(len(v_SD))
    at_E = stand_in.place_I.index_select(0, known.column_E)
    arrays = [t.numpy() for t in (m_BD, v_SD, offset_S, known.start_R1, at_E)]
    kernels.climb(
        0, known.n_rows, *arrays, np.float32(tau), LOOKS, np.float32(STEP_SIZE),
        *(t.numpy() for t in (*room, best_BD)),
    )  # fmt: skip
    return best_BD
