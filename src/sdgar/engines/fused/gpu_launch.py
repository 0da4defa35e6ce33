"""Calls of the GPU's kernels, with what they read from the room and from the lowered parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from sdgar.engines.fused.gpu_tables import Room, power
from sdgar.engines.fused.records import THETA_LIMIT, Draw, Loss, Pick, Scores, Step
from sdgar.maths.rng import Permutation

if TYPE_CHECKING:
    from sdgar.engines.fused.gpu_tables import Rows


def draw_chunk(
    room: Room, rows: Rows, draw: Draw, numbers: Tensor, *, seed: int, start: int
) -> None:
    """Fill the chunk that begins at a place of the epoch's order.

    ``numbers`` are the tails of the streams that visits draw from, and the keys of the order.
    """
    from sdgar.kernels.triton import draws

    order = Permutation(rows.n_visits, ())
    p, n, lanes = room.positives, room.drawn, len(room.drawn_VW)
    draws.draw_visits[(-(-lanes // room.tiles.drawn),)](
        room.drawn_VW,
        room.weight_VP,
        numbers,
        room.strides,
        seed,
        start,
        lanes,
        rows.n_visits,
        rows.user_E,
        rows.items_E,
        rows.weight_E,
        rows.start_U1,
        rows.context_V,
        rows.place_V,
        draw.state_bins,
        draw.item_bins,
        draw.order_KI,
        draw.downward_UK,
        draw.n_states,
        room.n_users,
        room.n_items,
        rows.search_steps,
        P=p,
        PP=power(p),
        N=n,
        NN=power(n),
        DRAW=draw.kind,
        WEIGHTED=rows.weight_E is not None,
        ROUNDS=len(numbers) - 2,
        LEFT_BITS=order.left_bits,
        RIGHT_BITS=order.right_bits,
        TILE=room.tiles.drawn,
    )
    if room.log_q_VN is not None:
        draws.log_q[(-(-lanes * n // room.tiles.log_q),)](
            room.log_q_VN,
            room.row_VW,
            draw.x_UK,
            draw.y_IK,
            draw.log_q_I,
            rows.start_U1,
            lanes * n,
            room.n_users,
            room.n_items,
            P=p,
            N=n,
            K=draw.n_states,
            KK=power(draw.n_states),
            DRAW=draw.kind,
            TILE=room.tiles.log_q,
        )


def run_steps(
    room: Room,
    pick: Pick | None,
    scores: Scores,
    loss: Loss,
    step: Step,
    *,
    l2: float,
    scale: float,
    n_steps: int,
) -> None:
    """Run some steps of a chunk that is drawn, with gradients summed in units of 1 / scale."""
    from sdgar.kernels.triton import epoch

    room.claim_R.zero_()
    entries = len(room.moved_L)
    if pick is None:
        epoch.claim_rows[(-(-entries // 256),)](room.row_VW, room.claim_R, entries, TILE=256)
    for number in range(n_steps):
        if pick is not None:
            _pick(room, pick, number)
        _add_gradients(room, scores, loss, scale, number)
        claims = entries if number + 1 < room.chunk_steps and pick is None else 0
        _move_rows(room, scores, step, l2, scale, number, claims)


def _pick(room: Room, pick: Pick, number: int) -> None:
    """Choose the negatives of a step among its candidates, and claim their slots."""
    from sdgar.kernels.triton import picks

    p, n = room.positives, room.negatives
    picks.pick_negatives[(-(-room.size // room.tiles.visits), n)](
        room.drawn_VW,
        room.row_VW,
        room.claim_R,
        room.tries_V,
        room.theta_RD,
        room.bias_I,
        number,
        room.size,
        room.n_users,
        pick.margin,
        P=p,
        PP=power(p),
        N=n,
        C=pick.candidates,
        CC=power(pick.candidates),
        D=room.dim,
        DD=power(room.dim),
        PICK=pick.kind,
        WIDE=room.wide,
        TILE=room.tiles.visits,
        num_warps=room.tiles.visit_warps,
    )


def _add_gradients(room: Room, scores: Scores, loss: Loss, scale: float, number: int) -> None:
    """Add up the gradients of a step, in the slots of the rows that it touches."""
    from sdgar.kernels.triton import epoch

    p, n = room.positives, room.negatives
    epoch.add_gradients[(room.stats.shape[1],)](
        room.row_VW,
        room.claim_R,
        room.grad_LD,
        room.grad_L,
        room.touch_L,
        room.moved_L,
        room.theta_RD,
        room.bias_I,
        room.flag,
        room.weight_VP,
        room.log_q_VN,
        room.tries_V,
        room.stats,
        number,
        room.size,
        room.n_users,
        scale,
        loss.temperature,
        loss.margin,
        loss.n_items,
        loss.slope_limit,
        scores.tau,
        loss.rho,
        P=p,
        PP=power(p),
        N=n,
        NN=power(n),
        D=room.dim,
        DD=power(room.dim),
        LOSS=loss.kind,
        SCORE=scores.kind,
        HAS_BIAS=room.has_bias,
        HOLD=loss.hold,
        WEIGHTED=room.weight_VP is not None,
        HAS_Q=room.log_q_VN is not None,
        WIDE=room.wide,
        TILE=room.tiles.visits,
        num_warps=room.tiles.visit_warps,
    )


def _move_rows(
    room: Room, scores: Scores, step: Step, l2: float, scale: float, number: int, claims: int
) -> None:
    """Move the rows of a step, and claim the slots of so many entries of the next one."""
    from sdgar.kernels.triton import epoch

    entries = len(room.moved_L)
    epoch.move_rows[(-(-entries // room.tiles.rows),)](
        room.row_VW,
        room.claim_R,
        room.grad_LD,
        room.grad_L,
        room.touch_L,
        room.moved_L,
        room.theta_RD,
        room.bias_I,
        room.flag,
        *(room.moments.get(name) for name in ("first_RD", "second_RD", "first_I", "second_I")),
        room.rates_S3,
        number,
        entries,
        claims,
        room.n_users,
        1 / scale,
        l2 / room.negatives,
        step.beta1,
        1 - step.beta1,
        step.beta2,
        1 - step.beta2,
        step.epsilon,
        THETA_LIMIT,
        D=room.dim,
        DD=power(room.dim),
        STEP=step.kind,
        SCORE=scores.kind,
        HAS_BIAS=room.has_bias,
        WIDE=room.wide,
        TILE=room.tiles.rows,
        num_warps=room.tiles.row_warps,
    )
