"""The order of events as context: a self-attentive model with negatives from a coarser generator.

Run: python examples/sequences.py
"""

import numpy as np

import sdgar


def walks(n_users: int = 200, n_items: int = 40, steps: int = 8) -> sdgar.Interactions:
    """Synthetic events: everybody walks a circle of items, each from another place.

    At times two steps at once. What comes next depends on the last item, not on the user.
    """
    rng = np.random.default_rng(0)
    pace = rng.choice((1, 2), (n_users, steps), p=(0.9, 0.1)).cumsum(axis=1)
    items = (rng.integers(0, n_items, (n_users, 1)) + pace) % n_items
    users = np.repeat(np.arange(n_users), steps)
    return sdgar.Interactions.from_arrays(
        users, items.reshape(-1), time=np.tile(np.arange(steps), n_users)
    )


def main() -> dict[str, float]:
    """NDCG@10 of the last event of everyone, and what comes next for someone new."""
    parts = sdgar.split(walks(), "leave-last-out")
    found = {}
    for discriminator in ("cosine", "sequence"):
        model = sdgar.Composed(
            discriminator=discriminator, sampler="decomposable", objective="sdsoftmax", dim=32,
            epochs=15, early_stopping=False, learning_rate=0.01, batch_size=256,
        )  # fmt: skip
        model.fit(parts.train)
        found[discriminator] = model.evaluate(parts.held_out).means()["ndcg@10"]
    someone_new = model.recommend(history=[3, 4, 5], k=1)["item"][0]
    return found | {"after 3, 4, 5": someone_new}


if __name__ == "__main__":
    for name, value in main().items():
        print(f"{name}: {value}")
