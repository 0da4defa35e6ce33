"""Bad input files, with the error of each."""

from __future__ import annotations

import gzip
import struct
import tracemalloc
import zlib
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sdgar.data.readers import BadRows, ReadOptions, inputs, read_files
from sdgar.errors import DataError, ResourceError, UsageError

from .conftest import Load

GOOD = b"user,item\n1,2\n3,4\n"
GZIPPED = gzip.compress(b"user,item\n" + b"".join(b"%d,%d\n" % (i, i * i) for i in range(9999)))
ZIPPED = bytes(pa.Codec("zstd").compress(GOOD * 1000, asbytes=True))


def parquet(**columns: Any) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink)
    return sink.getvalue().to_pybytes()


PLAYS = {"weight": "plays"}
WEIGHTED = b"user,item,plays\n1,2,3\n"
MANY = b'{"user":18446744073709551615,"item":1}\n'
WHOLE_FILES: list[tuple[Any, ...]] = [
    ("x.csv", b"", "empty_input", "is empty"),
    ("x.csv.gz", gzip.compress(b""), "empty_input", "blank lines"),
    ("x.csv", b"\n\r\n\n", "empty_input", "blank lines"),
    ("x.jsonl", b"\n\n", "empty_input", "blank lines"),
    ("x.csv", b"user,item\n", "no_rows", "0 rows read"),
    ("x.csv", WEIGHTED + b"1,2,4\n", "differing_weights", "--duplicates", PLAYS),
    ("x.csv", WEIGHTED + b"1,3,1e30\n", "weight_range", "1e12", PLAYS),
    (
        "x.csv",
        b"user,item,Rating\n1,2,-3\n",
        "threshold_required",
        "4 keeps ratings of 4 and above",
    ),
    ("x.jsonl", b'{"user":18446744073709551616,"item":1}', "int_overflow", "as text"),
    ("x.jsonl", MANY + b'{"user":-1,"item":1}', "int_overflow", "as text"),
    ("x.parquet", parquet(user=[1.0, 2.0], item=[1, 2]), "float_ids", "Cast"),
    ("x.jsonl", b'{"user":1.0,"item":1}', "float_ids", "2^53"),
    ("x.jsonl", b'{"user":true,"item":1}', "unsupported_type", "bool"),
    ("x.jsonl", b'{"user":1,"item":1}\n{"user":"1","item":2}', "mixed_ids", "1 and '1'"),
    ("x.csv", b"us\xffer,item\n1,2\n", "bad_encoding", "header"),
    ("x.csv", "user,item\n1,2\n".encode("utf-16"), "looks_like_utf16", "iconv"),
    ("x.csv", "user,item\n1,2\n".encode("utf-16-le"), "looks_like_utf16", "iconv"),
    ("x.csv", b'"user,item\n1,2\n', "unterminated_quote", "line 1"),
    ("x.csv", b"x" * (3 << 20), "line_too_long", "1 MiB"),
    ("x.csv", b"user\titem\n1\t2\n", "one_column", "--delimiter"),
    ("x.csv", b"user;item\n1;2\n", "one_column", "--delimiter"),
    ("x.tsv", b"user,item\n1,2\n", "one_column", "--delimiter"),
    ("x.csv", b"user\n1\n", "one_column", "two are needed"),
    ("x.csv", b"17,42,5\n18,43,4\n", "no_header", "17, 42, 5"),
    ("x.csv", b"alice,42\nbob,43\n", "no_header", "--columns user,item"),
    ("x.csv", GOOD, "unexpected_header", "user, item", {"header_columns": ("user", "item")}),
    ("x.csv", b"1,2,3\n", "columns_mismatch", "3 fields", {"header_columns": ("a", "b")}),
    ("x.csv", b"user,item,item\n1,2,3\n", "duplicate_columns", "'item'"),
    (
        "x.csv",
        WEIGHTED,
        "missing_column",
        "'plays'? Columns: user, item, plays",
        {"weight": "play"},
    ),
    ("x.csv.gz", GZIPPED[:-100], "truncated_gzip", "was cut"),
    ("x.csv.gz", GZIPPED[:-4], "truncated_gzip", "was cut"),
    ("x.csv.gz", GZIPPED[:-8] + b"\0" * 8, "corrupt_file", "is damaged"),
    ("x.csv.gz", gzip.compress(GOOD) + b"garbage", "corrupt_file", "is damaged"),
    ("x.csv.zst", ZIPPED[:9] + b"\xff" * 9 + ZIPPED[18:], "corrupt_file", "is damaged"),
    ("x.parquet", parquet(user=[Decimal(1)], item=[2]), "unsupported_type", "Cast"),
    ("x.parquet", parquet(user=[[1]], item=[2]), "unsupported_type", "List"),
    ("x.parquet", parquet(user=[date(1970, 1, 2)], item=[2]), "unsupported_type", "Date"),
    ("x.parquet", parquet(user=[1], item=[2], plays=[True]), "unsupported_type", "weight", PLAYS),
    ("x.xlsx", b"PK", "unknown_format", ".parquet"),
    ("x.parquet.gz", gzip.compress(b"1"), "unknown_format", "Unpack"),
    ("x.jsonl", b"[1, 2]\n", "bad_json", "must be an object"),
]
"""The name of a file, its content, the code of the error, a part of its text, and options."""
USAGE = ("missing_column", "threshold_required", "unknown_format")
"""The codes of errors that are mistakes of a call, and not of the data."""


