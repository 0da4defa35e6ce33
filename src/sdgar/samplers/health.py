"""How a generator is: spread of its states and items, and its distance from the target."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from sdgar.contracts import Score
from sdgar.maths.rng import Stream, sort_keys

if TYPE_CHECKING:
    from sdgar.samplers.decomposable import Decomposable

Target = Callable[[Tensor], Tensor]

_LEAST_RECALL = 0.5
_SAMPLED_CONTEXTS = 32
_SCORES_AT_ONCE = 1 << 21


def health(
    generator: Decomposable, score: Score, *, target: Target | None, seed: int, epoch: int
) -> dict[str, float]:
    """Perplexities of X and Y, and KL(P ‖ Q) in nats over a sample of contexts, all items.

    P(. | c) is the softmax of ``target``, a function of the scores.

    A perplexity of 1 is a one-hot distribution; of the number of entries, a uniform one.
    """
    found = {
        "x_perplexity": _perplexity(generator.x_UK, dim=1),
        "states": float(generator.x_UK.shape[1]),
        "y_perplexity": _perplexity(generator.y_IK, dim=0),
        "items": float(generator.y_IK.shape[0]),
    }
    if target is not None:
        found["kl"] = _kl(generator, score, target, seed, epoch)
    return found


def complaint(found: dict[str, float]) -> str | None:
    """What is wrong with a generator, and which hyper-parameter to move; None if nothing is."""
    if not found:
        return None
    for part, perplexity, most, cure in _parts(found):
        if most > 1 and perplexity < 1.05:
            return (
                f"the generator has collapsed: {part} is one-hot (perplexity {perplexity:.2f} of "
                f"{most:,.0f}), so proposals hardly vary. {cure}."
            )
    if found.get("recall", 1.0) < _LEAST_RECALL:
        return (
            f"the index finds only {found['recall']:.0%} of the {found['near']:.0f} best items of "
            "a context, so proposals are not what they claim to be. Set sampler.index to exact."
        )
    if "states" not in found:
        return None
    x_idle = found["x_perplexity"] > 0.999 * found["states"]
    y_idle = found["y_perplexity"] > 0.999 * found["items"]
    if found["states"] > 1 and x_idle and y_idle:
        return (
            "the generator is inert: its proposals are uniform (perplexities "
            f"{found['x_perplexity']:.1f} of {found['states']:.0f} states and "
            f"{found['y_perplexity']:,.0f} of {found['items']:,.0f} items). Lower lambda_x and "
            'lambda_y, and use calibration="line" if it is another.'
        )
    return None


def _parts(found: dict[str, float]) -> list[tuple[str, float, float, str]]:
    """Each distribution of the generator: its perplexity, the most it could be, and a cure."""
    if "perplexity" in found:
        return [("Q(. | c)", found["perplexity"], found["items"], "Lower generator_rate")]
    if "states" not in found:
        return []
    return [
        ("x_c", found["x_perplexity"], found["states"], "Raise lambda_x, or floor_x"),
        ("y_k", found["y_perplexity"], found["items"], "Raise lambda_y, or floor_y"),
    ]


def _perplexity(p: Tensor, *, dim: int) -> float:
    """Mean over the distributions of exp(entropy)."""
    entropy = -torch.xlogy(p, p).sum(dim=dim)
    return float(entropy.exp().mean())


def _kl(generator: Decomposable, score: Score, target: Target, seed: int, epoch: int) -> float:
    """Mean over a sample of contexts of Σ_i P log(P/Q)."""
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
