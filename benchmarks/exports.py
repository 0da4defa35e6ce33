"""Are the lists of an export the lists of the model? Each is made again without sdgar.

    python benchmarks/exports.py [--data DIR] [--users 1000] [--json FILE]

Models are trained on CiteULike's training rows, with the default settings and seed 0. Each is
exported to every format that can hold it, and the functions of ``examples/export.py`` make the
lists of K items of 1,000 users with what is in the files: with NumPy, with Polars, by an index of
faiss, and by onnxruntime.

A list is *same* if it has the same items in the same places. Other programs add up in another
order, so that items whose scores are equal but for rounding may change places: a list differs by
*rounding* if, place by place, the scores that the model itself gives to both items differ by less
than 1e-5 of the largest score of the list. All else is *other*.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from common import ROOT, machine, options_of, write_report

K = 10
ROUNDING = 1e-5
SYSTEMS = ("sdsoftmax", "ials", "elsa", "local-ease", "item-knn")

Reader = Callable[[Path, list[Any], int], list[list[Any]]]


def compared(model: Any, users: list[Any], theirs: list[list[Any]]) -> dict[str, Any]:
    """Count lists that are the same, that differ by rounding, and others."""
    ours = [
        [one["item"] for one in answer["items"]]
        for answer in model.recommend_lists(users, k=K).dicts()
    ]
    counts = {"same": 0, "rounding": 0, "other": 0}
    largest = 0.0
    for user, one, other in zip(users, ours, theirs, strict=True):
        if one == other:
            counts["same"] += 1
            continue
        scores_I = model.model.score_all(model.users.index_of([user]))[0].astype(np.float64)
        if len(one) != len(other):
            counts["other"] += 1
            continue
        a, b = (scores_I[model.items.index_of(found)] for found in (one, other))
        apart = float(np.abs(a - b).max() / np.abs(a).max())
        largest = max(largest, apart)
        counts["rounding" if apart < ROUNDING else "other"] += 1
    return {**counts, "largest": largest}


def measured(model: Any, system: str, users: list[Any], place: Path) -> list[Any]:
    """Export a model to every format that holds it, and compare the lists of each."""
    import sdgar
    from sdgar.errors import UsageError

    sys.path.insert(0, str(ROOT / "examples"))
    import export as read

    rows = []

    def note(name: str, folder: Path, against: Any, wanted: list[Any], theirs: list[Any]) -> None:
        size = sum(file.stat().st_size for file in folder.iterdir()) / 1e6
        found = compared(against, wanted, theirs)
        rows.append({"system": system, "by": name, "megabytes": round(size, 1), **found})
        print(f"{system:12} {name:26} {found}", flush=True)

    readers: dict[str, Reader] = {"numpy": read.from_numpy, "parquet": read.from_parquet}
    readers |= {"onnx": read.from_onnx, "faiss": read.from_faiss}
    for to, reader in readers.items():
        folder = place / f"{system}-{to}"
        try:
            made = sdgar.export(model, to, folder)
        except UsageError as error:
            if error.code == "memory_lost":
                sdgar.export(model, to, folder, vectors_only=True)
                alone = model.with_model(model.factors, model.about)
                note("faiss, vectors only", folder, alone, users, reader(folder, users, K))
            continue
        if to == "parquet" and "vector" not in made.files["users.parquet"]:
            continue  # the reader of the example is for models with vectors
        note(to, folder, model, users, reader(folder, users, K))
    return rows


def main() -> None:
    """Compare the lists of all exports, and write the report."""
    import sdgar
    from sdgar.systems.make import estimator_from_params

    options = options_of(__doc__, users={"type": int, "default": 1000}).parse_args()
    torch.set_num_threads(1)
    data = (
        sdgar.synthetic("demo")
        if options.quick
        else sdgar.read(options.data / "citeulike-t" / "train.parquet", verbose=False)
    )
    n = 20 if options.quick else options.users
    systems = ("ials",) if options.quick else SYSTEMS
    chosen = np.random.default_rng(0).choice(len(data.users), n, replace=False)
    users = data.users.at(np.sort(chosen)).tolist()
    rows = []
    with tempfile.TemporaryDirectory() as place:
        for system in systems:
            settings = {"dim": 4} if options.quick else {}
            model = estimator_from_params(system, settings).fit(data, verbose=False).recommender_
            rows += measured(model, system, users, Path(place))
    write_report(
        options.json,
        {
            **machine("faiss-cpu", "onnx", "onnxruntime", "polars"),
            "data": "synthetic" if options.quick else "citeulike-t/train.parquet",
            "sizes": {"users": data.n_users, "items": data.n_items, "rows": len(data)},
            "seed": 0,
            "k": K,
            "users": n,
            "rounding": ROUNDING,
            "rows": rows,
        },
    )


if __name__ == "__main__":
    main()
