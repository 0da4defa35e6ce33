"""More to measure than accuracy: what a list shows, to which users, and what diversity costs.

Run: python examples/beyond_accuracy.py
"""

import numpy as np

import sdgar

METRICS = [
    "ndcg@10",
    "coverage@10",
    "gini@10",
    "novelty@10",
    "diversity:genre@10",
    "calibration:genre@10",
]


def films() -> tuple[sdgar.Interactions, dict[int, dict[str, str]]]:
    """Synthetic events of users who like two of eight genres, and the genres of the items."""
    rng = np.random.default_rng(0)
    genre = rng.integers(0, 8, 400)
    weight = 1 / (1 + np.arange(400))
    pairs = []
    for user in range(300):
        liked = np.isin(genre, rng.integers(0, 8, 2))
        odds = weight * np.where(liked, 1.0, 0.05)
        pairs += [(user, item) for item in rng.choice(400, 15, replace=False, p=odds / odds.sum())]
    facts = {item: {"genre": f"genre {kind}"} for item, kind in enumerate(genre)}
    return sdgar.Interactions.from_arrays(*zip(*pairs, strict=True)), facts


def main() -> dict[str, dict[str, float]]:
    """Metrics of most popular, of EASE, and of EASE for users who have many items at hand."""
    events, facts = films()
    train, test = sdgar.split(events, "paper", seed=0)
    found = {}
    for name, model in (("popular", sdgar.MostPopular()), ("ease", sdgar.EASE(l2=20.0))):
        report = model.fit(train).evaluate(test, metrics=METRICS, facts=facts)
        found[name] = report.means()
    for group, part in report.by("popularity").items():
        found[f"ease, held-out items of {group}"] = part.means()
    return found


if __name__ == "__main__":
    for name, values in main().items():
        print(f"{name}: " + " · ".join(f"{metric} {value:.4f}" for metric, value in values.items()))
