"""The engine that runs any parts in plain torch; it defines what is correct."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor
from torch.nn import Parameter

from sdgar.contracts import Health, Negatives, Positives, System
from sdgar.engines import host
from sdgar.engines.protocol import Coverage, EpochStats
from sdgar.engines.visits import GroupedRows, Visits
from sdgar.maths import optimizers
from sdgar.maths.optimizers import moments, take_moments
from sdgar.maths.rng import Draws, Stream, torch_seed
from sdgar.samplers.static import PairLookup

if TYPE_CHECKING:
    from sdgar.data.interactions import Interactions


_DRAWS_AHEAD = 1 << 22
"""The number of negatives that are drawn at once. It is large because a sampler may have work to do
for a context that is the same for all of its draws."""


class EagerEngine:
    """Take one step for each batch, with gradients by autograd.

        θ ← θ - step(∇ mean_b [ω_b l_b + λ/2 R_b])

    with l the objective, R the discriminator's penalty (for factorization ‖u_b‖² + ‖v⁺_b‖² +
    mean_j ‖v_bj‖²) and ω the interaction weights, scaled to a mean of 1 so that the
    learning rate keeps its meaning; b runs over the positives of the batch, and positives of
    one visit share their negatives j. On the CPU the same seed gives a bit-identical model; for any
    number of threads too, unless a part multiplies large matrices, whose sums BLAS splits
    between them (a softmax over all items, the covariances of a metric).
    """

    name: ClassVar[str] = "eager"

    def __init__(
        self, system: System, data: Interactions, *, seed: int, device: torch.device
    ) -> None:
        self._system = system
        self._seed = seed
        self._device = device
        self._model = system.discriminator.to(device)
        system.sampler.to(device)
        self._users_E = torch.from_numpy(data.users_E).to(device)
        self._items_E = torch.from_numpy(data.items_E).to(device).long()
        weight_E = host.scaled_weights(data)
        self._weight_E = None if weight_E is None else torch.from_numpy(weight_E).to(device)
        self._known = PairLookup(data.excluded, data.n_items, device)
        together_E = getattr(self._model, "together_E", None)
        self._order: Visits | GroupedRows
        if together_E is None or system.positives_per_visit > 1:
            self._order = Visits(data, system.positives_per_visit, seed, device)
        else:
            self._order = GroupedRows(together_E, seed)
        self._optimizer = torch_optimizer(system.optimizer, list(self._model.parameters()))

    @classmethod
    def covers(cls, system: System, device: torch.device) -> Coverage:
        """Return that every composition runs here."""
        return Coverage(True, f"plain torch on {device.type} runs any composition")

    @classmethod
    def deterministic(cls, device: torch.device) -> bool:
        """Return True for a CPU: on a GPU torch sums gradients in the order its threads finish."""
        return device.type == "cpu"

    def run_epoch(self, epoch: int) -> EpochStats:
        """Make one pass over the positives, in a fresh order.

        A discriminator may use torch's own random numbers, for dropout: they are the epoch's.
        """
        devices = [self._device] if self._device.type == "cuda" else []
        with torch.random.fork_rng(devices):
            torch.manual_seed(torch_seed(self._seed, Stream.DROPOUT, epoch))
            for group in self._optimizer.param_groups:
                group["lr"] = self._system.optimizer.rate(epoch)
            return self._epoch(epoch)

    def _epoch(self, epoch: int) -> EpochStats:
        start = time.perf_counter()
        total = torch.zeros((), dtype=torch.float64, device=self._device)
        unanswered = torch.zeros((), dtype=torch.int64, device=self._device)
        effective: Tensor | None = None
        for rows_B, negatives in self._batches(epoch):
            loss_B, answered_B, effective_B = self._step(rows_B, negatives)
            total += loss_B.double().sum()
            unanswered += (~answered_B).sum()
            if effective_B is not None:
                effective = effective_B.double().sum() + (0 if effective is None else effective)
        n_rows = len(self._items_E)
        loss = total.item() / n_rows
        if not torch.isfinite(total):
            raise host.diverged(f"the loss became {loss}", self._system, epoch)
        seconds = time.perf_counter() - start
        mean_effective = None if effective is None else effective.item() / n_rows
        return EpochStats(loss, n_rows, seconds, int(unanswered.item()), mean_effective)

    def _batches(self, epoch: int) -> Iterator[tuple[Tensor, Negatives]]:
        """Yield batches with their negatives, drawn for many batches at once where possible."""
        size, steps = self._system.visits_per_step, 1
        if not self._system.sampler.uses_scores:
            steps = max(1, _DRAWS_AHEAD // (size * self._system.n_negatives))
        for batch, ends in self._order.stretches(epoch, size, steps):
            users_V, items_V = self._users_E[batch.first_V], self._items_E[batch.first_V]
            draws = Draws(self._seed, Stream.NEGATIVES, epoch, batch.first_V[:, None])
            positives = Positives(users_V, items_V, self._score, draws, self._known)
            negatives = self._system.sampler.sample(positives, self._system.n_negatives)
            for first, last in itertools.pairwise((0, *ends)):
                visit_B = batch.visit_B[first:last]
                yield batch.rows_B[first:last], negatives.rows(visit_B)

    def _step(self, rows_B: Tensor, negatives: Negatives) -> tuple[Tensor, Tensor, Tensor | None]:
        system = self._system
        users_B, pos_B = self._users_E[rows_B], self._items_E[rows_B]
        context_B = rows_B if self._model.by_event else users_B
        items_BN = torch.cat((pos_B[:, None], negatives.items_BN), dim=1)
        effective_B: Tensor | None = None
        if getattr(system.objective, "over_all_items", False):
            model: Any = self._model
            loss_B: Tensor = model.loss_over_all_items(context_B, pos_B)
            penalty_B = torch.zeros_like(loss_B)
            answered_B = torch.ones_like(pos_B, dtype=torch.bool)
        else:
            s_BN, penalty_B = self._model.score_and_penalty(context_B, items_BN)
            loss_B = system.objective(s_BN[:, 0], s_BN[:, 1:], negatives)
            answered_B = negatives.accepted_BN.any(dim=1)
            effective_B = system.objective.effective(s_BN[:, 1:].detach(), negatives)
        if self._weight_E is not None:
            loss_B = loss_B * self._weight_E[rows_B]
        self._optimizer.zero_grad(set_to_none=True)
        (loss_B + 0.5 * system.l2 * penalty_B).mean().backward()  # type: ignore[no-untyped-call]
        self._optimizer.step()
        self._model.project(context_B, items_BN)
        return loss_B.detach(), answered_B, effective_B

    @torch.no_grad()
    def refit(self, epoch: int) -> Health:
        """Update the sampler to the discriminator, and return its health."""
        return self._system.sampler.refit(self._model.frozen(), seed=self._seed, epoch=epoch)

    @torch.no_grad()
    def _score(self, users_B: Tensor, items_BN: Tensor) -> Tensor:
        return self._model.score(users_B, items_BN)

    def state(self) -> dict[str, Tensor]:
        """Return parameters, optimiser moments and sampler state, under one flat set of names."""
        optimizer, sampler = moments(self._optimizer), self._system.sampler.state()
        return host.StateParts(self._model.state_dict(), optimizer, sampler).flat()

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore what ``state`` returned."""
        parts = host.StateParts.of(state)
        self._model.load_state_dict(parts.model)
        take_moments(self._optimizer, parts.optimizer)
        self._system.sampler.load_state(parts.sampler)


