"""Items that were not there in training: found by their genre, and better by their first events.

Run: python examples/new_items.py
"""

import numpy as np

import sdgar


def films() -> tuple[sdgar.Interactions, sdgar.Features]:
    """Synthetic events of users who like films of two genres and of about one length."""
    rng = np.random.default_rng(0)
    genre, length = rng.integers(0, 8, 400), rng.normal(size=400)
    pairs = []
    for user in range(400):
        liked = np.isin(genre, rng.integers(0, 8, 2))
        weight = liked * np.exp(-2 * (length - rng.normal()) ** 2)
        own = rng.choice(400, 12, replace=False, p=weight / weight.sum())
        pairs += [(user, item) for item in own]
    features = {"genre": genre.tolist()}
    return (
        sdgar.Interactions.from_arrays(*zip(*pairs, strict=True)),
        sdgar.Features.from_columns(list(range(400)), features),
    )


def main() -> dict[str, float]:
    """NDCG@20 among films that the model was not trained with."""
    events, features = films()
    train, test = sdgar.split(events, "items:0.1", seed=0)
    model = sdgar.IALS(dim=16).fit(train)

    # The table has the features of all films. Those without events are cold from now on.
    by_genre = model.add_items(features=features)
    cold = by_genre.cold_items

    # Later, five users have seen each of them. Their other rows are still to be found.
    is_cold = np.isin(test.items.values[test.items_E], cold)
    place = np.zeros(len(test), int)
    for item in np.unique(test.items_E[is_cold]):
        place[test.items_E == item] = np.arange((test.items_E == item).sum())
    first, rest = test[is_cold & (place < 5)], test[is_cold & (place >= 5)]
    by_both = by_genre.add_items(first, skip_unknown=True)

    # Most popular has no events of them, and ranks them in the order of their ids.
    at_random = sdgar.MostPopular().fit(train).add_items(features=features)
    models = {
        "at random": at_random, "by genre": by_genre, "by genre and five events": by_both,
    }  # fmt: skip
    return {
        name: one.evaluate(rest, ks=(20,), among=cold).means()["ndcg@20"]
        for name, one in models.items()
    }


if __name__ == "__main__":
    for name, value in main().items():
        print(f"{name}: NDCG@20 {value:.4f}")
