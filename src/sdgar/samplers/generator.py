"""The protocols of a decomposable generator and of its updates, and how a generator is measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

import torch
from torch import Tensor

from sdgar.contracts import Health, Score
from sdgar.maths.rng import Stream, sort_keys

if TYPE_CHECKING:
    from sdgar.maths.rng import Draws
    from sdgar.samplers.alias import AliasTables


class Exchange(Protocol):
    """How several processes divide the work of an update of the generator."""

    @property
    def leads(self) -> bool:
        """True in the one process that changes what belongs to items."""
        ...

    def own_chunks(self, count: int) -> range:
        """Return the numbers of the chunks that this process computes, of so many."""
        ...

    def collect(
        self, chunks: list[Tensor | None], shapes: Sequence[tuple[int, ...]]
    ) -> list[Tensor]:
        """Return the chunks of all processes, which have these shapes."""
        ...


class OneProcess:
    """The exchange of a process that computes everything by itself."""

    leads = True

    def own_chunks(self, count: int) -> range:
        """Return the numbers of all chunks."""
        return range(count)

    def collect(
        self, chunks: list[Tensor | None], shapes: Sequence[tuple[int, ...]]
    ) -> list[Tensor]:
        """Return the chunks, all of which were computed here."""
        return [chunk for chunk in chunks if chunk is not None]


class Mixture(Protocol):
    """Q(i | c) = Σ_k x_ck y_ik, drawn from by alias tables."""

    items_follow: bool
    """Whether an update moves Y too, or X alone."""
    exchange: Exchange
    """How the processes that compute an update together divide it."""

    @property
    def x_UK(self) -> Tensor:
        """P(k | c): the states of each context."""
        ...

    @property
    def y_IK(self) -> Tensor:
        """P(i | k): the items of each state."""
        ...

    @property
    def state_of(self) -> AliasTables:
        """The tables that states are drawn from, one for each context."""
        ...

    @property
    def item_of(self) -> AliasTables:
        """The tables that items are drawn from, one for each state."""
        ...

    def draw(self, users: Tensor, draws: Draws, slots: Tensor) -> Tensor:
        """Draw items from Q(. | c), one for each (row, slot)."""
        ...

    def log_q(self, users_B: Tensor, items_BN: Tensor) -> Tensor:
        """log Q(i | c) = log Σ_k x_ck y_ik."""
        ...

    def set_x(self, weight_UK: Tensor) -> None:
        """Set the states of the contexts, in proportion to these weights."""
        ...

    def set_y(self, weight_IK: Tensor) -> None:
        """Set the items of the states, in proportion to these weights."""
        ...

    def permute_x(self, other_U: Tensor) -> None:
        """Set the states of context u to the states of context ``other_U[u]``."""
        ...


class Update(Protocol):
    """A rule by which a generator follows the scores of the discriminator."""

    @property
    def log_target(self) -> Callable[[Tensor], Tensor] | None:
        """log P(i | c) of a score, up to a constant of the context; None without a target."""
        ...

    def __call__(self, generator: Mixture, score: Score, *, seed: int, epoch: int) -> None:
        """Move the generator towards the scores."""
        ...


@dataclass(frozen=True, slots=True)
class Frozen:
    """The update that leaves the generator as it began, at random."""

    log_target: ClassVar[None] = None

    def __call__(self, generator: Mixture, score: Score, *, seed: int, epoch: int) -> None:
        """Leave the generator as it is."""


@dataclass(frozen=True, slots=True)
class Scrambled:
    """The update that gives every context the states of another one.

    This leaves what the generator is worth when it is fitted, but not to the context at hand.
    """

    update: Update
    """The update whose states are scrambled."""

    def log_target(self, s: Tensor) -> Tensor:
        """log P(i | c) of the update whose states are then scrambled."""
        assert self.update.log_target is not None
        return self.update.log_target(s)

    def __call__(self, generator: Mixture, score: Score, *, seed: int, epoch: int) -> None:
        """Update the generator, then deal the states to other contexts."""
        self.update(generator, score, seed=seed, epoch=epoch)
        rows = torch.arange(len(generator.x_UK), device=generator.x_UK.device)
        generator.permute_x(
            torch.argsort(sort_keys(seed, Stream.SCRAMBLE, epoch, rows), stable=True)
        )


Target = Callable[[Tensor], Tensor]

_ONE_HOT = 1.05
"""The perplexity below which a distribution has one entry to speak of."""
_UNIFORM = 0.999
"""The share of all entries above which a perplexity is that of a uniform distribution."""
_SAMPLED_CONTEXTS = 32
_SCORES_AT_ONCE = 1 << 21


def health(
    generator: Mixture, score: Score, *, target: Target | None, seed: int, epoch: int
) -> Health:
    """Return the perplexities of X and Y, and KL(P ‖ Q) in nats over a sample of contexts.

    P(. | c) is the softmax of ``target``, a function of the scores.

    A perplexity of 1 is a one-hot distribution; of the number of entries, a uniform one.
    """
    y, items = perplexity(generator.y_IK, dim=0), generator.y_IK.shape[0]
    kl = None if target is None else _kl(generator, score, target, seed, epoch)
    return described(generator.x_UK, y, items, kl)


def described(x_UK: Tensor, y: float, items: int, kl: float | None) -> Health:
    """Return the numbers of a generator, in words too, with a complaint if it has collapsed.

    ``y`` is the mean perplexity of the items of a state.
    """
    x, states = perplexity(x_UK, dim=1), x_UK.shape[1]
    numbers = {
        "x_perplexity": x,
        "states": float(states),
        "y_perplexity": y,
        "items": float(items),
    }
    line = f"X {x:.1f}/{states} · Y {y:,.0f}/{items:,}"
    if kl is not None:
        numbers["kl"] = kl
        line += f" · KL {kl:.2f}"
    wrong = (
        collapsed("x_c", x, states, "Raise sampler__lambda_x or sampler__floor_x")
        or collapsed("y_k", y, items, "Raise sampler__lambda_y or sampler__floor_y")
        or _inert(x, states, y, items)
    )
    return Health(numbers, line, wrong)


def collapsed(part: str, perplexity: float, most: int, cure: str) -> str | None:
    """Return a complaint, with a cure, if a distribution of the generator is one-hot; else None."""
    if most <= 1 or perplexity >= _ONE_HOT:
        return None
    return (
        f"the generator has collapsed: {part} is one-hot (perplexity {perplexity:.2f} of "
        f"{most:,}), so proposals hardly vary. {cure}."
    )


def _inert(x: float, states: int, y: float, items: int) -> str | None:
    if states <= 1 or x <= _UNIFORM * states or y <= _UNIFORM * items:
        return None
    return (
        f"the generator is inert: its proposals are uniform (perplexities {x:.1f} of {states} "
        f"states and {y:,.0f} of {items:,} items). Lower lambda_x and lambda_y, and use "
        'sampler__calibration="line" if it is another.'
    )


def perplexity(p: Tensor, *, dim: int) -> float:
    """Return the mean over the distributions of exp(entropy)."""
    entropy = -torch.xlogy(p, p).sum(dim=dim)
    return float(entropy.exp().mean())


def _kl(generator: Mixture, score: Score, target: Target, seed: int, epoch: int) -> float:
    """Return the mean over a sample of contexts of Σ_i P log(P/Q)."""
    n_items = len(generator.y_IK)
    items_I = torch.arange(n_items, device=generator.x_UK.device)
    divergences = []
    for contexts_B in sampled_contexts(len(generator.x_UK), n_items, seed, epoch):
        users_B = contexts_B.to(items_I.device)
        s_BI = score(users_B, items_I.expand(len(users_B), -1))
        log_p_BI = target(s_BI).log_softmax(dim=1)
        log_q_BI = (generator.x_UK[users_B] @ generator.y_IK.T).log()
        divergences.append((log_p_BI.exp() * (log_p_BI - log_q_BI)).sum(dim=1))
    return float(torch.cat(divergences).mean())


def sampled_contexts(n_users: int, n_items: int, seed: int, epoch: int) -> tuple[Tensor, ...]:
    """Return a sample of contexts, as many at a time as may be scored with all items at once."""
    keys_U = sort_keys(seed, Stream.HEALTH, epoch, torch.arange(n_users))
    order_U = torch.argsort(keys_U, stable=True)[:_SAMPLED_CONTEXTS]
    parts: tuple[Tensor, ...] = order_U.split(max(1, _SCORES_AT_ONCE // n_items))  # type: ignore[no-untyped-call]
    return parts
