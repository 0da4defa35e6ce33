"""The commands of a store: keys, import, export, copy, train; none shows a password."""

from __future__ import annotations

import hashlib
import json
import sys

import polars as pl
import pytest

from sdgar.cli import app, inputs
from sdgar.cli.options.values import source
from sdgar.serve.store import Database, Entry, Event


@pytest.fixture
def sdgar(monkeypatch, tmp_path, capsys):
    """Run a command in an empty folder: exit code, what it prints, and its JSON."""
    monkeypatch.chdir(tmp_path)

    def run(*words: object):
        monkeypatch.setattr(sys, "argv", ["sdgar", *map(str, words)])
        code = app.answer(lambda: False)
        out, err = capsys.readouterr()
        return code, out + err, json.loads(out) if "--json" in words else None

    return run


STORE = "sqlite:///store.db"


def test_keys_are_made_listed_and_revoked(sdgar):
    code, said, made = sdgar("keys", "add", "web", "--role", "write", "--store", STORE,
                             "--expires", 2, "--json")  # fmt: skip
    assert code == 0
    with Database.open(STORE) as store:
        (key,) = store.keys()
    assert key.hash == hashlib.sha256(made["key"].encode()).hexdigest()
    assert (key.id, key.role, key.expires) == (made["id"], "write", pytest.approx(made["expires"]))
    _, said, listed = sdgar("keys", "list", "--store", STORE, "--json")
    assert listed["keys"][0] | {"created": 0, "expires": 0} == {
        "id": key.id, "name": "web", "role": "write", "created": 0, "expires": 0,
        "revoked": False, "state": "valid",
    }  # fmt: skip
    assert made["key"] not in said
    assert sdgar("keys", "revoke", key.id, "--store", STORE)[0] == 0
    assert "revoked" in sdgar("keys", "list", "--store", STORE)[1]
    code, said, _ = sdgar("keys", "revoke", "nothing", "--store", STORE)
    assert (code, "sdgar keys list --store" in said) == (2, True)


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("keys", "add", "x", "--role", "root", "--store", STORE), 2, "unknown role"),
        (("keys", "add", "x", "--store", STORE, "--expires", "0"), 2, "above 0"),
        (("keys", "add", "x", "--store", "store.db"), 2, "sqlite:///store.db"),
        (("keys", "list", "--store", STORE), 2, "there is no store"),
        (("keys", "revoke", "x", "--store", STORE), 2, "there is no store"),
        (("data", "export", STORE, "--out", "e.parquet"), 2, "there is no store"),
        (("train", STORE, "--out", "run"), 2, "there is no store"),
        (("train", "oracle://u:hush@h/x", "--out", "run"), 2, "oracle:// is no known source"),
        (("train", "postgresql://u:hush@127.0.0.1:1/x", "--out", "run"), 5, "server runs"),
        (("data", "stats", STORE, "x.csv"), 2, "read alone"),
    ],
)
def test_what_cannot_work_is_refused(sdgar, tmp_path, words, code, says):
    found, said, _ = sdgar(*words)
    assert (found, says in said) == (code, True), said
    assert "hush" not in said
    made = [path.name for path in tmp_path.iterdir() if path.name != "store.db"]
    assert made == []


def test_items_and_users_are_imported(sdgar, tmp_path):
    (tmp_path / "items.csv").write_text(
        "id,Title,picture,genres,price,colour,code,hidden\n"
        "1,Lamp,https://x/1.png,home|light,3.5,red,007,\n"
        "2,,,,4,,12,true\n"
    )
    code, said, made = sdgar("data", "import-items", "items.csv", "--store", STORE, "--json")
    assert (code, made["items"]) == (0, 2), said
    users = pl.DataFrame({"user_id": [5, 6], "name": ["Ann", None], "tags": [["a", "b"], []]})
    users.write_parquet(tmp_path / "users.parquet")
    assert sdgar("data", "import-users", "users.parquet", "--store", STORE)[0] == 0
    with Database.open(STORE) as store:
        lamp, other = store.get("item", "1"), store.get("item", "2")
        ann = store.get("user", "5")
        assert store.hidden_items() == ["2"]
    assert (lamp.name, lamp.picture, lamp.categories) == (
        "Lamp", "https://x/1.png", ("home", "light")
    )  # fmt: skip
    assert lamp.features == {"price": 3.5, "colour": "red", "code": "007"}
    assert (other.name, other.features) == (None, {"price": 4.0, "code": "12"})
    assert (ann.name, ann.features) == ("Ann", {"tags": "a|b"})


