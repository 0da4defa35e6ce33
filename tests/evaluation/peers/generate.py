"""Write the values that public implementations give for synthetic lists: ``agreed.json``.

    python -m venv /tmp/peers
    /tmp/peers/bin/pip install lenskit==2025.8.1 pandas==2.3.3 ir_measures==0.4.3 ranx==0.3.21
    /tmp/peers/bin/pip install --no-deps rectools==0.19.0 attrs typeguard pydantic
    /tmp/peers/bin/python tests/evaluation/peers/generate.py

The package is not needed for this, and the peers are not needed for the tests. Where they can be
imported, a test computes the values again.
"""

from __future__ import annotations

import json
import random
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

AGREED = Path(__file__).parent / "agreed.json"
KS = (1, 3, 5)


def made_up(seed: int = 7, users: int = 14, items: int = 24, k: int = 5) -> dict[str, Any]:
    """Make histories, held-out items and full lists, which need not be good."""
    rng = random.Random(seed)
    weights = [1 / (i + 1) for i in range(items - 2)]  # nobody has the last two items
    history = {
        u: sorted({rng.choices(range(items - 2), weights)[0] for _ in range(rng.randint(2, 9))})
        for u in range(users)
    }
    free = {u: [i for i in range(items) if i not in history[u]] for u in range(users)}
    return {
        "items": items,
        "history": {str(u): history[u] for u in history},
        "held_out": {str(u): sorted(rng.sample(free[u], rng.randint(1, 7))) for u in range(users)},
        "lists": {str(u): rng.sample(free[u], k) for u in range(users)},
        "vectors": [[round(rng.gauss(0, 1), 3) for _ in range(4)] for _ in range(items)],
        "genres": [sorted(rng.sample("abcde", rng.randint(1, 3))) for _ in range(items)],
    }


def rectools(data: dict[str, Any]) -> dict[str, Any]:
    """Return what RecTools says."""
    import numpy as np
    import pandas as pd
    from rectools import Columns
    from rectools.metrics import (
        AvgRecPopularity,
        CatalogCoverage,
        IntraListDiversity,
        MeanInvUserFreq,
        Serendipity,
    )
    from rectools.metrics.distances import PairwiseDistanceCalculator

    def frame(lists: dict[str, list[int]]) -> Any:
        rows = [(int(u), i, r) for u, row in lists.items() for r, i in enumerate(row, 1)]
        return pd.DataFrame(rows, columns=[Columns.User, Columns.Item, Columns.Rank])

    class Cosine(PairwiseDistanceCalculator):
        def _get_distances_for_item_pairs(self, one: Any, two: Any) -> Any:
            vectors = np.array(data["vectors"])
            unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
            return 1 - (unit[np.asarray(one)] * unit[np.asarray(two)]).sum(axis=1)

    class Jaccard(PairwiseDistanceCalculator):
        def _get_distances_for_item_pairs(self, one: Any, two: Any) -> Any:
            sets = [set(row) for row in data["genres"]]
            return np.array(
                [
                    1 - len(sets[i] & sets[j]) / len(sets[i] | sets[j])
                    for i, j in zip(one, two, strict=True)
                ]
            )

    reco, before, test = (frame(data[name]) for name in ("lists", "history", "held_out"))
    catalog = list(range(data["items"]))
    found: dict[str, Any] = {}
    for k in KS:
        per_user = {
            f"popularity@{k}": AvgRecPopularity(k).calc_per_user(reco, before),
            f"novelty@{k}": MeanInvUserFreq(k).calc_per_user(reco, before),
            f"serendipity@{k}": Serendipity(k).calc_per_user(reco, test, before, catalog),
        }
        if k > 1:
            per_user[f"diversity@{k}"] = IntraListDiversity(k, Cosine()).calc_per_user(reco)
            per_user[f"diversity:genres@{k}"] = IntraListDiversity(k, Jaccard()).calc_per_user(reco)
        for name, values in per_user.items():
            found[name] = [float(values[int(u)]) for u in data["lists"]]
        found[f"coverage@{k}"] = float(CatalogCoverage(k, normalize=True).calc(reco, catalog))
    return found


def lenskit(data: dict[str, Any]) -> dict[str, Any]:
    """Return what LensKit says."""
    from lenskit.data import ItemList
    from lenskit.metrics import ListGini

    found = {}
    for k in KS:
        metric = ListGini(n=k, items=data["items"])
        empty = ItemList()
        parts = [
            metric.compute_list_data(ItemList(item_ids=row, ordered=True), empty)
            for row in data["lists"].values()
        ]
        found[f"gini@{k}"] = float(metric.global_aggregate(parts))
    return found


def ir_measures(data: dict[str, Any]) -> dict[str, Any]:
    """Return what ir_measures says, computed by ranx."""
    import ir_measures as ir
    import pandas as pd

    texts = {"query_id": object, "doc_id": object}
    qrels = pd.DataFrame(
        [(u, str(i), 1) for u, row in data["held_out"].items() for i in row],
        columns=["query_id", "doc_id", "relevance"],
    ).astype(texts)
    run = pd.DataFrame(
        [(u, str(i), float(-r)) for u, row in data["lists"].items() for r, i in enumerate(row)],
        columns=["query_id", "doc_id", "score"],
    ).astype(texts)
    names = {"precision": "P", "recall": "R", "ndcg": "nDCG", "map": "AP", "hit": "Success"}
    requested = {f"{theirs}@{k}": f"{ours}@{k}" for ours, theirs in names.items() for k in KS}
    requested["RR"] = f"mrr@{KS[-1]}"  # lists end there, so that no cut-off is needed
    values: dict[str, dict[str, float]] = {ours: {} for ours in requested.values()}
    for one in ir.iter_calc([ir.parse_measure(name) for name in requested], qrels, run):
        values[requested[str(one.measure)]][one.query_id] = float(one.value)
    return {name: [of[u] for u in data["lists"]] for name, of in values.items()}


PEERS = {"rectools": rectools, "lenskit": lenskit, "ir_measures": ir_measures}


def main() -> None:
    data = made_up()
    report = {
        "command": "python tests/evaluation/peers/generate.py",
        "versions": {name: version(name) for name in (*PEERS, "ranx", "pandas", "numpy")},
        "data": data,
        "values": {name: peer(data) for name, peer in PEERS.items()},
    }
    AGREED.write_text(json.dumps(report, indent=1) + "\n")
    sys.stdout.write(f"{AGREED.name} has the values of {', '.join(PEERS)}\n")


if __name__ == "__main__":
    main()
