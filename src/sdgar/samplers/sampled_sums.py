"""Estimate the sums over items and contexts that updates of the generator need, by sampling.

With a value f of the scores, P(i | c) ∝ exp(f_c(i)/T) and an integrand h:

    b_ck = Σ_i y_ik P(i|c) h_c(i)          d_ki = Σ_c x_ck P(i|c) h_c(i)

or both with h/Q(i|c) for h. Sums over items are self-normalised importance sampling with draws
from Q(. | c); sums over contexts use one set of draws from Q(c | i) for all k (Eq. 12). Everything
is in the log domain, in chunks of bounded memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from sdgar.arguments import at_least
from sdgar.maths.rng import Draws, Stream
from sdgar.objectives import checked_temperature
from sdgar.samplers.alias import (
    AliasTables,
    draw_through,
    log_average,
    log_mix,
    on_threads,
)
from sdgar.settings import Group

if TYPE_CHECKING:
    from sdgar.contracts import Score
    from sdgar.samplers.decomposable import Decomposable

_CHUNK, _CHUNK_ON_GPU = 1 << 22, 1 << 28
"""Numbers that a chunk looks at, one for each row, draw and state. On the CPU there should be
several chunks for each thread; on a GPU more of them only cost launches."""


@dataclass(frozen=True, kw_only=True)
class GeneratorSettings(Group):
    """The settings of a generator, whatever update it follows by."""

    states: int = 64
    """The number K of states of the generator."""
    samples: int = 64
    """How many draws there are for each context and each item in an update of the generator: |S_c|
    and |S_i|."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A generator, the scores that it follows, and the address of an update's random numbers."""

    generator: Decomposable
    """The generator that is updated."""
    score: Score
    """The scores of the discriminator."""
    seed: int
    """The seed of the draws."""
    epoch: int
    """The epoch that the update precedes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledSums:
    """An update by estimates of Z, μ, b and d; a subclass says what f, h, new X and new Y are."""

    temperature: float = 1.0
    """The temperature T of the target P ∝ exp(f/T)."""
    settings: GeneratorSettings
    """The settings of the generator that are known by name."""

    def __post_init__(self) -> None:
        """Raise if a value cannot be computed with."""
        checked_temperature(self.temperature)
        at_least("sampler__samples", self.settings.samples, 1)

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

    def new_x(self, x_UK: Tensor, log_b_UK: Tensor) -> Tensor:
        """Return the states of each context that follow from b."""
        raise NotImplementedError

    def new_y(self, y_IK: Tensor, log_d_IK: Tensor) -> Tensor:
        """Return the items of each state that follow from d."""
        raise NotImplementedError

    def log_target(self, s: Tensor) -> Tensor:
        """log P(i | c) up to a constant of the context."""
        return self.value(s) / self.temperature

    def __call__(self, generator: Decomposable, score: Score, *, seed: int, epoch: int) -> None:
        """Update X and rebuild its tables, then Y; each uses fresh draws for Z and μ."""
        at = Moment(generator, score, seed, epoch)
        log_b_UK = self.log_b(at, *self.partition_and_mean(at, part=0))
        generator.set_x(self.new_x(generator.x_UK, log_b_UK))
        if not generator.items_follow:
            return
        log_d_IK = self.log_d(at, *self.partition_and_mean(at, part=2))
        if generator.exchange.leads:
            generator.set_y(self.new_y(generator.y_IK, log_d_IK))

    def partition_and_mean(self, at: Moment, *, part: int) -> tuple[Tensor, Tensor]:
        """log Z_c = log Σ_i exp(f/T) and μ_c = E_P f, estimated with draws from Q(. | c)."""

        def of(users_B: Tensor) -> Tensor:
            items_BS = self._items(at, users_B, part)
            f_BS = self.value(at.score(users_B, items_BS))
            a_BS = f_BS / self.temperature - at.generator.log_q(users_B, items_BS)
            log_z_B = a_BS.logsumexp(dim=1) - math.log(self.settings.samples)
            mu_B = (a_BS.softmax(dim=1) * f_BS).sum(dim=1)
            return torch.stack((log_z_B, mu_B), dim=1)

        shape = len(at.generator.x_UK), 2
        log_z_U, mu_U = self._by_chunks(of, shape, at.generator).unbind(dim=1)
        return log_z_U.contiguous(), mu_U.contiguous()

    def log_b(self, at: Moment, log_z_U: Tensor, mu_U: Tensor) -> Tensor:
        """log b_ck = log mean_j [P(j|c)/Q(j|c)] h_j y_jk, j ~ Q(. | c): Eq. 9."""

        def of(users_B: Tensor) -> Tensor:
            items_BS = self._items(at, users_B, 1)
            f_BS = self.value(at.score(users_B, items_BS))
            log_q_BS = at.generator.log_q(users_B, items_BS)
            log_p_BS = f_BS / self.temperature - log_z_U[users_B][:, None]
            term_BS = log_p_BS - log_q_BS + self.log_h(f_BS, mu_U[users_B][:, None])
            if self.over_q:
                term_BS = term_BS - log_q_BS
            return log_average(term_BS, at.generator.y_IK, items_BS)

        return self._by_chunks(of, tuple(at.generator.x_UK.shape), at.generator)

    def log_d(self, at: Moment, log_z_U: Tensor, mu_U: Tensor) -> Tensor:
        """log d_ki = log mean_c [P(i|c)/Q(c|i)] h_c(i) x_ck, c ~ Q(c | i): Eq. 12."""
        x_UK, y_IK = at.generator.x_UK, at.generator.y_IK
        inverse = Inverse(at.generator)

        def of(items_B: Tensor) -> Tensor:
            draws = Draws(at.seed, Stream.GENERATOR_ITEMS, at.epoch, items_B[:, None])
            slots_S = torch.arange(self.settings.samples, device=items_B.device)
            users_BS = inverse.draw(items_B[:, None], draws, slots_S)
            items_BS = items_B[:, None].expand_as(users_BS)
            s_E = at.score(users_BS.reshape(-1), items_BS.reshape(-1, 1))
            f_BS = self.value(s_E.view(users_BS.shape))
            log_p_BS = f_BS / self.temperature - log_z_U[users_BS]
            term_BS = log_p_BS - inverse.log_q(items_B, users_BS) + self.log_h(f_BS, mu_U[users_BS])
            if self.over_q:
                term_BS = term_BS - log_mix(y_IK, items_B, x_UK, users_BS)
            return log_average(term_BS, x_UK, users_BS)

        return self._by_chunks(of, tuple(y_IK.shape), at.generator)

    def _items(self, at: Moment, users_B: Tensor, part: int) -> Tensor:
        """Draws from Q(. | c) for some contexts; each part of an update has separate slots."""
        draws = Draws(at.seed, Stream.GENERATOR_CONTEXTS, at.epoch, users_B[:, None])
        samples = self.settings.samples
        slots_S = part * samples + torch.arange(samples, device=users_B.device)
        return at.generator.draw(users_B[:, None], draws, slots_S)

    def _by_chunks(
        self, of: Callable[[Tensor], Tensor], shape: tuple[int, ...], generator: Decomposable
    ) -> Tensor:
        """Return the tensor of this shape of which ``of`` computes some rows.

        It computes as many rows at once as bounded memory holds. No row depends on another. On the
        CPU every chunk is computed by one thread that is free, so a thread that has to wait for a
        core holds up one chunk and not every operation.
        """
        device, exchange = generator.x_UK.device, generator.exchange
        most = _CHUNK if device.type == "cpu" else _CHUNK_ON_GPU
        each = self.settings.samples * generator.x_UK.shape[1]
        size = max(1, most // each)
        starts = range(0, max(1, shape[0]), size)
        ends = [min(shape[0], start + size) for start in starts]
        chunks: list[Tensor | None] = [None] * len(starts)
        own = exchange.own_chunks(len(starts))

        def part(first: int, last: int) -> None:
            with torch.no_grad():  # torch has one such switch for each thread
                for chunk in own[first:last]:
                    chunks[chunk] = of(torch.arange(starts[chunk], ends[chunk], device=device))

        on_threads(part, len(own), shape[0] * each, device)
        shapes = [(end - start, *shape[1:]) for start, end in zip(starts, ends, strict=True)]
        return torch.cat(exchange.collect(chunks, shapes))


class Inverse:
    """Q(c | i) = Σ_k P(k|i) P(c|k), with P(k|i) = y_ik / Σ_k y_ik and P(c|k) = x_ck / Σ_c x_ck.

    The tables are built once an update, from the X just updated and the Y about to be replaced.
    """

    def __init__(self, generator: Decomposable) -> None:
        self._state_of = AliasTables.of(generator.y_IK)
        self._context_of = AliasTables.of(generator.x_UK.T)
        self._p_state_IK = self._state_of.probability()
        self._p_context_UK = self._context_of.probability().T.contiguous()

    def draw(self, items: Tensor, draws: Draws, slots: Tensor) -> Tensor:
        """Draw contexts from Q(. | i), one for each (row, slot)."""
        return draw_through(self._state_of, self._context_of, items, draws, slots)

    def log_q(self, items_B: Tensor, users_BS: Tensor) -> Tensor:
        """log Q(c | i)."""
        return log_mix(self._p_state_IK, items_B, self._p_context_UK, users_BS)
