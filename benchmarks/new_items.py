"""New items: by their features alone, and by five events, compared with items that were trained.

    python benchmarks/new_items.py --set movielens-1m-ordered --system sdsoftmax --seed 0 \
        --json benchmarks/reports/new_items.jsonl

A run adds one line to the report. All settings are the defaults.

Cold: ``--split items:0.1`` holds out a tenth of the items whole, and a fifth of the other rows of
each user. The model is trained on the rest and then knows all items of the table of features.
NDCG@20 is measured among the cold items alone, on all test rows, and on the rows of warm items.

Five events: a fifth of the rows of each user is held out. Of the items with ten training rows or
more, a tenth is chosen at random, and five training rows of each are kept. Three models are
measured on the test rows of these items: trained on all rows, trained on the rows with five of each
chosen item, and trained without the chosen items, which are then added by their five rows.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

import sdgar
from common import THREADS, device_name, machine, options_of
from sdgar.data.ids import Ids
from sdgar.models.factor_tensors import FactorTensors

TEXTS = {"movielens-1m-ordered": {"title": "text"}}
"""The columns of features that are texts, by data set."""
K, FEW = 20, 5
METRIC = f"ndcg@{K}"
SYSTEMS = {"quick": sdgar.Quick, "sdsoftmax": sdgar.SDSoftmax, "ials": sdgar.IALS}


def rows_of(
    folder: Path, name: str, packed: Path | None
) -> tuple[sdgar.Interactions, sdgar.Features]:
    """Read the events and the features of a data set, or what ``pack`` has made of them."""
    if packed is not None:
        with np.load(packed / f"new-items-{name}.npz", allow_pickle=False) as file:
            values = file["value"] if len(file["value"]) else None
            own = tuple(file["names"].tolist()), file["start"], file["feature"], values
            features = sdgar.Features(Ids(file["ids"]), *own)
            return sdgar.Interactions.from_arrays(file["user"], file["item"]), features
    import polars as pl

    frame = pl.read_parquet(folder / name / "interactions.parquet")
    users, items = (frame[column].to_numpy() for column in ("user", "item"))
    events = sdgar.Interactions.from_arrays(users, items, duplicates="last")
    return events, sdgar.read_features(folder / name / "items.parquet", kinds=TEXTS.get(name))


def pack(folder: Path, name: str, packed: Path) -> None:
    """Write a data set for a machine that reads no Parquet."""
    events, known = rows_of(folder, name, None)
    np.savez_compressed(
        packed / f"new-items-{name}.npz", allow_pickle=False,
        user=events.users.at(events.users_E), item=events.items.at(events.items_E),
        ids=known.ids.values, names=np.array(known.names), start=known.start_R1,
        feature=known.feature_E, value=[] if known.value_E is None else known.value_E,
    )  # fmt: skip


def made_up() -> tuple[sdgar.Interactions, sdgar.Features]:
    """Make up users who like two of four genres."""
    rng = np.random.default_rng(0)
    genre, tastes = rng.integers(0, 4, 60), rng.integers(0, 4, (90, 2))
    pairs = [
        (user, item)
        for user, liked in enumerate(tastes)
        for item in rng.choice(np.flatnonzero(np.isin(genre, liked)), 12, replace=False)
    ]
    events = sdgar.Interactions.from_arrays(*zip(*pairs, strict=True))
    return events, sdgar.Features.from_columns(range(60), {"genre": genre.tolist()})


def measured(model: sdgar.Recommender, test: sdgar.Interactions, **how: Any) -> dict[str, float]:
    """Return NDCG@20 with its interval over users."""
    report = model.evaluate(test, ks=(K,), **how)
    low, high = report.intervals()[METRIC]
    return {"ndcg": report.means()[METRIC], "low": low, "high": high, "rows": report.counts.rows}


def at_random(model: sdgar.Recommender, seed: int) -> sdgar.Recommender:
    """Return a model that ranks the same items at random for every user."""
    draw = torch.Generator().manual_seed(seed)
    user_UD, item_ID = (
        torch.randn(len(ids), 32, generator=draw) for ids in (model.users, model.items)
    )
    return model.with_model(
        FactorTensors(user_UD, item_ID, torch.zeros(len(item_ID))).model(), {"system": "random"}
    )


def of_items(rows: sdgar.Interactions, ids: Any, *, others: bool = False) -> sdgar.Interactions:
    """Return the rows of some items, or of all others."""
    return rows[np.isin(rows.items.values, ids)[rows.items_E] != others]


def cold(
    events: sdgar.Interactions, features: sdgar.Features, system: str, seed: int
) -> dict[str, Any]:
    """Hold items out whole, and find them by their features."""
    train, test = sdgar.split(events, "items:0.1", seed=seed)
    before = SYSTEMS[system](seed=seed).fit(train, verbose=False).recommender_
    start = time.perf_counter()
    after = before.add_items(features=features)
    seconds = time.perf_counter() - start
    popular = sdgar.MostPopular().fit(train, verbose=False).add_items(features=features)
    held = np.setdiff1d(test.items.values, train.items.values)
    held = np.intersect1d(held, after.cold_items)
    warm = of_items(test, train.items.values)
    lists = after.recommend_lists(k=K)
    ranked = {"model": after, "popular": popular, "random": at_random(after, seed)}
    return {
        "items": len(events.items),
        "cold": len(held),
        "users": train.n_users,
        "training_rows": len(train),
        "seconds": round(seconds, 1),
        "chosen": after.about["new_items"],
        "among_cold": {name: measured(one, test, among=held) for name, one in ranked.items()},
        "among_all": {
            name: measured(one, test) for name, one in (ranked | {"without": before}).items()
        },
        "warm": {name: measured(one, warm) for name, one in (("with", after), ("without", before))},
        "share_of_lists": float(after.cold_I[lists.items_TK].mean()),
    }


def few(
    events: sdgar.Interactions, features: sdgar.Features, system: str, seed: int
) -> dict[str, Any]:
    """Add items by five of their rows, and compare with training on these and on all rows."""
    train, test = sdgar.split(events, "paper", seed=seed)
    rng = np.random.default_rng(seed)
    count_I = np.bincount(train.items_E, minlength=train.n_items)
    can_be = np.flatnonzero((count_I >= 2 * FEW) & np.isin(train.items.values, test.items.values))
    chosen_N = rng.choice(can_be, max(1, len(can_be) // 10), replace=False)
    order_E = np.lexsort((rng.random(len(train)), train.items_E))
    rank_E = np.empty(len(train), np.int64)
    rank_E[order_E] = np.arange(len(train)) - np.searchsorted(
        train.items_E[order_E], train.items_E[order_E]
    )
    is_chosen_E, is_few_E = np.isin(train.items_E, chosen_N), rank_E < FEW
    ids = train.items.values[chosen_N]

    def fitted(rows: sdgar.Interactions) -> sdgar.Recommender:
        return SYSTEMS[system](seed=seed).fit(rows, verbose=False).recommender_

    without, five = fitted(train[~is_chosen_E]), train[is_chosen_E & is_few_E]
    start = time.perf_counter()
    added = without.add_items(five, skip_unknown=True)
    seconds = time.perf_counter() - start
    models = {
        "trained on all": fitted(train),
        "trained on five": fitted(train[~is_chosen_E | is_few_E]),
        "added by five": added,
        "added by five and features": without.add_items(five, features=features, skip_unknown=True),
    }
    own, others = of_items(test, ids), of_items(test, ids, others=True)
    return {
        "items": len(ids),
        "seconds": round(seconds, 1),
        "among_chosen": {name: measured(one, own, among=ids) for name, one in models.items()},
        "among_all": {name: measured(one, own) for name, one in models.items()},
        "others": {name: measured(one, others) for name, one in models.items()},
    }


def main() -> None:
    """Measure, print, and add a line to the report."""
    parser = options_of(
        __doc__,
        set={"default": "movielens-1m-ordered", "help": "the name of the data set"},
        system={"default": "sdsoftmax", "choices": sorted(SYSTEMS), "help": "the system"},
        seed={"type": int, "default": 0, "help": "of the split, the choice and the training"},
        packed={"type": Path, "help": "read the data set from this folder of packed ones"},
        pack={"type": Path, "help": "only write the data set to this folder, and end"},
    )
    options = parser.parse_args()
    if options.pack is not None:
        pack(options.data, options.set, options.pack)
        return
    torch.set_num_threads(THREADS)
    name, system = ("made up", "quick") if options.quick else (options.set, options.system)
    events, features = (
        made_up() if options.quick else rows_of(options.data, options.set, options.packed)
    )
    line = {
        "data": name,
        "system": system,
        "seed": options.seed,
        "about": {**machine(), "device": device_name()},
        "cold": cold(events, features, system, options.seed),
        "few": few(events, features, system, options.seed),
    }
    print(json.dumps(line, indent=2))
    if options.json is not None:
        with options.json.open("a") as file:
            file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
