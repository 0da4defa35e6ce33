"""A ledger measures what has no line yet, and reads the rest."""

from __future__ import annotations

import json

import pytest

from sdgar.errors import UsageError
from sdgar.storage.ledger import Ledger, Line
from sdgar.storage.sealed import DamagedError


def ledger(path, *, empty: bool = False) -> Ledger[str]:
    def key_of(line: Line) -> str:
        if not isinstance(line.get("name"), str):
            raise DamagedError(path, "a line has no name")
        return line["name"]

    return Ledger(path, format="test 1", what="a test", key_of=key_of, empty=empty)


def test_what_was_added_is_found_by_the_next_who_opens_it(tmp_path):
    path = tmp_path / "a.jsonl"
    with ledger(path) as kept:
        assert kept.find("x") is None
        kept.add({"name": "x", "value": 1})
        assert kept.find("x")["value"] == 1
        with pytest.raises(UsageError, match="another process"), ledger(path):
            pass
    with ledger(path) as kept:
        assert [line["value"] for line in kept] == [1]
        kept.add({"name": "y", "value": 2})
    assert [json.loads(line)["name"] for line in path.read_text().splitlines()] == ["x", "y"]
    with ledger(path, empty=True) as kept:
        assert list(kept) == []


def test_a_torn_last_line_is_measured_again(tmp_path):
    path = tmp_path / "a.jsonl"
    with ledger(path) as kept:
        kept.add({"name": "x", "value": 1})
        kept.add({"name": "y", "value": 2})
    path.write_bytes(path.read_bytes()[:-5])
    with ledger(path) as kept:
        assert kept.find("y") is None
        assert kept.find("x")["value"] == 1


@pytest.mark.parametrize(
    ("before", "after"), [('"value": 1', '"value": 9'), ("test 1", "test 2"), ('"name"', '"nome"')]
)
def test_a_line_that_was_changed_is_refused(tmp_path, before, after):
    path = tmp_path / "a.jsonl"
    with ledger(path) as kept:
        kept.add({"name": "w", "value": 0})
        kept.add({"name": "x", "value": 1})
    first, second = path.read_text().splitlines()
    path.write_text(f"{first}\n{second.replace(before, after)}\n")
    with pytest.raises(DamagedError), ledger(path):
        pass
    with pytest.raises(DamagedError), ledger(path):  # the file was given back
        pass


def test_without_a_path_lines_are_kept_in_memory():
    with ledger(None) as kept:
        kept.add({"name": "x"})
        assert kept.find("x") is not None
