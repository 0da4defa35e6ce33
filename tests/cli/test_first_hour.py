"""The first hour: what the commands print is what the page shows, and it fits the screen."""

from __future__ import annotations

import polars as pl
import pytest

from .first_hour import HOUR, PAGE, WIDTH, commands, hour, masked


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("hour")


@pytest.fixture(scope="module")
def said(place) -> dict[str, str]:
    return {command: text for _, command, text in hour(place)}


@pytest.mark.parametrize("command", [command for _, command in HOUR])
def test_a_command_prints_what_the_page_shows(said, command):
    shown = commands(PAGE.read_text())
    assert masked(command, said[command]) == masked(command, shown[command])


@pytest.mark.parametrize("command", [command for _, command in HOUR])
def test_lines_fit_the_screen(said, command):
    # Errors are one line where nobody looks on; an equation keeps its line.
    lines = [line for line in said[command].splitlines() if not line.startswith(("error:", "    "))]
    assert [line for line in lines if len(line) > WIDTH] == []


def test_the_page_has_every_command_once():
    assert list(commands(PAGE.read_text())) == [command for _, command in HOUR]


def test_the_demo_leaves_a_picture_and_beats_most_popular(said, place):
    assert (place / "runs/demo/training.png").read_bytes().startswith(b"\x89PNG")
    ndcg = next(line for line in said[HOUR[1][1]].splitlines() if line.startswith(" ndcg"))
    ours, popular = (float(ndcg.split()[place]) for place in (3, 6))
    assert ours > popular


def test_lists_of_all_users_hold_nothing_of_the_file(said, place):
    lists = pl.read_parquet(place / "lists.parquet")
    events = pl.read_csv(place / "events.csv")
    known = events.select(user="user_id", item="item_id")
    assert lists["user"].n_unique() == events["user_id"].n_unique()
    assert lists.join(known, on=["user", "item"]).is_empty()
