"""Saved models, unfinished runs and their checkpoints, damaged in every place.

With sums and seals as they were, a change must be noticed. With sums and seals computed again, the
checks behind them must refuse what cannot be used: what loads gives finite scores and recommends
items it was trained on, and a run that resumes ends with such a model.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from random import Random
from signal import SIGTERM, Signals
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sdgar.data.contexts import key
from sdgar.data.history import History
from sdgar.data.ids import Ids
from sdgar.data.interactions import Interactions
from sdgar.data.readers import read_options
from sdgar.discriminators.sequence import Sequence
from sdgar.errors import SdgarError, StoppedError
from sdgar.maths.rows import Rows
from sdgar.models.factors import Factors, FieldFactors
from sdgar.models.item_weights import ItemVectors, ItemWeights, SparseItemWeights
from sdgar.models.model import Model
from sdgar.models.network import MODULES, EncodedFactors, Encoder, ModuleScores
from sdgar.recommend.artifact import Artifact
from sdgar.recommend.recommender import Recommender, load, most_popular
from sdgar.runs.job import interrupted as job_of
from sdgar.runs.run import RunData, run
from sdgar.runs.workspace import Workspace
from sdgar.storage import sealed
from sdgar.systems.bpr import AOBPR, BPR
from sdgar.systems.composed import Composed
from sdgar.systems.learner import Learner
from sdgar.systems.sdgar import SDGAR

from .mutations import as_bytes, mutated, mutated_json
from .target import Files, Target

_CPU = torch.device("cpu")
_USERS, _ITEMS, _DIM = 4, 6, 4
_HISTORY = History(np.array([0, 2, 3, 3, 5]), np.array([0, 1, 2, 3, 5], np.int32))
_HONEST = "honest"
"""A file of a case that is there if its sums and seals were not computed again."""


class _Bilinear(nn.Module):
    """A network without vectors, as a user of the package may have."""

    def __init__(self, n_users: int, n_items: int, *, dim: int = 2) -> None:
        super().__init__()
        self.user_UD = nn.Parameter(torch.ones(n_users, dim))
        self.item_ID = nn.Parameter(torch.ones(n_items, dim))

    def score_all(self, users_B: Tensor) -> Tensor:
        return self.user_UD[users_B] @ self.item_ID.T


MODULES["bilinear"] = _Bilinear


def _factors(dim: int = _DIM) -> Factors:
    random = np.random.default_rng(dim)
    sides = (random.normal(size=(n, dim)).astype(np.float32) for n in (_USERS, _ITEMS))
    return Factors(*sides, np.arange(_ITEMS, dtype=np.float32) / 10)


def _model(kind: str) -> Model:
    has, one = _HISTORY, _factors()
    vectors = one.user_UD, one.item_ID, one.bias_I
    if kind == "ease":
        return ItemWeights(has, np.roll(np.eye(_ITEMS, dtype=np.float32), 1, 0) - np.float32(0.1))
    if kind == "elsa":
        return ItemVectors(has, one.item_ID)
    if kind == "item-knn":
        near = (np.arange(1, _ITEMS + 1) % _ITEMS).astype(np.int32)
        weight_E = np.linspace(0.1, 1, _ITEMS, dtype=np.float32)
        return SparseItemWeights(has, Rows(np.arange(_ITEMS + 1), near, weight_E))
    if kind == "sequence":
        settings = {"dim": _DIM, "blocks": 1, "length": 5}
        made = Sequence(_USERS, _ITEMS, **settings)
        return EncodedFactors(*vectors, encoder=Encoder(made, _USERS, _ITEMS, kind, settings))
    if kind == "bilinear":
        return ModuleScores(_Bilinear(_USERS, _ITEMS), _USERS, _ITEMS, kind, {"dim": 2})
    if kind == "fields":
        of_values = np.ones((4, _DIM), np.float32), np.ones(1, np.float32)
        return FieldFactors(*vectors, field_VD=of_values[0], scale=of_values[1])
    return _factors(0 if kind == "popular" else _DIM)


_KINDS: dict[str, dict[str, Any]] = {
    "popular": {}, "bpr": {}, "ease": {}, "elsa": {}, "item-knn": {}, "sequence": {},
    "bilinear": {},
    "fields": {"context": ["user", "city"]},
    "ials": {"hyper_parameters": {"alpha": 0.1, "l2": 0.01, "power": 1.0}},
    "sdsoftmax": {"hyper_parameters": {"score": "cosine", "tau": 0.1, "rho": 0.5}},
}  # fmt: skip
"""Models of every kind, and what is said of how they were made."""


def _texts(words: list[str]) -> Ids:
    return Ids(np.array([*words, None], dtype=object)[:-1])


@cache
def _saved(kind: str) -> Files:
    """A whole model folder."""
    users, items = Ids(np.arange(_USERS)), _texts(list("abcdef"))
    if kind == "bpr":
        users = _texts(["a", "b", "ß", "é"])
    if kind == "fields":
        users = _texts([key((user, c)) for user in ("ann", "bob") for c in ("Oslo", "Rome")])
    if kind == "ease":
        items = Ids(np.arange(_ITEMS).astype(np.uint64) + 2**63)
    about = {"system": kind, "seed": 0, "data": {"rows": [1, 2]}, **_KINDS[kind]}
    with tempfile.TemporaryDirectory() as folder:
        path = Recommender(Artifact(_model(kind), users, items, _HISTORY, about)).save(
            Path(folder) / "model", attachments={"log.jsonl": b"{}\n"}
        )
        return {f"model/{one.name}": one.read_bytes() for one in sorted(path.iterdir())}


def resealed(table: Any) -> Any:
    """A table with the seal that it would have; anything else is no table and stays as it is."""
    if not isinstance(table, dict):
        return table
    try:
        return sealed.with_seal({name: value for name, value in table.items() if name != "seal"})
    except (ValueError, RecursionError):
        return table


def _manifests(random: Random) -> Files:
    files = dict(_saved(random.choice(list(_KINDS))))
    return _changed_table(files, "model/manifest.json", random)


def _changed_table(files: Files, name: str, random: Random) -> Files:
    """The files with a table damaged: its bytes, its values, or its values sealed again."""
    match random.randrange(4):
        case 0:
            files[name] = mutated(files[name], random)
        case 1:
            files[name] = as_bytes(mutated_json(json.loads(files[name]), random))
        case _:
            files[name] = as_bytes(resealed(mutated_json(json.loads(files[name]), random)))
            return files
    return files | {_HONEST: b""}


def _tensors(random: Random) -> Files:
    files = dict(_saved(random.choice(list(_KINDS))))
    manifest = json.loads(files["model/manifest.json"])
    name = random.choice(("model.safetensors", "ids.safetensors", "history.safetensors"))
    data = _changed_tensors(files[f"model/{name}"], random)
    files[f"model/{name}"] = data
    if random.random() < 0.1:
        return files | {_HONEST: b""}
    manifest["files"][name] = summed(data)
    files["model/manifest.json"] = as_bytes(resealed(manifest))
    return files


def summed(data: bytes) -> dict[str, Any]:
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def _changed_tensors(data: bytes, random: Random) -> bytes:
    """A safetensors file with its header, its numbers or any of its bytes changed."""
    size = int.from_bytes(data[:8], "little")
    header, numbers = data[8 : 8 + size], data[8 + size :]
    match random.randrange(4):
        case 0:
            return mutated(data, random)
        case 1:
            header = as_bytes(mutated_json(json.loads(header), random))
        case 2 if numbers:
            at = random.randrange(len(numbers)) & ~3
            odd = random.choice((np.nan, np.inf, -np.inf, 3e38, -3e38, 1e-45, 0.0, -1.0))
            word = random.choice((np.float32(odd).tobytes(), random.randbytes(4), b"\xff" * 8))
            numbers = (numbers[:at] + word + numbers[at + len(word) :])[: len(numbers)]
        case _:
            header = mutated(header, random)
    return len(header).to_bytes(8, "little") + header + numbers


def _try_model(folder: Path) -> None:
    model = load(folder / "model")
    if (folder / _HONEST).exists():
        _require_noticed(folder)
    require_usable(model)
    path = model.save(folder / "again")
    again = load(path)
    assert again.items.values.tolist() == model.items.values.tolist()
    assert again.users.values.tolist() == model.users.values.tolist()


def _require_noticed(folder: Path) -> None:
    """A model that loads though something was changed, and sums and seals were not."""
    found = json.loads((folder / "model/manifest.json").read_bytes())
    same = any(json.loads(_saved(kind)["model/manifest.json"]) == found for kind in _KINDS)
    assert same or "seal" not in found, "a change of the manifest was not noticed"
    for name, said in found["files"].items():
        assert summed((folder / "model" / name).read_bytes()) == said, f"{name} is not what is said"


def require_usable(model: Recommender) -> None:
    """What was loaded answers every query, or explains why it cannot."""
    users, items = model.users.values.tolist(), model.items.values.tolist()
    _require_lists(model.recommend(k=3), users, items)
    _require_lists(model.recommend(k=3, exclude_seen=False), users, items)
    questions: list[Callable[[], Any]] = [
        lambda: _require_lists(model.similar_items(items[0], k=2), [items[0]], items, "like"),
        lambda: _require_lists(model.fold_in({"new": items[:2]}).recommend(k=2), ["new"], items),
        lambda: most_popular(model).recommend(k=1),
        lambda: model.recommend([{"user": "ann", "city": "Rome"}], k=2),
        lambda: model.evaluate(_first_rows(model, items)).means(),
    ]
    for ask in questions:
        with suppress(SdgarError):
            ask()


def _first_rows(model: Recommender, items: list[Any]) -> Interactions:
    users = model.users.values[:2].tolist()
    if model.fields is None:
        return Interactions.from_arrays(users, items[:1] * len(users))
    rows = [json.loads(text) for text in users]
    columns = {name: [row[f] for row in rows] for f, name in enumerate(model.fields.names)}
    return Interactions.from_contexts(columns, items[:1] * len(users))


def _require_lists(lists: Any, queried: list[Any], items: list[Any], column: str = "user") -> None:
    rows = lists.to_dicts()
    for row in rows:
        assert row["item"] is None or row["item"] in items
        assert row["score"] is None or np.isfinite(row["score"])
    if list(lists.columns)[:2] == [column, "rank"]:  # and no fields of a context
        assert set(lists[column].to_list()) == set(queried)


def _data() -> Interactions:
    pairs = [(u, i) for u in range(12) for i in range(9) if (u + i) % 3 and (u * i) % 5 != 1]
    users, items = zip(*pairs, strict=True)
    return Interactions.from_arrays(users, items)


_QUICK: dict[str, Any] = {"epochs": 3, "early_stopping__every": 1, "dim": 2, "batch_size": 32}
_LEARNERS: dict[str, Callable[[], Learner]] = {
    "bpr": lambda: BPR(**_QUICK, engine="eager"),
    "bpr, fused": lambda: BPR(**_QUICK, engine="fused-cpu"),
    "aobpr": lambda: AOBPR(**_QUICK, engine="eager"),
    "search": lambda: Composed(**_QUICK, engine="eager", sampler="search"),
    "sdgar, fused": lambda: SDGAR(
        **_QUICK, engine="fused-cpu", sampler__states=2, sampler__samples=4, sampler__refit_every=1
    ),
}


def train(kind: str, out: Path, stop: Callable[[], Signals | None], *, resume: bool) -> None:
    rows = RunData(train=_data())
    run(_LEARNERS[kind](), rows, out, checkpoint_every=0.0, stop=stop, resume=resume)


@cache
def interrupted(kind: str, epochs: int) -> Files:
    """The folder of a run that was stopped after some epochs."""
    left = [epochs]

    def stop() -> Signals | None:
        left[0] -= 1
        return None if left[0] else SIGTERM

    with tempfile.TemporaryDirectory() as folder:
        with suppress(StoppedError):
            train(kind, Path(folder) / "run", stop, resume=False)
        found = sorted(p for p in (Path(folder) / "run.partial").rglob("*") if p.is_file())
        return {str(p.relative_to(folder)): p.read_bytes() for p in found if p.name != "lock"}


def _checkpoints(random: Random) -> Files:
    """The run of a learner whose newest checkpoint, and no other, is there and damaged."""
    kind = random.choice(list(_LEARNERS))
    # Where the rate falls, three epochs are two on some rows and one on all; else three on some.
    files = dict(interrupted(kind, random.choice((1, 2, 3 if kind == "search" else 4))))
    newest = max(name.split("/")[1] for name in files if "/checkpoint-" in name)
    files = {n: d for n, d in files.items() if "/checkpoint-" not in n or newest in n}
    files["kind"] = kind.encode()
    place = f"run.partial/{newest}"
    name = random.choice(
        ("manifest.json", "loop.json", "loop.json", "state.safetensors", "state.safetensors")
    )
    path = f"{place}/{name}"
    if name == "manifest.json":
        return _changed_table(files, path, random)
    if name == "state.safetensors":
        files[path] = _changed_tensors(files[path], random)
    else:
        files[path] = as_bytes(mutated_json(json.loads(files[path]), random))
    manifest = json.loads(files[f"{place}/manifest.json"])
    manifest["files"][name] = summed(files[path])
    files[f"{place}/manifest.json"] = as_bytes(resealed(manifest))
    return files


def _try_resuming(folder: Path) -> None:
    out = folder / "run"
    train((folder / "kind").read_text(), out, lambda: None, resume=True)
    require_usable(load(out))


@cache
def _described() -> bytes:
    """The description of a run that a command began."""
    command = {
        "files": ["x.csv"], "test": [], "valid": [], "reading": {"user": "u", "context": ["user"]},
        "system": "bpr", "settings": {"dim": 4, "l2": 0.1}, "seed": 0, "engine": "eager",
        "device": "cpu", "protocol": "validated", "split": None, "ks": [10], "overwrite": False,
        "checkpoint_every": 30.0, "user_features": None, "item_features": None,
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        workspace = Workspace(Path(folder) / "run", {"seed": 0}, command=command)
        with workspace:
            return (workspace.folder / "run.json").read_bytes()


def _runs(random: Random) -> Files:
    return _changed_table({"run.partial/run.json": _described()}, "run.partial/run.json", random)


def _try_run(folder: Path) -> None:
    job = job_of(folder / "run")
    reading = {k: tuple(v) if isinstance(v, list) else v for k, v in job.reading.items()}
    read_options(**reading)
    if (folder / _HONEST).exists():
        found = json.loads((folder / "run.partial/run.json").read_bytes())
        assert found == json.loads(_described()) or "seal" not in found, "a change was not noticed"


TARGETS = {
    "manifests": Target(_manifests, _try_model),
    "tensors": Target(_tensors, _try_model),
    "checkpoints": Target(_checkpoints, _try_resuming),
    "runs": Target(_runs, _try_run),
}
