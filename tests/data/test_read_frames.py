"""Tables in memory: the same rows from any library give the same interactions."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import sdgar
from sdgar.data.readers import BadRows, ReadOptions, read_frame
from sdgar.errors import DataError, SdgarError, UsageError

COLUMNS: dict[str, list[Any]] = {
    "user": [1, 1, 2],
    "item": ["a", "b", "a"],
    "plays": [1.0, 2.0, 3.0],
    "ts": [datetime(2024, 1, day, 12, tzinfo=UTC) for day in (1, 2, 3)],
}
POLARS = pl.DataFrame(COLUMNS)


TABLES = {
    "lazy": POLARS.lazy(),
    "pandas": pd.DataFrame(COLUMNS),
    "pandas nullable": pd.DataFrame(COLUMNS).astype(
        {"user": "Int64", "item": "category", "plays": "Float64"}
    ),
    "pandas objects": pd.DataFrame(COLUMNS).astype(object),
    "arrow": POLARS.to_arrow(),
    "lists": COLUMNS,
    "numpy": {name: np.asarray(values) for name, values in COLUMNS.items()},
    "series": {name: pl.Series(values) for name, values in COLUMNS.items()},
    "categories": POLARS.with_columns(
        pl.col("item").cast(pl.Categorical), pl.col("user").cast(pl.Int8)
    ),
    "decimal": POLARS.with_columns(pl.col("plays").cast(pl.Decimal(9, 2))),
}


@pytest.mark.parametrize("frame", TABLES.values(), ids=TABLES)
def test_every_kind_of_table_gives_the_same_interactions(frame: Any) -> None:
    expected = read_frame(POLARS).interactions
    assert read_frame(frame).interactions.fingerprint() == expected.fingerprint()


def test_a_duckdb_relation_gives_the_same_interactions() -> None:
    # In a separate process: duckdb complains of leaks at the end of one that runs Hypothesis.
    code = """
import duckdb
from sdgar.data.readers import read_frame
rows = duckdb.sql("select * from (values (1, 'a'), (1, 'b'), (2, 'a')) as rows(user_id, item_id)")
plain = {"user_id": [1, 1, 2], "item_id": ["a", "b", "a"]}
assert read_frame(rows).interactions.fingerprint() == read_frame(plain).interactions.fingerprint()
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_pandas_is_read_without_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    frame = pd.DataFrame({"user": [1, 2], "item": ["a", "b"]})
    assert read_frame(frame).interactions.account.kept == 2


def test_a_relation_without_arrow_streams_is_read_as_polars() -> None:
    class OldRelation:
        def pl(self) -> pl.DataFrame:
            return POLARS

    assert read_frame(OldRelation()).interactions.account.kept == 3


def test_a_frame_is_not_changed() -> None:
    frame = pd.DataFrame({"user": ["a", None], "item": [1, 2]}, dtype=object)
    before = frame.copy()
    read_frame(frame, ReadOptions(allow_bad_rows=True))
    pd.testing.assert_frame_equal(frame, before)


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA], ids=repr)
def test_a_missing_id_is_missing_and_never_the_text_nan(missing: Any) -> None:
    frame = pd.DataFrame({"user": pd.Series(["a", missing], dtype=object), "item": [1, 2]})
    with pytest.raises(BadRows, match="the frame, row 2, column user"):
        read_frame(frame)
    kept = read_frame(frame, ReadOptions(allow_bad_rows=True)).interactions
    assert kept.users.values.tolist() == ["a"]


DAY = datetime(2024, 1, 1)


@pytest.mark.parametrize(
    ("name", "values", "code"),
    [
        ("plays", pd.Series([1.0, None]), "nonfinite_weight"),
        ("plays", pl.Series([1.0, None]), "missing_weight"),
        ("ts", pl.Series([DAY, None]), "missing_timestamp"),
        ("ts", pd.Series([DAY, pd.NaT]), "missing_timestamp"),
        ("ts", pd.Series([DAY, None]), "missing_timestamp"),
        ("ts", np.array([1.5, np.nan]), "missing_timestamp"),
    ],
)
def test_a_missing_weight_or_time_is_refused(name: str, values: Any, code: str) -> None:
    options = ReadOptions(weight="plays" if name == "plays" else None)
    rows = {"user": [1, 2], "item": [1, 2], name: values}
    frame = pd.DataFrame(rows) if isinstance(values, pd.Series) else rows
    with pytest.raises(BadRows) as caught:
        read_frame(frame, options)
    assert [(p.code, p.count) for p in caught.value.problems] == [(code, 1)]


