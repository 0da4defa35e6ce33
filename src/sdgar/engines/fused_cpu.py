"""An epoch as one compiled loop on the CPU, for matrix factorization."""

from __future__ import annotations

import importlib.util
import math
import time
from collections.abc import Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sdgar.contracts import Covered, EpochStats, Health, NotCovered, System
from sdgar.data.interactions import Interactions
from sdgar.discriminators.cosine import Cosine
from sdgar.discriminators.factorization import MatrixFactorization
from sdgar.engines.fused import OBJECTIVES, OPTIMIZERS, SAMPLERS, misfit
from sdgar.engines.pace import Pace
from sdgar.engines.visits import STRIDES, Visits
from sdgar.errors import NumericalError
from sdgar.machine import cores
from sdgar.maths.optimizers import LazyAdam, RowAdagrad
from sdgar.maths.rng import Permutation, Stream, tail
from sdgar.objectives import Logistic, SampledSoftmax, WarpHinge, WeightedLogistic
from sdgar.samplers.decomposable import Decomposable
from sdgar.samplers.rank_by_factor import RankByFactor
from sdgar.samplers.score_aware import FirstViolation, HardestOf
from sdgar.samplers.static import Popularity

if TYPE_CHECKING:
    from sdgar.kernels import numba_contexts, numba_draws, numba_epoch, numba_scores


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
        self._order = _order(self._visits, system, seed, self._batch)
        self._tables = _tables(self._model, system)
        self._scores = _scores(self._model, system)
        self._moves = _moves(self._model, system)
        self._scratch = _scratch(self._model, system, self._batch)
        self._pace, self._refit_pace = _paces()

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

        kept = is_kept("epoch", _variants(system))
        first = "" if kept else "; its first use here compiles it, about ten seconds"
        return Covered(f"one compiled loop on the CPU has code for all parts{first}")

    @classmethod
    def deterministic(cls, device: torch.device) -> bool:
        """Rows are owned by threads, and every sum has one order."""
        return True

    def run_epoch(self, epoch: int) -> EpochStats:
        """One pass over the positives in a fresh order."""
        from sdgar.kernels.compiled import note_kept

        start = time.perf_counter()
        keys = Permutation.of(
            len(self._visits), seed=self._seed, stream=Stream.SHUFFLE, epoch=epoch
        ).keys
        self._scratch.totals_3[:] = 0
        self._run_batches(
            np.array(keys, np.uint64),
            tail(Stream.NEGATIVES, epoch),
            tail(Stream.DEAL, epoch),
            self._steps,
            self._rows,
            self._known,
            self._order,
            _proposal(self._system, self._seed, self._model.n_items),
            self._scores,
            _loss(self._system),
            self._moves,
            self._tables,
            self._scratch,
        )
        note_kept("epoch", _variants(self._system))
        self._steps += self._batches
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

    @property
    def _batches(self) -> int:
        return -(-len(self._visits) // self._batch)

    def _run_batches(self, *args: Any) -> None:
        """All batches, by as many threads as the pace says from stretch to stretch."""
        from sdgar.kernels.numba_epoch import own, run_batches

        if self._pace.most != cores.threads():  # the user has asked for another number
            self._pace, self._refit_pace = _paces()
        room = (
            self._model.user_UD.shape[1],
            self._system.positives_per_visit,
            self._system.n_negatives,
            self._batch,
            self._scratch.place_VF.shape[1],
        )
        own_T = [own(*room) for _ in range(self._pace.most)]
        run_batches(0, 0, own_T[:1], *args)  # it is compiled before it is timed
        done = 0
        while done < self._batches:
            upto = min(done + self._pace.work(), self._batches)
            start = time.perf_counter()
            cpu_seconds = run_batches(done, upto, own_T[: self._pace.threads], *args)
            self._pace.note(upto - done, time.perf_counter() - start, cpu_seconds)
            done = upto

    @torch.no_grad()
    def refit(self, epoch: int) -> Health:
        """Let the sampler follow the discriminator, and say how its proposals are."""
        from sdgar.kernels import numba_mixtures

        factors = self._model.factors()

        def score(users_B: Tensor, items_BN: Tensor) -> Tensor:
            tables = factors.user_UD, factors.item_ID, factors.bias_I
            return numba_mixtures.score(*tables, users_B, items_BN)

        start, cpu_start = time.perf_counter(), time.process_time()
        with cores.torch_aside() if self._refit_pace.threads == 1 else nullcontext():
            health = self._system.sampler.refit(score, seed=self._seed, epoch=epoch)
        cpu_seconds = (time.process_time() - cpu_start) / self._pace.most
        self._refit_pace.note(1, time.perf_counter() - start, 2 * cpu_seconds)
        return health

    @torch.no_grad()
    def _unpack(self) -> None:
        """Bring the parameters back to the model."""
        self._model.user_UD.copy_(torch.from_numpy(self._arrays()["user_UCD"][:, 0]))
        self._model.item_ID.copy_(torch.from_numpy(self._tables.item_ICD[:, 0]))
        if self._model.bias_I is not None:
            self._model.bias_I.copy_(torch.from_numpy(self._arrays()["bias_IC"][:, 0]))

    def _arrays(self) -> dict[str, NDArray[np.float32]]:
        """All that training changes."""
        sums = {
            name: step.sum_R
            for name, step in zip(("sum_U", "sum_I", "sum_bias_I"), self._moves[:3], strict=True)
            if hasattr(step, "sum_R")
        }
        vectors = {
            "user_UCD": getattr(self._tables, "field_VCD", self._tables.user_UCD),
            "item_ICD": self._tables.item_ICD,
        }
        parts = vectors | self._scores._asdict() | sums
        return {name: part for name, part in parts.items() if isinstance(part, np.ndarray)}

    def state(self) -> dict[str, Tensor]:
        """Parameters, optimiser state and sampler state, under one flat set of names."""
        state = {f"model.{k}": v.clone() for k, v in self._model.state_dict().items()}
        state["optimizer.steps"] = torch.tensor(self._steps)
        state |= {
            f"optimizer.{name}": torch.from_numpy(table.copy())
            for name, table in self._arrays().items()
        }
        return state | {f"sampler.{k}": v.clone() for k, v in self._system.sampler.state().items()}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Take back what ``state`` gave."""
        self._steps = int(state["optimizer.steps"])
        for name, table in self._arrays().items():
            table[...] = state[f"optimizer.{name}"].numpy()
        self._unpack()
        self._system.sampler.load_state(
            {k.removeprefix("sampler."): v for k, v in state.items() if k.startswith("sampler.")}
        )


def _paces() -> tuple[Pace, Pace]:
    """One for epochs, and one for refits.

    That for refits asks for 1 or 2: the kernels alone use all threads, or torch does so too.
    """
    threads = cores.threads()
    return Pace(threads), Pace(min(threads, 2))


def _rows(data: Interactions) -> numba_epoch.Rows:
    from sdgar.kernels.numba_epoch import Rows

    weight_E = np.empty(0, np.float32)
    if data.weight_E is not None:
        weight_E = (data.weight_E / data.weight_E.mean(dtype=np.float64)).astype(np.float32)
    items_E = np.ascontiguousarray(data.items_E)
    return Rows(data.indptr_U1, data.users_E.astype(np.int32), items_E, weight_E)


def _known(data: Interactions) -> numba_draws.Known:
    from sdgar.kernels.numba_draws import Known, fill

    seen = data.left_out
    bits = np.zeros((1 << max(6, (16 * len(seen.items_E) - 1).bit_length())) // 8, np.uint8)
    fill(seen.indptr_U1, np.ascontiguousarray(seen.items_E), bits)
    items_E, positive_E = map(np.ascontiguousarray, (seen.items_E, data.items_E))
    return Known(seen.indptr_U1, items_E, bits, positive_E)


def _order(visits: Visits, system: System, seed: int, batch: int) -> numba_epoch.Order:
    from sdgar.kernels.numba_epoch import Order

    order = Permutation(len(visits), ())
    return Order(
        seed=np.uint64(seed),
        n_visits=len(visits),
        positives=system.positives_per_visit,
        batch=batch,
        user_V=visits.user_V.numpy().astype(np.int32),
        place_V=visits.place_V.numpy().astype(np.int32),
        strides=np.array(STRIDES, np.uint64),
        left_bits=order.left_bits,
        right_bits=order.right_bits,
    )


def _variants(system: System) -> str:
    """What the loop is compiled for."""
    parts = system.discriminator, system.sampler, system.objective, system.optimizer
    names = [type(part).__name__ for part in parts]
    if isinstance(system.discriminator, Cosine) and system.discriminator.bias_I is not None:
        names.append("bias")
    if getattr(system.discriminator, "place_UF", None) is not None:
        names.append("fields")
    return "-".join(names)


def _proposal(system: System, seed: int, n_items: int) -> Any:
    """The sampler's tables as they are now."""
    from sdgar.kernels import numba_draws as draws
    from sdgar.kernels import numba_picks as picks

    common = system.n_negatives, np.uint64(seed), n_items
    match system.sampler:
        case Popularity() as sampler:
            return draws.Popularity(
                *common,
                item_bins=sampler.table.bin_RN.reshape(-1).numpy(),
                q_I=sampler.log_q_I.exp().numpy(),
            )
        case Decomposable() as sampler:
            return draws.Decomposable(
                *common,
                n_states=sampler.state_of.n,
                state_bins=_aligned_copy(sampler.state_of.bin_RN.reshape(-1)),
                item_bins=_aligned_copy(sampler.item_of.bin_RN.reshape(-1)),
                x_UK=_aligned_copy(sampler.x_UK),
                y_IK=_aligned_copy(sampler.y_IK),
            )
        case RankByFactor() as sampler:
            return draws.Adaptive(
                *common,
                n_factors=sampler.factor_of.n,
                factor_bins=sampler.factor_of.bin_RN.reshape(-1).numpy(),
                rank_bins=sampler.rank_of.bin_RN.reshape(-1).numpy(),
                order_KI=sampler.order_KI.contiguous().numpy(),
                downward_UK=sampler.downward_UK.contiguous().numpy(),
            )
        case HardestOf(candidates=candidates):
            return picks.HardestOf(*common, candidates=candidates)
        case FirstViolation(margin=margin, max_tries=tries):
            return picks.Violation(*common, candidates=tries, margin=np.float32(margin))
        case _:
            return draws.Uniform(*common)


def _loss(system: System) -> Any:
    from sdgar.kernels import numba_gradients as gradients

    match system.objective:
        case Logistic():
            return gradients.Logistic()
        case WeightedLogistic(temperature=temperature, hold_weights=held):
            through = 0.0 if held else 1 / temperature
            return gradients.Weighted(np.float32(temperature), np.float32(through))
        case WarpHinge(margin=margin):
            return gradients.RankHinge(system.discriminator.n_items, np.float32(margin))
        case SampledSoftmax(rho=rho):
            return gradients.Softmax(np.float32(rho))
        case _:
            return gradients.Pairwise()


def _tables(model: Model, system: System) -> numba_contexts.Tables | numba_contexts.Summed:
    from sdgar.kernels.numba_contexts import Summed, Tables

    vectors, item_ICD = _packed(model.user_UD, system), _packed(model.item_ID, system)
    if model.place_UF is None:
        return Tables(vectors, item_ICD)
    n_users, dim = len(model.place_UF), model.user_UD.shape[1]
    return Summed(
        user_UCD=_aligned((n_users, 1, dim)),
        item_ICD=item_ICD,
        field_VCD=vectors,
        place_UF=model.place_UF.numpy().astype(np.int32),
        inverse_U=_aligned((n_users,)),
        directions=isinstance(model, Cosine),
    )


def _scores(model: Model, system: System) -> numba_scores.Scores:
    from sdgar.kernels.numba_scores import BiasedCosines, Cosines, Products

    if isinstance(model, MatrixFactorization):
        return Products(_packed(model.bias_I, system))
    over_tau = np.float32(1 / model.tau)
    if model.bias_I is None:
        return Cosines(over_tau)
    return BiasedCosines(over_tau, _packed(model.bias_I, system))


def _moves(model: Model, system: System) -> numba_epoch.Steps:
    from sdgar.kernels import numba_steps as steps
    from sdgar.kernels.numba_epoch import Steps

    rate = np.float32(system.optimizer.learning_rate)

    def of_rows(n: int) -> Any:
        match system.optimizer:
            case LazyAdam(beta1=beta1, beta2=beta2, epsilon=epsilon):
                return steps.Adam(rate, *map(np.float32, (beta1, beta2, epsilon)))
            case RowAdagrad(epsilon=epsilon):
                sum_R = _aligned((n,))
                sum_R[:] = 0
                return steps.Adagrad(rate, np.float32(epsilon), sum_R)
            case _:
                return steps.Sgd(rate)

    n_users, n_items = len(model.user_UD), model.n_items
    return Steps(of_rows(n_users), of_rows(n_items), of_rows(n_items), np.float32(system.l2))


def _packed(parameter: Tensor, system: System) -> NDArray[np.float32]:
    """A parameter as a table that holds Adam's moments beside it."""
    rows = parameter.detach().numpy()
    columns = 3 if isinstance(system.optimizer, LazyAdam) else 1
    table = _aligned((len(rows), columns, *rows.shape[1:]))
    table[:, 0], table[:, 1:] = rows, 0
    return table


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

    n_rows, dim = model.user_UD.shape
    fields = 1 if model.place_UF is None else model.place_UF.shape[1]
    entries = visits * (system.positives_per_visit + system.n_negatives)
    return Scratch(
        place_VF=np.empty((visits, fields), np.int32),
        count_V=np.empty(visits, np.int32),
        item_e=np.empty(entries, np.int32),
        slope_e=np.empty(entries, np.float32),
        u_VD=_aligned((visits, dim)),
        grad_VD=_aligned((visits, dim)),
        tail_I=_nobody(model.n_items),
        tail_R=_nobody(n_rows),
        loss_V=np.empty(visits, np.float32),
        effective_V=np.zeros(visits, np.float32),
        answered_V=np.empty(visits, np.bool_),
        totals_3=np.zeros(3),
    )