def torch_optimizer(
    record: optimizers.Optimizer, parameters: list[Parameter]
) -> torch.optim.Optimizer:
    """Return the torch optimiser that takes the steps that the record describes."""
    match record:
        case optimizers.LazyAdam():
            return _LazyAdam(parameters, record)
        case optimizers.RowAdagrad():
            return _RowAdagrad(parameters, record)
        case optimizers.Adam(learning_rate=rate, beta1=beta1, beta2=beta2, epsilon=epsilon):
            return optimizers.lean(torch.optim.Adam)(
                parameters, lr=rate, betas=(beta1, beta2), eps=epsilon, fused=True
            )
        case optimizers.SGD(learning_rate=rate):
            return optimizers.lean(torch.optim.SGD)(parameters, lr=rate)
    msg = f"no torch optimiser for {record}"
    raise AssertionError(msg)


@optimizers.lean
class _RowWise(torch.optim.Optimizer):
    """An optimiser that moves the rows a sparse gradient names, and all rows by a dense one."""

    def __init__(self, parameters: list[Parameter], rate: float) -> None:
        super().__init__(parameters, {"lr": rate})

    def _move(self, parameter: Parameter, rows_R: Tensor, grad: Tensor, rate: float) -> None:
        raise NotImplementedError

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Take one step of every parameter that has a gradient."""
        for group in self.param_groups:
            for parameter in group["params"]:
                grad = parameter.grad
                if grad is None:
                    continue
                if grad.is_sparse:
                    grad = grad.coalesce()
                    rows_R, grad = grad.indices()[0], grad.values()
                else:
                    rows_R = torch.arange(len(grad), device=grad.device)
                self._move(parameter, rows_R, grad, group["lr"])


class _LazyAdam(_RowWise):
    """The optimiser that the record ``optimizers.LazyAdam`` describes."""

    def __init__(self, parameters: list[Parameter], record: optimizers.LazyAdam) -> None:
        super().__init__(parameters, record.learning_rate)
        self._record = record
        for parameter in parameters:
            self.state[parameter] = {
                "step": torch.zeros((), dtype=torch.int64),
                "exp_avg": torch.zeros_like(parameter),
                "exp_avg_sq": torch.zeros_like(parameter),
            }

    def _move(self, parameter: Parameter, rows_R: Tensor, grad: Tensor, rate: float) -> None:
        beta1, beta2 = self._record.beta1, self._record.beta2
        state: dict[str, Any] = self.state[parameter]
        state["step"] += 1
        t = int(state["step"])
        m = beta1 * state["exp_avg"][rows_R] + (1 - beta1) * grad
        v = beta2 * state["exp_avg_sq"][rows_R] + (1 - beta2) * grad.square()
        state["exp_avg"][rows_R], state["exp_avg_sq"][rows_R] = m, v
        spread = (v / (1 - beta2**t)).sqrt() + self._record.epsilon
        parameter[rows_R] -= rate / (1 - beta1**t) * m / spread


class _RowAdagrad(_RowWise):
    """The optimiser that the record ``optimizers.RowAdagrad`` describes."""

    def __init__(self, parameters: list[Parameter], record: optimizers.RowAdagrad) -> None:
        super().__init__(parameters, record.learning_rate)
        self._record = record
        for parameter in parameters:
            self.state[parameter] = {"sum": parameter.new_zeros(len(parameter))}

    def _move(self, parameter: Parameter, rows_R: Tensor, grad: Tensor, rate: float) -> None:
        sum_R = self.state[parameter]["sum"]
        sum_R[rows_R] += grad.square().reshape(len(grad), -1).mean(dim=1)
        spread_R = sum_R[rows_R].sqrt() + self._record.epsilon
        spread = spread_R.reshape(-1, *(1,) * (grad.ndim - 1))
        parameter[rows_R] -= rate * grad / spread