@pytest.mark.parametrize("case", WHOLE_FILES, ids=lambda case: f"{case[0]} {case[2]}")
def test_a_file_that_cannot_be_read_is_refused(
    load: Load, tmp_path: Path, case: tuple[Any, ...]
) -> None:
    name, content, code, message, *options = case
    with pytest.raises(UsageError if code in USAGE else DataError) as caught:
        load(content, name, **(options[0] if options else {}))
    assert caught.value.code == code
    assert message in str(caught.value)
    assert [entry.name for entry in tmp_path.iterdir()] == [name]


STARS = b"user,item,stars\n1,2,3\n"
THREE = b"user,item,x\n1,2,3\n"
TIMED = b"user,item,ts\n1,2,1704110400\n"
DATED = b"user,item,ts\n1,2,2024-01-01\n"
RATED = {"min_rating": 1}

ROWS: list[tuple[Any, ...]] = [
    (WEIGHTED + b"1,3,-2\n", "negative_weight", 3, "'-2'", PLAYS),
    (WEIGHTED + b"1,3,NaN\n", "nonfinite_weight", 3, "'NaN'", PLAYS),
    (WEIGHTED + b"1,3,-inf\n", "nonfinite_weight", 3, "'-inf'", PLAYS),
    (WEIGHTED + b"1,3,1e400\n", "nonfinite_weight", 3, "'1e400'", PLAYS),
    (WEIGHTED + b"1,3,lots\n", "bad_weight", 3, "'lots'", PLAYS),
    (WEIGHTED + b"1,3,\n", "missing_weight", 3, "''", PLAYS),
    (WEIGHTED + b"1,3,1e-320\n", "weight_underflow", 3, "'1e-320'", PLAYS),
    (WEIGHTED + b"1,3,0.1e-400\n", "weight_underflow", 3, "'0.1e-400'", PLAYS),
    (STARS + b"1,3,\n", "missing_rating", 3, "''", RATED),
    (STARS + b"1,3,nan\n", "bad_rating", 3, "'nan'", RATED),
    (GOOD + b",5\n", "missing_user", 4, "''"),
    (GOOD + b'5,""\n', "missing_item", 4, "''"),
    (GOOD + b"7" * 5000 + b",1\n", "id_too_long", 4, "'7777777"),
    (GOOD + "é".encode() * 129 + b",1\n", "id_too_long", 4, "'ééé"),
    (GOOD + b"a\0b,1\n", "nul_byte", 4, r"'a\x00b'"),
    (GOOD + b"\xe9,1\n", "bad_encoding", 4, r"'\\xe9,1'"),
    (THREE + b"4,5\n", "field_count", 3, "'4,5'"),
    (THREE + b"4,5,6,7\n", "field_count", 3, "'4,5,6,7'"),
    (THREE + b"4,5,6,\n", "field_count", 3, "'4,5,6,'"),
    (b'user,item,x\n"1","2","3"\n"4","5"\n', "field_count", 3, '\'"4","5"\''),
    (THREE + b"4,5,6,7\n8,9\n", "field_count", 3, "'4,5,6,7'"),
    (b'user,item\n"1,2\n' + b"3,4\n" * 99, "unterminated_quote", 2, "'\"1,2'"),
    (b'user,item\n"1"x,2\n3,4\n', "bad_quoting", 2, "'\"1\"x,2'"),
    (GOOD + b"a" * (1 << 20) + b",1\n", "line_too_long", 4, "'aaaaaa"),
    (b"user,item\n1,2\nuser,\n", "missing_item", 3, "''"),
    (b"user,item\n1,2\n# the end\n", "field_count", 3, "'# the end'"),
    (TIMED + b"1,3,-1\n", "timestamp_range", 3, "'-1'"),
    (TIMED + b"1,3,1704110400\n1,4,1704110400000\n", "timestamp_range", 4, "'17041104000"),
    (DATED + b"1,3,0001-01-01\n", "timestamp_range", 3, "'0001-01"),
    (TIMED + b"1,3,soon\n", "bad_timestamp", 3, "'soon'"),
    (TIMED + b"1,3,\n", "missing_timestamp", 3, "''"),
    (b"user,item,ts\n1,2,-1704110400\n1,3,5\n", "timestamp_range", 2, "'-1704110400'"),
    (DATED + b"1,3,2024-02-30\n", "bad_timestamp", 3, "'2024-02-30"),
]
"""The content of a file, the problem of a row, its line, its value, and options."""


