"""Calls of the GPU's kernels, with their arguments from tables and lowered parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from torch import Tensor

from sdgar.engines.fused.gpu_tables import GpuTables, power
from sdgar.engines.fused.records import THETA_LIMIT, Draw, Loss, Pick, Scores, Step
from sdgar.maths.rng import Permutation

if TYPE_CHECKING:
    from sdgar.engines.fused.gpu_tables import GpuRows


def _launch(
    kernel: Any, grid: tuple[int, ...], values: Mapping[str, Any], *, num_warps: int = 4
) -> None:
    """Launch a kernel, whose arguments are found among ``values`` by their names."""
    kernel[grid](**{name: values[name] for name in kernel.arg_names}, num_warps=num_warps)


def draw_chunk(
    tables: GpuTables, rows: GpuRows, draw: Draw, numbers: Tensor, *, seed: int, start: int
) -> None:
    """Fill the chunk that begins at a place of the epoch's order.

    ``numbers`` are the tails of the streams that visits draw from, and the keys of the order.
    """
    from sdgar.kernels.triton import draws

    order = Permutation(rows.n_visits, ())
    tiles, n, lanes = tables.tiles, tables.drawn, len(tables.drawn_VW)
    values = vars(rows) | draw._asdict() | vars(tables) | tables.constants | {
        "numbers": numbers, "seed": seed, "start": start, "n_lanes": lanes, "N": n, "NN": power(n),
        "n_draws": lanes * n, "steps": rows.search_steps, "K": draw.n_states,
        "KK": power(draw.n_states), "DRAW": draw.kind, "WEIGHTED": rows.weight_E is not None,
        "ROUNDS": len(numbers) - 2, "LEFT_BITS": order.left_bits, "RIGHT_BITS": order.right_bits,
    }  # fmt: skip
    into = {"row_VW": tables.drawn_VW, "TILE": tiles.drawn}
    _launch(draws.draw_visits, (-(-lanes // tiles.drawn),), values | into)
    if tables.log_q_VN is not None:
        _launch(draws.log_q, (-(-lanes * n // tiles.log_q),), values | {"TILE": tiles.log_q})


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
    from sdgar.kernels.triton import epoch, picks

    tables.claim_R.zero_()
    tiles, n, entries = tables.tiles, tables.negatives, len(tables.moved_L)
    moments = dict.fromkeys(("first_RD", "second_RD", "first_I", "second_I")) | tables.moments
    values = vars(tables) | scores._asdict() | loss._asdict() | tables.constants | {
        "scale": scale, "LOSS": loss.kind, "SCORE": scores.kind, "HOLD": loss.hold,
        "WEIGHTED": tables.weight_VP is not None, "HAS_Q": tables.log_q_VN is not None,
        "n_entries": entries, "TILE": tiles.visits,
    }  # fmt: skip
    of_rows = values | moments | step._asdict() | {
        "unit": 1 / scale, "l2": l2 / n, "gain1": 1 - step.beta1, "gain2": 1 - step.beta2,
        "theta_limit": THETA_LIMIT, "STEP": step.kind, "TILE": tiles.rows,
    }  # fmt: skip
    visits = -(-tables.size // tiles.visits)
    if pick is None:
        _launch(epoch.claim_rows, (-(-entries // 256),), values | {"TILE": 256})
    for number in range(n_steps):
        now = {"step": number}
        if pick is not None:
            c = pick.candidates
            chosen = pick._asdict() | {"C": c, "CC": power(c), "PICK": pick.kind}
            _launch(
                picks.pick_negatives, (visits, n), values | chosen | now,
                num_warps=tiles.visit_warps,
            )  # fmt: skip
        _launch(epoch.add_gradients, (visits,), values | now, num_warps=tiles.visit_warps)
        # The slots of the next step's entries are claimed, unless these are picked in that step.
        claims = entries if number + 1 < tables.chunk_steps and pick is None else 0
        _launch(
            epoch.move_rows, (-(-entries // tiles.rows),), of_rows | now | {"n_claims": claims},
            num_warps=tiles.row_warps,
        )  # fmt: skip
