"""How rows move on a GPU, one function for each class of optimiser.

``first`` and ``second`` point to the state that an optimiser keeps for each parameter.
"""

from __future__ import annotations

import triton
import triton.language as tl

SGD, LAZY_ADAM, ROW_ADAGRAD = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2)
"""The kinds of step, named like the classes of optimisers."""


@triton.jit
def lazy_adam(theta, g, first, second, wanted, rate, correct, beta1, gain1, beta2, gain2, epsilon):
    """θ - η m / (√v · correct + ε), with m ← β₁ m + (1 - β₁) g and v ← β₂ v + (1 - β₂) g².

    ``rate`` is η / (1 - β₁ᵗ) and ``correct`` is 1 / √(1 - β₂ᵗ).
    """
    # ``gain`` is 1 - β from the host, which taken in float32 would lose four digits.
    m = beta1 * tl.load(first, mask=wanted, other=0.0) + gain1 * g
    v = beta2 * tl.load(second, mask=wanted, other=0.0) + gain2 * g * g
    tl.store(first, m, mask=wanted)
    tl.store(second, v, mask=wanted)
    return theta - rate * m / (tl.sqrt_rn(v) * correct + epsilon)


@triton.jit
def row_adagrad(theta, g, second, wanted, rate, epsilon, D: tl.constexpr):
    """θ - η g / (√a + ε), with a ← a + mean_d g_d², one number for each row of D numbers."""
    a = tl.load(second, mask=wanted, other=0.0) + tl.sum(g * g, axis=1) / D
    tl.store(second, a, mask=wanted)
    return theta - rate * g / (tl.sqrt_rn(a)[:, None] + epsilon)


@triton.jit
def adagrad(theta, g, second, wanted, rate, epsilon):
    """θ - η g / (√a + ε), with a ← a + g²: ``row_adagrad`` for rows of one number."""
    a = tl.load(second, mask=wanted, other=0.0) + g * g
    tl.store(second, a, mask=wanted)
    return theta - rate * g / (tl.sqrt_rn(a) + epsilon)
