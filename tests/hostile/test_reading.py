"""Input that is hostile, damaged or just unusual: refused in words, or read exactly."""

from __future__ import annotations

import datetime
import gzip
import os
import shutil
import socket
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse

import sdgar as library
from sdgar.data.held_out import HeldOut
from sdgar.data.ids import Ids
from sdgar.data.interactions import Interactions
from sdgar.data.merge import merge
from sdgar.data.readers import ReadOptions, read_files
from sdgar.data.readers.columns import resolve
from sdgar.data.readers.parquet import layout, unpacked_bytes
from sdgar.errors import DataError, UsageError

from ..cli.test_cli import result_of, sdgar
from .cases import Case, check, table

BEYOND_FLOAT = 2**53
BEYOND_INT64 = 2**63


def zstd(content: bytes) -> bytes:
    return bytes(pa.Codec("zstd").compress(content, asbytes=True))


def parquet(columns: dict[str, Any], **options: Any) -> bytes:
    sink = BytesIO()
    pq.write_table(pa.table(columns), sink, **options)
    return sink.getvalue()


def file(name: str, content: bytes | str, **options: Any) -> Callable[[Path], Any]:
    """Write a file and read it."""

    def act(folder: Path) -> Any:
        path = folder / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return library.read(path, **options)

    return act


def frame(columns: Any, **options: Any) -> Callable[[Path], Any]:
    return lambda _: library.read(columns, **options)


def arrays(users: Any = (1, 2), items: Any = (1, 2), **more: Any) -> Callable[[Path], Any]:
    return lambda _: Interactions.from_arrays(users, items, **more)


def csr(matrix: Any, **more: Any) -> Callable[[Path], Any]:
    return lambda _: Interactions.from_csr(matrix, **more)


def command(name: str, content: bytes | str, *words: str) -> Callable[[Path], Any]:
    """Write a file and run ``sdgar data stats`` on it."""

    def act(folder: Path) -> Any:
        path = folder / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return sdgar("data", "stats", path, *words)

    return act


def rated(column: str) -> Case:
    return Case(
        f"ratings called {column} that are no scale ask for a threshold",
        2,
        (repr(column), "--min-rating", f"--weight-column {column}"),
        file("x.csv", f"user,item,{column}\n1,2,-1\n"),
    )


def a_socket(folder: Path) -> Any:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(folder / "x.csv"))
        return library.read(folder / "x.csv")


def a_pipe(folder: Path) -> Any:
    os.mkfifo(folder / "x.csv")
    return library.read(folder / "x.csv")


def with_page_size(size: int) -> bytes:
    """A Parquet file of one uncompressed page, whose header says another size."""
    whole = parquet({"user": [1, 2], "item": [1, 2]}, compression="none", use_dictionary=False)
    # The header of the first page: type 0, then both sizes as zigzag varints of one byte.
    assert whole[4:8] == bytes((0x15, 0, 0x15, whole[7]))
    return whole[:7] + bytes((size,)) + whole[8:]


RATINGS = "1::1193::5::978300760\n1::661::3::978302109\n2::661::4::978302110\n"
PLAYS = (
    "00000c289a1829a808ac09c00daf10bc3c4e223b\t3bd73256-3905-4f3a-97e2-8b341527f805\tx y\t2137\n"
)
LISTENS = "user_000001\t2009-05-04T23:08:57Z\tf1b1cf71-bd35-4e99-8624-24a6e15f133a\tDeep\t\tPumps\n"
MANY_ONES = parquet({"user": np.ones(300_000, int), "item": np.ones(300_000, int)})
FULL = np.finfo(np.float32).max

