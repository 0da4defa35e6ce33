"""Your own torch module as the discriminator, with negatives that are learned for it.

Run: python examples/own_model.py
"""

import torch

import sdgar


@sdgar.register_discriminator("bilinear")
class Bilinear(torch.nn.Module):
    """s(c, i) = u_c' W v_i. Any module with ``score`` and ``vectors`` will do."""

    def __init__(self, n_users: int, n_items: int, *, dim: int = 32) -> None:
        super().__init__()
        self.user = torch.nn.Embedding(n_users, dim)
        self.item = torch.nn.Embedding(n_items, dim)
        self.between = torch.nn.Linear(dim, dim, bias=False)
        for table in (self.user, self.item):
            torch.nn.init.normal_(table.weight, std=0.1)

    def score(self, users_B: torch.Tensor, items_BN: torch.Tensor) -> torch.Tensor:
        """s_BN of N items for each context, with a gradient."""
        return (self.between(self.user(users_B))[:, None] * self.item(items_BN)).sum(dim=2)

    def vectors(self) -> tuple[torch.Tensor, torch.Tensor]:
        """What scores come down to, for ranking and for saving: no code is saved."""
        return self.between(self.user.weight), self.item.weight


def main() -> dict[str, float]:
    """NDCG@10 with uniform negatives and with negatives of the generator."""
    parts = sdgar.split(sdgar.synthetic("demo"), "paper", seed=0)
    found = {}
    for sampler in ("uniform", "decomposable"):
        model = sdgar.Composed(
            discriminator="bilinear", sampler=sampler, objective="sdgar", n_negatives=5, epochs=15,
            early_stopping=False, learning_rate=0.01,
        )  # fmt: skip
        model.fit(parts.train)
        found[sampler] = model.evaluate(parts.held_out).means()["ndcg@10"]
    return found


if __name__ == "__main__":
    for name, value in main().items():
        print(f"{name}: NDCG@10 {value:.4f}")
