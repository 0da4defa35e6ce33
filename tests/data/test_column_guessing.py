"""Which column is what, and what happens if that is unclear."""

from __future__ import annotations

from typing import Any

import pytest

from sdgar.data.read_options import ReadOptions
from sdgar.data.readers.columns import Columns, resolve
from sdgar.errors import DataError, UsageError


@pytest.mark.parametrize(
    ("names", "wanted"),
    [
        ("user_id item_id ts", "user_id item_id ts -"),
        ("UserID MovieID Timestamp", "UserID MovieID Timestamp -"),
        ("user:token item:token time:float", "user:token item:token time:float -"),
        ("customer-id asin unixReviewTime", "customer-id asin unixReviewTime -"),
        ("visitorid event itemid", "visitorid itemid - -"),
        ("userID artistID weight", "userID artistID - weight"),
        ("plays song_id remark uid", "uid song_id - plays"),
    ],
)
def test_names_people_use_are_known(names: str, wanted: str) -> None:
    columns, _ = resolve(names.split(), ReadOptions())
    user, item, time, weight = (None if name == "-" else name for name in wanted.split())
    assert (columns.user, columns.item, columns.time) == (user, item, time)
    assert columns.weight is None
    assert columns.offered == (() if weight is None else (weight,))
    assert columns.guessed[:2] == ("user", "item")


def test_what_is_named_is_not_guessed() -> None:
    options = ReadOptions(user="session_id", item="title", time="none")
    columns, _ = resolve(["user_id", "session_id", "item_id", "title", "ts"], options)
    assert columns == Columns("session_id", "title")
    assert columns.sentence() == "user=session_id item=title"


def test_the_sentence_says_what_was_guessed_and_how_to_change_it() -> None:
    columns, _ = resolve(["user_id", "item_id", "ts"], ReadOptions(item="item_id"))
    assert columns.sentence() == (
        "user=user_id item=item_id time=ts (guessed: user, time; set with "
        "--user-column, --time-column)"
    )


def test_two_columns_like_a_time_are_not_used_and_noted() -> None:
    columns, notes = resolve(["user", "item", "date", "ts"], ReadOptions())
    assert columns.time is None
    assert "date and ts are all named like a time" in notes[0]


GRADE = {"rating": "grade", "min_rating": "unset"}


@pytest.mark.parametrize(
    ("names", "options", "code", "message"),
    [
        ("user_id session_id item", {}, "ambiguous_column", "'user_id' and 'session_id'"),
        ("user item sku", {}, "ambiguous_column", "--item-column NAME"),
        ("wer was", {}, "missing_column", "Columns: wer, was"),
        ("wer was wann", {}, "missing_column", "Columns: wer, was, wann"),
        ("user was wann", {}, "missing_column", "which column is the item"),
        ("user item", {"user": "usr"}, "missing_column", "Did you mean 'user'?"),
        ("user item", {"user": "none"}, "missing_column", "no column 'none'"),
        ("user item", {"user": "item"}, "missing_column", "which column is the item"),
        ("user item", {"user": "item", "item": "item"}, "same_column", "both the user and the"),
        ("user item stars", {"min_rating": "unset"}, "threshold_required", "--weight-column stars"),
        ("user item grade", GRADE, "threshold_required", "--min-rating none"),
        ("user item stars score", {}, "ambiguous_column", "stars and score"),
        ("user item", {"min_rating": 3}, "missing_column", "--rating-column NAME"),
        ("user item stars score", {"min_rating": 3}, "ambiguous_column", "stars and score"),
    ],
)
def test_what_is_unclear_is_a_usage_error(
    names: str, options: dict[str, Any], code: str, message: str
) -> None:
    with pytest.raises(UsageError) as caught:
        resolve(names.split(), ReadOptions(**options))
    assert caught.value.code == code
    assert message in str(caught.value)


@pytest.mark.parametrize("names", ["u1 i1", "3f2a 9b1c"])
def test_two_columns_that_look_like_data_are_not_guessed(names: str) -> None:
    with pytest.raises((UsageError, DataError)):
        resolve(names.split(), ReadOptions())


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"delimiter": ":::"}, "one character"),
        ({"delimiter": '"'}, "one character"),
        ({"delimiter": ""}, "one character"),
        ({"duplicates": "first"}, "Known: error, last, max, sum"),
        ({"min_rating": float("nan")}, "a number"),
        ({"min_rating": "4"}, "a number"),
        ({"header_columns": ("user", "item", "item")}, "names 'item' more than once"),
    ],
    ids=str,
)
def test_an_option_that_cannot_work_is_refused_at_once(
    option: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        ReadOptions(**option)


def test_a_hundred_thousand_columns_are_no_burden() -> None:
    names = [f"c{n}" for n in range(100_000)]
    assert resolve([*names, "user", "item"], ReadOptions())[0].item == "item"
    with pytest.raises(UsageError, match="and 99,970 more"):
        resolve(names, ReadOptions())
