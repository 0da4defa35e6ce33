"""Negatives near the best item of a context, by maximum inner product search.

Needs the extra ``ann``. Run: python examples/search_proposals.py
"""

import sdgar


def main() -> dict[str, float]:
    """NDCG@10 by how much of the draws is uniform: the nearer to the top, the more false ones."""
    parts = sdgar.split(sdgar.synthetic("demo"), "paper", seed=0)
    found = {}
    for explore in (0.0, 0.5, 1.0):
        model = sdgar.Composed(
            discriminator="factorization", sampler="search", objective="bpr", n_negatives=1,
            optimizer="adagrad", learning_rate=0.1, l2=0.02, epochs=5, early_stopping=False,
            sampler__index="hnsw", sampler__near=20, sampler__explore=explore,
        )  # fmt: skip
        model.fit(parts.train)
        found[f"{explore:.0%} uniform"] = model.evaluate(parts.held_out).means()["ndcg@10"]
    return found


if __name__ == "__main__":
    for name, value in main().items():
        print(f"{name}: NDCG@10 {value:.4f}")
