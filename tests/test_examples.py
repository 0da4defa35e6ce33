"""Every example runs, and shows what it says."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path

import pytest

import sdgar
from sdgar.data.synthetic import PRESETS, generate
from sdgar.engines import choose
from sdgar.parts import KINDS
from sdgar.systems.names import SYSTEMS

EXAMPLES = Path(__file__).parents[1] / "examples"

pytestmark = pytest.mark.skipif(not EXAMPLES.is_dir(), reason="examples/ is not next to the tests")


@pytest.fixture
def run(monkeypatch):
    for register in (*KINDS.values(), SYSTEMS):
        monkeypatch.setattr(register, "_own", {})

    def main(name: str) -> dict[str, float]:
        spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.main()

    return main


def test_every_example_is_tested():
    tested = {
        "contexts", "own_model", "own_sampler", "own_system", "sequences", "search_proposals",
        "item_features", "every_night", "new_items", "export", "beyond_accuracy",
        "negative_feedback",
    }  # fmt: skip
    assert {file.stem for file in EXAMPLES.glob("*.py")} == tested


def test_recommendations_depend_on_the_part_of_the_day(run):
    found = run("contexts")
    assert found["day"] < 0.3
    assert found["night"] > 0.7


@pytest.mark.parametrize("name", ["own_model", "own_sampler", "own_system"])
def test_own_parts_learn(run, name, monkeypatch):
    few = replace(PRESETS["demo"], users=200, interactions=8_000)  # and as many items
    monkeypatch.setattr(sdgar, "synthetic", lambda _: generate(few, seed=0))
    # The compiled engines take seconds to compile, and are tested elsewhere.
    monkeypatch.setattr(choose, "FUSED", dict.fromkeys(choose.FUSED, "eager"))
    found = run(name)
    assert len(found) == 2
    assert all(0.02 < value < 1 for value in found.values()), found


def test_a_sequence_model_sees_an_order_that_a_vector_a_user_does_not(run):
    found = run("sequences")
    assert found["sequence"] > found["cosine"] + 0.2, found
    assert found["after 3, 4, 5"] in (6, 7), found


def test_features_help_where_items_are_rare(run):
    found = run("item_features")
    assert found["with genres"] > 1.5 * found["ids only"], found


def test_a_model_is_updated_by_day_and_trained_further_by_night(run):
    found = run("every_night")
    assert found["updated"] > found["monday"], found
    assert found["trained further"] > found["updated"], found
    assert found["users in the end"] > found["users on monday"], found


def test_new_items_are_found_by_their_genre_and_better_by_their_events(run):
    found = run("new_items")
    assert found["by genre"] > found["at random"] + 0.1, found
    assert found["by genre and five events"] > found["by genre"], found


def test_proposals_at_the_very_top_are_worse_than_some_exploring(run):
    pytest.importorskip("faiss")
    found = run("search_proposals")
    assert found["50% uniform"] > found["0% uniform"], found


def test_exports_give_the_same_lists_elsewhere(run):
    pytest.importorskip("onnxruntime")
    assert run("export") == {"numpy": 1.0, "parquet": 1.0, "onnx": 1.0}


def test_a_model_shows_more_of_the_catalogue_than_popularity_and_fits_users_better(run):
    found = run("beyond_accuracy")
    popular, ease = found["popular"], found["ease"]
    assert ease["ndcg@10"] > popular["ndcg@10"]
    assert ease["coverage@10"] > 2 * popular["coverage@10"]
    assert ease["gini@10"] < popular["gini@10"]
    assert ease["calibration:genre@10"] < popular["calibration:genre@10"]
    groups = [values["ndcg@10"] for name, values in found.items() if "held-out items" in name]
    assert len(groups) == 4
    assert max(groups) == groups[-1]  # popular items are found most easily


def test_what_was_passed_over_is_left_out_and_teaches(run):
    found = run("negative_feedback")
    assert found["passed over"] > 100
    for name in ("as items to leave out", "as negatives too"):
        assert found[f"{name}: passed over"] == 0
    assert found["as negatives too: wrong kind"] < found["as items to leave out: wrong kind"] / 2
    assert found["ratings that are known"] == 2
    assert found["ratings that are dislikes"] == found["plays that are dislikes"] == 1