def test_json_lines_are_imported(sdgar, tmp_path):
    rows = [{"id": "a", "name": "A", "categories": ["x", "y"], "n": 1}, {"id": "b"}]
    (tmp_path / "items.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert sdgar("data", "import-items", "items.jsonl", "--store", STORE)[0] == 0
    with Database.open(STORE) as store:
        assert store.get("item", "a").categories == ("x", "y")
        assert store.get("item", "b") == Entry("b", updated=store.get("item", "b").updated)


def test_a_bad_row_imports_nothing(sdgar, tmp_path):
    (tmp_path / "items.csv").write_text("id,name\n1,good\n" + "x" * 300 + ",bad\n")
    code, said, _ = sdgar("data", "import-items", "items.csv", "--store", STORE)
    assert (code, "row 2" in said) == (3, True)
    with Database.open(STORE) as store:
        assert store.search("item", "") == []
    (tmp_path / "items.csv").write_text("number,name,size\n1,good,2\n")
    code, said, _ = sdgar("data", "import-items", "items.csv", "--store", STORE)
    assert (code, "--id-column NAME" in said) == (2, True)
    words = ("--store", STORE, "--id-column", "number")
    assert sdgar("data", "import-items", "items.csv", *words)[0] == 0


def fill(url: str) -> None:
    with Database.open(url) as store:
        store.add_events([
            Event(str(u), str((u * 7 + n) % 40), "view" if n else "dislike", 1.7e9 + n * 60 + u)
            for u in range(60) for n in range(8)
        ])  # fmt: skip


def test_an_export_is_replaced_only_with_overwrite(sdgar, tmp_path):
    fill(STORE)
    words = ("data", "export", STORE, "--out", "e.parquet")
    code, _, result = sdgar(*words, "--json")
    assert (code, result) == (0, {"store": STORE, "events": 480, "out": "e.parquet"})
    assert sdgar(*words)[0] == 2
    assert sdgar(*words, "--overwrite")[0] == 0
    assert pl.read_parquet(tmp_path / "e.parquet").height == 480
    assert sorted(path.name for path in tmp_path.iterdir()) == ["e.parquet", "store.db"]


def test_a_model_is_trained_from_a_store(sdgar, url, tmp_path):
    fill(url)
    code, said, summary = sdgar("train", url, "--system", "popular", "--out", "run", "--json")
    assert code == 0, said
    assert "480 rows read = 420 kept + 60 filtered (negative_kind)" in " ".join(said.split())
    assert "dislike (60) do not" in " ".join(said.split())
    assert "s3cret" not in said
    written = [p.read_bytes() for p in (tmp_path / "run").rglob("*") if p.is_file()]
    assert b"s3cret" not in b"".join(written)
    assert summary["out"] == "run"


def test_a_run_goes_on_with_the_events_that_it_began_with(sdgar, tmp_path):
    fill(STORE)
    (fixed,) = inputs.bounded([source(STORE)])
    fill(STORE)
    said = [sdgar("data", "stats", place)[1] for place in (fixed.absolute(), STORE)]
    assert "480 rows read" in said[0]
    assert "960 rows read" in said[1]
    assert inputs.bounded(None) is None


def test_a_run_keeps_no_password_and_goes_on_with_one_from_elsewhere(
    sdgar, postgresql_url, tmp_path, monkeypatch
):
    (kept,) = inputs.absolute([source(postgresql_url)])
    assert "s3cret" not in kept
    monkeypatch.setenv("PGPASSWORD", "s3cret:/word")
    Database.open(kept).close()


def test_a_store_is_copied(sdgar, postgresql_url):
    fill(STORE)
    code, said, result = sdgar("data", "copy", STORE, "--to", postgresql_url, "--json")
    assert (code, result["rows"]["events"]) == (0, 480), said
    assert "s3cret" not in said
    with Database.open(postgresql_url) as store:
        assert store.count_events() == 480
