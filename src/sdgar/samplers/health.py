"""Measure a generator: how far its distributions spread, and how far Q is from its target."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from sdgar.contracts import Health, Score
from sdgar.maths.rng import Stream, sort_keys

Target = Callable[[Tensor], Tensor]

_ONE_HOT = 1.05
"""The perplexity below which a distribution has one entry to speak of."""
_UNIFORM = 0.999
"""The share of all entries above which a perplexity is that of a uniform distribution."""
_SAMPLED_CONTEXTS = 32
_SCORES_AT_ONCE = 1 << 21


def health(
    x_UK: Tensor, y_IK: Tensor, score: Score, *, target: Target | None, seed: int, epoch: int
) -> Health:
    """Return the perplexities of X and Y, and KL(P ‖ Q) in nats over a sample of contexts.

    P(. | c) is the softmax of ``target``, a function of the scores. A perplexity of 1 is a one-hot
    distribution; of the number of entries, a uniform one. There is a complaint if the generator has
    collapsed.
    """
    items, states = y_IK.shape
    x, y = perplexity(x_UK, dim=1), perplexity(y_IK, dim=0)
    numbers = {
        "x_perplexity": x,
        "states": float(states),
        "y_perplexity": y,
        "items": float(items),
    }
    line = f"X {x:.1f}/{states} · Y {y:,.0f}/{items:,}"
    if target is not None:
        kl = numbers["kl"] = _kl(x_UK, y_IK, score, target, seed, epoch)
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


def _kl(x_UK: Tensor, y_IK: Tensor, score: Score, target: Target, seed: int, epoch: int) -> float:
    """Return the mean over a sample of contexts of Σ_i P log(P/Q)."""
    n_items = len(y_IK)
    items_I = torch.arange(n_items, device=x_UK.device)
    keys_U = sort_keys(seed, Stream.HEALTH, epoch, torch.arange(len(x_UK)))
    sample_B = torch.argsort(keys_U, stable=True)[:_SAMPLED_CONTEXTS]
    divergences = []
    # As many contexts at a time as may be scored with all items at once.
    for contexts_B in sample_B.split(max(1, _SCORES_AT_ONCE // n_items)):  # type: ignore[no-untyped-call]
        users_B = contexts_B.to(items_I.device)
        s_BI = score(users_B, items_I.expand(len(users_B), -1))
        log_p_BI = target(s_BI).log_softmax(dim=1)
        log_q_BI = (x_UK[users_B] @ y_IK.T).log()
        divergences.append((log_p_BI.exp() * (log_p_BI - log_q_BI)).sum(dim=1))
    return float(torch.cat(divergences).mean())