@pytest.mark.parametrize("case", ROWS, ids=lambda case: f"{case[1]} {case[3]}")
def test_a_row_that_cannot_be_used_is_refused_with_its_place(
    load: Load, case: tuple[Any, ...]
) -> None:
    content, code, line, value, *more = case
    options = more[0] if more else {}
    with pytest.raises(BadRows) as caught:
        load(content, **options)
    (problem,) = caught.value.problems
    assert problem.code == code
    assert problem.places[0].row == line
    assert problem.places[0].value.startswith(value)
    allowed = load(content, **options, allow_bad_rows=True).interactions.account
    assert allowed.rejected == {code: problem.count}


@pytest.mark.parametrize(
    ("line", "code", "detail"),
    [
        (b'{"user": 1', "bad_json", "Expecting"),
        (b"[1, 2]", "bad_json", "a list, not an object"),
        (b'{"user": 1, "item": "\\ud800"}', "bad_json", "surrogates"),
        (b'{"user": 1, "item": "\xff"}', "bad_encoding", "byte 0xff"),
        (b'{"item": "b"}', "missing_user", ""),
        (b'{"user": null, "item": "b"}', "missing_user", ""),
        (b'{"user": ' + b"9" * 5000 + b', "item": "a"}', "bad_json", "digits"),
        (b"[" * 100_000, "bad_json", "recursion"),
        (b'{"user": "' + b"9" * (1 << 20) + b'", "item": "a"}', "line_too_long", ""),
    ],
    ids=["cut", "list", "surrogate", "encoding", "absent", "null", "digits", "deep", "long"],
)
def test_a_bad_line_of_json_is_refused_with_its_place(
    load: Load, line: bytes, code: str, detail: str
) -> None:
    with pytest.raises(BadRows) as caught:
        load(b'{"user": 1, "item": "a"}\n\n' + line, "x.jsonl")
    (problem,) = caught.value.problems
    assert (problem.code, problem.places[0].row) == (code, 3)
    assert detail in problem.places[0].detail


def test_a_bad_row_of_parquet_is_refused_with_its_row(load: Load) -> None:
    rows = parquet(user=[1, None, 3], item=["a", "b", "c\0"], plays=[1.0, 1.0, 1.0])
    with pytest.raises(BadRows, match=r"x\.parquet, row 2, column user: ''") as caught:
        load(rows, "x.parquet")
    assert [(p.code, p.places[0].row) for p in caught.value.problems] == [
        ("missing_user", 2),
        ("nul_byte", 3),
    ]


def test_an_unclosed_quote_costs_one_line_however_long_the_file(load: Load) -> None:
    lines = b"".join(b"%d,7\n" % i for i in range(200_000))
    rows = load(b'user,item\n0,"5\n' + lines, allow_bad_rows=True).interactions.account
    assert (rows.kept, rows.rejected) == (200_000, {"unterminated_quote": 1})


def test_a_line_of_many_megabytes_is_not_held(load: Load) -> None:
    content = gzip.compress(GOOD + b"a" * (100 << 20) + b"\n5,6\n", compresslevel=1)
    tracemalloc.start()
    rows = load(content, "x.csv.gz", allow_bad_rows=True).interactions.account
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (rows.kept, rows.rejected) == (3, {"line_too_long": 1})
    assert peak < 80 << 20


def test_gzip_members_are_concatenated(load: Load) -> None:
    members = gzip.compress(GOOD) + gzip.compress(b"5,6\n") + b"\0" * 512
    assert load(members, "x.csv.gz").interactions.account.kept == 3


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.csv.gz", GOOD),
        ("x.csv", gzip.compress(GOOD)),
        ("x.csv", bytes(pa.Codec("zstd").compress(GOOD, asbytes=True))),
    ],
    # The bytes of a gzip hold the time, so they cannot name a test that two workers must agree on.
    ids=["plain named gz", "gzip named csv", "zstd named csv"],
)
def test_the_first_bytes_decide_on_the_compression(load: Load, name: str, content: bytes) -> None:
    assert load(content, name).interactions.account.kept == 2