def test_columns_without_any_value_are_refused() -> None:
    nothing = pl.Series([None, None])
    rows = {"user": [1, 2], "item": [1, 2], "plays": nothing, "ts": nothing}
    for options, code in (
        (ReadOptions(weight="plays"), "missing_weight"),
        (ReadOptions(), "missing_timestamp"),
    ):
        with pytest.raises(BadRows) as caught:
            read_frame(rows, options)
        assert [(p.code, p.count) for p in caught.value.problems] == [(code, 2)]


OTHER_TYPES = {
    "pandas blank": (pd.Series([1, None]), "float_ids"),
    "numpy": (np.array([1.0]), "float_ids"),
    "list": ([1.5, 2], "float_ids"),
    "nan": ([float("nan"), "a"], "float_ids"),
    "bool": ([True], "unsupported_type"),
    "numpy bool": (np.array([True]), "unsupported_type"),
    "date": (np.array(["2024-01-01"], "M8[s]"), "unsupported_type"),
    "bytes": ([b"a"], "unsupported_type"),
    "mixed": ([1, "1"], "mixed_ids"),
    "too large": ([2**64], "int_overflow"),
    "too wide": ([-1, 2**63], "int_overflow"),
    "surrogate": (["\ud800"], "bad_encoding"),
}


@pytest.mark.parametrize(("users", "code"), OTHER_TYPES.values(), ids=OTHER_TYPES)
def test_ids_of_other_types_are_refused(users: Any, code: str) -> None:
    columns = {"user": users, "item": ["a"] * len(users)}
    frame = pd.DataFrame(columns) if isinstance(users, pd.Series) else columns
    with pytest.raises(DataError) as caught:
        read_frame(frame)
    assert caught.value.code == code
    assert "user" in str(caught.value)


@pytest.mark.parametrize("unit", ["D", "h", "s", "ms", "us", "ns"])
def test_numpy_times_of_any_unit_are_microseconds(unit: str) -> None:
    times = np.array(["2024-01-01"], f"M8[{unit}]")
    kept = read_frame({"user": [1], "item": [1], "ts": times}).interactions
    assert kept.time_E.tolist() == [1_704_067_200_000_000]


def test_numpy_scalars_in_a_list_are_plain_values() -> None:
    kept = read_frame({"user": [np.int64(7)], "item": [np.str_("a")]}).interactions
    assert (kept.users.values.tolist(), kept.items.values.tolist()) == ([7], ["a"])


def test_column_names_that_are_not_text_can_be_named() -> None:
    options = ReadOptions(user="0", item="1")
    assert read_frame(pd.DataFrame([[5, 6], [7, 8]]), options).interactions.n_users == 2


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        ({"user": [1, 2], "item": [1]}, "column_length"),
        (pd.DataFrame([[1, 2, 3]], columns=["user", "item", "item"]), "duplicate_columns"),
        (pl.DataFrame({"user": [], "item": []}), "no_rows"),
        (pa.table({"user": [], "item": []}), "no_rows"),
    ],
)
def test_a_table_without_rows_of_distinct_columns_is_refused(frame: Any, code: str) -> None:
    with pytest.raises(SdgarError) as caught:
        read_frame(frame)
    assert caught.value.code == code


# sdgar.read

FRAME = pl.DataFrame({"user_id": ["a", "b"], "item_id": ["x", "y"]})


def test_a_path_several_paths_and_a_frame_read_the_same(tmp_path):
    first, second = tmp_path / "1.csv", tmp_path / "2.csv"
    FRAME[:1].write_csv(first)
    FRAME[1:].write_csv(second)
    FRAME.write_parquet(tmp_path / "both.parquet")
    prints = {
        sdgar.read(source).fingerprint()
        for source in ([first, second], str(tmp_path / "both.parquet"), FRAME, FRAME.lazy())
    }
    assert len(prints) == 1


def test_options_go_through_and_misspelt_ones_are_named():
    frame = FRAME.with_columns(n=pl.Series([1.0, 2.0]))
    assert sdgar.read(frame, weight="n").weight_E.tolist() == [1.0, 2.0]
    with pytest.raises(UsageError, match="Did you mean 'weight'"):
        sdgar.read(frame, wieght="n")


def test_what_a_person_should_know_is_a_warning(tmp_path):
    path = tmp_path / "two.csv"
    path.write_text("user,item,date,ts\na,x,1,2\n")
    with pytest.warns(UserWarning, match="date and ts are all named like a time"):
        sdgar.read(path)
