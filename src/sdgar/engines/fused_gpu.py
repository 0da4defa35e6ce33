"""Epochs on a GPU by Triton: the eager engine's updates, from the same negatives."""

from __future__ import annotations

import contextlib
import importlib.util
import math
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from sdgar.contracts import Covered, EpochStats, Health, NotCovered, System
from sdgar.data.interactions import Interactions
from sdgar.discriminators.cosine import Cosine
from sdgar.discriminators.factorization import MatrixFactorization
from sdgar.discriminators.metric import Metric
from sdgar.engines.fused import OBJECTIVES, OPTIMIZERS, SAMPLERS, misfit
from sdgar.engines.visits import STRIDES
from sdgar.errors import NumericalError, UsageError
from sdgar.maths.optimizers import SGD, LazyAdam, RowAdagrad
from sdgar.maths.rng import Permutation, Stream, tail
from sdgar.objectives import (
    CmlHinge,
    Logistic,
    PairwiseLogistic,
    SampledSoftmax,
    WarpHinge,
    WeightedLogistic,
)
from sdgar.samplers.decomposable import Decomposable
from sdgar.samplers.rank_by_factor import RankByFactor
from sdgar.samplers.score_aware import FirstViolation, HardestOf
from sdgar.samplers.static import Popularity, Uniform

_MOST_NEGATIVES, _MOST_POSITIVES, _MOST_DIM = 64, 32, 256
"""A visit's rows are held in registers."""

_NUMBERS_AHEAD = 1 << 25
"""Positives and negatives that are drawn at once."""

_MOST_STEPS = 2048
"""Steps of a graph; more take longer to record than they save."""

_RANKED = (WarpHinge, CmlHinge)

_THETA_LIMIT = 64.0
"""A parameter beyond it has diverged; the room for gradient sums is reckoned with it."""


