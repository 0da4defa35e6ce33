"""Skips, returns and low ratings: not recommended again, and learned from as negatives.

Run: python examples/negative_feedback.py
"""

import numpy as np

import sdgar


def shop() -> dict[str, list]:
    """Synthetic events: users buy little, of their kind, and pass over much of what is not.

    Even users like even items, and odd users odd ones.
    """
    rng = np.random.default_rng(1)
    rows: dict[str, list] = {"user": [], "item": [], "kind": []}
    for user in range(60):
        of_their_kind = np.arange(user % 2, 40, 2)
        for kind, items in (("buy", of_their_kind), ("pass", (of_their_kind + 1) % 40)):
            for item in rng.choice(items, 3 if kind == "buy" else 8, replace=False):
                rows["user"].append(user)
                rows["item"].append(int(item))
                rows["kind"].append(kind)
    return rows


def main() -> dict[str, float]:
    """Return how often lists hold what was passed over, and what is of the wrong kind."""
    events = shop()
    # "pass" is a word of this shop. Skip, return, dislike, hide and their like are known.
    data = sdgar.read(events, dislike_kinds=("pass",), verbose=False)
    rows = zip(events["user"], events["item"], events["kind"], strict=True)
    passed = {(user, item) for user, item, kind in rows if kind == "pass"}
    found: dict[str, float] = {"passed over": float(len(passed))}
    for name, share in (("as items to leave out", 0.0), ("as negatives too", 0.5)):
        model = sdgar.BPR(
            dim=4, epochs=40, sampler__dislikes=share, early_stopping=False, engine="eager"
        )
        lists = model.fit(data, verbose=False).recommend(k=5)
        pairs = list(zip(lists["user"], lists["item"], strict=True))
        found[f"{name}: passed over"] = float(sum(pair in passed for pair in pairs))
        found[f"{name}: wrong kind"] = float(
            np.mean([user % 2 != item % 2 for user, item in pairs])
        )
    # The same for ratings and for weights, such as the share of a song that was played:
    stars = {"user": [1, 1, 1, 2, 2], "item": [1, 2, 3, 2, 3], "rating": [5, 3, 1, 4, 5]}
    rated = sdgar.read(stars, min_rating=4, dislike_below=3, verbose=False)
    found["ratings that are known"] = float(len(rated.seen.items_E))
    found["ratings that are dislikes"] = float(len(rated.disliked.items_E))
    heard = {"user": [1, 1, 2], "item": [1, 2, 2], "played": [0.9, 0.02, 0.7]}
    played = sdgar.read(heard, weight="played", dislike_below=0.1, verbose=False)
    found["plays that are dislikes"] = float(len(played.disliked.items_E))
    return found


if __name__ == "__main__":
    for name, value in main().items():
        print(f"{name}: {value:g}")
