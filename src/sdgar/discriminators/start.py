"""Start cosines not at random, but where counting and a little algebra already lead.

    b_i = log (n_i + 1) - mean,      n_i: how many have i
    u_c, v_i ∝ factors of iALS       after a few sweeps, which take less time than an epoch

The biases are those with which a softmax without vectors fits best. At random vectors and biases of
0 the softmax is flat; where a few items are most of the data, vectors then learn popularity first,
all in one direction, from which a small τ does not let them return.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.functional import normalize

from sdgar.maths.least_squares import HalfSweep
from sdgar.maths.sparse import SparseMatrix

if TYPE_CHECKING:
    from sdgar.data.interactions import Interactions
    from sdgar.discriminators.cosine import Cosine

_LEAST_SQUARES = HalfSweep(alpha=0.01, l2=0.01, power=1.0)
_SMALL = 0.1
"""The length of the random vectors with which the sweeps start."""


@torch.no_grad()
def start(cosine: Cosine, data: Interactions, *, sweeps: int) -> None:
    """Set biases by popularity and directions by least squares; without sweeps they stay random."""
    items_of = SparseMatrix.of(data.indptr_U1, data.items_E, data.n_items, device=cosine.device)
    users_of = items_of.transposed()
    if cosine.bias_I is not None:
        log_n_I = (users_of.length_R + 1).float().log()
        cosine.bias_I.copy_(log_n_I - log_n_I.mean())
    item_ID = _SMALL * cosine.item_ID
    user_UD = torch.zeros_like(cosine.contexts())
    for _ in range(sweeps):
        user_UD = _LEAST_SQUARES.improve(user_UD, items_of, item_ID)
        item_ID = _LEAST_SQUARES.improve(item_ID, users_of, user_UD)
    if sweeps:
        _point(cosine.item_ID, item_ID, users_of)
        if cosine.place_UF is None:
            _point(cosine.user_UD, user_UD, items_of)
        else:
            _share_out(cosine.user_UD, normalize(user_UD, dim=1), cosine.place_UF)


@torch.no_grad()
def directions(item_ID: Tensor, data: Interactions) -> Tensor:
    """Return where the users of some rows start if the items are given: û_UD by least squares."""
    items_of = SparseMatrix.of(data.indptr_U1, data.items_E, data.n_items, device=item_ID.device)
    none_UD = item_ID.new_zeros(data.n_users, item_ID.shape[1])
    along_UD = _LEAST_SQUARES.improve(none_UD, items_of, item_ID)
    lost_U1 = along_UD.norm(dim=1, keepdim=True) == 0
    return normalize(torch.where(lost_U1, 1.0, along_UD), dim=1)


def _point(vector_RD: Tensor, along_RD: Tensor, known: SparseMatrix) -> None:
    """Set unit vectors; rows without data stay as they are."""
    usable_R1 = (known.length_R > 0)[:, None] & (along_RD.norm(dim=1, keepdim=True) > 0)
    vector_RD.copy_(torch.where(usable_R1, normalize(along_RD, dim=1), vector_RD))


def _share_out(vector_VD: Tensor, left_UD: Tensor, place_UF: Tensor) -> None:
    """Give each field in turn the mean of what the fields before it have left of u_c."""
    vector_VD.zero_()
    for place_U in place_UF.T:
        count_V1 = torch.bincount(place_U, minlength=len(vector_VD)).clamp(min=1)[:, None]
        vector_VD += torch.zeros_like(vector_VD).index_add_(0, place_U, left_UD) / count_V1
        left_UD = left_UD - vector_VD[place_U]
