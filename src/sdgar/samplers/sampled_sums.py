"""Estimate the sums over items and contexts that updates of the generator need, by sampling.

With a value f of the scores, P(i | c) ∝ exp(f_c(i)/T) and an integrand h:

    b_ck = Σ_i y_ik P(i|c) h_c(i)          d_ki = Σ_c x_ck P(i|c) h_c(i)

or both with h/Q(i|c) for h. Sums over items are self-normalised importance sampling with draws
from Q(. | c); sums over contexts use one set of draws from Q(c | i) for all k (Eq. 12). Everything
is in the log domain, in chunks of bounded memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from sdgar.contracts import Score
from sdgar.errors import UsageError
from sdgar.maths.rng import Draws, Stream
from sdgar.samplers import mixtures
from sdgar.samplers.alias import AliasTables
from sdgar.samplers.generator import Mixture

_CHUNK, _CHUNK_ON_GPU = 1 << 24, 1 << 28
"""The most numbers in the largest array of a chunk; on a GPU fewer only cost launches."""

LEAST_TEMPERATURE, MOST_TEMPERATURE = 1e-3, 1e3


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledSums:
    """Estimates of Z, μ, b and d by sampling; an update says what f and h are."""

    temperature: float
    """The temperature T of the target P ∝ exp(f/T)."""
    samples: int
    """The number of draws for each context, and for each item."""

    def __post_init__(self) -> None:
        """Raise if a value cannot be computed with."""
        within("temperature", self.temperature, LEAST_TEMPERATURE, MOST_TEMPERATURE)
        if self.samples < 1:
            raise UsageError(f"the generator needs at least 1 sample, got {self.samples}.")

    @property
    def over_q(self) -> bool:
        """True if the integrand is divided by Q(i|c)."""
        raise NotImplementedError

    def value(self, s: Tensor) -> Tensor:
        """Return f of a score."""
        raise NotImplementedError

    def log_h(self, f: Tensor, mu: Tensor) -> Tensor:
        """Return log h, the logarithm of the integrand."""
        raise NotImplementedError

    def log_target(self, s: Tensor) -> Tensor:
        """log P(i | c) up to a constant of the context."""
        return self.value(s) / self.temperature

    def __call__(self, generator: Mixture, score: Score, *, seed: int, epoch: int) -> None:
        """Move the generator towards the scores."""
        raise NotImplementedError

    def partition_and_mean(
        self, generator: Mixture, score: Score, seed: int, epoch: int, *, part: int
    ) -> tuple[Tensor, Tensor]:
        """log Z_c = log Σ_i exp(f/T) and μ_c = E_P f, estimated with draws from Q(. | c)."""
        log_z, mu = [], []
        for users_B, items_BS in self._items(generator, seed, epoch, part):
            f_BS = self.value(score(users_B, items_BS))
            a_BS = f_BS / self.temperature - generator.log_q(users_B, items_BS)
            log_z.append(a_BS.logsumexp(dim=1) - math.log(self.samples))
            mu.append((a_BS.softmax(dim=1) * f_BS).sum(dim=1))
        return torch.cat(log_z), torch.cat(mu)

    def log_b(
        self,
        generator: Mixture,
        score: Score,
        log_z_U: Tensor,
        mu_U: Tensor,
        seed: int,
        epoch: int,
    ) -> Tensor:
        """log b_ck = log mean_j [P(j|c)/Q(j|c)] h_j y_jk, j ~ Q(. | c): Eq. 9."""
        rows = []
        for users_B, items_BS in self._items(generator, seed, epoch, 1):
            f_BS = self.value(score(users_B, items_BS))
            log_q_BS = generator.log_q(users_B, items_BS)
            log_p_BS = f_BS / self.temperature - log_z_U[users_B][:, None]
            term_BS = log_p_BS - log_q_BS + self.log_h(f_BS, mu_U[users_B][:, None])
            if self.over_q:
                term_BS = term_BS - log_q_BS
            rows.append(mixtures.log_average(term_BS, generator.y_IK, items_BS))
        return torch.cat(rows)

    def log_d(
        self,
        generator: Mixture,
        score: Score,
        log_z_U: Tensor,
        mu_U: Tensor,
        seed: int,
        epoch: int,
    ) -> Tensor:
        """log d_ki = log mean_c [P(i|c)/Q(c|i)] h_c(i) x_ck, c ~ Q(c | i): Eq. 12."""
        inverse = Inverse(generator)
        rows = []
        for items_B in self._chunks(len(generator.y_IK), generator):
            draws = Draws(seed, Stream.GENERATOR_ITEMS, epoch, items_B[:, None])
            slots_S = torch.arange(self.samples, device=items_B.device)
            users_BS = inverse.draw(items_B[:, None], draws, slots_S)
            items_BS = items_B[:, None].expand_as(users_BS)
            f_BS = self.value(
                score(users_BS.reshape(-1), items_BS.reshape(-1, 1)).view(users_BS.shape)
            )
            log_p_BS = f_BS / self.temperature - log_z_U[users_BS]
            term_BS = log_p_BS - inverse.log_q(items_B, users_BS) + self.log_h(f_BS, mu_U[users_BS])
            if self.over_q:
                term_BS = term_BS - mixtures.log_mix(
                    generator.y_IK, items_B, generator.x_UK, users_BS
                )
            rows.append(mixtures.log_average(term_BS, generator.x_UK, users_BS))
        return torch.cat(rows)

    def _items(
        self, generator: Mixture, seed: int, epoch: int, part: int
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield draws from Q(. | c) for all contexts in chunks; each part has slots of its own."""
        for users_B in self._chunks(len(generator.x_UK), generator):
            draws = Draws(seed, Stream.GENERATOR_CONTEXTS, epoch, users_B[:, None])
            slots_S = part * self.samples + torch.arange(self.samples, device=users_B.device)
            yield users_B, generator.draw(users_B[:, None], draws, slots_S)

    def _chunks(self, n: int, generator: Mixture) -> tuple[Tensor, ...]:
        most = _CHUNK if generator.x_UK.device.type == "cpu" else _CHUNK_ON_GPU
        size = max(1, most // (self.samples * generator.x_UK.shape[1]))
        return torch.arange(n, device=generator.x_UK.device).split(size)  # type: ignore[no-untyped-call,no-any-return]


class Inverse:
    """Q(c | i) = Σ_k P(k|i) P(c|k), with P(k|i) = y_ik / Σ_k y_ik and P(c|k) = x_ck / Σ_c x_ck.

    The tables are built once an update, from the X just updated and the Y about to be replaced.
    """

    def __init__(self, generator: Mixture) -> None:
        self._state_of = AliasTables.of(generator.y_IK)
        self._context_of = AliasTables.of(generator.x_UK.T)
        self._p_state_IK = self._state_of.probability()
        self._p_context_UK = self._context_of.probability().T.contiguous()

    def draw(self, items: Tensor, draws: Draws, slots: Tensor) -> Tensor:
        """Draw contexts from Q(. | i), one for each (row, slot)."""
        return mixtures.draw(self._state_of, self._context_of, items, draws, slots)

    def log_q(self, items_B: Tensor, users_BS: Tensor) -> Tensor:
        """log Q(c | i)."""
        return mixtures.log_mix(self._p_state_IK, items_B, self._p_context_UK, users_BS)


def within(name: str, value: float, least: float, most: float) -> float:
    """Return ``value`` if it lies in the range that was tried."""
    if not least <= value <= most:
        raise UsageError(
            f"{name} must lie between {least:g} and {most:g}, got {value}.", code=f"bad_{name}"
        )
    return value
