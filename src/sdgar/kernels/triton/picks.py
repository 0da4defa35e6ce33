"""Negatives that are chosen among uniform candidates by their scores, at the start of a step.

Candidates are drawn ahead with all others (``draws.py``), but which of them is taken depends on
the parameters as they are now. So this kernel fills the rows of a step, and claims their slots.
"""

from __future__ import annotations

import triton
import triton.language as tl

from sdgar.kernels.triton.epoch import claim

HARDEST_OF, FIRST_VIOLATION = tl.constexpr(0), tl.constexpr(1)
"""The kinds of choice, named like the classes of samplers: HARDEST_OF takes the best scored
candidate, FIRST_VIOLATION the first with s_j > s⁺ - margin, else the last."""


@triton.jit(do_not_specialize=["step"])
def pick_negatives(
    drawn_VW,
    row_VW,
    claim_R,
    tries_V,
    theta_RD,
    bias_I,
    step,
    size,
    n_users,
    margin,
    P: tl.constexpr,
    PP: tl.constexpr,
    N: tl.constexpr,
    C: tl.constexpr,
    CC: tl.constexpr,
    D: tl.constexpr,
    DD: tl.constexpr,
    PICK: tl.constexpr,
    WIDE: tl.constexpr,
    TILE: tl.constexpr,
):
    """Choose negative j of some visits among candidates j·C … j·C + C - 1; j is program axis 1.

    A negative that no candidate can be is the first of them, marked as not accepted.
    """
    W: tl.constexpr = 1 + P + N
    lane = tl.program_id(0) * TILE + tl.arange(0, TILE)
    j = tl.program_id(1)
    p, c, d = tl.arange(0, PP), tl.arange(0, CC), tl.arange(0, DD)
    inside = lane < size
    visit = (step * size + lane).to(tl.int64)
    source = drawn_VW + visit * (1 + P + N * C)
    into = row_VW + visit * W
    at = step * size * W + lane * W
    user = tl.load(source, mask=inside, other=-1)
    in_P = inside[:, None] & (p < P)[None, :]
    pos_P = tl.load(source[:, None] + 1 + p[None, :], mask=in_P, other=-1)
    # One program copies the context and the positives, which all programs of a visit share.
    if j == 0:
        tl.store(into, user, mask=inside)
        tl.store(into[:, None] + 1 + p[None, :], pos_P, mask=in_P)
        claim(claim_R, user, at)
        claim(claim_R, pos_P, at[:, None] + 1 + p[None, :])

    wanted = inside[:, None] & (c < C)[None, :]
    code = tl.load(source[:, None] + 1 + P + j * C + c[None, :], mask=wanted, other=-1)
    accepted = code >= 0
    first = tl.sum(tl.where((c == 0)[None, :], code, 0), axis=1)
    bias = tl.load(bias_I + code - n_users, mask=accepted, other=0.0)
    user_row, row = user, tl.where(accepted, code, 0)
    if WIDE:
        user_row, row = user.to(tl.int64), row.to(tl.int64)
    there = user >= 0
    user_D = there[:, None] & (d < D)[None, :]
    row_D = accepted[:, :, None] & (d < D)[None, None, :]
    u = tl.load(theta_RD + user_row[:, None] * D + d[None, :], mask=user_D, other=0.0)
    v = tl.load(theta_RD + row[:, :, None] * D + d[None, None, :], mask=row_D, other=0.0)
    s = tl.sum(u[:, None, :] * v, axis=2) + bias
    if PICK == HARDEST_OF:
        s = tl.where(accepted, s, float("-inf"))
        best = tl.max(s, axis=1)
        place = tl.min(tl.where(accepted & (s == best[:, None]), c[None, :], CC), axis=1)
    else:
        tl.static_assert(PICK == FIRST_VIOLATION)
        pos = tl.sum(tl.where((p == 0)[None, :], pos_P, 0), axis=1)
        pos_row = pos
        if WIDE:
            pos_row = pos.to(tl.int64)
        v_pos = tl.load(theta_RD + pos_row[:, None] * D + d[None, :], mask=user_D, other=0.0)
        s_pos = tl.sum(u * v_pos, axis=1) + tl.load(bias_I + pos - n_users, mask=there, other=0.0)
        violates = accepted & (s > (s_pos - margin)[:, None])
        place = tl.min(tl.where(violates, c[None, :], C - 1), axis=1)
        tl.store(tries_V + visit, place + 1, mask=inside)
    picked = tl.sum(tl.where(c[None, :] == place[:, None], code, 0), axis=1)
    refused = tl.where(first >= 0, ~first, first)
    picked = tl.where(place < CC, picked, refused)
    tl.store(into + 1 + P + j, picked, mask=inside)
    claim(claim_R, picked, at + 1 + P + j)