CASES: list[Case] = [
    *map(
        rated,
        ("star_rating", "Book-Rating", "user_rating", "review_score", "stars", "score", "Overall",
         "my_score", "movieRating", "review/overall", "rating:float"),
    ),
    Case("recommendations that are all false ask for a threshold", 2,
         ("'recommended'", "1 is true"), file("x.csv", "user,item,recommended\n1,2,False\n")),
    # Arrays
    Case("a user that is None is refused", 3, ("user ids", "row 2", "None"), arrays([1, None])),
    Case("users that are all None are refused", 3, ("row 1",), arrays([None, None])),
    Case("a missing pandas integer is refused", 3, ("row 2", "<NA>"),
         arrays(pd.array([1, None], dtype="Int64"))),
    Case("a missing pandas text is refused", 3, ("row 2", "Leave such rows out"),
         arrays(pd.array(["a", None], dtype="string"))),
    Case("an id that is NaN is refused", 3, ("row 1", "nan"), arrays([float("nan"), 1])),
    Case("a flag among integer ids is refused", 3, ("bool, int",), arrays([True, 1])),
    Case("half a surrogate pair in an id is refused", 3, ("user ids", "not Unicode"),
         arrays(["\ud800", "a"])),
    Case("a masked id is refused", 3, ("user ids", "row 2"),
         arrays(np.ma.array([1, 2], mask=[0, 1]))),
    Case("ids too wide for one type are refused", 3, ("-1", str(BEYOND_INT64), "as text"),
         arrays([-1, BEYOND_INT64])),
    Case("a text instead of a column is refused", 2, ("user ids", "'ab'"), arrays("ab")),
    Case("None instead of a column is refused", 2, ("user ids", "NoneType"), arrays(None)),
    Case("a date that is no time is refused", 3, ("row 2", "NaT"),
         arrays(time=np.array(["2020-01-01", "NaT"], "M8[s]"))),
    Case("a missing pandas date is refused", 3, ("row 2", "NaT"),
         arrays(time=pd.Series(pd.to_datetime(["2020-01-01", None])))),
    Case("a time that is NaN is refused", 3, ("row 2", "nan"), arrays(time=[1.0, float("nan")])),
    Case("a time that is infinite is refused", 3, ("row 1", "inf"),
         arrays(time=[float("inf"), 1.0])),
    Case("a masked time is refused", 3, ("times", "row 1"),
         arrays(time=np.ma.array([1, 2], mask=[1, 0]))),
    Case("a time beyond int64 is refused", 3, ("int64",),
         arrays(time=np.array([1, BEYOND_INT64], np.uint64))),
    Case("a time that is text is refused", 3, ("times must be", "'noon'"),
         arrays(time=["noon", "midnight"])),
    Case("too few times are refused", 3, ("times 1",), arrays(time=[1])),
    Case("too few weights are refused", 3, ("weights 1",), arrays(weight=[1.0])),
    Case("one weight for all is refused", 2, ("weights", "one value a row"), arrays(weight=1)),
    Case("a weight beyond float32 is refused", 3, ("1e+39", "float32", "Rescale"),
         arrays(weight=[1e39, 1e38])),
    Case("a weight below float32 is refused", 3, ("1e-40", "Rescale"),
         arrays(weight=[1e-40, 1e-40])),
    Case("weights whose sum is beyond float32 are refused", 3, ("add up to 6e+38", "Rescale"),
         arrays(weight=[3e38, 3e38])),
    Case("repeated weights whose sum is beyond float32 are refused", 3, ("add up to 6e+38",),
         arrays([1, 1], [1, 1], weight=[3e38, 3e38], duplicates="sum")),
    Case("weights whose sum is beyond float64 are refused", 3, ("inf", "Rescale"),
         arrays(weight=[1e308, 1e308])),
    Case("a masked weight is refused", 3, ("weights", "row 2"),
         arrays(weight=np.ma.array([1.0, 2.0], mask=[0, 1]))),
    Case("a missing weight is refused", 3, ("row 2", "nan"), arrays(weight=[1, None])),
    Case("a complex weight is refused", 3, ("must be numbers", "1j"), arrays(weight=[1j, 2])),
    Case("a rule for duplicates that is unknown is refused", 2, ("'first'", "sum"),
         arrays(duplicates="first")),
    Case("a context with a missing value is refused", 3, ("city", "row 2"),
         lambda _: Interactions.from_contexts({"user": [1, 2], "city": ["x", None]}, [1, 2])),
    Case("contexts that are no mapping are refused", 2, ("mapping", "list"),
         lambda _: Interactions.from_contexts([1], [1])),  # type: ignore[arg-type]
    Case("an index beyond the ids is refused", 2, ("from 0 to 0", "to 5"),
         lambda _: Interactions.from_indices(
             Ids(np.array([7])), Ids(np.array([7])), np.array([5]), np.array([0]))),
    Case("a list instead of a sparse matrix is refused", 2, ("list", "csr_array"),
         csr([[1, 0]])),
    Case("a dense matrix is refused", 2, ("ndarray", "csr_array"), csr(np.eye(2))),
    Case("nothing instead of a sparse matrix is refused", 2, ("NoneType",), csr(None)),
    Case("a sparse vector is refused", 2, ("users × items",),
         csr(scipy.sparse.coo_array(np.ones(3)))),
    Case("a complex sparse matrix is refused", 3, ("complex128",),
         csr(scipy.sparse.csr_array(np.eye(2) * 1j))),
    Case("a sparse matrix with NaN is refused", 3, ("finite",),
         csr(scipy.sparse.csr_array(np.eye(2) * np.nan))),
    Case("an empty sparse matrix is refused", 3, ("no row to learn from",),
         csr(scipy.sparse.csr_array((3, 3)))),
    Case("integer ids out of order are refused", 3, ("3 comes after 5",),
         lambda _: Ids(np.array([1, 5, 3]))),
    Case("an integer id that occurs twice is refused", 3, ("5 occurs twice",),
         lambda _: Ids(np.array([1, 5, 5], np.uint64))),
    Case("parts whose ids fit no one type do not merge", 3, ("negative", "as text"),
         lambda _: merge(Interactions.from_arrays([-1], [1]),
             Interactions.from_arrays([BEYOND_INT64], [1]))),
    # Frames
    Case("nothing is no table", 2, ("NoneType", "Give a"), frame(None)),
    Case("a number is no table", 2, ("int", "Give a"), frame(3)),
    Case("a Polars column is no table", 2, ("Series", "Give a"), frame(pl.Series([1, 2]))),
    Case("a pandas column is no table", 3, ("cannot be read",), frame(pd.Series([1, 2]))),
    Case("a table without columns is refused", 2, ("which column is the user",), frame({})),
    Case("a query that fails is refused", 3, ("cannot be read", "nope"),
         frame(pl.LazyFrame({"user": [1]}).select("nope"))),
    Case("a column that is one number is refused", 2, ("'user'", "one value a row"),
         frame({"user": 3, "item": [1]})),
    Case("a column that is one text is refused", 2, ("'user'", "'ab'"),
         frame({"user": "ab", "item": [1, 2]})),
    Case("a missing nullable integer is a bad row, not a float", 3, ("missing_user", "row 2"),
         frame(pd.DataFrame({"user": pd.array([1, None], dtype="Int64"), "item": [1, 2]}))),
    Case("a missing nullable weight is a bad row", 3, ("missing_weight", "row 2"),
         frame(pd.DataFrame({"user": [1, 2], "item": [1, 2],
                             "weight": pd.array([1.5, None], dtype="Float64")}), weight="weight")),
    Case("a missing category is a bad row", 3, ("missing_user", "row 2"),
         frame(pd.DataFrame({"user": pd.Categorical(["a", None]), "item": [1, 2]}))),
    Case("nullable flags are no ids", 3, ("'user'", "cannot be ids"),
         frame(pd.DataFrame({"user": pd.array([True, None], dtype="boolean"), "item": [1, 2]}))),
    Case("half a surrogate pair in a pandas id is refused", 3, ("'user'", "not Unicode"),
         frame(pd.DataFrame({"user": pd.Series(["\ud800"], dtype=object), "item": [1]}))),
    # Paths
    Case("a NUL character in a path is refused", 2, (r"a\x00b.csv", "NUL"), frame("a\0b.csv")),
    Case("an empty path is refused", 2, ("''",), frame("")),
    Case("a path of bytes that is not there is named", 2, ("nope.csv",), frame(b"nope.csv")),
    Case("a file whose name is not UTF-8 and not there is named", 2, (r"\xff.csv",),
         frame(b"\xff.csv")),
    Case("a folder without events is refused", 2, ("a folder without files of events", "Parquet"),
         lambda folder: library.read(folder)),
    Case("a pipe is refused", 2, ("x.csv", "not a regular file"), a_pipe),
    Case("a socket is refused", 2, ("x.csv", "not a regular file"), a_socket),
    Case("a device is refused", 2, ("/dev/null", "not a regular file"), frame("/dev/null")),
    # What unpacks to much
    Case("a gz file that unpacks to much is refused", 5,
         ("at least", "the limit is 1,000", "--max-uncompressed"),
         file("x.csv.gz", gzip.compress(b"user,item\n" + b"1,2\n" * 999), max_uncompressed=1000)),
    Case("a zst file that unpacks to much is refused", 5,
         ("at least", "the limit is 1,000", "max_uncompressed="),
         file("x.csv.zst", zstd(b"user,item\n" + b"1,2\n" * 999), max_uncompressed=1000)),
    Case("a Parquet file that unpacks to much is refused", 5,
         ("4,800,000 bytes", "the limit is 1,000,000", "--max-uncompressed"),
         file("x.parquet", MANY_ONES, max_uncompressed=10**6)),
    Case("a command takes the limit", 5, ("the limit is 1,024", "--max-uncompressed"),
         command("x.csv.gz", gzip.compress(b"user,item\n" + b"1,2\n" * 999),
                 "--max-uncompressed", "1K")),
    Case("a limit that is no number is refused", 2, ("--max-uncompressed", "'much'", "8G"),
         command("x.csv", "user,item\n1,2\n", "--max-uncompressed", "much")),
    Case("a limit of nothing is refused", 2, ("at least 1", "got 0"),
         file("x.csv", "user,item\n1,2\n", max_uncompressed=0)),
    # Damage
    Case("a byte that is no text is named by its line in zst too", 3, ("x.csv.zst, line 3",),
         file("x.csv.zst", zstd(b"user,item\n1,2\n\xff,2\n"))),
    Case("a zst file that was cut is refused", 3, ("x.csv.zst", "cut", "again"),
         file("x.csv.zst", zstd(b"user,item\n" + b"1,2\n" * 999)[:-7])),
    Case("a Parquet page of another size than its bytes is refused", 3, ("two sizes", "again"),
         file("x.parquet", with_page_size(0x7E))),
    Case("a Parquet page of a negative size is refused", 3, ("a size or number is -",),
         file("x.parquet", with_page_size(0x7F))),
    Case("a Parquet file without its end is refused", 3, ("no complete Parquet file", "again"),
         file("x.parquet", MANY_ONES[:-9])),
    Case("a Parquet file of nothing but its mark is refused", 3, ("no complete Parquet file",),
         file("x.parquet", b"PAR1")),
    # Formats
    Case("a MovieLens file without a header says how to name its columns", 3,
         ("ratings.dat", "--columns user,item,rating,timestamp"), command("ratings.dat", RATINGS)),
    Case("plays of Last.fm without a header say how to name the columns", 3,
         ("no header", "--columns user,item,column3,weight"), command("plays.tsv", PLAYS)),
    Case("listens of Last.fm without a header say how to name the columns", 3,
         ("no header", "--columns user,timestamp,item,"), command("listens.tsv", LISTENS)),
    Case("Amazon's ratings without a header say how to name the columns", 3,
         ("no header", "--columns user,item,rating,timestamp"),
         command("ratings.csv", "A1YJEY40YUW4SE,7806397051,1.0,1391040000\n")),
    Case("a MovieLens file named csv may have another delimiter", 3, ("1::1193", "--delimiter"),
         command("ratings.csv", RATINGS)),
    Case("a JSON array is refused with an example of a line", 3, ("x.json", "an object such as"),
         file("x.json", '[{"user": 1, "item": 2},\n{"user": 1, "item": 3}]\n')),
]  # fmt: skip


