"""New users without training: how close fold-in comes to training, and how fast it is.

    python benchmarks/fold_in.py DATA DATASET NAME=VALUE ... --out FILE.json

Of the users with test rows, 2,000 (seed 0) are held out. SD-Softmax is trained twice with the same
settings, for the same fixed number of epochs: on all training rows, and without those users. Then
those users' test rows are ranked by the first model, and by the second with the users' training
rows folded in. DATA is the folder of the Parquet data sets, DATASET has train and test files.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from pathlib import Path

import numpy as np
import torch

import sdgar
from sdgar.data.interactions import Interactions
from sdgar.systems.make import make

HELD_OUT = 2000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("dataset")
    parser.add_argument("settings", nargs="*", help="NAME=VALUE of sdsoftmax")
    parser.add_argument("--out", type=Path)
    words = parser.parse_args()
    folder = words.data / words.dataset
    train, test = (sdgar.read(folder / f"{part}.parquet") for part in ("train", "test"))
    chosen = np.random.default_rng(0).choice(test.users.values, HELD_OUT, replace=False)
    theirs_E = np.isin(train.users.at(train.users_E), chosen)
    new = train.subset(theirs_E, "not held out")
    rest = train.subset(~theirs_E, "held out")
    asked = test.subset(np.isin(test.users.at(test.users_E), chosen), "not held out")
    settings = dict(word.split("=", 1) for word in words.settings) | {"early_stopping": "false"}

    report: dict[str, object] = {
        "command": "benchmarks/fold_in.py " + " ".join([words.dataset, *words.settings]),
        "machine": platform.machine(),
        "threads": torch.get_num_threads(),
        "users": HELD_OUT,
        "history_rows": len(new),
    }
    models = {}
    for name, rows in (("trained", train), ("folded", rest)):
        start = time.perf_counter()
        models[name] = make("sdsoftmax", settings).fit(rows).recommender_
        report[f"{name}_training_seconds"] = round(time.perf_counter() - start, 1)
    model = models["folded"]
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        folded = model.fold_in(new, skip_unknown=True)
        seconds.append(time.perf_counter() - start)
    reached = ndcg(models["trained"], asked), ndcg(folded, asked)
    report |= {
        "history_rows_of_unknown_items": int(
            (model.items.index_of(new.items.values)[new.items_E] < 0).sum()
        ),
        "ndcg@50_trained": reached[0],
        "ndcg@50_folded": reached[1],
        "ratio": reached[1] / reached[0],
        "users_per_second": round(HELD_OUT / float(np.median(seconds))),
    }
    print(json.dumps(report, indent=2))
    if words.out:
        words.out.write_text(json.dumps(report, indent=2) + "\n")


def ndcg(model: sdgar.Recommender, asked: Interactions) -> float:
    return model.evaluate(asked, ks=(50,)).means()["ndcg@50"]


if __name__ == "__main__":
    main()
