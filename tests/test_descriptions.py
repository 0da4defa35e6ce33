"""Data, models, reports and splits say what they are in a few lines, without an array."""

from __future__ import annotations

import numpy as np
import pytest

import sdgar
from sdgar.data import splits
from sdgar.recommend.recommender import Recommender
from sdgar.systems.recipe import recipe_of

QUICK = {"dim": 2, "epochs": 2, "early_stopping__every": 1, "engine": "eager"}
DAY = 86_400_000_000


@pytest.fixture(scope="module")
def data() -> sdgar.Interactions:
    n = np.arange(60)
    return sdgar.Interactions.from_arrays(
        n % 12, n % 7, weight=1.0 + n % 3, time=1_600_000_000_000_000 + n * DAY, duplicates="last"
    )


@pytest.fixture(scope="module")
def parts(data) -> splits.Split:
    return sdgar.split(data, "paper")


@pytest.fixture(scope="module")
def model(parts) -> sdgar.BPR:
    return sdgar.BPR(**QUICK).fit(parts.train)


def few_lines(thing: object) -> list[str]:
    lines = repr(thing).splitlines()
    assert 1 <= len(lines) <= 5
    assert max(map(len, lines)) < 200
    html = thing._repr_html_()
    assert html.startswith("<strong>")
    assert html.count("<br>") == len(lines) - 1
    assert "array(" not in repr(thing)
    assert "tensor(" not in repr(thing)
    return lines


def test_data_reports_its_size_its_account_its_times_and_weights(data):
    title, account, more = few_lines(data)
    assert title == "Interactions: 12 users × 7 items, 60 rows (71.429 % filled)"
    assert account == "60 rows read = 60 kept"
    assert more == ("times from 2020-09-13 12:26:40 to 2020-11-11 12:26:40 · weights from 1 to 3")


def test_times_that_are_no_dates_are_numbers():
    some = sdgar.Interactions.from_arrays([1, 2], [1, 2], time=[1, 2500])
    assert few_lines(some)[-1] == "times from 1 to 2,500 · no weights"


def test_data_reports_the_fields_of_contexts_and_its_features():
    some = sdgar.Interactions.from_contexts({"user": ["a", "b"], "city": ["x", "y"]}, [1, 2])
    known = sdgar.Features.from_columns([1, 2], {"colour": ["red", "blue"]})
    lines = few_lines(some.with_features(None, known))
    assert lines[0].startswith("Interactions: 2 contexts × 2 items")
    assert lines[2:] == [
        "no times · no weights · 2 features of items",
        "a context is user, city",
    ]
    assert few_lines(known)[0] == "Features: 2 of 2 ids, 2 set"


def test_a_model_reports_its_settings_before_and_what_came_of_it_after(model):
    before = sdgar.SDSoftmax(dim=64)
    assert few_lines(before) == ["SDSoftmax(dim=64), not fitted yet: call fit(train)"]
    lines = few_lines(model)
    assert lines[0].startswith("BPR(epochs=2, ")
    assert lines[0].endswith(", dim=2), fitted")
    assert lines[1].startswith("12 users × 7 items, ")
    assert lines[2].startswith("dim 2 · best epoch ")
    assert lines[2].endswith(" · engine eager")
    assert lines[3].endswith(" on validation rows")
    assert len(few_lines(recipe_of(model).trained)) == 3


def test_a_loaded_model_reports_the_same(model, tmp_path):
    loaded = sdgar.load(model.save(tmp_path / "m"))
    assert few_lines(loaded) == ["Recommender of system bpr", *few_lines(model)[1:]]


def test_a_model_with_a_report_reports_it_with_most_popular(model):
    saved = model.recommender_.saved
    report = {
        "test": {"ndcg@50": 0.25}, "most_popular": {"ndcg@50": 0.125}, "seconds": {"total": 3.2}
    }  # fmt: skip
    about = {"system": "bpr", "report": report}
    lines = few_lines(Recommender(type(saved)(**vars_of(saved) | {"about": about})))
    assert lines[2] == "seconds 3.2"
    assert lines[3] == "NDCG@50 0.2500 on test rows, NDCG@50 0.1250 for most popular"


def vars_of(saved: object) -> dict:
    return {name: getattr(saved, name) for name in saved.__dataclass_fields__}


@pytest.mark.parametrize(
    "about", [{}, {"system": 7, "report": [], "hyper_parameters": None, "valid": {"ndcg@50": "x"}}]
)
def test_a_model_that_says_little_of_itself_is_still_described(model, about):
    saved = model.recommender_.saved
    few_lines(Recommender(type(saved)(**vars_of(saved) | {"about": about})))


def test_a_report_has_a_line_for_each_length_of_list(model, parts):
    lines = few_lines(model.evaluate(parts.held_out))
    assert lines[0] == "Report: 12 users with 12 held-out rows, all 7 items ranked"
    assert [line.partition(" ")[0] for line in lines[1:]] == [
        "precision@10", "precision@20", "precision@50"
    ]  # fmt: skip
    many = few_lines(model.evaluate(parts.held_out, ks=(1, 2, 3, 4, 5)))
    assert many[-1] == "see means() for @4, @5"


def test_a_split_reports_both_parts_and_its_warning(parts, data):
    assert few_lines(parts)[0].startswith("Split: per user")
    assert few_lines(parts)[1] == f"train: {parts.train.size_text()}"
    assert few_lines(sdgar.split(data, "leave-last-out"))[-1].startswith("warning: leave-last-out")


def test_html_is_escaped_and_a_screen_is_not_moved():
    known = sdgar.Features.from_columns([1], {"<b>": ["\x1b[2J&"]})
    assert "<b>=" not in known._repr_html_()
    assert "&lt;b&gt;=\\x1b[2J&amp;" in known._repr_html_()
    assert "\x1b" not in repr(known)
