"""``sdgar plan`` says what a training would take, and ``sdgar train`` says it of its own."""

from __future__ import annotations

import json

import pytest

import sdgar
from sdgar.cli.planned import duration, size
from sdgar.scale.planner.rates import Rates

from ..recommend.rules.test_lists import run

RATES = Rates(
    start=7e9, classes=9e8, users=2e9, prepare=9e8, visits=9e8, follow=3e8, pairs=1e8, systems=1e9,
    choose=2e10, measure=2e10,
)  # fmt: skip
SIZES = ("--users", "1e9", "--items", "1e8", "--events", "1e11", "--set", "dim=64")


@pytest.fixture
def rates(tmp_path):
    path = tmp_path / "rates.json"
    path.write_text(json.dumps(RATES.as_dict()))
    return "--rates", path


def told(*words: object) -> dict:
    code, out, err = run("plan", *words, "--json")
    assert code == 0, err
    return json.loads(out.splitlines()[-1])


def test_a_plan_has_memory_seconds_cost_and_what_ends_first(rates):
    found = told(*SIZES, *rates, "--price", "3")
    assert found["machines"]["count"] == 1
    assert found["memory"]["items: vectors"] == 1e8 * 8 * 64
    assert found["memory"]["items: generator"] == 1e8 * 32 * 64
    assert found["epoch_cost"] == pytest.approx(3 * found["epoch_seconds"] / 3600)
    assert found["limits"][0]["what"].startswith("Items do not fit")
    assert found["limits"][0]["growth"] == pytest.approx(2.1, rel=0.02)
    assert Rates.from_dict(found) == RATES


def test_items_are_shared_out_where_they_do_not_fit(rates):
    words = (*SIZES, *rates, "--memory", "64GiB", "--set", "memory=0")
    found = told(*words)
    assert (found["items"], found["fits"]) == ("shared", True)
    assert not told(*words, "--machines", found["machines"]["count"] - 1)["fits"]
    code, _, err = run("plan", *words, "--layout", "copied")
    assert code == 5
    assert "no number of machines with 64.0 GiB has room" in err


def test_a_plan_is_shown_in_tables_of_its_parts(rates):
    code, out, _ = run("plan", *SIZES, *rates, "--machines", "16", "--network", "10Gbit")
    assert code == 0
    for text in ("16 machines with 64 cores and 512.0 GiB", "items: generator", "laying rows out",
                 "longest", "limit", "525.0 KiB sent by a machine"):  # fmt: skip
        assert text in out
    assert "cost" not in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--users", "many"), "--users must be a number from 1 to 1e18"),
        (("--items", "0"), "--items must be a number from 1 to 1e18"),
        (("--machines", "0"), "--machines must be at least 1"),
        (("--network", "fast"), "--network must be bytes or bits a second"),
        (("--disk", "0GB"), "--disk must be bytes or bits a second"),
        (("--price", "-1"), "--price must be a number of at least 0"),
        (("--layout", "spread"), "spread"),
        (("--system", "popular"), "popular cannot be trained on shards"),
        (("--rates", "/no/such/file"), "/no/such/file has no rates"),
    ],
)
def test_words_that_no_plan_can_be_made_of_are_refused(rates, words, said):
    given = {"--users": "10", "--items": "10", "--events": "100"}
    given |= dict(zip(words[::2], words[1::2], strict=True))
    base = [word for pair in given.items() for word in pair]
    code, _, err = run("plan", *(() if "--rates" in given else rates), *base)
    assert code in (2, 3)
    assert said in err


def test_sizes_and_times_are_written_in_units_that_people_read():
    assert [size(n) for n in (12, 2048, 3 * 2**30, 5e12)] == [
        "12 bytes", "2.0 KiB", "3.0 GiB", "4.5 TiB"
    ]  # fmt: skip
    assert [duration(s) for s in (0.25, 42, 100, 7000, 1e6)] == [
        "0.2 seconds", "42 seconds", "1.7 minutes", "1.9 hours", "11.6 days"
    ]  # fmt: skip


def test_training_on_shards_tells_its_memory_and_time_and_keeps_them(tmp_path):
    users, items = [n // 4 for n in range(80)], [n * n % 13 for n in range(80)]
    data = sdgar.Interactions.from_arrays(users, items, duplicates="last")
    sdgar.Shards.write(data, tmp_path / "s.shards", 2)
    words = ("train", tmp_path / "s.shards", "--system", "bpr", "--set", "dim=2")
    code, out, err = run(*words, "--set", "epochs=1", "--test-users", "5",
                         "--out", tmp_path / "run", "--json")  # fmt: skip
    assert code == 0, err
    assert "GiB for items" in err
    assert "by a short probe" in err
    found = json.loads(out.splitlines()[-1])
    assert found["estimate"]["seconds"].keys() == found["seconds"].keys()
    assert found["estimate"]["bytes"] > 0
    about = json.loads((tmp_path / "run" / "manifest.json").read_text())["about"]
    assert about["report"]["estimate"] == found["estimate"]
