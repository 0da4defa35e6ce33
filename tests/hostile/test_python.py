"""Hostile and unlucky cases of the Python side: wrong words, wrong rows, a system without locks."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pandas
import polars
import pytest

import sdgar as package
from sdgar.errors import UsageError

from ..cli.test_cli import result_of, sdgar
from .cases import check, refused, table

ROWS = {"user": ["a", "a", "b", "c"], "item": ["x", "y", "y", "z"]}


def _data() -> package.Interactions:
    return package.read(ROWS)


def _without_locks(folder: Path, *words: object) -> Any:
    """Run a command where there is no fcntl, as on Windows."""
    events = folder / "events.csv"
    events.write_text("user,item\na,x\na,y\nb,y\nc,z\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "fcntl", None)
        done = sdgar(words[0], events, *words[1:], "--out", folder / "out")
    assert [path.name for path in folder.iterdir()] == ["events.csv"], "something was left behind"
    return done


NO_LOCKS = ("runs on Linux and macOS", "fcntl", "use WSL")
TRAINED = ("train", "--system", "popular", "--split", "none")
CASES = {
    "a training has no locks": (lambda f: _without_locks(f, *TRAINED), *NO_LOCKS),
    "a comparison has no locks": (
        lambda f: _without_locks(f, "compare", "--systems", "popular"),
        *NO_LOCKS,
    ),
    "the name of a system is unknown": (
        lambda _: sdgar("systems", "sdsoftmx"),
        "unknown system 'sdsoftmx'",
        "Did you mean 'sdsoftmax'?",
    ),
    "a row that is not there": (lambda _: _data()[[9]], "no such rows as [9]", "numbers below 4"),
    "a row is chosen twice": (lambda _: _data()[[1, 1]], "row may be chosen only once", "[1, 1]"),
    "rows are chosen by a name": (lambda _: _data()["user"], "by a slice, by numbers", "'user'"),
    "a model is scored before it is fitted": (
        lambda _: package.BPR().score(_data()),
        "not fitted",
        "fit(train) first",
    ),
    "a model is scored on a list": (
        lambda _: package.MostPopular().fit(_data()).score([1, 2]),
        "test must be",
        "sdgar.read(source)",
    ),
}
NO_ROW = {"no row is chosen": (lambda _: _data()[[False] * 4], "no row to learn from")}


@table([*refused(2, CASES), *refused(3, NO_ROW)])
def test_the_python_side_names_the_value_and_the_cure(case, tmp_path):
    check(case, tmp_path)


def test_the_list_of_systems_has_all_of_them_in_one_line_each():
    from sdgar.systems.names import SYSTEMS

    done = sdgar("systems", "--json")
    assert list(result_of(done)["systems"]) == list(SYSTEMS)
    shown = sdgar("systems").stdout.splitlines()
    assert [line.split()[0] for line in shown[:-1]] == list(SYSTEMS)


@pytest.mark.parametrize(
    "name", ["popular", "ials", "bpr", "cml", "irgan", "sdsoftmax", "composed"]
)
def test_a_system_is_described_by_its_class(name):
    from sdgar.settings import flat_settings
    from sdgar.systems.names import SYSTEMS

    done = sdgar("systems", name, "--json")
    found = result_of(done)
    assert [s["name"] for s in found["settings"]] == list(flat_settings(SYSTEMS[name]()))
    for setting in found["settings"]:
        shown = rf"^{setting['name']}: .* = {re.escape(repr(setting['default']))}"
        assert re.search(shown, done.stderr, re.MULTILINE)
    assert f"sdgar.{SYSTEMS[name].__name__}" == found["class"]


def test_what_a_system_can_do_is_what_it_does():
    names = ("sdsoftmax", "cml", "irgan")
    can = {name: result_of(sdgar("systems", name, "--json")) for name in names}
    softmax, metric, irgan = (can[name]["can"] for name in names)
    assert softmax["takes new users by their history"] == "yes"
    assert softmax["contexts of several fields"] == "also contexts without training rows"
    assert softmax["runs on fused-cpu"] == "yes"
    assert metric["runs on fused-cpu"] == "yes"
    assert irgan["runs on fused-cpu"].startswith("no: it has no code for the sampler Softmax")
    assert metric["contexts of several fields"] == "only contexts with training rows"
    assert metric["takes new users by their history"].startswith("no")
    tau = next(s for s in can["sdsoftmax"]["settings"] if s["name"] == "tau")
    assert tau["search"] == "from 0.07 to 0.5"
    assert tau["default"] is None


@pytest.mark.parametrize("frame", [pandas.DataFrame, polars.DataFrame])
def test_users_in_a_frame_are_its_one_column(frame):
    model = package.MostPopular().fit(_data())
    users = _data().users.values[:2].tolist()
    assert len(model.recommend(frame({"user": users}), k=1)) == 2
    with pytest.raises(UsageError, match=r"the frame has 2: user, item\. Pass .* frame\['user'\]"):
        model.recommend(frame({"user": users, "item": users}), k=1)
