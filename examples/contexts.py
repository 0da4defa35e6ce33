"""A context of two fields: what is recommended depends on the user and on the part of the day.

Run: python examples/contexts.py
"""

import numpy as np

import sdgar


def listening() -> sdgar.Interactions:
    """Synthetic events: everybody likes one of eight genres, lively by day and calm at night."""
    rng = np.random.default_rng(0)
    genre, calm = np.arange(320) % 8, np.arange(320) // 8 % 2 == 1
    rows = [
        (user, part, item)
        for user in range(150)
        for part in ("day", "night")
        for item in rng.choice(
            np.flatnonzero((genre == user % 8) & (calm == (part == "night"))), 9, replace=False
        )
    ]
    users, parts, items = zip(*rows, strict=True)
    return sdgar.Interactions.from_contexts({"user": users, "daypart": parts}, items)


def main() -> dict[str, float]:
    """How much of what one user is recommended is calm, by day and at night."""
    model = sdgar.SDSoftmax(dim=16, epochs=25, early_stopping=False, batch_size=256)
    model.fit(listening())
    found = {}
    for part in ("day", "night"):
        frame = model.recommend({"user": 7, "daypart": part}, k=8)
        found[part] = float(np.mean([item // 8 % 2 == 1 for item in frame["item"].to_list()]))
    return found


if __name__ == "__main__":
    for name, value in main().items():
        print(f"{name}: {value:.0%} calm")
