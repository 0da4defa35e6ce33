"""A store is read as a file of its events would be, and written to files."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import sdgar
from sdgar.data import feedback
from sdgar.data.readers import read_files, read_options
from sdgar.errors import DataError, SdgarError, UsageError
from sdgar.serve.event_tables import export_events
from sdgar.serve.store import Database, Entry, Event, Impression
from sdgar.serve.store.database import copy_store


def test_integers_come_out_as_integers_and_times_as_times(store, url):
    store.add_events([Event("17", "a", time=1_700_000_000.5), Event("9", "b", time=0.25)])
    data = sdgar.read(url, verbose=False)
    assert data.users.values.tolist() == [9, 17]
    assert data.items.values.tolist() == ["a", "b"]
    assert sorted(data.time_E.tolist()) == [250_000, 1_700_000_000_500_000]
    assert data.weight_E is None
    assert data.account.sentence() == "2 rows read = 2 kept"


def test_one_id_that_is_no_integer_makes_all_text(store, url):
    store.add_events([Event("17", "1"), Event("017", "2")])
    data = sdgar.read(url, verbose=False)
    assert data.users.values.tolist() == ["017", "17"]
    assert data.items.values.tolist() == [1, 2]


def test_the_store_and_a_file_of_the_same_rows_are_read_alike(store, url, tmp_path):
    rows = [
        ("u1", "i1", "view", 5), ("u1", "i2", "buy", 7), ("u2", "i1", "skip", 8),
        ("u1", "i1", "view", 9), ("u3", "i3", "Dislike", 10), ("u2", "i2", "view", 11),
    ]  # fmt: skip
    store.add_events([Event(u, i, k, float(t)) for u, i, k, t in rows])
    file = tmp_path / "events.csv"
    frame = pl.DataFrame(rows, schema=["user", "item", "kind", "time"], orient="row")
    frame.write_csv(file)
    one, other = sdgar.read(url, verbose=False), sdgar.read(file, verbose=False)
    assert one.account == other.account
    assert one.account.as_dict()["filtered"] == {"negative_kind": 2}
    assert one.account.as_dict()["duplicates"] == 1
    for name in ("items_E", "indptr_U1", "time_E"):
        assert np.array_equal(getattr(one, name), getattr(other, name))
    assert one.users.values.tolist() == other.users.values.tolist() == ["u1", "u2", "u3"]
    assert one.seen is not None
    assert len(one.seen.items_E) == len(other.seen.items_E) == 1  # i3 has no row to learn from


def test_negative_kinds_are_named_in_one_line(store, url):
    rows = (("a", "1", "view"), ("a", "2", "Thumbs-Down"), ("b", "1", "x"))
    store.add_events([Event(*row) for row in rows])
    loaded = read_files([url])
    assert loaded.facts["kinds"] == (
        "x (1), view (1) count as positive; Thumbs-Down (1) do not, and are not recommended again; "
        "--kinds says otherwise"
    )
    assert len(loaded.interactions) == 2


def test_kinds_are_chosen(store, url):
    store.add_events([Event("a", str(n), kind) for n, kind in enumerate(["view", "buy", "skip"])])
    bought = read_files([url], read_options(kinds=("buy",)))
    assert bought.interactions.items.values.tolist() == [1]
    assert bought.interactions.account.as_dict()["filtered"] == {
        "negative_kind": 1, "other_kind": 1
    }  # fmt: skip
    skipped = read_files([url], read_options(kinds=("skip", "by")))
    assert skipped.interactions.items.values.tolist() == [2]
    assert "no row has the kind 'by'. Did you mean 'buy'?" in skipped.notes
    with pytest.raises(DataError, match=r"no row to learn from.*other_kind"):
        sdgar.read(url, kinds=("by",), verbose=False)
    assert len(sdgar.read(url, kind="none", verbose=False)) == 3
    with pytest.raises(UsageError, match="needs a column of kinds"):
        sdgar.read(url, kind="none", kinds=("buy",))
    with pytest.raises(UsageError, match="--kinds names no kind"):
        sdgar.read(url, kinds=())


def test_kinds_need_a_column_of_them():
    with pytest.raises(UsageError, match="--kind-column NAME"):
        sdgar.read({"user": [1], "item": [2]}, kinds=("buy",))
    rows = {"user": [1, 1], "item": [2, 3], "what": ["buy", None]}
    assert len(sdgar.read(rows, kind="what", verbose=False)) == 2  # one without a kind counts


def test_weights_are_those_of_files_and_below_0_speaks_against(store, url):
    store.add_events([
        Event("a", "1", weight=3.0), Event("a", "2"), Event("b", "1", weight=-1.0),
        Event("b", "2", weight=0.0),
    ])  # fmt: skip
    loaded = read_files([url], read_options(weight="weight"))
    assert loaded.interactions.weight_E.tolist() == [3.0, 1.0]
    assert loaded.interactions.account.as_dict()["filtered"] == {
        "negative_kind": 1, "zero_weight": 1
    }  # fmt: skip
    assert "--weight-column weight" in read_files([url]).facts["weights"]


def test_a_store_of_one_kind_without_weights_needs_no_words(store, url):
    store.add_events([Event("a", "1"), Event("a", "2")])
    loaded = read_files([url])
    assert not {"kinds", "weights"} & set(loaded.facts)
    with pytest.raises(UsageError, match="no column 'weight'"):
        sdgar.read(url, weight="weight")


def test_many_batches_are_one_table(store, url, monkeypatch):
    store.add_events([Event(str(n % 7), str(n)) for n in range(50)])
    monkeypatch.setattr(Database.event_rows, "__kwdefaults__", {"batch": 8})
    assert len(sdgar.read(url, verbose=False)) == 50


def test_contexts_come_from_the_time_of_a_store(store, url):
    store.add_events([Event("a", "1", time=3600.0 * hour) for hour in (8, 20)])
    assert sdgar.read(url, context=("user", "hour"), verbose=False).n_users == 2


@pytest.mark.parametrize(
    ("paths", "options", "code"),
    [
        (["sqlite:///no.db"], {}, "no_such_store"),
        (["sqlite:///no.db", "events.csv"], {}, "mixed_formats"),
        (["mongodb://example.org/events"], {}, "unknown_store"),
        (["sqlite:///no.db"], {"delimiter": ","}, "unused_option"),
    ],
)
def test_what_cannot_be_read_is_refused_and_nothing_is_made(
    paths, options, code, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SdgarError) as caught:
        sdgar.read(paths, **options)
    assert caught.value.code == code
    assert list(tmp_path.iterdir()) == []


def test_a_store_without_events_has_nothing_to_learn_from(store, url):
    with pytest.raises(DataError, match="has no events yet") as caught:
        sdgar.read(url)
    assert caught.value.code == "no_rows"


def test_kinds_against_an_item():
    against = ("dislike", "SKIP", "not interested", "buy below 0", "return")
    others = ("view", "buy", "like", "event", "", "below 0")
    assert [one for one in (*against, *others) if feedback.is_negative_kind(one)] == [*against]


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl"])
def test_an_export_is_read_as_the_store_is(tmp_path, ending):
    url, file = f"sqlite:///{tmp_path}/s.db", tmp_path / f"events.{ending}"
    with Database.open(url) as store:
        store.add_events([
            Event("1", "a", "view", 1_700_000_000.25, key="k", request="r"),
            Event("2", "b", "dislike", 1_700_000_001.0),
            Event("2", "a", "buy", 1_700_000_002.0),
        ])  # fmt: skip
    assert export_events(url, file) == 3
    one, other = sdgar.read(url, verbose=False), sdgar.read(file, verbose=False)
    assert one.fingerprint() == other.fingerprint()
    assert one.account == other.account


def test_an_export_has_all_columns_in_order(store, url, tmp_path, monkeypatch):
    store.add_events([Event("1", str(2**63 + n), weight=n, key=str(n)) for n in range(20)])
    monkeypatch.setattr(Database.event_rows, "__kwdefaults__", {"batch": 6})
    assert export_events(url, tmp_path / "e.parquet") == 20
    frame = pl.read_parquet(tmp_path / "e.parquet")
    assert frame.columns == [
        "number", "user", "item", "kind", "time", "weight", "request", "key", "received"
    ]  # fmt: skip
    assert frame["item"].to_list() == [2**63 + n for n in range(20)]
    assert frame["number"].is_sorted()
    assert frame["time"].dtype == pl.Datetime("us", "UTC")


def test_an_empty_store_exports_an_empty_table(store, url, tmp_path):
    assert export_events(url, tmp_path / "e.parquet") == 0
    assert pl.read_parquet(tmp_path / "e.parquet").height == 0


def test_a_store_moves_with_all_it_has(tmp_path, postgresql_url):
    source = f"sqlite:///{tmp_path}/from.db"
    with Database.open(source) as one, Database.open(postgresql_url) as two:
        one.add_events([Event("a", "1", key="k"), Event("b", "2", weight=1.5)])
        one.put("item", Entry("1", "Lamp", None, ("x", "y"), {"p": 1.0}, True))
        one.add_key("web", "read")
        one.add_impressions([Impression("r", 1.0, "a", ("1",), "m", "A", "model")])
        one.request_model("v1", "runs/a")
        one.add_report("s", "v1", "serving")
        counts = copy_store(one, two)
        assert counts["events"] == 2
        names = ("keys", "reports", "latest_request", "categories", "catalogue_version", "latest")
        for name in names:
            assert getattr(one, name)() == getattr(two, name)()
        assert one.events_after(0) == two.events_after(0)
        assert one.get("item", "1") == two.get("item", "1")
        two.add_events([Event("c", "3"), Event("a", "1", key="k")])
        assert [event.user for event in two.events_after(0)[0]] == ["a", "b", "c"]
        two.request_model("v2", "runs/b")
        assert two.latest_request().version == "v2"
        with pytest.raises(UsageError, match="has rows") as caught:
            copy_store(one, two)
        assert caught.value.code == "store_not_empty"
        with Database.open(f"sqlite:///{tmp_path}/back.db") as back:
            copy_store(two, back)
            assert back.events_after(0) == two.events_after(0)
