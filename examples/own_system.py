"""Your own system in one file: what it minimises, its settings, its parts and what a search tries.

Run it, or import it first and use its name in any command:

    python examples/own_system.py
    sdgar --import examples.own_system compare EVENTS --systems bpr,logistic-popular
    sdgar --import examples.own_system tune EVENTS --system logistic-popular
"""

import sdgar
from sdgar.extend import (
    OBJECTIVES,
    SAMPLERS,
    STEPS,
    Choice,
    Factorized,
    Ingredients,
    Objective,
    Sampler,
    register_system,
)


@register_system("logistic-popular", searched={**STEPS, "temperature": Choice((0.25, 0.5, 1.0))})
class LogisticPopular(Factorized):
    """Matrix factorization with weighted negatives that are drawn by popularity.

        Σ_{(c,i) ∈ S} ½ [softplus(-g(c, i)) + Σ_j w_j f_j],   f_j = softplus(g(c, j))

    with w_j ∝ exp(f_j / T) / Q(j) and Q(j) the share of users that item j has.
    """

    n_negatives: int = 5
    """How many negatives are drawn for each positive."""
    temperature: float = 0.5
    """The temperature T: a small one lets the hardest negatives count most."""

    def _make_objective(self, given: Ingredients) -> Objective:
        """The logistic loss, whose negatives have importance weights."""
        return OBJECTIVES["sdgar"](given, temperature=self.temperature)

    def _make_sampler(self, given: Ingredients) -> Sampler:
        """Items in proportion to the number of their users."""
        return SAMPLERS["popularity"](given)


def main() -> dict[str, float]:
    """NDCG@10 of the own system and of BPR, on the same rows."""
    parts = sdgar.split(sdgar.synthetic("demo"), "paper", seed=0)
    loop = {"epochs": 8, "early_stopping": False}
    models = {"bpr": sdgar.BPR(**loop), "logistic-popular": LogisticPopular(**loop)}
    return {
        name: model.fit(parts.train).evaluate(parts.held_out).means()["ndcg@10"]
        for name, model in models.items()
    }


if __name__ == "__main__":
    for name, value in main().items():
        print(f"{name}: NDCG@10 {value:.4f}")
