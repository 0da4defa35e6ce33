"""Files of interactions: formats, ids, weights, times, and the account of the rows."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from sdgar.data.interactions import Interactions
from sdgar.data.readers import BadRows, ReadOptions, read_files
from sdgar.errors import DataError

from .conftest import Load

PLAIN = "user,item\n1,10\n1,11\n2,10\n"


def pairs(interactions: Interactions) -> set[tuple[object, object]]:
    users = interactions.users.values[interactions.users_E].tolist()
    items = interactions.items.values[interactions.items_E].tolist()
    return set(zip(users, items, strict=True))


def zstd(content: bytes) -> bytes:
    return bytes(pa.Codec("zstd").compress(content, asbytes=True))


# Formats


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.csv", PLAIN.encode()),
        ("x.tsv", PLAIN.replace(",", "\t").encode()),
        ("X.CSV", PLAIN.encode()),
        ("x.csv.gz", gzip.compress(PLAIN.encode())),
        ("x.csv.zst", zstd(PLAIN.encode())),
        ("x.jsonl", b'{"user":1,"item":10}\n{"user":1,"item":11}\n\n{"user":2,"item":10}'),
        (
            "x.ndjson.gz",
            gzip.compress(
                b'{"user":1,"item":10}\n' * 2 + b'{"user":1,"item":11}\n{"user":2,"item":10}\n'
            ),
        ),
    ],
    ids=["csv", "tsv", "upper case", "gzip", "zstd", "jsonl", "ndjson.gz"],
)
def test_every_format_gives_the_same_pairs(load: Load, name: str, content: bytes) -> None:
    loaded = load(content, name)
    assert pairs(loaded.interactions) == {(1, 10), (1, 11), (2, 10)}
    assert loaded.notes == ()


def test_several_files_are_one_input_whatever_their_order(tmp_path: Path) -> None:
    one, two = tmp_path / "1.csv", tmp_path / "2.csv"
    one.write_text("user,item\nb,x\na,y\n")
    two.write_text("item,user\nx,a\n")
    there, back = read_files([one, two]), read_files([two, one])
    assert pairs(there.interactions) == {("b", "x"), ("a", "y"), ("a", "x")}
    assert there.interactions.fingerprint() == back.interactions.fingerprint()


def test_a_shard_with_a_header_only_is_noted(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text(PLAIN)
    (tmp_path / "2.csv").write_text("user,item\n")
    loaded = read_files([tmp_path / "1.csv", tmp_path / "2.csv"])
    assert loaded.interactions.account.read == 3
    assert "2.csv has no row" in loaded.notes[0]


def test_a_pattern_is_expanded(tmp_path: Path) -> None:
    for shard in (1, 2):
        (tmp_path / f"{shard}.csv").write_text(f"user,item\n{shard},5\n")
    assert read_files([tmp_path / "*.csv"]).interactions.n_users == 2


# Lines


@pytest.mark.parametrize(
    "content",
    [
        "user,item\r\n1,10\r\n1,11\r\n2,10\r\n",
        "user,item\r1,10\r1,11\r2,10\r",
        "user,item\r\n1,10\n1,11\r2,10",
        "user,item\n1,10\n1,11\n2,10\n\n\r\n\n",
        "\n\nuser,item\n\n1,10\n1,11\n\n2,10\n",
        '"user","item"\n"1","10"\n"1",11\n2,"10"\n',
        "\ufeffuser,item\n1,10\n1,11\n2,10\n",
    ],
    ids=["CRLF", "CR", "mixed", "blank end", "blank lines", "quoted", "BOM"],
)
def test_line_ends_blank_lines_and_quotes_do_not_matter(load: Load, content: str) -> None:
    loaded = load(content)
    assert pairs(loaded.interactions) == {(1, 10), (1, 11), (2, 10)}
    assert loaded.interactions.account.read == 3


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=["LF", "CRLF", "CR"])
def test_the_line_of_a_problem_is_its_physical_line(load: Load, end: str) -> None:
    lines = ["user,item", "", '"a', 'b",1', "2", "", "3,4", ",5"]
    with pytest.raises(BadRows) as caught:
        load(end.join(lines))
    places = {problem.code: problem.places[0].row for problem in caught.value.problems}
    assert places == {"field_count": 5, "missing_user": 8}


# Ids


@pytest.mark.parametrize(
    "ids",
    [
        ["007", "7"],
        ["1_000", "1000"],
        ["١٢٣", "123"],
        [" 7", "7 ", "+7", "7.0", "7e0", "-0"],
        ["NaN", "null", "None", "NA", "nan"],
        ["é", "e\u0301", "😀", "אב", "a\u200bb", "\u202e"],
        ["a,b", 'say "hi"', "two\nlines", "cr\r\nlf", "tab\t"],
        ["../../etc/passwd", "=cmd()", "<script>", "#comment"],
        ["9" * 200, "1"],
        ["-1", str(2**64 - 1)],
        ["x" * 256],
        ["\x0b\x0c\x1c\u2028\x85"],
    ],
    ids=lambda ids: repr(ids[0][:10]),
)
def test_text_ids_come_out_as_they_went_in(tmp_path: Path, ids: list[str]) -> None:
    path = tmp_path / "x.csv"
    with path.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([("user", "item"), *((i, "z") for i in ids)])
    users = read_files([path]).interactions.users
    assert users.kind == "text"
    assert users.values.tolist() == sorted(ids, key=str.encode)


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize(
    ("ids", "kind"),
    [
        ([-(2**63), -1, 0, 2**31, 2**32, 2**53 + 1, 2**63 - 1], "int64"),
        ([0, 5, 2**63, 2**64 - 1], "uint64"),
        ([4_000_000_000, 7], "int64"),
    ],
    ids=["int64", "uint64", "gap"],
)
def test_integer_ids_are_exact(tmp_path: Path, suffix: str, ids: list[int], kind: str) -> None:
    path = tmp_path / f"x.{suffix}"
    dtype = pl.UInt64 if kind == "uint64" else pl.Int64
    frame = pl.DataFrame({"user": pl.Series(ids, dtype=dtype), "item": [1] * len(ids)})
    write = {"csv": frame.write_csv, "jsonl": frame.write_ndjson, "parquet": frame.write_parquet}
    write[suffix](path)
    users = read_files([path]).interactions.users
    assert users.kind == kind
    assert users.values.tolist() == sorted(ids)


def test_text_ids_of_a_typed_source_stay_text(load: Load) -> None:
    users = load('{"user":"7","item":1}\n{"user":"8","item":1}\n', "x.jsonl").interactions.users
    assert users.values.tolist() == ["7", "8"]


def test_a_blank_among_long_integers_costs_no_digit(load: Load) -> None:
    ids = [2**62 + 1, 2**62 + 3]
    rows = f"user,item\n{ids[0]},1\n,1\n{ids[1]},1\n"
    assert load(rows, allow_bad_rows=True).interactions.users.values.tolist() == ids


def test_a_row_that_is_left_out_does_not_turn_integers_into_text(load: Load) -> None:
    rows = "user,item,plays\n1,2,3\nuser,item,plays\n"
    assert load(rows, allow_bad_rows=True, weight="plays").interactions.users.kind == "int64"


def test_numbers_of_several_widths_are_one_column(tmp_path: Path) -> None:
    for name, dtype, user, plays in (("1", pl.Int8, -3, 2), ("2", pl.UInt64, 2**63 - 1, 0.5)):
        users = pl.Series([user], dtype=dtype)
        frame = pl.DataFrame({"user": users, "item": ["a"], "plays": [plays]})
        frame.write_parquet(tmp_path / f"{name}.parquet")
    data = read_files([tmp_path / "*.parquet"], ReadOptions(weight="plays")).interactions
    assert data.users.values.tolist() == [-3, 2**63 - 1]
    assert data.weight_E.tolist() == [2, 0.5]


# Weights and ratings


def test_equal_duplicates_collapse_and_are_counted(load: Load) -> None:
    rows = load("user,item\n" + "1,2\n" * 1000).interactions.account
    assert (rows.read, rows.kept, rows.duplicates) == (1000, 1, 999)


GRADED = "user,item,{}\n1,2,3.5\n1,3,4\n1,4,5\n"
GRADES = {"min_rating": 4, "rating": "grade"}
PLAYED = "user,item,plays\n1,2,0\n1,3,-0.0\n1,4,0e5\n1,5,1\n"


@pytest.mark.parametrize(
    ("content", "options", "items", "weights", "filtered"),
    [
        (PLAYED, {}, [2, 3, 4, 5], None, {}),  # not played is still bought
        (PLAYED, {"weight": "plays"}, [5], [1], {"zero_weight": 3}),
        (GRADED, {"min_rating": 4}, [3, 4], None, {"rating_below_4": 1}),
        (GRADED.format("grade"), GRADES, [3, 4], None, {"rating_below_4": 1}),
        (GRADED, {"min_rating": None}, [2, 3, 4], None, {}),
        (GRADED, {"weight": "rating"}, [2, 3, 4], [3.5, 4, 5], {}),
        (GRADED, {"weight": "rating", "min_rating": 5}, [4], [5], {"rating_below_5": 2}),
    ],
)
def test_weights_and_ratings_are_used_as_options_say(
    load, content, options, items, weights, filtered
):
    kept = load(content.format("rating"), **options).interactions
    assert kept.items.values.tolist() == items
    assert kept.account.filtered == filtered
    assert (None if kept.weight_E is None else kept.weight_E.tolist()) == weights


# Times


NOON = 1_704_110_400_000_000


@pytest.mark.parametrize(
    "noon",
    [
        "1704110400",
        "1704110400.0",
        "1704110400000",
        "1704110400000000",
        "1704110400000000000",
        "2024-01-01T12:00:00Z",
        "2024-01-01T12:00:00.000",
        "2024-01-01 12:00",
        "2024-01-01T14:00:00+02:00",
        "2024-01-01 14:30:00 +0230",
    ],
)
@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_times_of_any_spelling_are_microseconds(load: Load, noon: str, suffix: str) -> None:
    rows = {
        "csv": f"user,item,ts\n1,2,{noon}\n",
        "jsonl": f'{{"user":1,"item":2,"ts":"{noon}"}}\n',
    }
    times = load(rows[suffix], f"x.{suffix}").interactions.time_E
    assert times.tolist() == [NOON]


MOMENT = pl.Series([NOON]).cast(pl.Datetime("us", "UTC")).dt.convert_time_zone("Asia/Tokyo")
NUMBERS = (pl.Int8, pl.UInt16, pl.Int32, pl.UInt64, pl.Int128, pl.Float32)


@pytest.mark.parametrize(
    ("times", "wanted"),
    [
        *((MOMENT.dt.cast_time_unit(unit), NOON) for unit in ("ms", "us", "ns")),
        (pl.Series([NOON]).cast(pl.Datetime("us")).dt.date(), NOON - 12 * 3600 * 10**6),
        *((pl.Series([7], dtype=dtype), 7_000_000) for dtype in NUMBERS),
    ],
)
def test_times_of_parquet_are_microseconds(tmp_path: Path, times: pl.Series, wanted: int) -> None:
    path = tmp_path / "x.parquet"
    pl.DataFrame({"user": [1], "item": [2], "ts": times}).write_parquet(path)
    assert read_files([path]).interactions.time_E.tolist() == [wanted]


def test_positions_are_times_in_their_order(load: Load) -> None:
    rows = "user,item,position\n" + "".join(f"1,{300 - i},{i}\n" for i in range(300))
    loaded = load(rows, time="position").interactions
    assert np.all(np.diff(loaded.time_E) < 0)


def test_the_unit_of_most_rows_decides(load: Load) -> None:
    rows = "user,item,ts\n1,2,1704110400\n1,3,1704110401\n1,4,1704110400000\n1,5,-1\n"
    kept = load(rows, allow_bad_rows=True).interactions
    assert kept.account.rejected == {"timestamp_range": 2}
    assert kept.items.values.tolist() == [2, 3]


# The account


def test_fourteen_kinds_of_defects_are_counted_exactly_in_one_report(load: Load) -> None:
    good = [f"{i},{i % 7},1,5,1704110400" for i in range(2000)]
    bad = {
        "field_count": ["1,2", "1,2,3,4,5,6"],
        "bad_quoting": ['"a"b,2,1,5,1'],
        "bad_encoding": ["\udcff,2,1,5,1"],
        "missing_user": [",2,1,5,1", '"",2,1,5,1'],
        "missing_item": ["1,,1,5,1"],
        "id_too_long": ["x" * 257 + ",1,1,5,1"],
        "nul_byte": ["a\0b,1,1,5,1", "1,a\0,1,5,1"],
        "bad_rating": ["1,2,1,good,1704110400"],
        "bad_weight": ["1,2,many,5,1704110400"],
        "nonfinite_weight": ["1,2,inf,5,1704110400", "1,2,1e39,5,1704110400"],
        "negative_weight": ["1,2,-1,5,1704110400"],
        "weight_underflow": ["1,2,1e-320,5,1704110400"],
        "bad_timestamp": ["1,2,1,5,yesterday"],
        "timestamp_range": ["1,2,1,5,-5"],
    }
    rows = good + [row for kind in bad.values() for row in kind]
    np.random.default_rng(1).shuffle(rows)
    content = "\n".join(["user,item,plays,rating,ts", *rows]).encode("utf-8", "surrogateescape")
    with pytest.raises(BadRows) as caught:
        load(content, min_rating=1, weight="plays")
    assert {p.code: p.count for p in caught.value.problems} == {k: len(v) for k, v in bad.items()}
    assert all(len(p.places) >= 1 for p in caught.value.problems)
    assert sum(len(p.places) for p in caught.value.problems) <= 20
    for problem in caught.value.problems:
        assert rows[problem.places[0].row - 2] in bad[problem.code]
    account = load(
        content, min_rating=1, weight="plays", allow_bad_rows=True, duplicates="last"
    ).interactions.account
    assert account.rejected == {k: len(v) for k, v in bad.items()}
    assert account.read == len(rows)


def test_many_places_and_long_values_are_cut_in_the_report(load: Load) -> None:
    with pytest.raises(BadRows) as caught:
        load("user,item\n" + ("x" * 5000 + ",2\n") * 100)
    (problem,) = caught.value.problems
    assert len(problem.places) == 20
    assert len(problem.places[0].value) <= 80


def test_the_message_names_file_line_column_value_and_cure(load: Load) -> None:
    with pytest.raises(BadRows, match=r"x\.csv, line 2, column plays: 'a\\u202eb'") as caught:
        load("user,item,plays\n1,2,a\u202eb\n", weight="plays")
    assert "1 of 1 rows cannot be used" in str(caught.value)
    assert str(caught.value).endswith("--allow-bad-rows (allow_bad_rows=True).")
    assert caught.value.code == "bad_rows"


def test_rows_that_are_all_left_out_are_an_error_that_says_why(load: Load) -> None:
    with pytest.raises(DataError, match=r"1 filtered \(zero_weight\)") as caught:
        load("user,item,plays\n1,2,0\n", weight="plays")
    assert caught.value.code == "no_rows"