@table(CASES)
def test_bad_input_is_refused_with_the_value_and_the_cure(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


# Exact answers


def pairs(data: Interactions) -> list[tuple[Any, Any]]:
    return list(
        zip(data.users.at(data.users_E).tolist(), data.items.at(data.items_E).tolist(), strict=True)
    )


def test_ids_that_need_uint64_meet_ids_that_do_not_without_losing_a_digit() -> None:
    near = [BEYOND_FLOAT + 1, BEYOND_FLOAT + 3]
    train = Interactions.from_arrays([*near, 5], [*near, 5])
    test = Interactions.from_arrays([*near, BEYOND_INT64 + 1], [*near, BEYOND_INT64 + 1])
    held_out = HeldOut.of(test, train)
    assert held_out.users_T.tolist() == [1, 2]
    assert held_out.items_E.tolist() == [1, 2]
    assert (held_out.unknown_users, held_out.cold_items) == (1, 1)
    again = HeldOut.of(train, test)
    assert (again.users_T.tolist(), again.unknown_users) == ([0, 1], 1)
    assert train.users.index_of(test.users.values).tolist() == [1, 2, -1]
    assert test.users.index_of(np.array([-1, near[0], near[0] - 1])).tolist() == [-1, 0, -1]
    merged = merge(train, test)
    assert merged.users.values.tolist() == [5, *near, BEYOND_INT64 + 1]
    assert len(merged) == 4
    small = Interactions.from_arrays(np.array([7], np.uint64), [1])
    assert merge(small, Interactions.from_arrays([-1], [1])).users.values.tolist() == [-1, 7]


def test_large_values_of_a_context_meet_exactly() -> None:
    wide = {"user": [1, 2, 3], "place": [BEYOND_FLOAT + 1, BEYOND_FLOAT + 3, BEYOND_INT64]}
    narrow = {name: values[:2] for name, values in wide.items()}
    train = Interactions.from_contexts(narrow, [1, 2])
    held_out = HeldOut.of(Interactions.from_contexts(wide, [1, 2, 1]), train)
    assert (len(held_out), held_out.unknown_users) == (2, 1)
    below = Interactions.from_contexts({"user": [1], "place": [-1]}, [1])
    with pytest.raises(DataError, match="as text"):
        merge(below, Interactions.from_contexts({"user": [1], "place": [BEYOND_INT64]}, [1]))


def test_test_rows_that_are_training_rows_are_counted(tmp_path: Path) -> None:
    train = Interactions.from_arrays([1, 1, 2], [10, 11, 10])
    assert HeldOut.of(train, train).training_rows == 3
    test = Interactions.from_arrays([1, 2, 2, 3], [10, 11, 99, 10])
    assert HeldOut.of(test, train).training_rows == 1
    library.MostPopular().fit(train).save(tmp_path / "model")
    assert HeldOut.of(test, library.load(tmp_path / "model")).training_rows == 1


@pytest.mark.parametrize(
    ("name", "pack"), [("x.csv", bytes), ("x.csv.gz", gzip.compress), ("x.csv.zst", zstd)]
)
def test_line_ends_within_an_id_come_out_as_they_went_in(
    tmp_path: Path, name: str, pack: Callable[[bytes], bytes]
) -> None:
    ids = ["a\r\nb", "a\nb", "a\rb"]
    text = "user,item\r\n" + "".join(f'"{one}",1\r\n' for one in ids)
    (tmp_path / name).write_bytes(pack(text.encode()))
    assert set(library.read(tmp_path / name).users.values) == set(ids)


def test_a_zst_file_of_several_frames_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / "x.csv.zst").write_bytes(zstd(b"user,item\n1,2\n") + zstd(b"3,4\n"))
    assert pairs(library.read(tmp_path / "x.csv.zst")) == [(1, 2), (3, 4)]