@dataclass(frozen=True, slots=True)
class _Tiles:
    """Visits, touched rows and draws that one program works on, and its warps."""

    visits: int
    visit_warps: int
    rows: int
    row_warps: int
    drawn: int
    log_q: int

    @classmethod
    def of(cls, n: int, p: int, d: int, k: int, drawn: int, device: torch.device) -> _Tiles:
        """About 16 numbers a thread on a GPU; few, large tiles where Triton is interpreted."""
        if device.type == "cpu":
            return cls(64, 4, 256, 4, 128, 256)
        widest = max(n, p, 4) * d
        return cls(
            visits=max(1, 512 // widest),
            visit_warps=min(8, max(1, widest // 512)),
            rows=max(1, 1024 // d),
            row_warps=8,
            drawn=max(1, 256 // max(drawn, p)),
            log_q=max(1, 2048 // k),
        )


class FusedGpuEngine:
    """What ``EagerEngine`` computes, in kernels that never wait for the host.

    The visits of a chunk and their negatives are drawn at once (``kernels/triton_draw.py``); each
    step is then one kernel that adds up gradients and one that moves the rows they touched
    (``kernels/triton_epoch.py``). The steps of a chunk are recorded as a CUDA graph when they
    first run, and replayed. Gradients are summed as integers, so the same seed gives the same
    bytes. A parameter beyond ±64 counts as diverged, where eager would go on until infinity.
    """

    name: ClassVar[str] = "fused-gpu"

    def __init__(
        self, system: System, data: Interactions, *, seed: int, device: torch.device
    ) -> None:
        answer = self.covers(system, device)
        if isinstance(answer, NotCovered):
            raise UsageError(f"the engine {self.name} cannot run this: {answer.why}.")
        self._system = system
        self._seed = seed
        self._device = device
        model = system.discriminator.to(device)
        assert isinstance(model, MatrixFactorization | Metric | Cosine)
        self._model = model
        system.sampler.to(device)
        self._place_data(data)
        self._make_tables()
        self._step_count = 0
        self._graph: torch.cuda.CUDAGraph | None = None

    @classmethod
    def covers(cls, system: System, device: torch.device) -> Covered | NotCovered:
        """Say whether the kernels know every part of the system."""
        no = _first_reason(system, device)
        if no is not None:
            return NotCovered(no)
        return Covered("Triton runs whole epochs on the GPU, with the eager engine's updates")

    @classmethod
    def deterministic(cls, device: torch.device) -> bool:
        """Sums are of integers, so their order does not matter."""
        return True

    def _place_data(self, data: Interactions) -> None:
        """The positives and the order of visits, on the device."""
        system, device = self._system, self._device
        self._n_users, self._n_items, self._n_rows = data.n_users, data.n_items, len(data)
        self._start_U1 = torch.from_numpy(data.indptr_U1).to(device)
        self._items_E = torch.from_numpy(data.items_E).to(device)
        self._weight_E: Tensor | None = None
        most_weight = 1.0
        if data.weight_E is not None:
            weight_E = torch.from_numpy(data.weight_E).to(device)
            self._weight_E = weight_E / weight_E.mean()
            most_weight = float(self._weight_E.max())
        count_U = self._start_U1.diff()
        self._search_steps = int(count_U.max()).bit_length()
        users_U = torch.arange(self._n_users, dtype=torch.int32, device=device)
        self._user_E = self._context_V = self._place_V = None
        if system.positives_per_visit == 1:
            self._user_E = torch.repeat_interleave(users_U, count_U)
            self._n_visits = self._n_rows
        else:
            per_visit = system.positives_per_visit
            visits_U = -(-count_U // per_visit)
            self._context_V = torch.repeat_interleave(users_U, visits_U)
            self._n_visits = len(self._context_V)
            first_U = visits_U.cumsum(0) - visits_U
            visit_V = torch.arange(self._n_visits, device=device)
            self._place_V = (visit_V - first_U[self._context_V]) * per_visit
        self._strides = torch.tensor(STRIDES, device=device)
        self._scale = _scale(system, most_weight)

        self._n_drawn = system.n_negatives * _candidates(system)
        width = system.positives_per_visit + self._n_drawn
        self._size = min(system.visits_per_step, self._n_visits)
        self._n_steps = -(-self._n_visits // self._size)
        most = max(1, min(_MOST_STEPS, _NUMBERS_AHEAD // (width * self._size)))
        chunks = -(-self._n_steps // most)
        self._chunk_steps = -(-self._n_steps // chunks)

    def _make_tables(self) -> None:
        """Tables of the parameters and what is kept beside them; see the kernels' docstrings."""
        system, device = self._system, self._device
        dim = self._model.user_UD.shape[1]
        n_rows = self._n_users + self._n_items
        p, n = system.positives_per_visit, system.n_negatives
        k = system.sampler.x_UK.shape[1] if isinstance(system.sampler, Decomposable) else 1
        self._tiles = _Tiles.of(
            n=_power(max(n, self._n_drawn // n)),
            p=_power(p),
            d=_power(dim),
            k=_power(k),
            drawn=_power(self._n_drawn),
            device=device,
        )

        def zeros(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.zeros(shape, dtype=dtype, device=device)

        self._theta_RD, self._bias_I = zeros(n_rows, dim), zeros(self._n_items)
        width = 1 + p + n
        entries = self._size * width
        self._claim_R = zeros(n_rows, dtype=torch.int32)
        self._grad_LD = zeros(entries, dim, dtype=torch.int64)
        self._grad_L = zeros(entries, dtype=torch.int64)
        self._touch_L = zeros(entries, dtype=torch.int32)
        self._moved_L = zeros(entries, dtype=torch.int32)
        self._wide = max(n_rows, entries) * dim >= 2**31
        self._moments: dict[str, Tensor] = {}
        if isinstance(system.optimizer, LazyAdam):
            for name in ("first", "second"):
                self._moments[f"{name}_RD"] = zeros(n_rows, dim)
                self._moments[f"{name}_I"] = zeros(self._n_items)
        elif isinstance(system.optimizer, RowAdagrad):
            self._moments = {"second_RD": zeros(n_rows), "second_I": zeros(self._n_items)}

        lanes = self._chunk_steps * self._size
        self._row_VW = zeros(lanes, width, dtype=torch.int32)
        # What is drawn ahead: the rows of the steps, or candidates that each step picks from.
        self._drawn_VW = self._row_VW
        if self._picks:
            self._drawn_VW = zeros(lanes, 1 + p + self._n_drawn, dtype=torch.int32)
        self._tries_V = zeros(lanes, dtype=torch.int32)
        self._weight_VP = None if self._weight_E is None else zeros(lanes, p)
        # Uniform proposals have one log Q for all negatives of a context: weights cancel it, and
        # only the value of a softmax loss needs it.
        has_q = isinstance(system.objective, SampledSoftmax) or (
            isinstance(system.objective, WeightedLogistic)
            and not isinstance(system.sampler, Uniform)
        )
        self._log_q_VN = zeros(lanes, n) if has_q else None
        programs = -(-self._size // self._tiles.visits)
        self._stats = zeros(self._chunk_steps, programs, 3)
        self._flag = zeros(1, dtype=torch.int32)
        self._numbers = self._numbers_of(0).to(device)
        self._rates_S3 = zeros(self._chunk_steps, 3)

    @property
    def _picks(self) -> bool:
        """Whether negatives are chosen at each step, by their scores."""
        return self._system.sampler.uses_scores

    @torch.no_grad()
    def run_epoch(self, epoch: int) -> EpochStats:
        """One pass over the positives in a fresh order."""
        start = time.perf_counter()
        on_cuda = self._device.type == "cuda"
        with torch.cuda.device(self._device) if on_cuda else contextlib.nullcontext():
            self._numbers.copy_(self._numbers_of(epoch))
            self._draw(0)
            # The device draws while the host goes on.
            self._take_parameters()
            self._flag.zero_()
            rates_S3 = self._rates().to(self._device)
            totals = torch.zeros(4, dtype=torch.float64, device=self._device)
            for first in range(0, self._n_steps, self._chunk_steps):
                if first > 0:
                    self._draw(first * self._size)
                self._set_rates(rates_S3[first : first + self._chunk_steps])
                self._run_chunk()
                totals[:3] += self._stats.sum(dim=(0, 1), dtype=torch.float64)
            totals[3] = self._flag[0]
            self._give_parameters()
            loss, effective, unanswered, outside = totals.tolist()
        self._step_count += self._n_steps
        self._require_sound(loss, bool(outside), epoch)
        has_weights = isinstance(self._system.objective, WeightedLogistic | SampledSoftmax)
        return EpochStats(
            loss / self._n_rows,
            self._n_rows,
            time.perf_counter() - start,
            int(unanswered),
            effective / self._n_rows if has_weights else None,
        )

    def _take_parameters(self) -> None:
        """Between epochs the discriminator's own parameters are the truth."""
        self._theta_RD[: self._n_users] = self._model.user_UD
        self._theta_RD[self._n_users :] = self._model.item_ID
        if self._model.bias_I is not None:
            self._bias_I.copy_(self._model.bias_I)

    def _give_parameters(self) -> None:
        self._model.user_UD.copy_(self._theta_RD[: self._n_users])
        self._model.item_ID.copy_(self._theta_RD[self._n_users :])
        if self._model.bias_I is not None:
            self._model.bias_I.copy_(self._bias_I)

    def _numbers_of(self, epoch: int) -> Tensor:
        """The tails of the streams that visits draw from, and the keys of the epoch's order."""
        tails = tail(Stream.NEGATIVES, epoch), tail(Stream.DEAL, epoch)
        order = Permutation.of(self._n_visits, seed=self._seed, stream=Stream.SHUFFLE, epoch=epoch)
        return torch.tensor([*tails, *order.keys])

    def _rates(self) -> Tensor:
        """1/B, learning rate and Adam's corrections of every step of the epoch."""
        optimizer = self._system.optimizer
        rates_S3 = np.empty((self._n_steps, 3))
        rates_S3[:, 0] = 1 / self._size
        rates_S3[-1, 0] = 1 / (self._n_visits - (self._n_steps - 1) * self._size)
        rates_S3[:, 1] = optimizer.learning_rate
        if isinstance(optimizer, LazyAdam):
            t_S = self._step_count + np.arange(1, self._n_steps + 1)
            rates_S3[:, 1] /= 1 - optimizer.beta1**t_S
            rates_S3[:, 2] = 1 / np.sqrt(1 - optimizer.beta2**t_S)
        return torch.from_numpy(rates_S3).float()

    def _set_rates(self, rates_S3: Tensor) -> None:
        """Those of a chunk; how many positives P > 1 gives a step is known once it is drawn."""
        self._rates_S3[: len(rates_S3)] = rates_S3
        if self._system.positives_per_visit > 1:
            present_VP = self._drawn_VW[:, 1 : 1 + self._system.positives_per_visit] >= 0
            count_S = present_VP.reshape(self._chunk_steps, -1).sum(dim=1)
            self._rates_S3[:, 0] = 1 / count_S.clamp(min=1)

    def _draw(self, start: int) -> None:
        """Fill the chunk that begins at a place of the epoch's order."""
        from sdgar.kernels import triton_draw

        system, tiles = self._system, self._tiles
        sampler = system.sampler
        order = Permutation(self._n_visits, ())
        p, n = system.positives_per_visit, self._n_drawn
        state_bins = item_bins = order_KI = downward_UK = x_UK = y_IK = log_q_I = None
        n_states = 1
        if isinstance(sampler, Decomposable):
            kind = triton_draw.DECOMPOSED
            state_bins, item_bins = sampler.state_of.bin_RN, sampler.item_of.bin_RN
            x_UK, y_IK = sampler.x_UK, sampler.y_IK
            n_states = x_UK.shape[1]
        elif isinstance(sampler, RankByFactor):
            kind = triton_draw.RANKED
            state_bins, item_bins = sampler.factor_of.bin_RN, sampler.rank_of.bin_RN
            order_KI, downward_UK = sampler.order_KI, sampler.downward_UK
            n_states = sampler.factor_of.n
        elif isinstance(sampler, Popularity):
            kind = triton_draw.ONE_TABLE
            item_bins, log_q_I = sampler.table.bin_RN, sampler.log_q_I
        else:
            kind = triton_draw.UNIFORM
        lanes = len(self._drawn_VW)
        triton_draw.draw_visits[(-(-lanes // tiles.drawn),)](
            self._drawn_VW,
            self._weight_VP,
            self._numbers,
            self._strides,
            self._seed,
            start,
            lanes,
            self._n_visits,
            self._user_E,
            self._items_E,
            self._weight_E,
            self._start_U1,
            self._context_V,
            self._place_V,
            state_bins,
            item_bins,
            order_KI,
            downward_UK,
            n_states,
            self._n_users,
            self._n_items,
            self._search_steps,
            P=p,
            PP=_power(p),
            N=n,
            NN=_power(n),
            DRAW=kind,
            WEIGHTED=self._weight_E is not None,
            ROUNDS=len(self._numbers) - 2,
            LEFT_BITS=order.left_bits,
            RIGHT_BITS=order.right_bits,
            TILE=tiles.drawn,
        )
        if self._log_q_VN is not None:
            triton_draw.log_q[(-(-lanes * n // tiles.log_q),)](
                self._log_q_VN,
                self._row_VW,
                x_UK,
                y_IK,
                log_q_I,
                self._start_U1,
                lanes * n,
                self._n_users,
                self._n_items,
                P=p,
                N=n,
                K=n_states,
                KK=_power(n_states),
                DRAW=kind,
                TILE=tiles.log_q,
            )

    def _run_chunk(self) -> None:
        if self._device.type == "cpu":
            self._launch_steps(self._chunk_steps)
            return
        if self._graph is None:
            self._graph = self._record()
        self._graph.replay()

    def _record(self) -> torch.cuda.CUDAGraph:
        """All steps of a chunk; recording runs nothing, but the kernels must be compiled."""
        drawn_VW = self._drawn_VW.clone()
        self._drawn_VW.fill_(-1)
        self._launch_steps(1)
        self._drawn_VW.copy_(drawn_VW)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._launch_steps(self._chunk_steps)
        return graph

    def _launch_steps(self, n_steps: int) -> None:
        from sdgar.kernels import triton_epoch

        self._claim_R.zero_()
        entries = len(self._moved_L)
        if not self._picks:
            triton_epoch.claim_rows[(-(-entries // 256),)](
                self._row_VW, self._claim_R, entries, TILE=256
            )
        for step in range(n_steps):
            if self._picks:
                self._launch_pick(step)
            self._launch_step(step)

    def _launch_pick(self, step: int) -> None:
        from sdgar.kernels import triton_pick

        system, tiles = self._system, self._tiles
        p, n, dim = system.positives_per_visit, system.n_negatives, self._theta_RD.shape[1]
        candidates = self._n_drawn // n
        margin = system.sampler.margin if isinstance(system.sampler, FirstViolation) else None
        triton_pick.pick_negatives[(-(-self._size // tiles.visits), n)](
            self._drawn_VW,
            self._row_VW,
            self._claim_R,
            self._tries_V,
            self._theta_RD,
            self._bias_I,
            step,
            self._size,
            self._n_users,
            0.0 if margin is None else margin,
            P=p,
            PP=_power(p),
            N=n,
            C=candidates,
            CC=_power(candidates),
            D=dim,
            DD=_power(dim),
            PICK=triton_pick.HARDEST if margin is None else triton_pick.VIOLATION,
            WIDE=self._wide,
            TILE=tiles.visits,
            num_warps=tiles.visit_warps,
        )

    def _launch_step(self, step: int) -> None:
        from sdgar.kernels import triton_epoch

        system, tiles = self._system, self._tiles
        objective, optimizer = system.objective, system.optimizer
        p, n, dim = system.positives_per_visit, system.n_negatives, self._theta_RD.shape[1]
        entries = len(self._moved_L)
        beta1, beta2, epsilon = 0.0, 0.0, 0.0
        if isinstance(optimizer, LazyAdam):
            beta1, beta2, epsilon = optimizer.beta1, optimizer.beta2, optimizer.epsilon
        elif isinstance(optimizer, RowAdagrad):
            epsilon = optimizer.epsilon
        tables = (
            self._row_VW,
            self._claim_R,
            self._grad_LD,
            self._grad_L,
            self._touch_L,
            self._moved_L,
            self._theta_RD,
            self._bias_I,
            self._flag,
        )
        shape = {"D": dim, "DD": _power(dim), "WIDE": self._wide}
        shape["HAS_BIAS"] = self._model.bias_I is not None
        shape["SCORE"] = {
            MatrixFactorization: triton_epoch.DOT,
            Metric: triton_epoch.METRIC,
            Cosine: triton_epoch.COSINE,
        }[type(self._model)]
        triton_epoch.add_gradients[(self._stats.shape[1],)](
            *tables,
            self._weight_VP,
            self._log_q_VN,
            self._tries_V,
            self._stats,
            step,
            self._size,
            self._n_users,
            self._scale,
            objective.temperature if isinstance(objective, WeightedLogistic) else 1.0,
            objective.margin if isinstance(objective, _RANKED) else 0.0,
            self._n_items,
            _slope_limit(objective),
            self._model.tau if isinstance(self._model, Cosine) else 1.0,
            objective.rho if isinstance(objective, SampledSoftmax) else 1.0,
            P=p,
            PP=_power(p),
            N=n,
            NN=_power(n),
            OBJECTIVE={
                PairwiseLogistic: triton_epoch.PAIRWISE,
                Logistic: triton_epoch.LOGISTIC,
                WeightedLogistic: triton_epoch.WEIGHTED_LOGISTIC,
                SampledSoftmax: triton_epoch.SOFTMAX,
                WarpHinge: triton_epoch.RANK_BY_TRIES,
                CmlHinge: triton_epoch.RANK_BY_IMPOSTORS,
            }[type(objective)],
            HOLD=isinstance(objective, WeightedLogistic) and objective.hold_weights,
            WEIGHTED=self._weight_E is not None,
            HAS_Q=self._log_q_VN is not None,
            TILE=tiles.visits,
            num_warps=tiles.visit_warps,
            **shape,
        )
        triton_epoch.move_rows[(-(-entries // tiles.rows),)](
            *tables,
            *(self._moments.get(name) for name in ("first_RD", "second_RD", "first_I", "second_I")),
            self._rates_S3,
            step,
            entries,
            entries if step + 1 < self._chunk_steps and not self._picks else 0,
            self._n_users,
            1 / self._scale,
            system.l2 / n,
            beta1,
            1 - beta1,
            beta2,
            1 - beta2,
            epsilon,
            _THETA_LIMIT,
            OPTIMIZER={
                SGD: triton_epoch.SGD,
                LazyAdam: triton_epoch.LAZY_ADAM,
                RowAdagrad: triton_epoch.ROW_ADAGRAD,
            }[type(optimizer)],
            TILE=tiles.rows,
            num_warps=tiles.row_warps,
            **shape,
        )

    def _require_sound(self, loss: float, outside: bool, epoch: int) -> None:
        if math.isfinite(loss) and not outside:
            return
        found = f"a parameter or a slope left the range of ±{_THETA_LIMIT:g}"
        if not math.isfinite(loss):
            found = f"the loss became {loss / self._n_rows}"
        raise NumericalError(
            f"{found} in epoch {epoch}: the model diverged. Lower the learning rate (now "
            f"{self._system.optimizer.learning_rate:g}) or raise l2 (now {self._system.l2:g}).",
            code="diverged",
        )

    @torch.no_grad()
    def refit(self, epoch: int) -> Health:
        """Let the sampler follow the discriminator, and say how its proposals are."""
        return self._system.sampler.refit(self._model.score, seed=self._seed, epoch=epoch)

    def state(self) -> dict[str, Tensor]:
        """Parameters, optimiser moments and sampler state, under one flat set of names."""
        state = {f"model.{k}": v.clone() for k, v in self._model.state_dict().items()}
        state["optimizer.step"] = torch.tensor(self._step_count)
        state |= {f"optimizer.{k}": v.clone() for k, v in self._moments.items()}
        return state | {f"sampler.{k}": v.clone() for k, v in self._system.sampler.state().items()}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Take back what ``state`` gave."""
        parts: dict[str, dict[str, Any]] = {"model": {}, "optimizer": {}, "sampler": {}}
        for name, tensor in state.items():
            part, _, rest = name.partition(".")
            parts[part][rest] = tensor
        self._model.load_state_dict(parts["model"])
        self._step_count = int(parts["optimizer"]["step"])
        for name, moment in self._moments.items():
            moment.copy_(parts["optimizer"][name])
        self._system.sampler.load_state(
            {name: tensor.to(self._device) for name, tensor in parts["sampler"].items()}
        )


def _first_reason(system: System, device: torch.device) -> str | None:
    """Why the kernels cannot run the system, or None if they can."""
    if importlib.util.find_spec("triton") is None:
        return "Triton is not installed"
    if device.type != "cuda" and os.environ.get("TRITON_INTERPRET") != "1":
        return f"its kernels run on a CUDA device, and this is {device.type}"
    parts = (
        ("discriminator", system.discriminator, (MatrixFactorization, Metric, Cosine)),
        ("sampler", system.sampler, SAMPLERS),
        ("objective", system.objective, (*OBJECTIVES, CmlHinge)),
        ("optimizer", system.optimizer, OPTIMIZERS),
    )
    for name, part, known in parts:
        if type(part) not in known:
            names = ", ".join(kind.__name__ for kind in known)
            return f"it has no kernel for the {name} {type(part).__name__} (only for {names})"
    if isinstance(system.discriminator, Metric) and system.l2 > 0:
        return "it has no kernel for the covariances of a metric's axes; without them it has"
    mismatch = misfit(system)
    if mismatch is not None:
        return mismatch
    if getattr(system.discriminator, "place_UF", None) is not None:
        return "it has no code for contexts that are sums of the vectors of fields"
    if system.seen_elsewhere:
        return "its draws avoid what a context has, and not what its user has in others"
    table_UD = next(system.discriminator.parameters())
    if table_UD.dtype != torch.float32:
        return f"its kernels compute in float32, and the parameters are {table_UD.dtype}"
    dim = table_UD.shape[1]
    for name, value, most in (
        ("n_negatives", system.n_negatives, _MOST_NEGATIVES),
        ("the number of candidates", _candidates(system), _MOST_NEGATIVES),
        ("positives_per_visit", system.positives_per_visit, _MOST_POSITIVES),
        ("dim", dim, _MOST_DIM),
    ):
        if value > most:
            return f"{name} = {value} is above {most}, the most its kernels hold in registers"
    return None


def _slope_limit(objective: object) -> float:
    """Most that Σ_j |∂l/∂s_j| may be; 1 but for weights by rank, and gradients through weights.

    There it is ½ (1 + E_w |f - E_w f| / T), which has no bound; a spread of f by 32 is allowed.
    """
    if isinstance(objective, WeightedLogistic) and not objective.hold_weights:
        return 1 + 16 / objective.temperature
    if isinstance(objective, _RANKED):
        return 1 + math.log(objective.n_items)
    if isinstance(objective, SampledSoftmax):
        return max(1.0, 1 / objective.rho)
    return 1.0


def _candidates(system: System) -> int:
    """Draws for each negative."""
    match system.sampler:
        case HardestOf(candidates=candidates) | FirstViolation(max_tries=candidates):
            return candidates
    return 1


def _scale(system: System, most_weight: float) -> float:
    """The largest power of two that leaves the integer sums of a step below 2^62."""
    rows = system.visits_per_step * system.positives_per_visit
    slopes = _slope_limit(system.objective) + 1
    most = _THETA_LIMIT
    if isinstance(system.discriminator, Cosine):
        most = 2 / system.discriminator.tau
    return 2.0 ** (62 - math.ceil(math.log2(rows * most_weight * slopes * most)))


def _power(n: int) -> int:
    """The least power of two that is at least n."""
    return 1 << (n - 1).bit_length()
