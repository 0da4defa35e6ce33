"""An epoch as one compiled loop on the CPU, for matrix factorization."""

from __future__ import annotations

import importlib.util
import math
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sdgar.contracts import Covered, EpochStats, NotCovered, System
from sdgar.data.interactions import Interactions
from sdgar.discriminators.cosine import Cosine
from sdgar.discriminators.factorization import MatrixFactorization
from sdgar.engines.fused import OBJECTIVES, OPTIMIZERS, SAMPLERS, misfit
from sdgar.engines.visits import STRIDES, Visits
from sdgar.errors import NumericalError
from sdgar.objectives import Logistic, RankHingeByTries, SampledSoftmax, WeightedLogistic
from sdgar.optimizers import LazyAdam, RowAdagrad
from sdgar.rng import Permutation, Stream, tail
from sdgar.samplers.adaptive import AdaptiveOrder
from sdgar.samplers.decomposable import Decomposable
from sdgar.samplers.score_aware import FirstViolation, Hardest
from sdgar.samplers.static import Popularity

if TYPE_CHECKING:
    from sdgar.kernels import numba_draws, numba_epoch


Model = MatrixFactorization | Cosine

_LINE = 64
"""Bytes of a cache line."""


class FusedCpuEngine:
    """Draw, score, weigh and update in one pass, by Numba; see ``kernels/numba_epoch.py``.

    The same negatives as the eager engine, and the same parameters up to float32 rounding; the
    same bytes for any number of threads.
    """

    name: ClassVar[str] = "fused-cpu"

    def __init__(
        self, system: System, data: Interactions, *, seed: int, device: torch.device
    ) -> None:
        assert isinstance(system.discriminator, Model)
        self._system = system
        self._model = system.discriminator
        self._seed = seed
        self._steps = 0
        self._n_rows = len(data)
        self._rows = _rows(data)
        self._known = _known(data)
        self._visits = Visits(data, system.positives_per_visit, seed, device)
        # Room is made for the batches there are, however large a batch may be.
        self._batch = min(system.visits_per_step, len(self._visits))
        self._order = _order(self._visits, system, self._batch)
        self._tables = _tables(self._model, system)
        self._scratch = _scratch(self._model, system, self._batch)

    @classmethod
    def covers(cls, system: System, device: torch.device) -> Covered | NotCovered:
        """Say whether all parts are among those that the loop has code for."""
        if device.type != "cpu":
            return NotCovered(f"it runs on the CPU, not on {device.type}")
        for what, part, known in (
            ("discriminator", system.discriminator, (MatrixFactorization, Cosine)),
            ("sampler", system.sampler, SAMPLERS),
            ("objective", system.objective, OBJECTIVES),
            ("optimizer", system.optimizer, OPTIMIZERS),
        ):
            if type(part) not in known:
                names = ", ".join(kind.__name__ for kind in known)
                return NotCovered(f"it has no code for the {what} {type(part).__name__} ({names})")
        mismatch = misfit(system)
        if mismatch is not None:
            return NotCovered(mismatch)
        if any(p.dtype != torch.float32 for p in system.discriminator.parameters()):
            return NotCovered("its tables are float32, and the discriminator's are not")
        if importlib.util.find_spec("numba") is None:
            return NotCovered("Numba is not installed")
        from sdgar.kernels.compiled import is_kept

        first = "" if is_kept("epoch") else "; its first use here compiles it, about half a minute"
        return Covered(f"one compiled loop on the CPU has code for all parts{first}")

    @classmethod
    def deterministic(cls, device: torch.device) -> bool:
        """Rows are owned by threads, and every sum has one order."""
        return True

    def run_epoch(self, epoch: int) -> EpochStats:
        """One pass over the positives in a fresh order."""
        from sdgar.kernels import numba_epoch, numba_threads

        start = time.perf_counter()
        threads = torch.get_num_threads()
        keys = Permutation.of(
            len(self._visits), seed=self._seed, stream=Stream.SHUFFLE, epoch=epoch
        ).keys
        self._scratch.totals_3[:] = 0
        numba_threads.run(
            numba_epoch.epoch,
            threads,
            np.array(keys, np.uint64),
            tail(Stream.NEGATIVES, epoch),
            tail(Stream.DEAL, epoch),
            self._steps,
            self._rows,
            self._known,
            self._order,
            _proposal(self._system, self._seed, self._model.n_items),
            _loss(self._system),
            _step(self._system),
            self._tables,
            self._scratch,
            numba_epoch.own(
                threads,
                self._model.user_UD.shape[1],
                self._system.positives_per_visit,
                self._system.n_negatives,
                self._batch,
            ),
        )
        self._steps += -(-len(self._visits) // self._batch)
        self._unpack()
        total, effective, unanswered = self._scratch.totals_3.tolist()
        loss = total / self._n_rows
        if not np.isfinite(loss):
            raise NumericalError(
                f"the loss became {loss} in epoch {epoch}: the model diverged. Lower the learning "
                f"rate (now {self._system.optimizer.learning_rate:g}) or raise l2 "
                f"(now {self._system.l2:g}).",
                code="diverged",
            )
        weighs = isinstance(self._system.objective, WeightedLogistic | SampledSoftmax)
        return EpochStats(
            loss,
            self._n_rows,
            time.perf_counter() - start,
            int(unanswered),
            effective / self._n_rows if weighs else None,
        )

    @torch.no_grad()
    def refit(self, epoch: int) -> dict[str, float]:
        """Let the sampler follow the discriminator, and say how its proposals are."""
        from sdgar.kernels import numba_mixtures

        factors = self._model.factors()

        def score(users_B: Tensor, items_BN: Tensor) -> Tensor:
            tables = factors.user_UD, factors.item_ID, factors.bias_I
            return numba_mixtures.score(*tables, users_B, items_BN)

        return self._system.sampler.refit(score, seed=self._seed, epoch=epoch)

    @torch.no_grad()
    def _unpack(self) -> None:
        """Bring the parameters back to the model."""
        self._model.user_UD.copy_(torch.from_numpy(self._tables.user_UCD[:, 0]))
        self._model.item_ID.copy_(torch.from_numpy(self._tables.item_ICD[:, 0]))
        if isinstance(self._model, MatrixFactorization):
            self._model.bias_I.copy_(torch.from_numpy(self._tables.bias_IC[:, 0]))

    def state(self) -> dict[str, Tensor]:
        """Parameters, optimiser state and sampler state, under one flat set of names."""
        state = {f"model.{k}": v.clone() for k, v in self._model.state_dict().items()}
        state["optimizer.steps"] = torch.tensor(self._steps)
        state |= {
            f"optimizer.{name}": torch.from_numpy(table.copy())
            for name, table in self._tables._asdict().items()
        }
        return state | {f"sampler.{k}": v.clone() for k, v in self._system.sampler.state().items()}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Take back what ``state`` gave."""
        self._steps = int(state["optimizer.steps"])
        for name, table in self._tables._asdict().items():
            table[...] = state[f"optimizer.{name}"].numpy()
        self._unpack()
        self._system.sampler.load_state(
            {k.removeprefix("sampler."): v for k, v in state.items() if k.startswith("sampler.")}
        )


def _rows(data: Interactions) -> numba_epoch.Rows:
    from sdgar.kernels.numba_epoch import Rows

    weight_E = np.empty(0, np.float32)
    if data.weight_E is not None:
        weight_E = (data.weight_E / data.weight_E.mean(dtype=np.float64)).astype(np.float32)
    return Rows(data.users_E.astype(np.int32), weight_E)


def _known(data: Interactions) -> numba_draws.Known:
    from sdgar.kernels.numba_draws import Known, fill

    bits = 1 << max(6, (16 * len(data) - 1).bit_length())
    known = Known(data.indptr_U1, np.ascontiguousarray(data.items_E), np.zeros(bits // 8, np.uint8))
    fill(*known)
    return known


def _order(visits: Visits, system: System, batch: int) -> numba_epoch.Order:
    from sdgar.kernels.numba_epoch import Order

    order = Permutation(len(visits), ())
    return Order(
        n_visits=len(visits),
        positives=system.positives_per_visit,
        batch=batch,
        user_V=visits.user_V.numpy().astype(np.int32),
        place_V=visits.place_V.numpy().astype(np.int32),
        strides=np.array(STRIDES, np.uint64),
        left_bits=order.left_bits,
        right_bits=order.right_bits,
    )


def _proposal(system: System, seed: int, n_items: int) -> numba_draws.Proposal:
    """The sampler's tables as they are now."""
    from sdgar.kernels import numba_draws as draws
    from sdgar.kernels import numba_picks as picks

    none, nobody = np.empty(0, np.int64), np.empty((0, 1), np.float32)
    tables: dict[str, object] = {
        "state_bins": none, "item_bins": none, "n_states": 1,
        "x_UK": nobody, "y_IK": nobody, "q_I": nobody[:, 0].copy(),
        "order_KI": np.empty((0, 1), np.int32), "downward_UK": np.empty((0, 1), np.bool_),
    }  # fmt: skip
    sampler = system.sampler
    kind = draws.UNIFORM
    if isinstance(sampler, Popularity):
        kind = draws.POPULARITY
        tables |= {
            "item_bins": sampler.table.bin_RN.reshape(-1).numpy(),
            "q_I": sampler.log_q_I.exp().numpy(),
        }
    elif isinstance(sampler, Decomposable):
        kind = draws.DECOMPOSABLE
        tables |= {
            "state_bins": _aligned_copy(sampler.state_of.bin_RN.reshape(-1)),
            "item_bins": _aligned_copy(sampler.item_of.bin_RN.reshape(-1)),
            "n_states": sampler.state_of.n,
            "x_UK": _aligned_copy(sampler.x_UK),
            "y_IK": _aligned_copy(sampler.y_IK),
        }
    elif isinstance(sampler, AdaptiveOrder):
        kind = draws.ADAPTIVE
        tables |= {
            "state_bins": sampler.factor_of.bin_RN.reshape(-1).numpy(),
            "item_bins": sampler.rank_of.bin_RN.reshape(-1).numpy(),
            "n_states": sampler.factor_of.n,
            "order_KI": sampler.order_KI.contiguous().numpy(),
            "downward_UK": sampler.downward_UK.contiguous().numpy(),
        }
    pick, candidates, margin = picks.NONE, 1, 0.0
    match sampler:
        case Hardest(candidates=candidates):
            pick = picks.HARDEST
        case FirstViolation(margin=margin, max_tries=candidates):
            pick = picks.VIOLATION
    return draws.Proposal(
        kind=kind,
        n=system.n_negatives,
        seed=np.uint64(seed),
        n_items=n_items,
        weighted=isinstance(system.objective, WeightedLogistic | SampledSoftmax),
        pick=pick,
        candidates=candidates,
        margin=np.float32(margin),
        **tables,  # type: ignore[arg-type]
    )


def _loss(system: System) -> numba_epoch.Loss:
    from sdgar.kernels import numba_gradients as gradients
    from sdgar.kernels.numba_epoch import Loss

    objective = system.objective
    kind, temperature, margin = gradients.PAIRWISE, 1.0, 0.0
    if isinstance(objective, Logistic):
        kind = gradients.LOGISTIC
    elif isinstance(objective, WeightedLogistic):
        kind = gradients.WEIGHTED_HELD if objective.hold_weights else gradients.WEIGHTED
        temperature = objective.temperature
    elif isinstance(objective, RankHingeByTries):
        kind, margin = gradients.RANK_HINGE, objective.margin
    elif isinstance(objective, SampledSoftmax):
        kind = gradients.SOFTMAX
    model = system.discriminator
    tau = model.tau if isinstance(model, Cosine) else 1.0
    return Loss(kind, *map(np.float32, (temperature, margin, system.l2, tau)))


def _step(system: System) -> numba_epoch.Step:
    from sdgar.kernels import numba_epoch as kernel

    beta1 = beta2 = epsilon = 0.0
    match system.optimizer:
        case LazyAdam(beta1=beta1, beta2=beta2, epsilon=epsilon):
            kind = kernel.ADAM
        case RowAdagrad(epsilon=epsilon):
            kind = kernel.ADAGRAD
        case _:
            kind = kernel.SGD
    rate = system.optimizer.learning_rate
    return kernel.Step(kind, *map(np.float32, (rate, beta1, beta2, epsilon)))


def _tables(model: Model, system: System) -> numba_epoch.Tables:
    from sdgar.kernels.numba_epoch import Tables

    columns = 3 if isinstance(system.optimizer, LazyAdam) else 1
    sums = int(isinstance(system.optimizer, RowAdagrad))
    nobody = np.empty((0, 1), np.float32)
    packed = []
    none_I = torch.zeros(model.n_items)
    bias_I = model.bias_I if isinstance(model, MatrixFactorization) else none_I
    for parameter in (model.user_UD, model.item_ID, bias_I):
        rows = parameter.detach().numpy()
        table = _aligned((len(rows), columns, *rows.shape[1:]))
        table[:, 0], table[:, 1:] = rows, 0
        packed.append(table)
    for n in (len(model.user_UD), model.n_items, model.n_items):
        packed.append(_aligned((sums * n,)))
        packed[-1][:] = 0
    for parameter in (model.user_UD, model.item_ID):
        rows = parameter.detach().numpy() if isinstance(model, Cosine) else nobody
        packed.append(1 / np.sqrt(np.square(rows).sum(axis=1)))
    return Tables(*packed)


def _aligned(shape: tuple[int, ...], dtype: Any = np.float32) -> NDArray[Any]:
    """Room that starts with a cache line; NumPy asks for huge pages where it is large."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    room = np.empty(size + _LINE, np.uint8)
    start = -room.ctypes.data % _LINE
    aligned: NDArray[Any] = room[start : start + size].view(dtype).reshape(shape)
    return aligned


def _aligned_copy(tensor: Tensor) -> NDArray[Any]:
    array = tensor.numpy()
    copy = _aligned(array.shape, array.dtype)
    copy[...] = array
    return copy


def _nobody(n: int) -> NDArray[np.int32]:
    tail_R = _aligned((n,), np.int32)
    tail_R[:] = -1
    return tail_R


def _scratch(model: Model, system: System, visits: int) -> numba_epoch.Scratch:
    from sdgar.kernels.numba_epoch import Scratch

    n_users, dim = model.user_UD.shape
    entries = visits * (system.positives_per_visit + system.n_negatives)
    return Scratch(
        user_V=np.empty(visits, np.int32),
        count_V=np.empty(visits, np.int32),
        item_e=np.empty(entries, np.int32),
        slope_e=np.empty(entries, np.float32),
        u_VD=_aligned((visits, dim)),
        grad_VD=_aligned((visits, dim)),
        tail_I=_nobody(model.n_items),
        tail_U=_nobody(n_users),
        loss_V=np.empty(visits, np.float32),
        effective_V=np.zeros(visits, np.float32),
        answered_V=np.empty(visits, np.bool_),
        totals_3=np.zeros(3),
    )