def test_a_file_of_one_huge_line_takes_little_memory_however_it_is_packed(tmp_path: Path) -> None:
    for name, pack in (("x.csv.zst", zstd), ("x.csv.gz", gzip.compress)):
        (tmp_path / name).write_bytes(pack(b"0" * (40 << 20)))
        tracemalloc.start()
        with pytest.raises(DataError):
            library.read(tmp_path / name)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 36 << 20


def test_a_file_given_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("user,item,plays\n1,2,3\n")
    (tmp_path / "link.csv").symlink_to(path)
    (tmp_path / "hard.csv").hardlink_to(path)
    shutil.copy(path, tmp_path / "copy.csv")
    for again in (str(path), f"{tmp_path}/./x.csv", f"{tmp_path}/x*.csv", "link.csv", "hard.csv"):
        with pytest.raises(UsageError, match=r"given twice.*Name each file once"):
            read_files([path, tmp_path / again])
    both = read_files([path, tmp_path / "copy.csv"], ReadOptions(duplicates="sum"))
    assert both.interactions.account.read == 2


@pytest.mark.parametrize("extension", ["csv", "jsonl", "parquet"])
def test_a_file_with_a_name_that_is_not_utf8_is_read(tmp_path: Path, extension: str) -> None:
    content = {
        "csv": b"user,item\n1,2\n",
        "jsonl": b'{"user": 1, "item": 2}\n',
        "parquet": parquet({"user": [1], "item": [2]}),
    }[extension]
    path = os.fsencode(tmp_path) + b"/\xff." + extension.encode()
    Path(os.fsdecode(path)).write_bytes(content)
    assert pairs(library.read(path)) == [(1, 2)]
    assert result_of(sdgar("data", "stats", os.fsdecode(path), "--json"))["interactions"] == 1


