"""The life of a model: trained once, updated by day with new events, trained further by night.

Run: python examples/every_night.py
"""

import tempfile
from pathlib import Path

import numpy as np

import sdgar


def main() -> dict[str, float]:
    """NDCG@50 on the last rows of Monday's users, and how many users are known by then."""
    data = sdgar.synthetic("demo")
    first, second = np.quantile(data.time_E, [0.6, 0.9])
    monday = data[data.time_E < first]
    since = data[(data.time_E >= first) & (data.time_E < second)]
    test = data[data.time_E >= second]
    test = test[np.isin(test.users.at(test.users_E), monday.users.values)]

    model = sdgar.SDSoftmax(dim=16, sampler__states=8, epochs=6).fit(monday)
    alone = model.recommender_.evaluate(test, seen=data[data.time_E < second])
    found = {"monday": alone.means()["ndcg@50"]}

    # By day: histories grow and new users are known at once, without training.
    updated = model.update(since, skip_unknown=True)
    found["updated"] = updated.evaluate(test).means()["ndcg@50"]
    with tempfile.TemporaryDirectory() as folder:
        updated.save(Path(folder) / "afternoon")

    # By night: a few epochs from where the model is; the command line has --from for it.
    model.partial_fit(since)
    found["trained further"] = model.evaluate(test).means()["ndcg@50"]
    found["users on monday"] = len(monday.users)
    found["users in the end"] = len(model.recommender_.users)
    return found


if __name__ == "__main__":
    for name, value in main().items():
        print(f"{name}: {value:.4g}")
