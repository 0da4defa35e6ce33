"""Plain torch, any parts: this engine defines what is correct."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import ClassVar

import torch
from torch import Tensor

from sdgar.contracts import Covered, EpochStats, Negatives, NotCovered, System
from sdgar.data.interactions import Interactions
from sdgar.errors import NumericalError
from sdgar.optimizers import SGD, Adam, Optimizer
from sdgar.rng import Draws, Stream, sort_keys
from sdgar.samplers.reject import KnownItems

_ROWS_AHEAD = 1 << 16


class EagerEngine:
    """One step a batch, gradients by autograd.

        θ ← θ - step(∇ mean_b [ω_b l_b + λ/2 (‖u_b‖² + ‖v⁺_b‖² + mean_j ‖v_bj‖²)])

    with l the objective and ω the interaction weights, scaled to a mean of 1 so that the
    learning rate keeps its meaning. Deterministic on the CPU for any number of threads.
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
        self._weight_E: Tensor | None = None
        if data.weight_E is not None:
            weight_E = torch.from_numpy(data.weight_E).to(device)
            self._weight_E = weight_E / weight_E.mean()
        self._known = KnownItems(data.history, data.n_items, device)
        self._optimizer = _torch_optimizer(system.optimizer, list(self._model.parameters()))

    @classmethod
    def covers(cls, system: System, device: torch.device) -> Covered | NotCovered:
        """Say that every composition runs here."""
        return Covered(f"plain torch on {device.type} runs any composition")

    def run_epoch(self, epoch: int) -> EpochStats:
        """One pass over the positives in a fresh order."""
        start = time.perf_counter()
        rows_E = torch.arange(len(self._items_E), device=self._device)
        order_E = torch.argsort(sort_keys(self._seed, Stream.SHUFFLE, epoch, rows_E), stable=True)
        total = torch.zeros((), dtype=torch.float64, device=self._device)
        unanswered = torch.zeros((), dtype=torch.int64, device=self._device)
        effective: Tensor | None = None
        for rows_B, negatives in self._batches(order_E, epoch):
            loss_B, answered_B, effective_B = self._step(rows_B, negatives)
            total += loss_B.double().sum()
            unanswered += (~answered_B).sum()
            if effective_B is not None:
                effective = effective_B.double().sum() + (0 if effective is None else effective)
        loss = total.item() / len(order_E)
        if not torch.isfinite(total):
            raise NumericalError(
                f"the loss became {loss} in epoch {epoch}: the model diverged. Lower the learning "
                f"rate (now {self._system.optimizer.learning_rate:g}) or raise l2 "
                f"(now {self._system.l2:g}).",
                code="diverged",
            )
        seconds = time.perf_counter() - start
        mean_effective = None if effective is None else effective.item() / len(order_E)
        return EpochStats(loss, len(order_E), seconds, int(unanswered.item()), mean_effective)

    def _batches(self, order_E: Tensor, epoch: int) -> Iterator[tuple[Tensor, Negatives]]:
        """Batches with their negatives, which are drawn for many batches at once if they may be."""
        size = self._system.batch_size
        ahead = size if self._system.sampler.uses_scores else size * max(1, _ROWS_AHEAD // size)
        for rows in torch.split(order_E, ahead):
            negatives = self._system.sampler.sample(
                self._users_E[rows],
                self._items_E[rows],
                self._system.n_negatives,
                score=self._score,
                draws=Draws(self._seed, Stream.NEGATIVES, epoch, rows[:, None]),
                known=self._known,
            )
            for start in range(0, len(rows), size):
                part = slice(start, start + size)
                yield rows[part], negatives.rows(part)

    def _step(self, rows_B: Tensor, negatives: Negatives) -> tuple[Tensor, Tensor, Tensor | None]:
        system = self._system
        users_B, pos_B = self._users_E[rows_B], self._items_E[rows_B]
        items_BN = torch.cat((pos_B[:, None], negatives.items_BN), dim=1)
        s_BN, user_norm_B, item_norm_BN = self._model.score_and_norms(users_B, items_BN)
        loss_B = system.objective(s_BN[:, 0], s_BN[:, 1:], negatives)
        if self._weight_E is not None:
            loss_B = loss_B * self._weight_E[rows_B]
        norm_B = user_norm_B + item_norm_BN[:, 0] + item_norm_BN[:, 1:].mean(dim=1)
        self._optimizer.zero_grad(set_to_none=True)
        (loss_B + 0.5 * system.l2 * norm_B).mean().backward()  # type: ignore[no-untyped-call]
        self._optimizer.step()
        effective_B = system.objective.effective(s_BN[:, 1:].detach(), negatives)
        return loss_B.detach(), negatives.accepted_BN.any(dim=1), effective_B

    @torch.no_grad()
    def refit(self, epoch: int) -> dict[str, float]:
        """Let the sampler follow the discriminator, and say how its proposals are."""
        return self._system.sampler.refit(self._score, seed=self._seed, epoch=epoch)

    @torch.no_grad()
    def _score(self, users_B: Tensor, items_BN: Tensor) -> Tensor:
        return self._model.score(users_B, items_BN)

    def state(self) -> dict[str, Tensor]:
        """Parameters, optimiser moments and sampler state, under one flat set of names."""
        state = {f"model.{k}": v.clone() for k, v in self._model.state_dict().items()}
        for index, moments in self._optimizer.state_dict()["state"].items():
            state |= {f"optimizer.{index}.{k}": v.clone() for k, v in moments.items()}
        return state | {f"sampler.{k}": v.clone() for k, v in self._system.sampler.state().items()}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Take back what ``state`` gave."""
        parts: dict[str, dict[str, Tensor]] = {"model": {}, "optimizer": {}, "sampler": {}}
        for name, tensor in state.items():
            part, _, rest = name.partition(".")
            parts[part][rest] = tensor
        self._model.load_state_dict(parts["model"])
        moments: dict[int, dict[str, Tensor]] = {}
        for name, tensor in parts["optimizer"].items():
            index, _, key = name.partition(".")
            moments.setdefault(int(index), {})[key] = tensor
        groups = self._optimizer.state_dict()["param_groups"]
        self._optimizer.load_state_dict({"state": moments, "param_groups": groups})
        self._system.sampler.load_state(parts["sampler"])


def _torch_optimizer(
    record: Optimizer, parameters: list[torch.nn.Parameter]
) -> torch.optim.Optimizer:
    match record:
        case Adam(learning_rate=rate, beta1=beta1, beta2=beta2, epsilon=epsilon):
            return torch.optim.Adam(
                parameters, lr=rate, betas=(beta1, beta2), eps=epsilon, fused=True
            )
        case SGD(learning_rate=rate):
            return torch.optim.SGD(parameters, lr=rate)
    msg = f"no torch optimiser for {record}"
    raise AssertionError(msg)