def test_what_callers_have_is_read_as_it_is_meant() -> None:
    wide = BEYOND_FLOAT + 1
    users = pd.array([wide, 2], dtype="Int64")
    assert Interactions.from_arrays(users, ["a", "b"]).users.values.tolist() == [2, wide]
    assert library.read(
        pd.DataFrame({"user": pd.Categorical(["a", "b"]), "item": users})
    ).items.values.tolist() == [2, wide]
    assert Interactions.from_arrays(np.ma.array([1, 2]), [1, 2]).n_users == 2
    flags = scipy.sparse.csr_array(np.eye(2) > 0)
    weighted = Interactions.from_csr(flags, weighted=True)
    assert weighted.weight_E.tolist() == [1.0, 1.0]
    largest = Interactions.from_arrays([1], [1], weight=[FULL])
    assert np.isfinite(largest.weight_E).all()


def test_dates_of_any_kind_are_microseconds() -> None:
    moment = 1_577_836_800_000_000
    berlin = datetime.timezone(datetime.timedelta(hours=1))
    for time in (
        np.array(["2020-01-01"], "M8[D]"),
        np.array(["2020-01-01"], "M8[ns]"),
        [datetime.datetime(2020, 1, 1)],
        [datetime.datetime(2020, 1, 1, 1, tzinfo=berlin)],
        [datetime.date(2020, 1, 1)],
        pd.Series(pd.to_datetime(["2020-01-01"])),
        [moment],
    ):
        data = Interactions.from_arrays([1], [1], time=time)
        assert data.time_E.tolist() == [moment]


