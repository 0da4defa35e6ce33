"""Export a model, and make its lists again with NumPy, Polars, faiss, onnxruntime and PostgreSQL.

    pip install "sdgar[export]"
    python examples/export.py

Nothing here but ``main`` uses sdgar: each function reads the files of an export as another program
would, and returns the k best items of each user, best first.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np


def from_numpy(folder: Path, users: list[Any], k: int) -> list[list[Any]]:
    """s = u · v + b + Σ w, with arrays alone."""
    about = json.loads((folder / "about.json").read_text())
    a = {name[:-4]: np.load(folder / name) for name in about["files"]}
    number = {user: row for row, user in enumerate(a["users"].tolist())}
    lists = []
    for user in users:
        row, scores = number[user], np.zeros(len(a["items"]))
        if "user_vectors" in a:
            scores += a["item_vectors"] @ a["user_vectors"][row] + a["item_biases"]
        if "weights" in a:
            sums = np.zeros(len(a["items"]))
            for item in a["history_item"][slice(*a["history_start"][row : row + 2])]:
                entries = slice(*a["weights_start"][item : item + 2])
                sums[a["weights_item"][entries]] += a["weights"][entries]
            scores += sums
            if "Σ = 0 is not recommended" in about["score"]:
                scores[sums <= 0] = -np.inf
        scores[a["known_item"][slice(*a["known_start"][row : row + 2])]] = -np.inf
        best = np.argsort(-scores, kind="stable")[:k]
        lists.append(a["items"][best[scores[best] > -np.inf]].tolist())
    return lists


def from_parquet(folder: Path, users: list[Any], k: int) -> list[list[Any]]:
    """s = u · v + b + Σ w, with joins of tables, for a model that has vectors."""
    import polars as pl

    tables = {file.stem: pl.read_parquet(file) for file in folder.glob("*.parquet")}
    items = tables["items"].with_row_index("number")
    item_vectors = np.stack(items["vector"].to_numpy())
    of_user = dict(tables["users"].select("user", "vector").iter_rows())
    lists = []
    for user in users:
        known = tables["known"].filter(pl.col("user") == user)
        by_vector = item_vectors @ np.array(of_user[user], np.float32)
        scores = items.select("number", "item", score=pl.Series(by_vector) + items["bias"])
        if "weights" in tables:
            own = tables["weights"].join(known.filter("liked"), on="item", how="semi")
            sums = own.group_by(item="for").agg(pl.sum("weight"))
            total = pl.col("score") + pl.col("weight").fill_null(0)
            scores = scores.join(sums, on="item", how="left").with_columns(score=total)
        left = scores.join(known, on="item", how="anti")
        best = left.sort("score", "number", descending=[True, False]).head(k)
        lists.append(best["item"].to_list())
    return lists


def from_faiss(folder: Path, users: list[Any], k: int) -> list[list[Any]]:
    """Search the index; items that the user has are left out while it searches."""
    import faiss

    index = faiss.read_index(str(folder / "items.faiss"))
    names = ("queries", "users", "items", "known_start", "known_item")
    queries, ids, items, start, known = (np.load(folder / f"{name}.npy") for name in names)
    number = {user: row for row, user in enumerate(ids.tolist())}
    lists = []
    for user in users:
        row = number[user]
        left_out = known[start[row] : start[row + 1]].astype(np.int64)
        others = faiss.IDSelectorNot(faiss.IDSelectorBatch(left_out))
        parameters = faiss.SearchParameters(sel=others)
        _, found = index.search(queries[row : row + 1], min(k, len(items)), params=parameters)
        lists.append(items[found[0][found[0] >= 0]].tolist())
    return lists


def from_onnx(folder: Path, users: list[Any], k: int) -> list[list[Any]]:
    """Run the graph of users."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(folder / "users.onnx"))
    ids, items = (np.load(folder / f"{name}.npy") for name in ("users", "items"))
    number = {user: row for row, user in enumerate(ids.tolist())}
    lists = []
    for user in users:
        inputs = {"user": np.array([number[user]]), "k": np.array([k])}
        found, _ = session.run(["items", "scores"], inputs)
        lists.append(items[found[found >= 0]].tolist())
    return lists


def main() -> dict[str, float]:
    """Return the share of lists that are the same, for each of the formats."""
    import sdgar

    model = sdgar.Quick(dim=8).fit(sdgar.synthetic("demo"), verbose=False)
    users = model.recommender_.users.values[:100].tolist()
    ours = [[one["item"] for one in answer["items"]] for answer in lists_of(model, users)]
    same = {}
    readers = {"numpy": from_numpy, "parquet": from_parquet, "onnx": from_onnx}
    with tempfile.TemporaryDirectory() as place:
        for to, read in readers.items():
            made = sdgar.export(model, to, Path(place) / to)
            theirs = read(made.path, users, 10)
            same[to] = sum(a == b for a, b in zip(ours, theirs, strict=True)) / len(users)
    for to, share in same.items():
        print(f"{to}: {share:.0%} of {len(users)} lists are the same")
    return same


def lists_of(model: Any, users: list[Any]) -> list[dict[str, Any]]:
    """Return the lists of the model itself."""
    answers: list[dict[str, Any]] = model.recommender_.recommend_lists(users, k=10).dicts()
    return answers


if __name__ == "__main__":
    main()
