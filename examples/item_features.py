"""Two towers that see features: items of a kind help each other.

Run: python examples/item_features.py
"""

import numpy as np

import sdgar


def films() -> tuple[sdgar.Interactions, sdgar.Features]:
    """Synthetic events of users who like two of twelve genres; most items are rare."""
    rng = np.random.default_rng(0)
    genre = rng.integers(0, 12, 2000)
    tastes = rng.integers(0, 12, (500, 2))
    pairs = [
        (user, item)
        for user, liked in enumerate(tastes)
        for item in rng.choice(np.flatnonzero(np.isin(genre, liked)), 12, replace=False)
    ]
    return sdgar.Interactions.from_arrays(*zip(*pairs, strict=True)), sdgar.Features.from_columns(
        list(range(2000)), {"genre": genre.tolist()}
    )


def main() -> dict[str, float]:
    """NDCG@10 without and with the features of items."""
    events, features = films()
    parts = sdgar.split(events, "paper", seed=0)
    found = {}
    for name, known in (("ids only", None), ("with genres", features)):
        model = sdgar.Composed(discriminator="two-tower", dim=16, epochs=20, early_stopping=False)
        model.fit(parts.train.with_features(None, known))
        found[name] = model.evaluate(parts.held_out).means()["ndcg@10"]
    return found


if __name__ == "__main__":
    for name, value in main().items():
        print(f"{name}: NDCG@10 {value:.4f}")
