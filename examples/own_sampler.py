"""Your own negative sampler in some twenty lines: half by popularity, half anything.

Run: python examples/own_sampler.py
"""

import torch

import sdgar
from sdgar.extend import (
    Draws,
    Ingredients,
    Negatives,
    Positives,
    Static,
    redraw_known,
    register_sampler,
)


class HalfPopular(Static):
    """Q(i) = share · n_i / Σ_j n_j + (1 - share) / M, the same for every context."""

    def __init__(self, count_I: torch.Tensor, share: float) -> None:
        q_I = share * count_I / count_I.sum() + (1 - share) / len(count_I)
        self.log_q_I, self.sum_I = q_I.log(), q_I.double().cumsum(0)

    def draw(self, users: torch.Tensor, draws: Draws, slots: torch.Tensor) -> torch.Tensor:
        """One item for each (row, slot). Numbers are addressed, so any batch draws the same."""
        word, *_ = draws.words(slots)
        return torch.searchsorted(self.sum_I, word / 2**32).clamp(max=len(self.sum_I) - 1)

    def sample(self, positives: Positives, n: int) -> Negatives:
        """N items a row, known positives drawn again; log Q is what importance weights need."""
        items_BN, accepted_BN = redraw_known(self.draw, positives, n)
        return Negatives(items_BN, accepted_BN, self.log_q_I[items_BN])


@register_sampler("half-popular")
def half_popular(given: Ingredients, *, share: float = 0.5) -> HalfPopular:
    """Made from the training data and the settings."""
    count_I = torch.from_numpy(given.data.items_E).long().bincount(minlength=given.data.n_items)
    return HalfPopular(count_I.float(), share)


def main() -> dict[str, float]:
    """NDCG@10 with it and with uniform negatives, all else the same."""
    parts = sdgar.split(sdgar.synthetic("demo"), "paper", seed=0)
    found = {}
    for sampler in ("uniform", "half-popular"):
        model = sdgar.Composed(
            sampler=sampler, objective="sdsoftmax", n_negatives=8, epochs=5, early_stopping=False
        )
        model.fit(parts.train)
        found[sampler] = model.evaluate(parts.held_out).means()["ndcg@10"]
    return found


if __name__ == "__main__":
    for name, value in main().items():
        print(f"{name}: NDCG@10 {value:.4f}")
