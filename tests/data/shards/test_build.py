"""Shards of files hold what a load in memory gives: rows, ids, weights, times and the account."""

from __future__ import annotations

import hashlib
import itertools
import json
import shutil
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sdgar.data.readers import ReadOptions, read_files
from sdgar.errors import DataError, ResourceError, SdgarError, UsageError
from sdgar.scale.shards import Shards, runs
from sdgar.scale.shards.build import shard_files
from sdgar.scale.shards.runs import write_ranks

SMALL, LARGE = True, False
"""Whether files are read in small pieces, so that there are several runs."""


def bytes_of(folder: Path) -> dict[str, str]:
    """The SHA-256 of every file of a folder, by its name."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def outcome(work) -> tuple[object, ...]:
    """What reading gives, or the words in which it is refused."""
    try:
        data, *more = work()
    except SdgarError as error:
        return type(error).__name__, error.code, str(error)
    return data.fingerprint(), data.account, data.account.sentence(), *more


def in_memory(file: Path, options: ReadOptions) -> tuple[object, ...]:
    def work():
        loaded = read_files([file], options)
        return loaded.interactions, *(loaded.facts.get(n, "") for n in ("weights", "seen", "kinds"))

    return outcome(work)


def in_shards(file: Path, out: Path, options: ReadOptions, n: int, small: bool):
    def work():
        with pytest.MonkeyPatch.context() as patched:
            if small:
                patched.setattr(runs, "_BLOCK_BYTES", 400)
                patched.setattr(runs, "_RUN_ROW_BYTES", runs.RAM // 13)
            shards = shard_files([file], out, options, n_shards=n)
        about = shards.described.about
        return shards.interactions(), about["weighting"], about["seen"], about["kinds"]

    return outcome(work)


USERS = {
    "integers": st.integers(-12, 12).map(str),
    "large": st.integers(2**63 - 3, 2**63 + 5).map(str),
    "spelled": st.sampled_from(["7", "07", "é", "z", "10", "9"]),
}
TIMES = {
    "none": None,
    "seconds": st.integers(1_600_000_000, 1_600_000_050).map(str),
    "mixed": st.sampled_from(["1600000000", "1600000000000", "1.6e9", "", "x"]),
    "dates": st.sampled_from(["2024-03-01", "2024-03-01T10:00:00Z", "2024-03-01 10:00:00.5", "12"]),
}
WEIGHTS = {
    "none": None,
    "good": st.integers(1, 90).map(str),
    "odd": st.sampled_from(["1", "2.5", "0", "-1", "nan", "", "1e-60"]),
}
RATINGS = {"none": None, "good": st.integers(1, 5).map(str), "odd": st.sampled_from(["5", "true"])}
KINDS = {"none": None, "some": st.sampled_from(["view", "buy", "skip", ""])}


@st.composite
def tables(draw) -> tuple[dict[str, list[str]], ReadOptions]:
    """Rows of text with or without weights, times, ratings and kinds, and options to read them."""
    columns = {
        "user": draw(st.sampled_from(list(USERS.values()))),
        "item": draw(st.sampled_from(list(USERS.values()))),
        "time": draw(st.sampled_from(list(TIMES.values()))),
        "weight": draw(st.sampled_from(list(WEIGHTS.values()))),
        "rating": draw(st.sampled_from(list(RATINGS.values()))),
        "kind": draw(st.sampled_from(list(KINDS.values()))),
    }
    used = {name: values for name, values in columns.items() if values is not None}
    rows = draw(st.lists(st.tuples(*used.values()), min_size=1, max_size=60))
    low = draw(st.sampled_from([None, 0.5, 3, 4]))  # a 4 is above what counts as positive
    options = ReadOptions(
        dislike_kinds=draw(st.sampled_from([None, ("buy",)])) if "kind" in used else None,
        dislike_below=low if "rating" in used or "weight" in used else None,
        weight="weight" if "weight" in used else None,
        weights=draw(st.sampled_from([None, "raw", "log"])) if "weight" in used else None,
        duplicates=draw(st.sampled_from(["error", "sum", "max", "last"])),
        allow_bad_rows=draw(st.booleans()),
        min_rating=draw(st.sampled_from(["auto", None])),
    )
    return dict(zip(used, map(list, zip(*rows, strict=True)), strict=True)), options


def write_as(kind: str, table: dict[str, list[str]], folder: Path) -> Path:
    """Write rows as a file of this kind; typed ones hold integers where all ids are integers."""
    frame = pl.DataFrame(table, schema=dict.fromkeys(table, pl.String))
    if kind == "csv":
        frame.write_csv(folder / "t.csv")
        return folder / "t.csv"
    for name in ("user", "item"):
        numbers = frame[name].cast(pl.Int128, strict=False)
        if numbers.null_count() == 0 and (numbers.cast(pl.String) == frame[name]).all():
            unsigned = numbers.max() >= 2**63
            frame = frame.with_columns(numbers.cast(pl.UInt64 if unsigned else pl.Int64))
    if kind == "parquet":
        frame.write_parquet(folder / "t.parquet", row_group_size=7)
        return folder / "t.parquet"
    (folder / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in frame.to_dicts()))
    return folder / "t.jsonl"


FORMATS = st.sampled_from(["csv", "jsonl", "parquet"])


@given(tables(), FORMATS, st.integers(1, 4))
@settings(max_examples=25)
def test_shards_hold_what_a_load_in_memory_gives(tmp_path_factory, table, kind, n_shards):
    require_equal(tmp_path_factory.mktemp("any"), table, kind, n_shards)


@pytest.mark.exhaustive
@given(tables(), FORMATS, st.integers(1, 4))
@settings(max_examples=500, derandomize=False)
def test_shards_of_many_files_hold_what_a_load_in_memory_gives(
    tmp_path_factory, table, kind, n_shards
):
    require_equal(tmp_path_factory.mktemp("any"), table, kind, n_shards)


def require_equal(folder: Path, table, kind: str, n_shards: int) -> None:
    """Shard a table in small and in large pieces, and hold both against a load in memory."""
    file = write_as(kind, table[0], folder)
    wanted = in_memory(file, table[1])
    found = [
        in_shards(file, folder / name, table[1], n_shards, small)
        for name, small in (("small", SMALL), ("large", LARGE))
    ]
    assert found == [wanted, wanted]
    assert not list(folder.glob(".*"))
    if (folder / "small").exists():
        assert bytes_of(folder / "small") == bytes_of(folder / "large")
        Shards.open(folder / "small", verify=True)
    shutil.rmtree(folder)


def rows(n: int = 200) -> pl.DataFrame:
    """Some rows of text ids, of which some repeat a pair."""
    at = pl.Series("at", range(n))
    return pl.DataFrame(
        {"user": "u" + (at * 7 % 23).cast(pl.String), "item": at * 5 % 17, "time": at + 10**9}
    )


@pytest.fixture
def file(tmp_path) -> Path:
    rows().write_csv(tmp_path / "events.csv")
    return tmp_path / "events.csv"


def test_bm25_gives_the_weights_of_a_load_in_memory(tmp_path):
    rows().with_columns(plays=pl.col("time") % 50 + 1).write_csv(tmp_path / "t.csv")
    options = ReadOptions(weight="plays", weights="bm25", duplicates="sum")
    assert in_shards(tmp_path / "t.csv", tmp_path / "s", options, 3, SMALL) == in_memory(
        tmp_path / "t.csv", options
    )


@pytest.mark.parametrize("item", ["10", "z"])
def test_an_item_that_is_only_disliked_is_left_out_in_shards(tmp_path, item):
    rows = f"1,{item},view\n2,é,buy\n2,{item},buy\n3,007,buy\n"
    (tmp_path / "t.csv").write_text("user,item,kind\n" + rows)
    options = ReadOptions(dislike_kinds=("buy",))
    wanted = in_memory(tmp_path / "t.csv", options)
    assert in_shards(tmp_path / "t.csv", tmp_path / "s", options, 2, LARGE) == wanted


def test_a_line_that_is_no_row_is_refused_in_the_same_words(tmp_path):
    (tmp_path / "t.csv").write_text("user,item\n" + "a,1\n" * 300 + 'b,2,3\n"c\n' + "a,2\n" * 300)
    for allow in (False, True):
        options = ReadOptions(allow_bad_rows=allow)
        wanted = in_memory(tmp_path / "t.csv", options)
        assert in_shards(tmp_path / "t.csv", tmp_path / "s", options, 2, SMALL) == wanted


def test_folders_and_patterns_of_files_are_read(tmp_path):
    for day, part in (("2024-03-01", 0), ("2024-03-02", 1), ("2024-03-02", 2)):
        place = tmp_path / "events" / "country=b%20c" / f"day={day}"
        place.mkdir(parents=True, exist_ok=True)
        rows()[part::3].write_parquet(place / f"{part}.parquet")
    (tmp_path / "events" / "_SUCCESS").write_text("")
    rows().write_csv(tmp_path / "all.csv")
    # The rows come in another order, which matters to no pair: the last one in time counts.
    whole = read_files([tmp_path / "all.csv"]).interactions
    for source in (tmp_path / "events", tmp_path / "events" / "*" / "*" / "*.parquet"):
        shards = shard_files([source], tmp_path / "s", n_shards=2, overwrite=True)
        assert shards.interactions().fingerprint() == whole.fingerprint()


def test_a_column_is_taken_by_its_name_and_not_as_a_pattern(tmp_path):
    rows().rename({"user": "*"}).write_parquet(tmp_path / "t.parquet")
    options = ReadOptions(user="*")
    wanted = in_memory(tmp_path / "t.parquet", options)
    assert in_shards(tmp_path / "t.parquet", tmp_path / "s", options, 2, SMALL) == wanted


@pytest.mark.parametrize(
    ("source", "how", "said"),
    [
        ("events.csv", {"options": ReadOptions(context=("user", "hour"))}, "the rows of users"),
        ("events.csv", {"ram": 1000}, "at least 256MiB"),
        ("nothing", {}, "folder without files"),
        ("sqlite:///store.db", {}, "sdgar data export"),
    ],
)
def test_what_cannot_be_sharded_is_refused(file, tmp_path, monkeypatch, source, how, said):
    (tmp_path / "nothing").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=said):
        shard_files([source], tmp_path / "s", **how)


def test_too_little_memory_for_a_shard_is_said_with_a_cure(file, tmp_path, monkeypatch):
    monkeypatch.setattr("sdgar.scale.shards.runs._SHARD_ROW_BYTES", 1 << 25)
    with pytest.raises(ResourceError, match=r"Make more shards, such as --shards \d+"):
        shard_files([file], tmp_path / "s", n_shards=2)


@pytest.mark.parametrize("at_once", [1, 3, 8, 100])
def test_users_are_numbered_alike_however_many_are_merged_at_once(file, tmp_path, at_once):
    shards = shard_files([file], tmp_path / "s", n_shards=4)
    folders = [shard.folder for shard in shards]
    wanted = [shard.rank_U.tolist() for shard in shards]
    for folder in folders:
        (folder / "rank.npy").unlink()
    write_ranks(folders, "text", at_once)
    assert [shard.rank_U.tolist() for shard in Shards.open(tmp_path / "s")] == wanted
    assert sorted(itertools.chain(*wanted)) == list(range(shards.n_users))


def test_bad_rows_leave_nothing_behind(tmp_path):
    (tmp_path / "t.csv").write_text("user,item\na,1\n,2\n")
    with pytest.raises(DataError):
        shard_files([tmp_path / "t.csv"], tmp_path / "s")
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]
