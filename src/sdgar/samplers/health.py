"""Measure a generator: the spread of its states and items, and its distance from the target."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from sdgar.contracts import Health, Score
from sdgar.maths.rng import Stream, sort_keys
from sdgar.samplers.generator import Mixture

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
    x, states = _perplexity(generator.x_UK, dim=1), generator.x_UK.shape[1]
    y, items = _perplexity(generator.y_IK, dim=0), generator.y_IK.shape[0]
    numbers = {
        "x_perplexity": x,
        "states": float(states),
        "y_perplexity": y,
        "items": float(items),
    }
    line = f"X {x:.1f}/{states} · Y {y:,.0f}/{items:,}"
    if target is not None:
        numbers["kl"] = _kl(generator, score, target, seed, epoch)
        line += f" · KL {numbers['kl']:.2f}"
    wrong = (
        collapsed("x_c", x, states, "Raise lambda_x, or floor_x")
        or collapsed("y_k", y, items, "Raise lambda_y, or floor_y")
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
        'calibration="line" if it is another.'
    )


def _perplexity(p: Tensor, *, dim: int) -> float:
    """Return the mean over the distributions of exp(entropy)."""
    entropy = -torch.xlogy(p, p).sum(dim=dim)
    return float(entropy.exp().mean())


def _kl(generator: Mixture, score: Score, target: Target, seed: int, epoch: int) -> float:
    """Return the mean over a sample of contexts of Σ_i P log(P/Q)."""
    n_users, n_items = len(generator.x_UK), len(generator.y_IK)
    users_U = torch.arange(n_users, device=generator.x_UK.device)
    order_U = torch.argsort(sort_keys(seed, Stream.HEALTH, epoch, users_U), stable=True)
    items_I = torch.arange(n_items, device=users_U.device)
    divergences = []
    at_once = max(1, _SCORES_AT_ONCE // n_items)
    for users_B in order_U[:_SAMPLED_CONTEXTS].split(at_once):  # type: ignore[no-untyped-call]
        s_BI = score(users_B, items_I.expand(len(users_B), -1))
        log_p_BI = target(s_BI).log_softmax(dim=1)
        log_q_BI = (generator.x_UK[users_B] @ generator.y_IK.T).log()
        divergences.append((log_p_BI.exp() * (log_p_BI - log_q_BI)).sum(dim=1))
    return float(torch.cat(divergences).mean())