def test_a_threshold_reads_true_and_false(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("user,item,recommended\n1,1,True\n1,2,false\n2,1,TRUE\n")
    rows = library.read(tmp_path / "x.csv", min_rating=1)
    assert pairs(rows) == [(1, 1), (2, 1)]
    typed = pl.DataFrame({"user": [1, 1], "item": [1, 2], "voted_up": [True, False]})
    assert pairs(library.read(typed, min_rating=1)) == [(1, 1)]


@pytest.mark.parametrize(
    "name", ["rating_count", "n_ratings", "average_rating", "age_rating", "similarity_score"]
)
def test_what_only_sounds_like_a_rating_changes_nothing(name: str) -> None:
    columns, _ = resolve(["user", "item", name], ReadOptions())
    assert columns.rating is None


# Formats people have


@pytest.mark.parametrize(
    ("name", "content", "options", "expected"),
    [
        ("ratings.dat", RATINGS, {"header_columns": ("user", "item", "rating", "timestamp")}, 2),
        ("ratings.dat", "UserID::MovieID::Rating::Timestamp\n" + RATINGS, {}, 2),
        ("ratings.txt", "user::item::rating::timestamp\n" + RATINGS, {"delimiter": "::"}, 2),
        ("ratings.csv", "user::item::rating::timestamp\n" + RATINGS, {"delimiter": "::"}, 2),
        ("x.dat", 'user::item::rating\n1::"a::b"::5\n1::c::4\n', {}, 2),
        ("x.dat", "user::item::rating\n1::a\x1fb::5\n1::c::4\n", {}, 2),
        ("u.data", "196\t242\t3\t881250949\n186\t302\t4\t891717742\n",
         {"header_columns": ("user", "item", "rating", "timestamp")}, 1),
        ("ml.inter", "user_id:token\titem_id:token\trating:float\ttimestamp:float\n"
         "196\t242\t3.0\t881250949\n186\t302\t4.0\t891717742\n", {}, 1),
        ("amazon.csv", "A1YJEY40YUW4SE,7806397051,1.0,1391040000\nA60XNB,7806397X,5.0,1397692800\n",
         {"header_columns": ("user", "item", "rating", "timestamp")}, 1),
        ("BX.csv", '"User-ID";"ISBN";"Book-Rating"\n"1";"034545104X";"9"\n', {"delimiter": ";"}, 1),
        ("x.json", '{"user": 1, "item": 2, "stars": 5}\n{"user": 1, "item": 3, "stars": 1}\n',
         {}, 1),
    ],
)  # fmt: skip
def test_files_of_rating_data_sets_are_read(
    tmp_path: Path, name: str, content: str, options: dict[str, Any], expected: int
) -> None:
    (tmp_path / name).write_text(content)
    assert len(library.read(tmp_path / name, min_rating=4, **options)) == expected


def test_two_marks_split_alike_on_the_fast_and_on_the_slow_way(tmp_path: Path) -> None:
    (tmp_path / "fast.dat").write_text("user::item\na:::b\nc:d::e\n")
    (tmp_path / "slow.dat").write_text('user::item\na:::b\nc:d::"e"\n')
    fast, slow = (library.read(tmp_path / name) for name in ("fast.dat", "slow.dat"))
    assert pairs(fast) == pairs(slow) == [("a", ":b"), ("c:d", "e")]


@pytest.mark.parametrize(
    ("name", "content", "options", "column", "wanted"),
    [
        ("user_artists.dat", "userID\tartistID\tweight\n2\t51\t13883\n", {"weights": "raw"},
         "weight_E", 13883),
        ("plays.tsv", PLAYS,
         {"weights": "raw", "header_columns": ("user", "item", "name", "plays")},
         "weight_E", 2137),
        ("listens.tsv", LISTENS,
         {"header_columns": ("user", "timestamp", "item", "a", "b", "c")},
         "time_E", 1_241_478_537_000_000),
    ],
)  # fmt: skip
def test_files_of_lastfm_are_read(
    tmp_path: Path, name: str, content: str, options: dict[str, Any], column: str, wanted: int
) -> None:
    (tmp_path / name).write_text(content)
    assert getattr(library.read(tmp_path / name, **options), column).tolist() == [wanted]


@pytest.mark.parametrize(
    "zone",
    ["", " UTC", "UTC", "Z", "z", " Z", " GMT", "+00:00", " +00:00", "+0000", "+00", "-00:00"],
)
def test_times_with_every_spelling_of_utc_are_the_same_moment(tmp_path: Path, zone: str) -> None:
    times = [
        "2015-01-01 10:00:00",
        "2015-01-01T10:00:00",
        "2015-01-01 10:00",
        "2015-01-01 10:00:00.0",
    ]
    rows = "".join(f"1,{item},{time}{zone}\n" for item, time in enumerate(times))
    (tmp_path / "x.csv").write_text("user,item,time\n" + rows)
    data = library.read(tmp_path / "x.csv")
    assert set(data.time_E.tolist()) == {1_420_106_400_000_000}


def test_a_table_of_features_may_have_two_marks_and_a_bad_row_is_named(tmp_path: Path) -> None:
    path = tmp_path / "movies.dat"
    path.write_text("film::title::genre\n1::Toy Story::Animation|Comedy\n2::Heat: a film::Crime\n")
    assert "genre=Comedy" in library.read_features(path).names
    path.write_text("film::title::genre\n1::Toy Story\n")
    with pytest.raises(DataError, match="line 2"):
        library.read_features(path)
    (tmp_path / "x.parquet").write_bytes(with_page_size(0x7E))
    with pytest.raises(DataError, match="two sizes"):
        library.read_features(tmp_path / "x.parquet")


# Parquet

WRITERS: dict[str, dict[str, Any]] = {
    "plain": {"compression": "none", "use_dictionary": False},
    "dictionary": {"compression": "none"},
    "snappy": {"compression": "snappy"},
    "zstd": {"compression": "zstd", "data_page_version": "2.0"},
    "gzip": {"compression": "gzip"},
    "lz4": {"compression": "lz4"},
    "brotli": {"compression": "brotli"},
    "small pages": {"data_page_size": 64, "row_group_size": 50, "write_statistics": False},
    "split": {"use_dictionary": False, "column_encoding": {"user": "BYTE_STREAM_SPLIT"}},
    "delta": {
        "use_dictionary": False,
        "column_encoding": {"user": "DELTA_BINARY_PACKED", "item": "DELTA_BYTE_ARRAY"},
    },
    "checksums": {"write_page_checksum": True, "write_page_index": True},
}


@pytest.mark.parametrize("options", WRITERS.values(), ids=WRITERS)
def test_whole_parquet_files_of_any_kind_are_read(tmp_path: Path, options: dict[str, Any]) -> None:
    users, items = np.arange(300), [f"item-{n % 7}" * 9 for n in range(300)]
    (tmp_path / "x.parquet").write_bytes(parquet({"user": users, "item": items}, **options))
    assert pairs(library.read(tmp_path / "x.parquet")) == list(
        zip(users.tolist(), items, strict=True)
    )


def test_parquet_files_with_odd_columns_next_tos_the_used_ones_are_read(tmp_path: Path) -> None:
    odd = {
        "user": [1, None, 3],
        "item": ["a", "b", "c"],
        "tags": [["x"], [], None],
        "about": [{"a": 1}, None, {"a": 2}],
        "nothing": pa.nulls(3),
    }
    (tmp_path / "x.parquet").write_bytes(parquet(odd))
    assert library.read(tmp_path / "x.parquet", allow_bad_rows=True).account.kept == 2
    stream = BytesIO(parquet(odd))
    assert unpacked_bytes(stream, layout(stream)[1]) > 0
    (tmp_path / "none.parquet").write_bytes(parquet({"user": pa.array([], "i8"), "item": []}))
    with pytest.raises(DataError, match="no row"):
        library.read(tmp_path / "none.parquet")
    pl.DataFrame({"user": [1, 2], "item": ["a", "b"]}).write_parquet(tmp_path / "p.parquet")
    assert library.read(tmp_path / "p.parquet").n_users == 2


FLIPS = """
import resource, sys
from pathlib import Path
from sdgar.data.readers import read_files
from sdgar.errors import DataError, UsageError
free = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize() + (1 << 30)
resource.setrlimit(resource.RLIMIT_AS, (free, free))
path = Path(sys.argv[1])
whole = path.read_bytes()
read = refused = 0
for at in range(len(whole)):
    path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    try:
        read_files([path])
        read += 1
    except (DataError, UsageError):
        refused += 1
print(read, refused)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are Linux's")
def test_no_flipped_byte_of_parquet_ends_the_interpreter(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    path.write_bytes(parquet({"user": [1, 2, 3], "item": ["a", "b", "c"]}, use_dictionary=False,
                             store_schema=False))  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", FLIPS, path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    read, refused = map(int, done.stdout.split())
    assert read > 0
    assert refused > 50
