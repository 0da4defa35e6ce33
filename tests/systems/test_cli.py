from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from sdgar.data.synthetic import Shape, generate

from ..cli.test_cli import result_of, sdgar


@pytest.fixture(scope="module")
def events(tmp_path_factory) -> Path:
    data = generate(Shape(users=120, items=80, interactions=2400, concentration=0.15), seed=0)
    frame = pl.DataFrame({"user": data.users.at(data.users_E), "item": data.items.at(data.items_E)})
    path = tmp_path_factory.mktemp("events") / "events.parquet"
    frame.write_parquet(path)
    return path


@pytest.mark.parametrize(
    ("system", "setting"), [("item-knn", "shrink=5"), ("ials", "dim=8"), ("ease", "l2=20")]
)
@pytest.mark.parametrize("protocol", ["validated", "paper"])
def test_a_baseline_is_a_system_like_any_other(events, tmp_path, system, setting, protocol):
    out = tmp_path / "run"
    words = ("--system", system, "--set", setting, "--protocol", protocol, "--device", "cpu")
    trained = result_of(sdgar("train", events, "--out", out, *words, "--json"))
    assert trained["system"] == system
    assert trained["epochs"] == 0
    assert 0.3 < trained["test"]["ndcg@50"] <= 1
    name, _, value = setting.partition("=")
    about = json.loads((out / "manifest.json").read_text())["about"]
    assert about["hyper_parameters"][name] == float(value)
    lists = result_of(sdgar("recommend", out, "--all", "-k", "3", "--json"))
    assert all(len(answer["items"]) == 3 for answer in lists["recommendations"])
    item = lists["recommendations"][0]["items"][0]["item"]
    similar = result_of(sdgar("similar", out, "--item", item, "-k", "3", "--json"))
    assert item not in [found["item"] for found in similar["similar"][0]["items"]]
    assert result_of(sdgar("evaluate", out, "--test", events, "--train", events, "--json"))


def test_a_catalogue_that_is_too_large_ends_with_the_code_of_resources(events, tmp_path):
    small = ("--system", "ease", "--set", "ram_gib=0.000001", "--device", "cpu")
    done = sdgar("train", events, "--out", tmp_path / "run", *small)
    assert done.returncode == 5
    assert "EASE needs 0.00 GiB for 80 items" in done.stderr
    assert not list(tmp_path.iterdir())


def test_the_papers_protocol_warns_only_of_epochs_that_were_chosen(events, tmp_path):
    done = sdgar(
        "train", events, "--out", tmp_path / "run", "--system", "item-knn", "--protocol", "paper"
    )
    assert done.returncode == 0, done.stderr
    assert "epoch was chosen" not in done.stdout
