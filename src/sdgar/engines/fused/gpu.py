"""The engine that runs epochs on a GPU by Triton: the eager engine's updates and negatives."""

from __future__ import annotations

import contextlib
import importlib.util
import math
import os
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
import torch
from torch import Tensor

from sdgar.contracts import Health, System
from sdgar.discriminators.factorization import Embeddings
from sdgar.engines import host
from sdgar.engines.fused.gpu_tables import Capacity, GpuRows, GpuTables, power
from sdgar.engines.fused.plan import GPU
from sdgar.engines.fused.records import THETA_LIMIT
from sdgar.engines.protocol import Coverage, EpochStats
from sdgar.maths.optimizers import LazyAdam
from sdgar.maths.rng import Permutation, Stream, last_counter_word

if TYPE_CHECKING:
    from sdgar.data.interactions import Interactions

_MOST_NEGATIVES, _MOST_POSITIVES, _MOST_DIM, _MOST_NUMBERS = 64, 32, 512, 1 << 14
"""The limits of what a kernel can hold of a visit in registers; the last one bounds the numbers of
all its negatives."""


class FusedGpuEngine:
    """Compute what ``EagerEngine`` computes, in kernels that never wait for the host.

    The visits of a chunk and their negatives are drawn at once (``kernels/triton/draws.py``); each
    step is then one kernel that adds up gradients and one that moves the rows they touched
    (``kernels/triton/epoch.py``). The steps of a chunk are recorded as a CUDA graph when they
    first run, and replayed. Gradients are summed as integers, so the same seed gives the same
    bits. A parameter beyond ±64 counts as diverged, where eager would continue until infinity.
    """

    name: ClassVar[str] = "fused-gpu"

    def __init__(
        self,
        system: System,
        data: Interactions | GpuRows,
        *,
        seed: int,
        device: torch.device,
        tables: GpuTables | None = None,
    ) -> None:
        """Lay out tables and rows; engines of other contexts may have used ``tables`` before."""
        host.require_covered(self.name, self.covers(system, device))
        self.system = system
        """The system whose epochs are run."""
        self._seed = seed
        self._device = device
        self._model = cast("Embeddings", system.discriminator.to(device))
        system.sampler.to(device)
        self._scores, self._loss, self._step = (
            GPU.lower(part, system) for part in ("discriminator", "objective", "optimizer")
        )
        if not isinstance(data, GpuRows):
            data = GpuRows.of(data, system.positives_per_visit, device)
        self._rows = data
        self._tables = tables or GpuTables(system, Capacity.of(self._rows), device)
        self._scale = self._tables.scale(self._rows)
        self._numbers = self._numbers_of(0).to(device)
        self.steps_done = 0
        """The number of steps that were taken, also by engines that share the tables."""

    @classmethod
    def covers(cls, system: System, device: torch.device) -> Coverage:
        """Return whether there are kernels for every part of the system, and why."""
        if (why := _why_not(system, device)) is not None:
            return Coverage(False, why)
        return Coverage(
            True, "Triton runs whole epochs on the GPU, with the eager engine's updates"
        )

    @classmethod
    def deterministic(cls, device: torch.device) -> bool:
        """Return True: sums are of integers, so their order does not matter."""
        return True

    @torch.no_grad()
    def run_epoch(self, epoch: int) -> EpochStats:
        """Make one pass over the positives, in a fresh order."""
        start, n_rows = time.perf_counter(), len(self._rows)
        tables, on_cuda = self._tables, self._device.type == "cuda"
        with torch.cuda.device(self._device) if on_cuda else contextlib.nullcontext():
            self._numbers.copy_(self._numbers_of(epoch))
            self._draw(0)
            # The device draws while the host continues.
            tables.copy_from(self._model)
            tables.flag.zero_()
            rates_S3 = self._rates(epoch).to(self._device)
            totals = torch.zeros(4, dtype=torch.float64, device=self._device)
            for first in range(0, self.n_steps, tables.chunk_steps):
                if first > 0:
                    self._draw(first * tables.size)
                self._set_rates(rates_S3[first : first + tables.chunk_steps])
                self._run_chunk()
                totals[:3] += tables.stats.sum(dim=(0, 1), dtype=torch.float64)
            totals[3] = tables.flag[0]
            tables.copy_to(self._model)
            loss, effective, unanswered, outside = totals.tolist()
        self.steps_done += self.n_steps
        if not math.isfinite(loss):
            raise host.diverged(f"the loss became {loss / n_rows}", self.system, epoch)
        if outside:
            found = f"a parameter or a slope left the range of ±{THETA_LIMIT:g}"
            raise host.diverged(found, self.system, epoch)
        return host.mean_stats(self.system, n_rows, start, loss, effective, unanswered)

    @property
    def n_steps(self) -> int:
        """The number of steps of an epoch."""
        return -(-self._rows.n_visits // self._tables.size)

    def _numbers_of(self, epoch: int) -> Tensor:
        """Return the tails of the streams that visits draw from, and the keys of the order."""
        tails = last_counter_word(Stream.NEGATIVES, epoch), last_counter_word(Stream.DEAL, epoch)
        n_visits = self._rows.n_visits
        order = Permutation.of(n_visits, seed=self._seed, stream=Stream.SHUFFLE, epoch=epoch)
        return torch.tensor([*tails, *order.keys])

    def _rates(self, epoch: int) -> Tensor:
        """Return 1/B, the learning rate and Adam's corrections of every step of the epoch."""
        optimizer, n_steps, size = self.system.optimizer, self.n_steps, self._tables.size
        rates_S3 = np.empty((n_steps, 3))
        rates_S3[:, 0] = 1 / size
        rates_S3[-1, 0] = 1 / (self._rows.n_visits - (n_steps - 1) * size)
        rates_S3[:, 1] = optimizer.rate(epoch)
        if isinstance(optimizer, LazyAdam):
            t_S = self.steps_done + np.arange(1, n_steps + 1)
            rates_S3[:, 1] /= 1 - optimizer.beta1**t_S
            rates_S3[:, 2] = 1 / np.sqrt(1 - optimizer.beta2**t_S)
        return torch.from_numpy(rates_S3).float()

    def _set_rates(self, rates_S3: Tensor) -> None:
        """Set the rates of a chunk; with P > 1, its draws decide how many positives a step has."""
        tables = self._tables
        tables.rates_S3[: len(rates_S3)] = rates_S3
        if tables.positives > 1:
            present_VP = tables.drawn_VW[:, 1 : 1 + tables.positives] >= 0
            count_S = present_VP.reshape(tables.chunk_steps, -1).sum(dim=1)
            tables.rates_S3[:, 0] = 1 / count_S.clamp(min=1)

    def _draw(self, start: int) -> None:
        """Fill the chunk that begins at a place of the epoch's order."""
        from sdgar.kernels.triton import draws

        draw = GPU.lower("sampler", self.system)  # its tables as they are now
        tables, rows, numbers = self._tables, self._rows, self._numbers
        order = Permutation(rows.n_visits, ())
        tiles, n, lanes = tables.tiles, tables.drawn, len(tables.drawn_VW)
        values = vars(rows) | draw._asdict() | vars(tables) | tables.constants | {
            "numbers": numbers, "seed": self._seed, "start": start, "n_lanes": lanes, "N": n,
            "NN": power(n), "n_draws": lanes * n, "steps": rows.search_steps, "K": draw.n_states,
            "KK": power(draw.n_states), "DRAW": draw.kind, "WEIGHTED": rows.weight_E is not None,
            "ROUNDS": len(numbers) - 2, "LEFT_BITS": order.left_bits,
            "RIGHT_BITS": order.right_bits,
        }  # fmt: skip
        into = {"row_VW": tables.drawn_VW, "TILE": tiles.drawn}
        _launch(draws.draw_visits, (-(-lanes // tiles.drawn),), values | into)
        if tables.log_q_VN is not None:
            _launch(draws.log_q, (-(-lanes * n // tiles.log_q),), values | {"TILE": tiles.log_q})

    def _run_chunk(self) -> None:
        if self._device.type == "cpu":
            self._run_steps(self._tables.chunk_steps)
            return
        graphs = self._tables.graphs
        if self._scale not in graphs:
            graphs[self._scale] = self._record()
        graphs[self._scale].replay()

    def _record(self) -> torch.cuda.CUDAGraph:
        """Record all steps of a chunk; that runs nothing, but the kernels must be compiled."""
        tables = self._tables
        drawn_VW = tables.drawn_VW.clone()
        tables.drawn_VW.fill_(-1)
        self._run_steps(1)
        tables.drawn_VW.copy_(drawn_VW)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        # Other threads may copy to the device and from it meanwhile.
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            self._run_steps(tables.chunk_steps)
        return graph

    def _run_steps(self, n_steps: int) -> None:
        """Run some steps of a drawn chunk, with gradients summed in units of 1 / scale."""
        from sdgar.kernels.triton import epoch, picks

        pick = GPU.lower("sampler", self.system).pick
        scores, loss, step = self._scores, self._loss, self._step
        tables = self._tables
        tables.claim_R.zero_()
        tiles, n, entries = tables.tiles, tables.negatives, len(tables.moved_L)
        moments = dict.fromkeys(("first_RD", "second_RD", "first_I", "second_I")) | tables.moments
        values = vars(tables) | scores._asdict() | loss._asdict() | tables.constants | {
            "scale": self._scale, "LOSS": loss.kind, "SCORE": scores.kind, "HOLD": loss.hold,
            "WEIGHTED": tables.weight_VP is not None, "HAS_Q": tables.log_q_VN is not None,
            "n_entries": entries, "TILE": tiles.visits,
        }  # fmt: skip
        of_rows = values | moments | step._asdict() | {
            "unit": 1 / self._scale, "l2": self.system.l2 / n, "gain1": 1 - step.beta1,
            "gain2": 1 - step.beta2, "theta_limit": THETA_LIMIT, "STEP": step.kind,
            "TILE": tiles.rows,
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
            # The slots of the next step's entries are claimed, unless these are picked in that
            # step.
            claims = entries if number + 1 < tables.chunk_steps and pick is None else 0
            _launch(
                epoch.move_rows, (-(-entries // tiles.rows),), of_rows | now | {"n_claims": claims},
                num_warps=tiles.row_warps,
            )  # fmt: skip

    def user_tables(self) -> dict[str, Tensor]:
        """Return the tables of contexts that training changes, by their names."""
        moments = self._tables.moments_of_users(self._rows.n_users)
        return {"user_UD": self._model.user_UD.detach(), **moments}

    @torch.no_grad()
    def refit(self, epoch: int) -> Health:
        """Update the sampler to the discriminator, and return its health."""
        return self.system.sampler.refit(self._model.score, seed=self._seed, epoch=epoch)

    def state(self) -> dict[str, Tensor]:
        """Return parameters, optimiser moments and sampler state, under one flat set of names."""
        optimizer = {"step": torch.tensor(self.steps_done), **self._tables.moments}
        sampler = self.system.sampler.state()
        return host.StateParts(self._model.state_dict(), optimizer, sampler).flat()

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore what ``state`` returned."""
        parts = host.StateParts.of(state)
        self._model.load_state_dict(parts.model)
        self.steps_done = int(parts.optimizer["step"])
        for name, table in self._tables.moments.items():
            table.copy_(parts.optimizer[name])
        self.system.sampler.load_state(
            {name: tensor.to(self._device) for name, tensor in parts.sampler.items()}
        )


def _why_not(system: System, device: torch.device) -> str | None:
    """Return why the kernels cannot run the system; None if they can."""
    if importlib.util.find_spec("triton") is None:
        return "Triton is not installed"
    if device.type != "cuda" and os.environ.get("TRITON_INTERPRET") != "1":
        return f"its kernels run on a CUDA device, and this is {device.type}"
    if (why := GPU.misfit(system)) is not None:
        return why
    if getattr(system.discriminator, "place_UF", None) is not None:
        return "it has no code for contexts that are sums of the vectors of fields"
    if system.seen_elsewhere:
        return "its draws avoid what a context has, and not what its user has in others"
    table_UD = next(system.discriminator.parameters())
    if table_UD.dtype != torch.float32:
        return f"its kernels compute in float32, and the parameters are {table_UD.dtype}"
    candidates = GPU.lower("sampler", system).candidates if system.sampler.uses_scores else 1
    for name, value, most in (
        ("n_negatives", system.n_negatives, _MOST_NEGATIVES),
        ("the number of candidates", candidates, _MOST_NEGATIVES),
        ("positives_per_visit", system.positives_per_visit, _MOST_POSITIVES),
        ("dim", table_UD.shape[1], _MOST_DIM),
        ("n_negatives × dim", system.n_negatives * table_UD.shape[1], _MOST_NUMBERS),
    ):
        if value > most:
            return f"{name} = {value} is above {most}, the most its kernels hold in registers"
    return None


def _launch(
    kernel: Any, grid: tuple[int, ...], values: Mapping[str, Any], *, num_warps: int = 4
) -> None:
    """Launch a kernel, whose arguments are found among ``values`` by their names."""
    kernel[grid](**{name: values[name] for name in kernel.arg_names}, num_warps=num_warps)
