from __future__ import annotations

import json
import os
import shutil
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sdgar
from sdgar.data.synthetic import Shape, generate
from sdgar.errors import UsageError
from sdgar.serve.swap import ModelSource, ServedModels

from .conftest import SHAPE


@pytest.fixture
def shelf(tmp_path: Path, model_folder: Path) -> Path:
    """A folder of models with one in it."""
    shutil.copytree(model_folder, tmp_path / "shelf" / "first")
    return tmp_path / "shelf"


def put(shelf: Path, folder: Path, name: str) -> Path:
    """Put a copy of a model on the shelf, newer than all others."""
    target = shelf / name
    shutil.copytree(folder, target)
    newest = max((path / "manifest.json").stat().st_mtime for path in shelf.iterdir())
    os.utime(target / "manifest.json", (newest + 1, newest + 1))
    return target


def models_of(shelf: Path) -> ServedModels:
    return ServedModels({"main": ModelSource("main", shelf, watched=True)})


def test_the_newest_model_answers(shelf, other_folder, data, tmp_path):
    models = models_of(shelf)
    before = models.current
    assert models.outdated() == {}
    put(shelf, other_folder, "second")
    assert list(models.outdated()) == ["main"]
    models.reload()
    assert models.current.first.snapshot.name == "second"
    assert before.first.snapshot.name == "first"  # who began with it keeps it
    assert models.outdated() == {}
    assert models.reload("main", "first").name == "first"
    assert models.swaps == 2
    assert models.outdated() == {}  # the older one was requested, until there is a newer one
    sdgar.Quick(dim=5, seed=9).fit(data).save(tmp_path / "made")
    put(shelf, tmp_path / "made", "third")
    assert list(models.outdated()) == ["main"]


def damaged(folder: Path) -> None:
    data = bytearray((folder / "model.safetensors").read_bytes())
    data[-1] ^= 1
    (folder / "model.safetensors").write_bytes(bytes(data))


def cut_off(folder: Path) -> None:
    path = folder / "history.safetensors"
    path.write_bytes(path.read_bytes()[:-8])


def foreign(folder: Path) -> None:
    (folder / "manifest.json").write_text(json.dumps({"format": "other"}))


def emptied(folder: Path) -> None:
    (folder / "ids.safetensors").unlink()


@pytest.mark.parametrize("harm", [damaged, cut_off, foreign, emptied])
def test_a_bad_model_changes_nothing_and_is_named(shelf, other_folder, harm):
    models = models_of(shelf)
    before = models.current
    harm(put(shelf, other_folder, "bad"))
    with pytest.raises(UsageError) as refused:
        models.reload()
    assert refused.value.code == "refused_model"
    assert models.current is before
    assert models.refused["main"][0].startswith("bad")
    assert models.outdated() == {}  # it is not tried again and again
    put(shelf, other_folder, "good")
    models.reload()
    assert models.refused == {}


@pytest.mark.parametrize("name", ["../first", "first/", "", ".", "..", "/", "a" * 65, "fi\0rst"])
def test_a_name_is_not_a_path(shelf, name):
    with pytest.raises(UsageError) as refused:
        models_of(shelf).reload("main", name)
    assert refused.value.code == "unknown_model"


def test_a_model_of_half_the_users_is_refused(shelf):
    models = models_of(shelf)
    few = generate(Shape(users=20, items=40, interactions=300, concentration=0.11), seed=1)
    sdgar.Quick(dim=8).fit(few).save(shelf / "few")
    with pytest.raises(UsageError, match="20 users where the old one has 60"):
        models.reload("main", "few")
    free = ServedModels({"main": ModelSource("main", shelf, watched=True)}, canary=False)
    assert free.reload("main", "few").name == "few"


def test_one_item_for_everyone_is_refused(shelf, model_folder):
    own = sdgar.load(model_folder)
    sum_ = own.model
    bias_I = sum_.first.bias_I.copy()
    bias_I[3] = 1e6
    planted = own.with_model(replace(sum_, first=replace(sum_.first, bias_I=bias_I)), own.about)
    models = models_of(shelf)
    planted.save(shelf / "planted")
    with pytest.raises(UsageError, match="one item first for 100%"):
        models.reload("main", "planted")


def test_two_hundred_reloads_under_load(serving, shelf, other_folder):
    """No answer fails, none mixes two models, and a damaged model among them is refused."""
    put(shelf, other_folder, "second")
    damaged(put(shelf, other_folder, "bad"))
    client = serving(shelf, watch=True)  # the newest is damaged, so that of before answers
    models = client.state.service.models
    users = generate(SHAPE, seed=1).users.values.tolist()[:8]
    right: dict[str, dict[Any, list[Any]]] = {}
    for name in ("first", "second"):
        own = sdgar.load(shelf / name)
        lists = own.recommend_lists(users, k=5).dicts()
        right[own.version] = {
            one["user"]: [entry["item"] for entry in one["items"]] for one in lists
        }
    assert len(right) == 2
    refused = 0
    over = threading.Event()

    def swap() -> None:
        nonlocal refused
        for turn in range(200):
            name = "bad" if turn % 20 == 7 else ("first", "second")[turn % 2]
            try:
                models.reload("main", name)
            except UsageError:
                refused += 1
        over.set()

    thread = threading.Thread(target=swap)
    thread.start()
    seen: dict[str, int] = {}
    while not over.is_set():
        answers = client.all([("POST", "/v1/recommend", {"users": users, "k": 5}, {})] * 8)
        for answer in answers:
            assert answer.status_code == 200, answer.text
            lists = answer.json()["lists"]
            assert len({one["model"] for one in lists}) == 1
            for one in lists:
                items = [entry["item"] for entry in one["items"]]
                assert items == right[one["model"]][one["user"]]
                seen[one["model"]] = seen.get(one["model"], 0) + 1
    thread.join()
    assert refused == 10
    assert len(seen) == 2
    assert min(seen.values()) > 20
    ready = client.get("/readyz")
    assert ready["ready"]
    assert np.isclose(models.swaps, 190, atol=10)


def test_a_reload_over_http_says_what_it_did(serving, shelf, other_folder):
    client = serving(shelf, watch=True)
    same = client.post("/v1/admin/reload")
    assert not same["changed"]
    damaged(put(shelf, other_folder, "bad"))
    refused = client("POST", "/v1/admin/reload", {})
    assert (refused.status_code, refused.json()["code"]) == (422, "refused_model")
    ready = client("GET", "/readyz")
    assert ready.status_code == 200
    assert ready.json()["refused"][0].startswith("bad")
    put(shelf, other_folder, "second")
    assert client.post("/v1/admin/reload")["model"] == "second"
    assert client.post("/v1/admin/reload", model="first")["model"] == "first"
    unknown = client("POST", "/v1/admin/reload", {"model": "third"})
    assert unknown.status_code == 404
    path = client("POST", "/v1/admin/reload", {"model": "../first"})
    assert path.status_code == 422


def test_a_variant_may_be_a_model_next_to_a_watched_folder(serving, shelf, other_folder):
    models = {"main": (str(shelf), 0.5), "other": (str(other_folder), 0.5)}
    client = serving(shelf, models=models, watch=True)
    names = [one["model"] for one in client.get("/v1/model")["variants"]]
    assert names == ["first", "second"]
