"""Calls of the GPU's kernels, with their arguments from tables and lowered parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from sdgar.engines.fused.gpu_tables import GpuTables, power
from sdgar.engines.fused.records import THETA_LIMIT, Draw, Loss, Pick, Scores, Step
from sdgar.maths.rng import Permutation

if TYPE_CHECKING:
    from sdgar.engines.fused.gpu_tables import GpuRows


def draw_chunk(
    tables: GpuTables, rows: GpuRows, draw: Draw, numbers: Tensor, *, seed: int, start: int
) -> None:
    """Fill the chunk that begins at a place of the epoch's order.

    ``numbers`` are the tails of the streams that visits draw from, and the keys of the order.
    """
    from sdgar.kernels.triton import draws

    order = Permutation(rows.n_visits, ())
    p, n, lanes = tables.positives, tables.drawn, len(tables.drawn_VW)
    draws.draw_visits[(-(-lanes // tables.tiles.drawn),)](
        tables.drawn_VW,
        tables.weight_VP,
        numbers,
        tables.strides,
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
        tables.n_users,
        tables.n_items,
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
        TILE=tables.tiles.drawn,
    )
    if tables.log_q_VN is not None:
        draws.log_q[(-(-lanes * n // tables.tiles.log_q),)](
            tables.log_q_VN,
            tables.row_VW,
            draw.x_UK,
            draw.y_IK,
            draw.log_q_I,
            rows.start_U1,
            lanes * n,
            tables.n_users,
            tables.n_items,
            P=p,
            N=n,
            K=draw.n_states,
            KK=power(draw.n_states),
            DRAW=draw.kind,
            TILE=tables.tiles.log_q,
        )


def run_steps(
    tables: GpuTables,
    pick: Pick | None,
    scores: Scores,
    loss: Loss,
    step: Step,
    *,
    l2: float,
    scale: float,
    n_steps: int,
) -> None:
    """Run some steps of a drawn chunk, with gradients summed in units of 1 / scale."""
    from sdgar.kernels.triton import epoch

    tables.claim_R.zero_()
    entries = len(tables.moved_L)
    if pick is None:
        epoch.claim_rows[(-(-entries // 256),)](tables.row_VW, tables.claim_R, entries, TILE=256)
    for number in range(n_steps):
        if pick is not None:
            _pick(tables, pick, number)
        _add_gradients(tables, scores, loss, scale, number)
        claims = entries if number + 1 < tables.chunk_steps and pick is None else 0
        _move_rows(tables, scores, step, l2, scale, number, claims)


def _pick(tables: GpuTables, pick: Pick, number: int) -> None:
    """Choose the negatives of a step among its candidates, and claim their slots."""
    from sdgar.kernels.triton import picks

    p, n = tables.positives, tables.negatives
    picks.pick_negatives[(-(-tables.size // tables.tiles.visits), n)](
        tables.drawn_VW,
        tables.row_VW,
        tables.claim_R,
        tables.tries_V,
        tables.theta_RD,
        tables.bias_I,
        number,
        tables.size,
        tables.n_users,
        pick.margin,
        P=p,
        PP=power(p),
        N=n,
        C=pick.candidates,
        CC=power(pick.candidates),
        D=tables.dim,
        DD=power(tables.dim),
        PICK=pick.kind,
        WIDE=tables.wide,
        TILE=tables.tiles.visits,
        num_warps=tables.tiles.visit_warps,
    )


def _add_gradients(
    tables: GpuTables, scores: Scores, loss: Loss, scale: float, number: int
) -> None:
    """Add up the gradients of a step, in the slots of the rows that it touches."""
    from sdgar.kernels.triton import epoch

    p, n = tables.positives, tables.negatives
    epoch.add_gradients[(tables.stats.shape[1],)](
        tables.row_VW,
        tables.claim_R,
        tables.grad_LD,
        tables.grad_L,
        tables.touch_L,
        tables.moved_L,
        tables.theta_RD,
        tables.bias_I,
        tables.flag,
        tables.weight_VP,
        tables.log_q_VN,
        tables.tries_V,
        tables.stats,
        number,
        tables.size,
        tables.n_users,
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
        D=tables.dim,
        DD=power(tables.dim),
        LOSS=loss.kind,
        SCORE=scores.kind,
        HAS_BIAS=tables.has_bias,
        HOLD=loss.hold,
        WEIGHTED=tables.weight_VP is not None,
        HAS_Q=tables.log_q_VN is not None,
        WIDE=tables.wide,
        TILE=tables.tiles.visits,
        num_warps=tables.tiles.visit_warps,
    )


def _move_rows(
    tables: GpuTables, scores: Scores, step: Step, l2: float, scale: float, number: int, claims: int
) -> None:
    """Move the rows of a step, and claim the slots of so many entries of the next one."""
    from sdgar.kernels.triton import epoch

    entries = len(tables.moved_L)
    epoch.move_rows[(-(-entries // tables.tiles.rows),)](
        tables.row_VW,
        tables.claim_R,
        tables.grad_LD,
        tables.grad_L,
        tables.touch_L,
        tables.moved_L,
        tables.theta_RD,
        tables.bias_I,
        tables.flag,
        *(tables.moments.get(name) for name in ("first_RD", "second_RD", "first_I", "second_I")),
        tables.rates_S3,
        number,
        entries,
        claims,
        tables.n_users,
        1 / scale,
        l2 / tables.negatives,
        step.beta1,
        1 - step.beta1,
        step.beta2,
        1 - step.beta2,
        step.epsilon,
        THETA_LIMIT,
        D=tables.dim,
        DD=power(tables.dim),
        STEP=step.kind,
        SCORE=scores.kind,
        HAS_BIAS=tables.has_bias,
        WIDE=tables.wide,
        TILE=tables.tiles.rows,
        num_warps=tables.tiles.row_warps,
    )
