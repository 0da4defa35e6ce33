"""The closed-form alternating update of the generator (Eq. 9, 11 and 12).

With f = softplus(g), P(i | c) ∝ exp(f_c(i)/T) and h = |f - μ_c| (as printed) or h = f:

    b_c  = Σ_i y_i P(i|c) h_c(i)          x_c = softmax(b_c / λ_X)          Eq. 9
    d_ki = Σ_c x_ck P(i|c) h_c(i)         y_k = softmax(d_k / λ_Y)          Eq. 11

Sums over items are self-normalised importance sampling with draws from Q(. | c); sums over
contexts use one set of draws from Q(c | i) for all k (Eq. 12). Everything is in the log domain,
in chunks of bounded memory.

Entries of Y are about 1/M, so with λ of order 1 taken literally softmax(b/λ) is uniform to many
digits and the update does nothing. ``calibration="relative"`` measures λ in units of b: the mean
over contexts of max_k b_ck (over states of max_i d_ki); ``"line"`` takes each line's own maximum
instead, so that one overestimated line cannot flatten all others. ``"literal"`` is as printed.

``target="kl"`` divides the integrand by Q(i|c), which makes b and d the gradient of
Σ_c Σ_i P h log Q, a projection; ``"linear"`` is Eq. 7 as printed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor
from torch.nn.functional import softplus

from sdgar.contracts import Score
from sdgar.errors import UsageError
from sdgar.rng import Draws, Stream
from sdgar.samplers import mixtures
from sdgar.samplers.alias import AliasTables

if TYPE_CHECKING:
    from sdgar.samplers.decomposable import Decomposable

Target = Literal["kl", "linear"]
Integrand = Literal["loss", "deviation"]
Calibration = Literal["relative", "line", "literal"]

_CHUNK, _CHUNK_ON_GPU = 1 << 24, 1 << 28
"""Numbers in the largest intermediate of a chunk; on a GPU fewer only cost launches."""

LEAST_TEMPERATURE, MOST_TEMPERATURE = 1e-3, 1e3
LEAST_LAMBDA, MOST_LAMBDA = 1e-4, 1e4


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedForm:
    """How the generator follows the discriminator."""

    temperature: float
    lambda_x: float
    lambda_y: float
    samples: int
    """Draws for each context, and for each item."""
    target: Target
    integrand: Integrand
    calibration: Calibration

    def __post_init__(self) -> None:
        """Refuse what cannot be computed."""
        within("temperature", self.temperature, LEAST_TEMPERATURE, MOST_TEMPERATURE)
        within("lambda_x", self.lambda_x, LEAST_LAMBDA, MOST_LAMBDA)
        within("lambda_y", self.lambda_y, LEAST_LAMBDA, MOST_LAMBDA)
        if self.samples < 1:
            raise UsageError(f"the generator needs at least 1 sample, got {self.samples}.")

    def __call__(self, generator: Decomposable, score: Score, *, seed: int, epoch: int) -> None:
        """Update X and rebuild its tables, then Y: Z and μ come from draws of their own."""
        log_z_U, mu_U = self.partition_and_mean(generator, score, seed, epoch, part=0)
        log_b_UK = self.log_b(generator, score, log_z_U, mu_U, seed, epoch)
        generator.set_x(self.sharpen(log_b_UK, self.lambda_x, generator.x_UK, dim=1))
        log_z_U, mu_U = self.partition_and_mean(generator, score, seed, epoch, part=2)
        log_d_IK = self.log_d(generator, score, log_z_U, mu_U, seed, epoch)
        generator.set_y(self.sharpen(log_d_IK, self.lambda_y, generator.y_IK, dim=0))

    def partition_and_mean(
        self, generator: Decomposable, score: Score, seed: int, epoch: int, *, part: int
    ) -> tuple[Tensor, Tensor]:
        """Log Z_c = log Σ_i exp(f/T) and μ_c = E_P f, estimated with draws from Q(. | c)."""
        log_z, mu = [], []
        for users_B, items_BS in self._items(generator, seed, epoch, part):
            f_BS = softplus(score(users_B, items_BS))
            a_BS = f_BS / self.temperature - generator.log_q(users_B, items_BS)
            log_z.append(a_BS.logsumexp(dim=1) - math.log(self.samples))
            mu.append((a_BS.softmax(dim=1) * f_BS).sum(dim=1))
        return torch.cat(log_z), torch.cat(mu)

    def log_b(
        self,
        generator: Decomposable,
        score: Score,
        log_z_U: Tensor,
        mu_U: Tensor,
        seed: int,
        epoch: int,
    ) -> Tensor:
        """Log b_ck = log mean_j [P(j|c)/Q(j|c)] h_j y_jk, j ~ Q(. | c): Eq. 9."""
        rows = []
        for users_B, items_BS in self._items(generator, seed, epoch, 1):
            f_BS = softplus(score(users_B, items_BS))
            log_q_BS = generator.log_q(users_B, items_BS)
            log_p_BS = f_BS / self.temperature - log_z_U[users_B][:, None]
            term_BS = log_p_BS - log_q_BS + self._log_h(f_BS, mu_U[users_B][:, None])
            if self.target == "kl":
                term_BS = term_BS - log_q_BS
            rows.append(mixtures.log_average(term_BS, generator.y_IK, items_BS))
        return torch.cat(rows)

    def log_d(
        self,
        generator: Decomposable,
        score: Score,
        log_z_U: Tensor,
        mu_U: Tensor,
        seed: int,
        epoch: int,
    ) -> Tensor:
        """Log d_ki = log mean_c [P(i|c)/Q(c|i)] h_c(i) x_ck, c ~ Q(c | i): Eq. 12."""
        inverse = Inverse(generator)
        rows = []
        for items_B in self._chunks(len(generator.y_IK), generator):
            draws = Draws(seed, Stream.GENERATOR_ITEMS, epoch, items_B[:, None])
            slots_S = torch.arange(self.samples, device=items_B.device)
            users_BS = inverse.draw(items_B[:, None], draws, slots_S)
            items_BS = items_B[:, None].expand_as(users_BS)
            f_BS = softplus(
                score(users_BS.reshape(-1), items_BS.reshape(-1, 1)).view(users_BS.shape)
            )
            log_p_BS = f_BS / self.temperature - log_z_U[users_BS]
            term_BS = (
                log_p_BS - inverse.log_q(items_B, users_BS) + self._log_h(f_BS, mu_U[users_BS])
            )
            if self.target == "kl":
                term_BS = term_BS - mixtures.log_mix(
                    generator.y_IK, items_B, generator.x_UK, users_BS
                )
            rows.append(mixtures.log_average(term_BS, generator.x_UK, users_BS))
        return torch.cat(rows)

    def sharpen(self, log_b: Tensor, lam: float, before: Tensor, *, dim: int) -> Tensor:
        """softmax(b / λ) along ``dim``, with λ in the unit that the calibration says.

        A line (row of X or column of Y) whose b is not finite or is all 0 stays as it was, and
        does not count in a mean: one bad line must not spoil the others.
        """
        top = log_b.amax(dim=dim, keepdim=True)
        usable = torch.isfinite(top)
        if not usable.any():
            return before
        if self.calibration == "line":
            unit = top
        elif self.calibration == "relative":
            best = top[usable].max()
            unit = (top[usable] - best).exp().mean().log() + best
        else:
            unit = torch.zeros((), device=log_b.device)
        # Measured from the largest b of the line, so that no b/λ is too large for a float.
        scale = (top - unit - math.log(lam)).clamp(max=_LARGEST_EXPONENT).exp()
        # Only along the last axis torch adds up in one order for any number of threads.
        raised = (scale * (log_b - top).expm1()).transpose(dim, -1).contiguous()
        weight = raised.softmax(dim=-1).transpose(dim, -1)
        # An entry must not underflow to 0: what Q cannot draw, no importance weight can mend
        # (Proposition 2.1). The alias table gives the least positive weight one quantum.
        return torch.where(usable, weight.clamp(min=torch.finfo(weight.dtype).tiny), before)

    def _log_h(self, f: Tensor, mu: Tensor) -> Tensor:
        if self.integrand == "deviation":
            return (f - mu).abs().log()
        # log softplus(g) for very negative g is g itself, but f has underflowed by then; such an
        # item has no weight in any sum, which log 0 = -inf says as well.
        return f.log()

    def _items(
        self, generator: Decomposable, seed: int, epoch: int, part: int
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Draws from Q(. | c) for all contexts in chunks; each part has slots of its own."""
        for users_B in self._chunks(len(generator.x_UK), generator):
            draws = Draws(seed, Stream.GENERATOR_CONTEXTS, epoch, users_B[:, None])
            slots_S = part * self.samples + torch.arange(self.samples, device=users_B.device)
            yield users_B, generator.draw(users_B[:, None], draws, slots_S)

    def _chunks(self, n: int, generator: Decomposable) -> tuple[Tensor, ...]:
        most = _CHUNK if generator.x_UK.device.type == "cpu" else _CHUNK_ON_GPU
        size = max(1, most // (self.samples * generator.x_UK.shape[1]))
        return torch.arange(n, device=generator.x_UK.device).split(size)  # type: ignore[no-untyped-call,no-any-return]


_LARGEST_EXPONENT = 80.0
"""exp of it is finite in float32, and a softmax that spreads so far is one-hot."""


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
        """Contexts from Q(. | i), one for each (row, slot)."""
        return mixtures.draw(self._state_of, self._context_of, items, draws, slots)

    def log_q(self, items_B: Tensor, users_BS: Tensor) -> Tensor:
        """Log Q(c | i)."""
        return mixtures.log_mix(self._p_state_IK, items_B, self._p_context_UK, users_BS)


def within(name: str, value: float, least: float, most: float) -> float:
    """Return ``value`` if it lies in the range that was tried."""
    if not least <= value <= most:
        raise UsageError(
            f"{name} must lie between {least:g} and {most:g}, got {value}.", code=f"bad_{name}"
        )
    return value