def test_invalid_utf8_in_parquet_is_refused(load: Load) -> None:
    text = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(struct.pack("<ii", 0, 1)), pa.py_buffer(b"\xff")]
    )
    with pytest.raises(DataError) as caught:
        load(parquet(user=text, item=[1]), "x.parquet")
    assert caught.value.code == "bad_parquet"


@pytest.mark.parametrize(
    ("name", "one", "two", "message"),
    [
        ("csv", GOOD, b"user,item,plays\n1,2,3\n", "also has plays"),
        ("csv", b"user,item,plays\n1,2,3\n", GOOD, "lacks plays"),
        ("csv", GOOD, b"user,item,item\n1,2,3\n", "different columns"),
        ("parquet", parquet(user=[1], item=[1]), parquet(user=["a"], item=[1]), "Int64 in"),
        ("jsonl", b'{"user":1,"item":1}', b'{"user":"a","item":1}', "String in"),
        (
            "parquet",
            parquet(user=[1], item=[1], ts=["2024-01-01"]),
            parquet(user=[1], item=[1], ts=[5]),
            "time column",
        ),
    ],
    ids=["more columns", "fewer columns", "a column twice", "parquet ids", "jsonl ids", "times"],
)
def test_shards_of_different_columns_are_refused(
    tmp_path: Path, name: str, one: bytes, two: bytes, message: str
) -> None:
    paths = [tmp_path / f"1.{name}", tmp_path / f"2.{name}"]
    for path, content in zip(paths, (one, two), strict=True):
        path.write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        read_files(paths)
    assert caught.value.code == "schema_mismatch"
    assert all(str(path) in str(caught.value) for path in paths)


def test_files_of_different_formats_are_refused(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_bytes(GOOD)
    (tmp_path / "2.parquet").write_bytes(parquet(user=[1], item=[2]))
    with pytest.raises(UsageError, match="different formats"):
        read_files([tmp_path / "1.csv", tmp_path / "2.parquet"])


@pytest.mark.parametrize(
    "path",
    ["missing.csv", "*.csv", ""],
    ids=["missing", "pattern", "folder without files"],
)
def test_a_path_without_a_file_is_a_usage_error(tmp_path: Path, path: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_files([tmp_path / path])
    assert caught.value.code == "no_such_file"


def test_no_path_at_all_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="no input file"):
        read_files([])


def test_a_file_that_changes_while_it_is_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(GOOD)
    resolve = inputs.resolve

    def resolve_while_another_process_writes(*arguments: Any) -> Any:
        path.write_bytes(GOOD * 2)
        return resolve(*arguments)

    monkeypatch.setattr(inputs, "resolve", resolve_while_another_process_writes)
    with pytest.raises(DataError) as caught:
        read_files([path], ReadOptions(allow_bad_rows=True))
    assert caught.value.code == "changed_during_read"


@pytest.mark.parametrize("when", ["found", "read"])
def test_a_file_that_may_not_be_read_is_a_resource_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(GOOD)
    opened = Path.open
    allowed = {"found": 0, "read": 1}[when]
    calls = []

    def refuse(self: Path, *arguments: Any) -> Any:
        calls.append(self)
        if len(calls) > allowed:
            raise PermissionError(13, "Permission denied")
        return opened(self, *arguments)

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(ResourceError, match=r"cannot read .*x\.csv: Permission denied"):
        read_files([path])


def test_a_disk_that_fails_is_a_resource_error(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(pl, "read_parquet", fail)
    with pytest.raises(ResourceError, match=r"x\.parquet: Input/output error"):
        load(parquet(user=[1], item=[2]), "x.parquet")


def test_a_loop_of_links_is_a_resource_error(tmp_path: Path) -> None:
    loop = tmp_path / "x.csv"
    loop.symlink_to(loop)
    with pytest.raises(ResourceError):
        read_files([loop])


def test_a_gzip_bomb_is_stopped_without_being_unpacked(tmp_path: Path) -> None:
    packer = zlib.compressobj(wbits=31)
    block = b"1,2\n" * (1 << 18)
    path = tmp_path / "x.csv.gz"
    with path.open("wb") as stream:
        stream.write(packer.compress(b"user,item\n"))
        for _ in range(200):
            stream.write(packer.compress(block))
        stream.write(packer.flush())
    tracemalloc.start()
    with pytest.raises(ResourceError):
        read_files([path], ReadOptions(max_uncompressed=32 << 20))
    assert tracemalloc.get_traced_memory()[1] < 100 << 20
    tracemalloc.stop()
