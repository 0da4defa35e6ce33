"""What is exported gives the same lists in the hands of other programs."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

import sdgar
from sdgar.errors import DataError, ResourceError, UsageError
from sdgar.exports import to_onnx
from sdgar.exports.export import missing_package
from sdgar.models.model import Model
from sdgar.recommend.recommender import Recommender

K = 6


def kinds(default: str, more: str) -> list:
    """The models to try by default, and more of them in the long run."""
    long = [pytest.param(name, marks=pytest.mark.exhaustive) for name in more.split(", ")]
    return [*map(pytest.param, default.split(", ")), *long]


def require_same(model: Recommender, theirs: list[list], users: list) -> None:
    """Lists have the model's own scores at every rank, so that only ties may change places."""
    number_of = {item: number for number, item in enumerate(model.items.values.tolist())}
    for user, found in zip(users, theirs, strict=True):
        at = model.users.find(user)
        scores_I = model.model.score_all(np.array([at]))[0].astype(np.float64)
        scores_I[model.known.of(at)] = -np.inf
        best = np.sort(scores_I[scores_I > -np.inf])[::-1][:K]
        assert len(set(found)) == len(found) == len(best), user
        own = scores_I[[number_of[item] for item in found]]
        np.testing.assert_allclose(own, best, rtol=1e-4, atol=1e-5, err_msg=str(user))


def users_of(model: Recommender) -> list:
    return model.users.values.tolist()


WAYS = [
    pytest.param(to, *kind.values, marks=kind.marks)
    for to, ways in {
        "numpy": kinds("memory, ease, elsa, sum", "least squares, popular, item-knn, two vectors"),
        "parquet": kinds("memory, elsa, sum", "least squares, popular, two vectors"),
        "faiss": kinds("least squares", "popular, elsa"),
        "onnx": kinds("memory, ease, elsa, sum", "least squares, popular, item-knn, two vectors"),
    }.items()
    for kind in ways
]
NEEDED = {"faiss": ("faiss",), "onnx": ("onnx", "onnxruntime")}


@pytest.mark.parametrize(("to", "kind"), WAYS)
def test_another_program_gives_the_same_lists(to, kind, models, read, tmp_path):
    for package in NEEDED.get(to, ()):
        pytest.importorskip(package, reason=f"{package} is not installed (extra export)")
    model = models[kind]
    made = sdgar.export(model, to, tmp_path / "out")
    theirs = getattr(read, f"from_{to}")(made.path, users_of(model), K)
    require_same(model, theirs, users_of(model))
    about = json.loads((tmp_path / "out" / "about.json").read_text())
    assert {*about["files"], "about.json"} == {file.name for file in made.path.iterdir()}
    assert about["score"] == made.score
    if to == "parquet":
        assert pl.read_parquet_schema(made.path / "users.parquet")["vector"] == pl.List(pl.Float32)


def test_tables_have_all_weights_between_items(models, tmp_path):
    sdgar.export(models["ease"], "parquet", tmp_path / "out")
    table = pl.read_parquet(tmp_path / "out" / "weights.parquet")
    items, weight_II = models["ease"].items, models["ease"].model.weight_II
    found = np.zeros_like(weight_II)
    own, other = (items.index_of(table[name].to_list()) for name in ("item", "for"))
    found[own, other] = table["weight"]
    assert np.array_equal(found, weight_II)
    assert "vector" not in pl.read_parquet_schema(tmp_path / "out" / "users.parquet")


def test_an_index_loses_a_memory_on_request_alone(models, read, tmp_path):
    pytest.importorskip("faiss", reason="faiss is not installed (extra export)")
    model = models["memory"]
    with pytest.raises(UsageError, match="--vectors-only") as refused:
        sdgar.export(model, "faiss", tmp_path / "out")
    assert refused.value.code == "memory_lost"
    assert not (tmp_path / "out").exists()
    made = sdgar.export(model, "faiss", tmp_path / "out", vectors_only=True)
    assert any("weights between items are left out" in said for said in made.left_out)
    vectors = model.with_model(model.factors, model.about)
    require_same(vectors, read.from_faiss(made.path, users_of(model), K), users_of(model))


def test_numbers_of_a_large_graph_are_in_another_file(models, read, tmp_path, monkeypatch):
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (extra export)")
    monkeypatch.setattr(to_onnx, "_MOST_BYTES", 100)
    model = models["memory"]
    made = sdgar.export(model, "onnx", tmp_path / "out")
    assert (made.path / "users.onnx.data").exists()
    assert "users.onnx.data" in made.files
    require_same(model, read.from_onnx(made.path, users_of(model), K), users_of(model))


def test_a_model_without_vectors_is_refused_where_vectors_are_needed(models, tmp_path):
    with pytest.raises(UsageError, match="has weights from item to item and no vectors") as found:
        sdgar.export(models["ease"], "faiss", tmp_path / "out")
    assert found.value.code == "no_vectors"
    assert not (tmp_path / "out").exists()


def test_a_network_is_refused(data, tmp_path):
    class Own(Model):
        holds, n_items = "a network", data.n_items

    model = sdgar.MostPopular().fit(data).recommender_.with_model(Own(), {})
    with pytest.raises(UsageError, match="a model that has a network cannot be exported"):
        sdgar.export(model, "numpy", tmp_path / "out")


def test_only_exports_are_replaced_and_only_on_request(models, tmp_path):
    model, place = models["popular"], tmp_path / "out"
    sdgar.export(model, "numpy", place)
    with pytest.raises(UsageError, match="--overwrite"):
        sdgar.export(model, "parquet", place)
    sdgar.export(model, "parquet", place, overwrite=True)
    assert not list(place.glob("*.npy"))
    (place / "mine.txt").write_text("mine")
    with pytest.raises(UsageError, match=r"mine\.txt"):
        sdgar.export(model, "parquet", place, overwrite=True)
    assert (place / "users.parquet").exists()
    with pytest.raises(UsageError, match="unknown to 'csv'"):
        sdgar.export(model, "csv", tmp_path / "other")


def test_ids_that_a_format_would_change_are_refused(models, tmp_path):
    odd = sdgar.Interactions.from_arrays(["a", "b\0"], [1, 2])
    model = sdgar.MostPopular().fit(odd)
    with pytest.raises(DataError, match="NUL character"):
        sdgar.export(model, "numpy", tmp_path / "numpy")
    assert not (tmp_path / "numpy").exists()
    sdgar.export(model, "parquet", tmp_path / "parquet")
    assert pl.read_parquet(tmp_path / "parquet" / "users.parquet")["user"].to_list() == ["a", "b\0"]


def test_a_missing_package_is_named():
    error = missing_package("onnx", "onnx")
    assert isinstance(error, ResourceError)
    assert 'pip install "sdgar[export]"' in str(error)
